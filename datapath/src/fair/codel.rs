//! Controlled delay (RFC 8289): which packets of a flow to drop because its packets wait too long.

use crate::Nanos;

/// Waiting as long as this is good for keeping the link busy.
const TARGET: Nanos = Nanos::from_millis(5);
/// Waiting longer than [`TARGET`] for so long means that a queue stands.
const INTERVAL: Nanos = Nanos::from_millis(100);

/// The state of one flow.
#[derive(Clone, Copy, Debug)]
pub(super) struct Codel {
    /// When the queue will stand, if packets go on waiting too long; 0: they do not.
    stands_at: Nanos,
    /// Packets are being dropped.
    dropping: bool,
    drop_next: Nanos,
    /// Dropped since dropping began; and how many the time before.
    count: u32,
    last_count: u32,
}

impl Codel {
    /// Nothing has waited yet.
    pub(super) const NEW: Self =
        Self { stands_at: Nanos(0), dropping: false, drop_next: Nanos(0), count: 0, last_count: 0 };

    /// The flow has no packet left.
    pub(super) fn rest(&mut self) {
        self.stands_at = Nanos(0);
        self.dropping = false;
    }

    /// Whether to drop the packet that has `waited`. `is_short`: no more than one packet is left behind it.
    pub(super) fn drops(&mut self, now: Nanos, waited: Nanos, is_short: bool) -> bool {
        if waited < TARGET || is_short {
            self.rest();
            return false;
        }
        if self.stands_at == Nanos(0) {
            self.stands_at = Nanos(now.0 + INTERVAL.0);
        }
        if now < self.stands_at {
            self.dropping = false;
            return false;
        }
        if !self.dropping {
            self.dropping = true;
            // Dropping that began again soon goes on about where it was.
            let recent = now.since(self.drop_next).0 < 16 * INTERVAL.0;
            let before = self.count - self.last_count;
            self.count = if recent && before > 1 { before } else { 1 };
            self.last_count = self.count;
            self.drop_next = after(now, self.count);
            return true;
        }
        if now < self.drop_next {
            return false;
        }
        self.count = self.count.saturating_add(1);
        self.drop_next = after(self.drop_next, self.count);
        true
    }
}

/// The pause between drops shrinks with the square root of their number.
fn after(time: Nanos, count: u32) -> Nanos {
    let root_times_16 = (u64::from(count) << 8).isqrt();
    Nanos(time.0 + (INTERVAL.0 << 4) / root_times_16.max(1))
}
