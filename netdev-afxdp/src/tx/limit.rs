//! How many bytes may be with the kernel at a time, found by watching whether it runs dry.
//!
//! Too few, and the link idles between two visits of the thread; too many, and a packet that should
//! overtake waits behind them. As the kernel's own dynamic queue limits do for a driver's ring, the limit
//! doubles when nothing was left while packets waited, and shrinks by part of what was always left. It
//! therefore follows the rate of the link and how often the thread comes by, whatever either is.

use xvs_datapath::Nanos;

/// What a new queue may hand over: 5 ms of 100 Mbit/s. A faster link doubles it at once.
const START: u64 = 64 << 10;

/// The least.
const LEAST: u64 = 12_000;

/// The limit shrinks after so long without running dry.
const WINDOW: Nanos = Nanos::from_millis(250);

/// The limit of one queue, and what counts against it.
#[derive(Clone, Copy, Debug)]
pub(super) struct ByteLimit {
    limit: u64,
    least: u64,
    /// Bytes handed over and not completed.
    outstanding: u64,
    /// The least that was left at a refill in this window, and the end of the window.
    slack: u64,
    until: Nanos,
}

impl ByteLimit {
    /// For a link whose frames have at most `frame` bytes.
    pub(super) fn new(frame: u32) -> Self {
        let least = LEAST.max(2 * u64::from(frame));
        Self {
            limit: START.max(2 * least),
            least,
            outstanding: 0,
            slack: u64::MAX,
            until: Nanos(0),
        }
    }

    /// The limit in force, bytes. One packet may go beyond it.
    pub(super) fn get(&self) -> u64 {
        self.limit
    }

    /// How many bytes may be handed over now; the last packet may go beyond.
    #[inline]
    pub(super) fn room(&self) -> u64 {
        self.limit.saturating_sub(self.outstanding)
    }

    /// So many bytes are handed over.
    #[inline]
    pub(super) fn add(&mut self, bytes: u64) {
        self.outstanding += bytes;
    }

    /// So many bytes came back.
    #[inline]
    pub(super) fn complete(&mut self, bytes: u64) {
        self.outstanding = self.outstanding.saturating_sub(bytes);
    }

    /// All came back.
    #[inline]
    pub(super) fn complete_all(&mut self) {
        self.outstanding = 0;
    }

    /// For waiting packets: true once half of what may be with the kernel came back, so that a call hands
    /// over several. Adapts the limit by what is left.
    pub(super) fn refills(&mut self, now: Nanos) -> bool {
        if self.outstanding > self.limit / 2 {
            return false;
        }
        if self.outstanding == 0 {
            self.limit = self.limit.saturating_mul(2).min(u64::from(u32::MAX));
            self.open_window(now);
            return true;
        }
        // Nothing waited for a while: what was left then says nothing.
        if now.since(self.until) > WINDOW {
            self.open_window(now);
        }
        self.slack = self.slack.min(self.outstanding);
        if now >= self.until {
            self.limit = (self.limit - self.slack / 2).max(self.least);
            self.open_window(now);
        }
        true
    }

    fn open_window(&mut self, now: Nanos) {
        self.slack = u64::MAX;
        self.until = Nanos(now.0.saturating_add(WINDOW.0));
    }
}

/// What of a batch may go straight into the ring.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Room {
    pub(super) bytes: u64,
    pub(super) frames: usize,
    /// Bytes that went.
    pub(super) used: u64,
}

impl Room {
    /// True when a packet may go; after the first that may not, none may.
    #[inline]
    pub(super) fn take(&mut self, len: usize, n_frames: usize) -> bool {
        if self.used < self.bytes && n_frames <= self.frames {
            self.frames -= n_frames;
            self.used += len as u64;
            return true;
        }
        self.bytes = 0;
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A link of `bytes_per_us`, visited every `visit_us` for a second while packets of 1500 bytes always
    /// wait. The limit at the end, and which part of the link's capacity was used in the last half, in percent.
    fn saturate(limit: &mut ByteLimit, bytes_per_us: u64, visit_us: u64, seconds: u64) -> u64 {
        let (mut sent, mut debt) = (0, 0);
        let end = seconds * 1_000_000;
        for at in (0..end).step_by(usize::try_from(visit_us).unwrap()) {
            let now = Nanos((at + 1) * 1000);
            let capacity = bytes_per_us * visit_us;
            let done = capacity.min(debt);
            debt -= done;
            limit.complete(done);
            if at >= end / 2 {
                sent += done;
            }
            if limit.refills(now) {
                while limit.room() > 0 {
                    limit.add(1500);
                    debt += 1500;
                }
            }
        }
        sent * 100 / (bytes_per_us * end / 2)
    }

    #[test]
    fn a_slow_link_gets_little_and_is_kept_busy() {
        let mut limit = ByteLimit::new(1518);
        // 100 Mbit/s, visited every 20 µs.
        let used = saturate(&mut limit, 12, 20, 4);
        assert!(used >= 99, "{used} %");
        assert!(limit.get() <= 16_000, "{}", limit.get());
    }

    #[test]
    fn a_fast_link_and_rare_visits_get_more() {
        for (bytes_per_us, visit_us) in [(1250, 20), (125, 1000), (12, 5000)] {
            let mut limit = ByteLimit::new(1518);
            let used = saturate(&mut limit, bytes_per_us, visit_us, 4);
            assert!(used >= 90, "{bytes_per_us} bytes/µs, visited every {visit_us} µs: {used} %");
            let need = bytes_per_us * visit_us;
            assert!(limit.get() <= 8 * need.max(4_000), "{} for {need}", limit.get());
        }
    }

    #[test]
    fn it_follows_a_link_that_becomes_slow() {
        let mut limit = ByteLimit::new(1518);
        saturate(&mut limit, 1250, 100, 1);
        assert!(limit.get() >= 100_000);
        limit.complete_all();
        limit.until = Nanos(0);
        let used = saturate(&mut limit, 12, 20, 6);
        assert!(used >= 99 && limit.get() <= 16_000, "{used} %, {}", limit.get());
    }

    #[test]
    fn a_link_that_takes_everything_at_once_is_not_held_back_for_long() {
        let mut limit = ByteLimit::new(1518);
        let mut passes = 0;
        let mut left: u64 = 1 << 20;
        while left > 0 {
            passes += 1;
            assert!(limit.refills(Nanos(passes)));
            left = left.saturating_sub(limit.get());
            limit.add(1);
            limit.complete_all();
        }
        assert!(passes <= 5, "{passes}");
    }
}
