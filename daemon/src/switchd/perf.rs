//! What the threads measure of their passes, and passes that took suspiciously long, for the log.

use slog::{info, warn};

use super::threads::Thread;
use super::{Error, Switchd};
use crate::ctl::{CtlError, PmdPerf};
use crate::pmd::{HISTORY, Iteration, PmdError, Suspicion, thread_name};

impl Switchd {
    /// The measurements of the threads that are meant; `None` when nothing is measured.
    pub(super) fn perf_views(
        &self,
        pmd: Option<u32>,
        n: (usize, usize),
    ) -> Result<Option<Vec<PmdPerf>>, CtlError> {
        let view = |thread: &Thread| {
            let view = thread.handle.call(move |pmd| pmd.perf().map(|perf| perf.view(n.0, n.1)));
            let core = thread.core().0;
            Ok(view.map_err(Error::Pmd)?.map(|perf| PmdPerf { core, perf }))
        };
        self.meant(pmd)?.into_iter().map(view).collect()
    }

    /// Has every thread watch for suspicious passes, or not any more.
    pub(super) fn set_suspicion(&mut self, rule: Option<Suspicion>) -> Result<(), CtlError> {
        if rule.is_some() && !self.running.pmd.perf_metrics {
            let remedy = "passes are not measured: set perf-metrics = true in [pmd] and reload";
            return Err(CtlError::Refused(remedy.to_owned()));
        }
        self.suspicion = rule;
        self.suspect().map_err(|error| Error::Pmd(error).into())
    }

    /// Tells the threads what to watch for; to be called when they are new or begin to measure.
    pub(super) fn suspect(&self) -> Result<(), PmdError> {
        let rule = self.suspicion;
        for thread in &self.threads {
            thread.handle.call(move |pmd| pmd.perf().map(|perf| perf.suspect(rule)))?;
        }
        Ok(())
    }

    /// Tells the log of the suspicious passes since the last time.
    pub(super) fn tell_suspicious(&self) {
        let Some(rule) = self.suspicion else { return };
        for thread in &self.threads {
            let taken =
                thread.handle.call(|pmd| pmd.perf().and_then(|perf| perf.take_suspicious()));
            let Ok(Some((passes, missed))) = taken else { continue };
            let name = thread_name(thread.core());
            for pass in &passes {
                let Iteration { number, ns, packets, batches, upcalls } = pass;
                let what = format!(
                    "{name}: pass {number} took {} us for {packets} packets in {batches} batches and {upcalls} upcalls",
                    ns / 1000
                );
                if *ns > rule.over_ns {
                    warn!(self.log, "{what}: suspicious above {} us", rule.over_ns / 1000);
                } else {
                    info!(self.log, "{what}");
                }
            }
            if missed > 0 {
                info!(
                    self.log,
                    "{name}: {missed} more suspicious passes came before these were told of"
                );
            }
        }
    }
}

/// More is not remembered.
const _: () = assert!(crate::ctl::MAX_AROUND * 2 < HISTORY);
