//! Shares of a thread's time: what counters were every few seconds, so that the last so many seconds can
//! be told from all before.

use std::collections::VecDeque;

use xvs_datapath::Nanos;

/// Time between two samples.
const INTERVAL: Nanos = Nanos::from_secs(5);

/// Samples kept: 60 seconds.
const SAMPLES: usize = 12;

/// What a counter of nanoseconds was, at intervals; the newest last.
#[derive(Debug, Default)]
pub(super) struct History(VecDeque<(Nanos, u64)>);

impl History {
    /// Begins with a counter's value.
    pub(super) fn start(now: Nanos, value: u64) -> Self {
        Self(VecDeque::from([(now, value)]))
    }

    /// Notes the value if an interval has passed since the last time.
    pub(super) fn sample(&mut self, now: Nanos, value: u64) {
        if self.0.back().is_some_and(|(at, _)| now.since(*at) < INTERVAL) {
            return;
        }
        if self.0.len() > SAMPLES {
            self.0.pop_front();
        }
        self.0.push_back((now, value));
    }

    /// The share in percent that the counter had of the last `secs` seconds, or of the time since it
    /// began if that is less; `None` when no time has passed.
    pub(super) fn percent(&self, secs: u32, now: Nanos, value: u64) -> Option<u32> {
        // The sample nearest to the wanted time, and not much later.
        let reach = Nanos::from_secs(u64::from(secs) + 2);
        let (at, before) = *self.0.iter().find(|(at, _)| now.since(*at) <= reach)?;
        let spent = value.saturating_sub(before).saturating_mul(100);
        u32::try_from(spent.checked_div(now.since(at).0)?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn only_the_last_seconds_count() {
        let mut history = History::start(Nanos(0), 0);
        // Idle for a minute, then half busy for ten seconds.
        for second in 1..=60 {
            history.sample(Nanos::from_secs(second), 0);
        }
        for second in 61..=70 {
            history.sample(Nanos::from_secs(second), (second - 60) * 500 * MS);
        }
        let now = Nanos::from_secs(70);
        assert_eq!(history.percent(10, now, 5_000 * MS), Some(50));
        assert_eq!(history.percent(5, now, 5_000 * MS), Some(50));
        assert_eq!(history.percent(60, now, 5_000 * MS), Some(8));
    }

    #[test]
    fn a_young_history_tells_of_what_it_has() {
        let history = History::start(Nanos::from_secs(1), 7);
        assert_eq!(history.percent(60, Nanos::from_secs(1), 7), None);
        assert_eq!(history.percent(60, Nanos::from_secs(2), 7 + 250 * MS), Some(25));
    }
}
