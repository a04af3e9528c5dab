//! `dpif-netdev/pmd-perf-show`: how busy each PMD thread is, and with what.

use core::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::Serialize;

use crate::ctl::command::{Command, Context, Outcome};
use crate::ctl::commands::args::{self, Args};
use crate::ctl::reply::Text;
use crate::ctl::{CtlError, PmdPerf, PmdStats};

use super::{chosen, histograms, passes, percent, ratio};
use crate::pmd::HISTORY;

pub(super) const COMMAND: Command = Command {
    name: "dpif-netdev/pmd-perf-show",
    usage: "[-nh] [-it iterations] [-ms milliseconds] [-pmd core] [dp]",
    about: "Show how busy each PMD thread is; a cycle is a nanosecond. With perf-metrics also histograms (unless \
            -nh), and the last passes and milliseconds (1000 at most).",
    min_args: 0,
    max_args: 8,
    run,
};

#[derive(Serialize)]
struct Perf {
    pmds: Vec<PmdStats>,
    /// What is measured with perf-metrics, in the order of `pmds`; null without.
    metrics: Option<Vec<PmdPerf>>,
    #[serde(skip)]
    shown: Shown,
    /// Milliseconds since 1970.
    time_ms: u128,
}

/// Which metrics are shown.
#[derive(Clone, Copy)]
struct Shown {
    histograms: bool,
    iterations: usize,
    milliseconds: usize,
}

impl Shown {
    fn text(self, metrics: &PmdPerf, out: &mut dyn fmt::Write) -> fmt::Result {
        if self.histograms {
            histograms::histograms(&metrics.perf, out)?;
        }
        if self.iterations > 0 {
            histograms::iterations(&metrics.perf, out)?;
        }
        if self.milliseconds > 0 {
            histograms::milliseconds(&metrics.perf, out)?;
        }
        Ok(())
    }
}

impl Text for Perf {
    fn text(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        let (seconds, millis) = (self.time_ms / 1000, self.time_ms % 1000);
        let (h, m, s) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
        for pmd in &self.pmds {
            let (duration, millis_of) = (pmd.duration_ms / 1000, pmd.duration_ms % 1000);
            writeln!(out, "\nTime: {h:02}:{m:02}:{s:02}.{millis:03}")?;
            writeln!(out, "Measurement duration: {duration}.{millis_of:03} s\n")?;
            writeln!(out, "pmd thread numa_id {} core_id {}:\n", pmd.numa, pmd.core)?;
            iterations(pmd, out)?;
            packets(pmd, out)?;
            let metrics = self.metrics.iter().flatten().find(|metrics| metrics.core == pmd.core);
            match metrics {
                Some(metrics) => self.shown.text(metrics, out)?,
                None => writeln!(out)?,
            }
        }
        Ok(())
    }
}

fn iterations(pmd: &PmdStats, out: &mut dyn fmt::Write) -> fmt::Result {
    let used = pmd.idle_ns + pmd.busy_ns;
    let idle = pmd.iterations.saturating_sub(pmd.busy_iterations);
    let mut row =
        |name: &str, value: u64, note: String| writeln!(out, "  {name:<19} {value:>12}  ({note})");
    row("Iterations:", pmd.iterations, format!("{:.2} us/it", ratio(used, pmd.iterations) / 1e3))?;
    let total = pmd.duration_ms.saturating_mul(1_000_000);
    let share = percent(used, total);
    row("- Used TSC cycles:", used, format!("{share:5.1} % of total cycles"))?;
    let share = percent(pmd.idle_ns, used);
    row("- idle iterations:", idle, format!("{share:5.1} % of used cycles"))?;
    let share = percent(pmd.busy_ns, used);
    row("- busy iterations:", pmd.busy_iterations, format!("{share:5.1} % of used cycles"))?;
    let share = percent(pmd.sleep_iterations, pmd.iterations);
    row("- sleep iterations:", pmd.sleep_iterations, format!("{share:5.1} % of iterations"))?;
    let (slept, each) = (pmd.sleep_ns / 1000, ratio(pmd.sleep_ns, pmd.iterations) / 1e3);
    row("Sleep time (us):", slept, format!("{each:3.0} us/iteration avg."))
}

fn packets(pmd: &PmdStats, out: &mut dyn fmt::Write) -> fmt::Result {
    let (received, passes) = (pmd.rx_packets, passes(pmd));
    if received == 0 {
        writeln!(out, "  Rx packets:         {:>12}", 0)?;
    } else {
        let mut row = |name: &str, value: u64, note: String| {
            writeln!(out, "  {name:<19} {value:>12}  ({note})")
        };
        let (kpps, cycles) = (ratio(received, pmd.duration_ms), ratio(pmd.busy_ns, received));
        row("Rx packets:", received, format!("{kpps:.0} Kpps, {cycles:.0} cycles/pkt"))?;
        let each = ratio(passes, received);
        row("Datapath passes:", passes, format!("{each:.2} passes/pkt"))?;
        let share = |n: u64| format!("{:5.1} %", percent(n, passes));
        row("- EMC hits:", pmd.emc_hits, share(pmd.emc_hits))?;
        row("- SMC hits:", pmd.smc_hits, share(pmd.smc_hits))?;
        let lookups = ratio(pmd.subtable_lookups, pmd.megaflow_hits);
        let note = format!("{}, {lookups:.2} subtbl lookups/hit", share(pmd.megaflow_hits));
        row("- Megaflow hits:", pmd.megaflow_hits, note)?;
        row("- Upcalls:", pmd.upcalls, share(pmd.upcalls))?;
        row("- Lost upcalls:", pmd.lost_upcalls, share(pmd.lost_upcalls))?;
    }
    if pmd.tx_packets == 0 {
        return writeln!(out, "  Tx packets:         {:>12}", 0);
    }
    let kpps = ratio(pmd.tx_packets, pmd.duration_ms);
    writeln!(out, "  Tx packets:         {:>12}  ({kpps:.0} Kpps)", pmd.tx_packets)?;
    let batch = ratio(pmd.tx_packets, pmd.tx_batches);
    writeln!(out, "  Tx batches:         {:>12}  ({batch:.2} pkts/batch)", pmd.tx_batches)
}

fn run(context: &mut Context<'_>, args: &[String]) -> Outcome {
    let args = Args::parse(args, &["-nh"], &["-pmd", "-it", "-ms"])?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let last = |option| args.bounded(option, 0, 0..=HISTORY);
    let (iterations, milliseconds) = (last("-it")?, last("-ms")?);
    let shown = Shown { histograms: !args.has("-nh"), iterations, milliseconds };
    let pmds = chosen(context, &args)?;
    let core = args::core(args.value("-pmd"))?;
    let metrics = context.control.pmd_perf(core, iterations, milliseconds)?;
    if metrics.is_none() && iterations + milliseconds > 0 {
        let remedy = "passes are not remembered: set perf-metrics = true in [pmd] and reload";
        return Err(CtlError::Refused(remedy.to_owned()));
    }
    Ok(Box::new(Perf { pmds, metrics, shown, time_ms: now.as_millis() }))
}
