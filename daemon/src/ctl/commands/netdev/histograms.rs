//! Histograms and last passes of a PMD thread as text, in the columns of Open vSwitch where there is such a quantity.

use core::fmt;

use super::ratio;
use crate::pmd::{Iteration, Millisecond, N_BINS, Passes, PerfView};

fn whole(part: u64, whole: u64) -> u64 {
    part.checked_div(whole).unwrap_or(0)
}

/// One column for each quantity: up to which value, and how often.
pub(super) fn histograms(perf: &PerfView, out: &mut dyn fmt::Write) -> fmt::Result {
    writeln!(out, "\nHistograms")?;
    head(perf, out)?;
    for bin in 0..N_BINS {
        for histogram in &perf.histograms {
            let count = histogram.counts.get(bin).copied().unwrap_or(0);
            match histogram.up_to.get(bin) {
                Some(up_to) => write!(out, "   {up_to:<9} {count:<11}")?,
                None => write!(out, "   {:<9} {count:<11}", ">")?,
            }
        }
        writeln!(out)?;
    }
    writeln!(out, "{}", "-".repeat(24 * perf.histograms.len()))?;
    head(perf, out)?;
    let Passes { iterations, ns, busy_ns, packets, batches, upcalls } = perf.total;
    write!(out, "   {:<21}   {:<21.5}", whole(ns, iterations), ratio(packets, iterations))?;
    write!(out, "   {:<21}   {:<21.5}", whole(busy_ns, packets), ratio(packets, batches))?;
    writeln!(out, "   {:<21.5}", ratio(upcalls, iterations))
}

fn head(perf: &PerfView, out: &mut dyn fmt::Write) -> fmt::Result {
    for histogram in &perf.histograms {
        write!(out, "   {:<21}", histogram.quantity.name())?;
    }
    writeln!(out)
}

/// The last passes, the newest first.
pub(super) fn iterations(perf: &PerfView, out: &mut dyn fmt::Write) -> fmt::Result {
    write!(out, "\n   {:<17}   ", "iter")?;
    row(out, &["cycles", "packets", "cycles/pkt", "pkts/batch", "upcalls"])?;
    for Iteration { number, ns, packets, batches, upcalls } in &perf.iterations {
        write!(out, "   {number:<17}   ")?;
        let (per_packet, per_batch) = (whole(*ns, *packets), whole(*packets, *batches));
        row(out, &[*ns, *packets, per_packet, per_batch, *upcalls])?;
    }
    Ok(())
}

/// The last milliseconds, the newest first.
pub(super) fn milliseconds(perf: &PerfView, out: &mut dyn fmt::Write) -> fmt::Result {
    write!(out, "\n   {:<12}   ", "ms")?;
    row(out, &["iterations", "cycles/it", "Kpps", "cycles/pkt", "pkts/batch", "upcalls"])?;
    for Millisecond { ms, passes } in &perf.milliseconds {
        let Passes { iterations, ns, busy_ns, packets, batches, upcalls } = *passes;
        let (each, per_packet) = (whole(ns, iterations), whole(busy_ns, packets));
        write!(out, "   {ms:<12}   ")?;
        // Packets of a millisecond are thousands a second.
        row(out, &[iterations, each, packets, per_packet, whole(packets, batches), upcalls])?;
    }
    Ok(())
}

fn row<T: fmt::Display>(out: &mut dyn fmt::Write, cells: &[T]) -> fmt::Result {
    let cells: Vec<_> = cells.iter().map(|cell| format!("{cell:<10}")).collect();
    writeln!(out, "{}", cells.join("   "))
}
