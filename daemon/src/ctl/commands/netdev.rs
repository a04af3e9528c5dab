//! Commands of the PMD threads, named as those of Open vSwitch's userspace datapath.

mod histograms;
mod pmd_perf_log_set;
mod pmd_perf_show;
mod pmd_rxq_rebalance;
mod pmd_rxq_show;
mod pmd_sleep_show;
mod pmd_stats_clear;
mod pmd_stats_show;

use crate::ctl::command::{Command, Context};
use crate::ctl::commands::args::{self, Args};
use crate::ctl::{CtlError, PmdStats};

pub(super) const ALL: &[&Command] = &[
    &pmd_perf_log_set::COMMAND,
    &pmd_perf_show::COMMAND,
    &pmd_rxq_rebalance::COMMAND,
    &pmd_rxq_show::COMMAND,
    &pmd_sleep_show::COMMAND,
    &pmd_stats_clear::COMMAND,
    &pmd_stats_show::COMMAND,
];

/// The statistics of all threads, or of the one that `-pmd` names.
fn chosen(context: &mut Context<'_>, args: &Args<'_>) -> Result<Vec<PmdStats>, CtlError> {
    args.rest.iter().try_for_each(|name| args::datapath(name))?;
    let core = args::core(args.value("-pmd"))?;
    only(context.control.pmd_stats()?, core, |pmd| pmd.core)
}

/// What is told of the thread on a core, or of all.
fn only<T>(mut all: Vec<T>, core: Option<u32>, of: impl Fn(&T) -> u32) -> Result<Vec<T>, CtlError> {
    let Some(core) = core else { return Ok(all) };
    if all.iter().all(|pmd| of(pmd) != core) {
        return Err(CtlError::NoThread { core, cores: all.iter().map(of).collect() });
    }
    all.retain(|pmd| of(pmd) == core);
    Ok(all)
}

/// `part / whole`, 0 without a whole.
#[allow(clippy::cast_precision_loss, reason = "a ratio for people")]
pub(super) fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// `part` in per cent of `whole`, 0 without a whole.
pub(super) fn percent(part: u64, whole: u64) -> f64 {
    100.0 * ratio(part, whole)
}

/// How often packets went through the datapath.
fn passes(pmd: &PmdStats) -> u64 {
    pmd.rx_packets + pmd.recirculated
}
