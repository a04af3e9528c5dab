//! What a thread measures of its passes when `perf-metrics` is on: histograms, the last passes and the last
//! milliseconds, and passes that took suspiciously long.
//!
//! Everything is allocated when it is switched on; to record a pass allocates nothing and reads no clock. It is
//! the thread's own, without atomics: commands copy it between two passes.

mod histogram;
mod suspicion;

use xvs_datapath::Nanos;

pub use histogram::{Histogram, N_BINS, Quantity};
pub use suspicion::Suspicion;
use suspicion::SuspiciousPasses;

/// How many passes, and how many milliseconds with passes, are remembered.
pub const HISTORY: usize = 1000;

/// One pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Iteration {
    /// Passes before it since the measurement began.
    pub number: u64,
    /// Nanoseconds from its beginning to that of the next one; sleep excluded, commands included.
    pub ns: u64,
    /// Packets received.
    pub packets: u64,
    /// Batches they came in.
    pub batches: u64,
    /// Packets that the bridge was asked about.
    pub upcalls: u64,
}

/// Passes together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Passes {
    /// How many.
    pub iterations: u64,
    /// Nanoseconds that they took.
    pub ns: u64,
    /// Nanoseconds that those with packets took.
    pub busy_ns: u64,
    /// Packets received.
    pub packets: u64,
    /// Batches they came in.
    pub batches: u64,
    /// Packets that the bridge was asked about.
    pub upcalls: u64,
}

impl Passes {
    fn add(&mut self, pass: &Iteration) {
        self.iterations += 1;
        self.ns += pass.ns;
        self.busy_ns += if pass.packets > 0 { pass.ns } else { 0 };
        self.packets += pass.packets;
        self.batches += pass.batches;
        self.upcalls += pass.upcalls;
    }
}

/// A millisecond with the passes that ended in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Millisecond {
    /// Milliseconds since the daemon started.
    pub ms: u64,
    /// The passes.
    #[serde(flatten)]
    pub passes: Passes,
}

/// The last of many; older ones are overwritten.
#[derive(Clone, Debug)]
struct Last<T>(Box<[T]>, usize);

impl<T: Copy + Default> Last<T> {
    fn new() -> Self {
        Self(vec![T::default(); HISTORY].into(), 0)
    }

    fn push(&mut self, value: T) {
        if let Some(place) = self.0.get_mut(self.1 % HISTORY) {
            *place = value;
        }
        self.1 += 1;
    }

    fn newest_mut(&mut self) -> Option<&mut T> {
        self.0.get_mut(self.1.checked_sub(1)? % HISTORY)
    }

    /// The newest first.
    fn iter(&self) -> impl Iterator<Item = &T> {
        let known = self.1.saturating_sub(HISTORY)..self.1;
        known.rev().filter_map(|at| self.0.get(at % HISTORY))
    }
}

/// What commands get to see of it.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct PerfView {
    /// Everything since the measurement began.
    pub total: Passes,
    /// One for each quantity.
    pub histograms: Vec<Histogram>,
    /// The last passes, the newest first.
    pub iterations: Vec<Iteration>,
    /// The last milliseconds in which passes ended, the newest first.
    pub milliseconds: Vec<Millisecond>,
}

/// The measurements of a thread.
#[derive(Clone, Debug)]
pub struct Perf {
    total: Passes,
    histograms: [Histogram; Quantity::ALL.len()],
    iterations: Last<Iteration>,
    milliseconds: Last<Millisecond>,
    suspicion: Option<SuspiciousPasses>,
}

impl Default for Perf {
    fn default() -> Self {
        Self {
            total: Passes::default(),
            histograms: Quantity::ALL.map(Histogram::new),
            iterations: Last::new(),
            milliseconds: Last::new(),
            suspicion: None,
        }
    }
}

impl Perf {
    /// Begins again; what is suspicious stays so.
    pub fn clear(&mut self) {
        let suspicion = self.suspicion.take().map(|passes| SuspiciousPasses::new(passes.rule()));
        *self = Self { suspicion, ..Self::default() };
    }

    /// Notes a pass that ended at `now`; its number is given here.
    #[inline]
    pub fn record(&mut self, mut pass: Iteration, now: Nanos) {
        pass.number = self.total.iterations;
        self.total.add(&pass);
        for histogram in &mut self.histograms {
            histogram.add(&pass);
        }
        self.iterations.push(pass);
        let ms = now.0 / 1_000_000;
        match self.milliseconds.newest_mut() {
            Some(newest) if newest.ms == ms => newest.passes.add(&pass),
            Some(_) | None => {
                let mut passes = Passes::default();
                passes.add(&pass);
                self.milliseconds.push(Millisecond { ms, passes });
            }
        }
        if let Some(suspicion) = &mut self.suspicion {
            suspicion.see(&pass, self.iterations.iter());
        }
    }

    /// A copy with so many passes and milliseconds at most.
    #[must_use]
    pub fn view(&self, n_iterations: usize, n_milliseconds: usize) -> PerfView {
        PerfView {
            total: self.total,
            histograms: self.histograms.to_vec(),
            iterations: self.iterations.iter().take(n_iterations).copied().collect(),
            milliseconds: self.milliseconds.iter().take(n_milliseconds).copied().collect(),
        }
    }

    /// What to watch for from now on; `None` watches no more.
    pub fn suspect(&mut self, rule: Option<Suspicion>) {
        self.suspicion = rule.map(SuspiciousPasses::new);
    }

    /// Suspicious passes with those around them, the oldest first, once they are complete; and how many
    /// suspicious ones came before these had been taken.
    pub fn take_suspicious(&mut self) -> Option<(Vec<Iteration>, u64)> {
        self.suspicion.as_mut()?.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pass(ns: u64, packets: u64) -> Iteration {
        Iteration { ns, packets, batches: packets.div_ceil(32), ..Iteration::default() }
    }

    #[test]
    fn the_last_passes_and_milliseconds_are_kept() {
        let mut perf = Perf::default();
        for n in 0..2500 {
            // Two in each millisecond; every fourth is busy.
            perf.record(pass(100, if n % 4 == 0 { 40 } else { 0 }), Nanos(n * 500_000));
        }
        let view = perf.view(3, 2);
        assert_eq!(
            (view.total.iterations, view.total.ns, view.total.busy_ns),
            (2500, 250_000, 62_500)
        );
        assert_eq!((view.total.packets, view.total.batches), (25_000, 1250));
        let numbers: Vec<_> = view.iterations.iter().map(|pass| pass.number).collect();
        assert_eq!(numbers, [2499, 2498, 2497]);
        let ms: Vec<_> = view.milliseconds.iter().map(|ms| (ms.ms, ms.passes.iterations)).collect();
        assert_eq!(ms, [(1249, 2), (1248, 2)]);
        assert_eq!(view.milliseconds[1].passes.packets, 40);
        let all = perf.view(usize::MAX, usize::MAX);
        assert_eq!((all.iterations.len(), all.milliseconds.len()), (HISTORY, HISTORY));
        assert_eq!(all.iterations[HISTORY - 1].number, 1500);
        perf.clear();
        assert_eq!(perf.view(9, 9).iterations, []);
    }
}
