//! `dpif-netdev/pmd-stats-show`: what each PMD thread did.

use core::fmt;

use serde::Serialize;

use crate::ctl::PmdStats;
use crate::ctl::command::{Command, Context, Outcome};
use crate::ctl::commands::args::Args;
use crate::ctl::reply::Text;

use super::{chosen, passes, percent, ratio};

pub(super) const COMMAND: Command = Command {
    name: "dpif-netdev/pmd-stats-show",
    usage: "[-pmd core] [dp]",
    about: "Show what each PMD thread did; a cycle is a nanosecond.",
    min_args: 0,
    max_args: 3,
    run,
};

#[derive(Serialize)]
struct Stats {
    pmds: Vec<PmdStats>,
}

impl Text for Stats {
    fn text(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        self.pmds.iter().try_for_each(|pmd| packets(pmd, out).and_then(|()| cycles(pmd, out)))
    }
}

fn packets(pmd: &PmdStats, out: &mut dyn fmt::Write) -> fmt::Result {
    writeln!(out, "pmd thread numa_id {} core_id {}:", pmd.numa, pmd.core)?;
    writeln!(out, "  packets received: {}", pmd.rx_packets)?;
    writeln!(out, "  packet recirculations: {}", pmd.recirculated)?;
    let per_packet = ratio(passes(pmd), pmd.rx_packets);
    writeln!(out, "  avg. datapath passes per packet: {per_packet:.2}")?;
    writeln!(out, "  emc hits: {}", pmd.emc_hits)?;
    writeln!(out, "  smc hits: {}", pmd.smc_hits)?;
    writeln!(out, "  megaflow hits: {}", pmd.megaflow_hits)?;
    let lookups = ratio(pmd.subtable_lookups, pmd.megaflow_hits);
    writeln!(out, "  avg. subtable lookups per megaflow hit: {lookups:.2}")?;
    writeln!(out, "  miss with success upcall: {}", pmd.upcalls)?;
    writeln!(out, "  miss with failed upcall: {}", pmd.lost_upcalls)?;
    let batch = ratio(pmd.tx_packets, pmd.tx_batches);
    writeln!(out, "  avg. packets per output batch: {batch:.2}")
}

fn cycles(pmd: &PmdStats, out: &mut dyn fmt::Write) -> fmt::Result {
    let (idle, busy, packets) = (pmd.idle_ns, pmd.busy_ns, pmd.rx_packets);
    let total = idle + busy;
    if total == 0 {
        return Ok(());
    }
    writeln!(out, "  idle cycles: {idle} ({:.2}%)", percent(idle, total))?;
    writeln!(out, "  processing cycles: {busy} ({:.2}%)", percent(busy, total))?;
    if packets == 0 {
        return Ok(());
    }
    let per_packet = ratio(total, packets);
    writeln!(out, "  avg cycles per packet: {per_packet:.2} ({total}/{packets})")?;
    let per_packet = ratio(busy, packets);
    writeln!(out, "  avg processing cycles per packet: {per_packet:.2} ({busy}/{packets})")
}

fn run(context: &mut Context<'_>, args: &[String]) -> Outcome {
    let args = Args::parse(args, &[], &["-pmd"])?;
    Ok(Box::new(Stats { pmds: chosen(context, &args)? }))
}
