//! `dpif-netdev/pmd-sleep-show`: how long PMD threads may sleep.

use core::fmt;

use serde::Serialize;

use crate::ctl::command::{Command, Context, Outcome};
use crate::ctl::commands::args;
use crate::ctl::reply::Text;

pub(super) const COMMAND: Command = Command {
    name: "dpif-netdev/pmd-sleep-show",
    usage: "[dp]",
    about: "Show how long an idle PMD thread may sleep.",
    min_args: 0,
    max_args: 1,
    run,
};

#[derive(Serialize)]
struct Pmd {
    core: u32,
    numa: u32,
    max_sleep_us: u64,
}

#[derive(Serialize)]
struct Sleeps {
    default_max_sleep_us: u64,
    pmds: Vec<Pmd>,
}

impl Text for Sleeps {
    fn text(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        writeln!(out, "Default max sleep: {:4} us", self.default_max_sleep_us)?;
        for Pmd { core, numa, max_sleep_us } in &self.pmds {
            writeln!(out, "pmd thread numa_id {numa} core_id {core}:")?;
            writeln!(out, "  max sleep: {max_sleep_us:4} us")?;
        }
        Ok(())
    }
}

fn run(context: &mut Context<'_>, args: &[String]) -> Outcome {
    args.iter().try_for_each(|name| args::datapath(name))?;
    let max_sleep_us = context.control.max_sleep_us();
    let pmds = context.control.pmd_stats()?;
    let pmd = |pmd: &crate::ctl::PmdStats| Pmd { core: pmd.core, numa: pmd.numa, max_sleep_us };
    let pmds = pmds.iter().map(pmd).collect();
    Ok(Box::new(Sleeps { default_max_sleep_us: max_sleep_us, pmds }))
}
