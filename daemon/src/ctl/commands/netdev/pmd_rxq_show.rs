//! `dpif-netdev/pmd-rxq-show`: which PMD thread polls which queue.

use core::fmt;

use serde::Serialize;

use crate::ctl::PmdRxqs;
use crate::ctl::command::{Command, Context, Outcome};
use crate::ctl::commands::args::{self, Args};
use crate::ctl::reply::Text;

pub(super) const COMMAND: Command = Command {
    name: "dpif-netdev/pmd-rxq-show",
    usage: "[-pmd core] [-secs secs] [dp]",
    about: "Show which PMD thread polls which queue, and the share of its time.",
    min_args: 0,
    max_args: 5,
    run,
};

/// What the shares are averaged over: multiples of 5 seconds in this range.
const SECS: (u32, u32) = (5, 60);

#[derive(Serialize)]
struct Rxqs {
    seconds: u32,
    pmds: Vec<PmdRxqs>,
}

impl Text for Rxqs {
    fn text(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        writeln!(out, "Displaying last {} seconds pmd usage %", self.seconds)?;
        for pmd in &self.pmds {
            writeln!(out, "pmd thread numa_id {} core_id {}:", pmd.numa, pmd.core)?;
            writeln!(out, "  isolated : {}", pmd.isolated)?;
            for rxq in &pmd.rxqs {
                let enabled = if rxq.enabled { "(enabled) " } else { "(disabled)" };
                let usage = share(rxq.usage_percent);
                write!(out, "  port: {:<16}  queue-id: {:>2} ", rxq.port, rxq.queue)?;
                writeln!(out, "{enabled}  pmd usage: {usage}")?;
            }
            if !pmd.rxqs.is_empty() {
                writeln!(out, "  overhead: {}", share(pmd.overhead_percent))?;
            }
        }
        Ok(())
    }
}

fn share(percent: Option<u32>) -> String {
    percent.map_or_else(|| "NOT AVAIL".to_owned(), |percent| format!("{percent:>2} %"))
}

fn run(context: &mut Context<'_>, args: &[String]) -> Outcome {
    let args = Args::parse(args, &[], &["-pmd", "-secs"])?;
    args.rest.iter().try_for_each(|name| args::datapath(name))?;
    let core = args::core(args.value("-pmd"))?;
    let want = "a number of seconds, 5 to 60";
    let secs = args.value("-secs").map(|text| args::number("-secs", text, want)).transpose()?;
    let seconds = secs.unwrap_or(SECS.1).clamp(SECS.0, SECS.1).next_multiple_of(5);
    let pmds = super::only(context.control.pmd_rxqs(seconds)?, core, |pmd| pmd.core)?;
    Ok(Box::new(Rxqs { seconds, pmds }))
}
