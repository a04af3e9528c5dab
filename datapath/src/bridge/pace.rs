//! The version of all decisions, and how often MAC changes may bump it.
//!
//! Every bump has every cached flow checked again, so an attacker who makes MAC addresses appear and
//! move must not decide how often that happens. Changes by an operator bump at once. Changes learned from
//! packets spend a token: [`BURST`](Pace::BURST) are available, one comes back each
//! [`REFILL`](Pace::REFILL). Without a token the bump waits for the next one, or for `tick`.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::Nanos;

#[derive(Debug)]
pub(super) struct Pace {
    version: AtomicU64,
    /// A bump waits for a token.
    waiting: AtomicBool,
    bucket: Mutex<Bucket>,
}

#[derive(Debug)]
struct Bucket {
    tokens: u64,
    refilled: Nanos,
}

impl Pace {
    /// Bumps that may follow each other at once.
    const BURST: u64 = 16;
    /// The time in which one more is allowed.
    const REFILL: Nanos = Nanos::from_millis(100);

    pub(super) fn new() -> Self {
        Self {
            version: AtomicU64::new(1),
            waiting: AtomicBool::new(false),
            bucket: Mutex::new(Bucket { tokens: Self::BURST, refilled: Nanos::default() }),
        }
    }

    pub(super) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// All flows are to be checked now.
    pub(super) fn bump(&self) {
        self.version.fetch_add(1, Ordering::AcqRel);
    }

    /// Flows are to be checked as soon as the pace allows; true when that is now: the caller then bumps.
    pub(super) fn ask(&self, now: Nanos) -> bool {
        let granted = self.take(now);
        self.waiting.store(!granted, Ordering::Release);
        granted
    }

    /// True when a bump was waiting and may be done now.
    pub(super) fn due(&self, now: Nanos) -> bool {
        self.waiting.load(Ordering::Acquire) && self.ask(now)
    }

    fn take(&self, now: Nanos) -> bool {
        let mut bucket = self.bucket.lock().unwrap_or_else(PoisonError::into_inner);
        let earned = now.since(bucket.refilled).0 / Self::REFILL.0;
        if earned > 0 {
            bucket.tokens = bucket.tokens.saturating_add(earned).min(Self::BURST);
            bucket.refilled.0 += earned * Self::REFILL.0;
        }
        let granted = bucket.tokens > 0;
        bucket.tokens -= u64::from(granted);
        granted
    }
}
