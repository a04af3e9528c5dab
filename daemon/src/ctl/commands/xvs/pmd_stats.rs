//! `xvs/pmd-stats`: what each PMD thread did, one line each.

use core::fmt;

use serde::Serialize;

use crate::ctl::PmdStats;
use crate::ctl::command::{Command, Context, Outcome};
use crate::ctl::reply::Text;
use crate::ctl::{commands::netdev, table};

pub(super) const COMMAND: Command = Command {
    name: "xvs/pmd-stats",
    usage: "",
    about: "Show what each PMD thread did since its statistics were cleared.",
    min_args: 0,
    max_args: 0,
    run,
};

#[derive(Serialize)]
struct Stats(Vec<PmdStats>);

const HEADINGS: &[&str] = &[
    "CORE#",
    "NUMA#",
    "RX#",
    "TX#",
    "PKTS/BATCH#",
    "EMC#",
    "SMC#",
    "MEGAFLOW#",
    "UPCALLS#",
    "LOST#",
    "FLOWS#",
    "MASKS#",
    "BUSY#",
    "SLEPT#",
];

impl Text for Stats {
    fn text(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        table::write(out, HEADINGS, self.0.iter().map(row))
    }
}

fn row(pmd: &PmdStats) -> [String; 14] {
    let whole = pmd.duration_ms.saturating_mul(1_000_000);
    let share = |ns: u64| format!("{:.0}%", netdev::percent(ns, whole));
    [
        pmd.core.to_string(),
        pmd.numa.to_string(),
        pmd.rx_packets.to_string(),
        pmd.tx_packets.to_string(),
        format!("{:.1}", netdev::ratio(pmd.tx_packets, pmd.tx_batches)),
        pmd.emc_hits.to_string(),
        pmd.smc_hits.to_string(),
        pmd.megaflow_hits.to_string(),
        pmd.upcalls.to_string(),
        pmd.lost_upcalls.to_string(),
        pmd.flows.to_string(),
        pmd.masks.to_string(),
        share(pmd.busy_ns),
        share(pmd.sleep_ns),
    ]
}

fn run(context: &mut Context<'_>, _args: &[String]) -> Outcome {
    Ok(Box::new(Stats(context.control.pmd_stats()?)))
}
