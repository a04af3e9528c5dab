//! `upcall/show`: how many flows there are, may be, and how long checking them takes.

use core::fmt;

use serde::Serialize;

use crate::ctl::PmdStats;
use crate::ctl::command::{Command, Context, Outcome};
use crate::ctl::commands::args::DATAPATH;
use crate::ctl::reply::Text;

pub(super) const COMMAND: Command = Command {
    name: "upcall/show",
    usage: "",
    about: "Show how many flows are cached, how many may be, and how long it takes to check them all.",
    min_args: 0,
    max_args: 0,
    run,
};

/// One thread's part.
#[derive(Serialize)]
struct Keys {
    core: u32,
    flows: u64,
    limit: u64,
    round_ns: u64,
}

#[derive(Serialize)]
struct Upcalls {
    datapath: &'static str,
    current: u64,
    avg: u64,
    max: u64,
    /// Of all threads together.
    limit: u64,
    /// The longest of the threads'.
    dump_duration_ms: u64,
    ufid_enabled: bool,
    pmds: Vec<Keys>,
}

impl Text for Upcalls {
    fn text(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        let Self { current, avg, max, limit, .. } = self;
        writeln!(out, "{}:", self.datapath)?;
        writeln!(
            out,
            "  flows         : (current {current}) (avg {avg}) (max {max}) (limit {limit})"
        )?;
        writeln!(out, "  dump duration : {}ms", self.dump_duration_ms)?;
        writeln!(out, "  ufid enabled : {}\n", self.ufid_enabled)?;
        self.pmds.iter().try_for_each(|pmd| writeln!(out, "  {}: (keys {})", pmd.core, pmd.flows))
    }
}

fn run(context: &mut Context<'_>, _args: &[String]) -> Outcome {
    let pmds = context.control.pmd_stats()?;
    let sum = |value: fn(&PmdStats) -> u64| pmds.iter().map(value).sum();
    let longest = pmds.iter().map(|pmd| pmd.round_ns).max().unwrap_or(0);
    let keys = |pmd: &PmdStats| Keys {
        core: pmd.core,
        flows: pmd.flows,
        limit: pmd.flow_limit,
        round_ns: pmd.round_ns,
    };
    Ok(Box::new(Upcalls {
        datapath: DATAPATH,
        current: sum(|pmd| pmd.flows),
        avg: sum(|pmd| pmd.flows_avg),
        max: sum(|pmd| pmd.flows_max),
        limit: sum(|pmd| pmd.flow_limit),
        dump_duration_ms: longest / 1_000_000,
        ufid_enabled: true,
        pmds: pmds.iter().map(keys).collect(),
    }))
}
