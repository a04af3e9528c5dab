//! The one clock of the daemon: nanoseconds since it started, never going back.

use std::time::Instant;

use xvs_datapath::Nanos;

/// Hands out the time since its creation; copies agree with each other.
#[derive(Clone, Copy, Debug)]
pub struct Clock(Instant);

impl Clock {
    /// Starts at nearly zero: one second, so that 0 can mean "never".
    #[must_use]
    pub fn start() -> Self {
        Self(Instant::now())
    }

    /// Nanoseconds since [`Clock::start`], plus one second.
    #[inline]
    #[must_use]
    pub fn now(&self) -> Nanos {
        let elapsed = u64::try_from(self.0.elapsed().as_nanos()).unwrap_or(u64::MAX);
        Nanos(elapsed.saturating_add(1_000_000_000))
    }
}
