//! Passes that took too long, kept with those around them until somebody takes them.

use super::{HISTORY, Iteration};

/// What is suspicious, and how much is kept of what was around it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Suspicion {
    /// A pass that takes more nanoseconds.
    pub over_ns: u64,
    /// Passes before it.
    pub before: usize,
    /// Passes after it.
    pub after: usize,
    /// Another suspicious pass among those after it moves the end.
    pub extend: bool,
}

/// What was found.
#[derive(Clone, Debug)]
pub(super) struct SuspiciousPasses {
    rule: Suspicion,
    /// The first and last pass to keep, by number, while the last is awaited.
    open: Option<(u64, u64)>,
    /// Complete, and not taken yet.
    kept: Vec<Iteration>,
    /// Suspicious passes that came meanwhile.
    missed: u64,
}

impl SuspiciousPasses {
    /// Watches by this rule.
    #[must_use]
    pub(super) fn new(rule: Suspicion) -> Self {
        Self { rule, open: None, kept: Vec::with_capacity(HISTORY), missed: 0 }
    }

    /// The rule.
    #[must_use]
    pub(super) const fn rule(&self) -> Suspicion {
        self.rule
    }

    /// Looks at a pass; `last` are the last passes, this one first.
    #[inline]
    pub(super) fn see<'a>(&mut self, pass: &Iteration, last: impl Iterator<Item = &'a Iteration>) {
        let Suspicion { over_ns, before, after, extend } = self.rule;
        if pass.ns > over_ns {
            let end = pass.number + after as u64;
            match &mut self.open {
                _ if !self.kept.is_empty() => self.missed += 1,
                None => self.open = Some((pass.number.saturating_sub(before as u64), end)),
                Some((_, last)) if extend => *last = end,
                Some(_) => {}
            }
        }
        let Some((first, end)) = self.open else { return };
        if pass.number >= end || pass.number + 1 >= first + HISTORY as u64 {
            self.kept.extend(last.take_while(|pass| pass.number >= first).take(HISTORY));
            self.kept.reverse();
            self.open = None;
        }
    }

    /// What is complete, the oldest pass first, and how many suspicious passes were missed since.
    pub(super) fn take(&mut self) -> Option<(Vec<Iteration>, u64)> {
        let kept = std::mem::replace(&mut self.kept, Vec::with_capacity(HISTORY));
        (!kept.is_empty()).then(|| (kept, std::mem::take(&mut self.missed)))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Iteration, Perf};
    use super::*;
    use xvs_datapath::Nanos;

    fn run(perf: &mut Perf, passes: impl IntoIterator<Item = u64>) {
        passes.into_iter().for_each(|ns| {
            perf.record(Iteration { ns, ..Iteration::default() }, Nanos(0));
        });
    }

    fn taken(perf: &mut Perf) -> Option<(Vec<u64>, u64)> {
        let (passes, missed) = perf.take_suspicious()?;
        Some((passes.iter().map(|pass| pass.number).collect(), missed))
    }

    const RULE: Suspicion = Suspicion { over_ns: 100, before: 2, after: 3, extend: false };

    #[test]
    fn a_long_pass_is_kept_with_its_neighbours() {
        let mut perf = Perf::default();
        perf.suspect(Some(RULE));
        run(&mut perf, [1, 1, 1, 1, 1, 101, 1, 1]);
        assert_eq!(taken(&mut perf), None, "the last neighbour is awaited");
        run(&mut perf, [200, 1, 101]);
        assert_eq!(taken(&mut perf), Some((vec![3, 4, 5, 6, 7, 8], 1)), "one came too late");
        assert_eq!(taken(&mut perf), None);
        run(&mut perf, [1; 9]);
        assert_eq!(taken(&mut perf), None);
    }

    #[test]
    fn the_end_moves_if_wanted_up_to_what_is_remembered() {
        let mut perf = Perf::default();
        perf.suspect(Some(Suspicion { extend: true, ..RULE }));
        run(&mut perf, [101, 1, 101, 1, 1, 1]);
        assert_eq!(taken(&mut perf), Some(((0..=5).collect(), 0)));
        run(&mut perf, vec![101; 3 * HISTORY]);
        let (passes, missed) = taken(&mut perf).expect("bounded");
        assert_eq!((passes.len(), passes[0]), (HISTORY, 4));
        assert_eq!(missed, 3 * HISTORY as u64 - (HISTORY as u64 - 2));
    }

    #[test]
    fn none_around_it() {
        let mut perf = Perf::default();
        perf.suspect(Some(Suspicion { before: 0, after: 0, ..RULE }));
        run(&mut perf, [1, 101, 1]);
        assert_eq!(taken(&mut perf), Some((vec![1], 0)));
        perf.suspect(None);
        run(&mut perf, [101]);
        assert_eq!(taken(&mut perf), None);
    }
}
