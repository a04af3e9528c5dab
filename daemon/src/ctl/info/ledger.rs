//! Drops by reason, and the two ledgers: where every packet ended, where every frame is.

use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};
use xvs_datapath::{DropCounters, DropReason};

/// Packets dropped, by reason; in the order of [`DropReason::ALL`], zeros included.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Drops(Vec<u64>);

impl Drops {
    /// The count of one reason.
    #[must_use]
    pub fn get(&self, reason: DropReason) -> u64 {
        self.0.get(reason as usize).copied().unwrap_or(0)
    }

    /// Adds to one reason.
    pub fn add(&mut self, reason: DropReason, n: u64) {
        self.0.resize(DropReason::ALL.len(), 0);
        if let Some(count) = self.0.get_mut(reason as usize) {
            *count = count.saturating_add(n);
        }
    }

    /// Adds all of a thread's or port's counters.
    pub fn add_all(&mut self, counters: &DropCounters) {
        for (reason, n) in counters.iter() {
            self.add(reason, n);
        }
    }

    /// Every reason with its count.
    pub fn iter(&self) -> impl Iterator<Item = (DropReason, u64)> + '_ {
        DropReason::ALL.iter().map(|&reason| (reason, self.get(reason)))
    }

    /// Over all reasons.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }
}

impl From<&DropCounters> for Drops {
    fn from(counters: &DropCounters) -> Self {
        let mut drops = Self::default();
        drops.add_all(counters);
        drops
    }
}

impl Serialize for Drops {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(DropReason::ALL.len()))?;
        for (reason, n) in self.iter() {
            map.serialize_entry(reason.name(), &n)?;
        }
        map.end()
    }
}

/// Every packet ends in exactly one place: `rx + copies + segments + injected =
/// tx + drops + queued + held`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PacketLedger {
    /// Received from the kernel.
    pub rx: u64,
    /// Made by copying (flooding, several outputs).
    pub copies: u64,
    /// More than there were, by cutting those that a sender left to be cut.
    pub segments: u64,
    /// Made by the daemon itself.
    pub injected: u64,
    /// Taken by the kernel.
    pub tx: u64,
    /// Dropped, by reason.
    pub drops: Drops,
    /// Waiting to be sent.
    pub queued: u64,
    /// Held on purpose.
    pub held: u64,
}

impl PacketLedger {
    /// What is unaccounted for: 0, or there is a defect.
    #[must_use]
    pub fn balance(&self) -> i128 {
        let made = [self.rx, self.copies, self.segments, self.injected];
        let ended = [self.tx, self.drops.total(), self.queued, self.held];
        sum(&made) - sum(&ended)
    }
}

/// Every frame is in exactly one place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FrameLedger {
    /// All frames of the packet memory.
    pub total: u64,
    /// Free, shared.
    pub pool: u64,
    /// Free, in the caches of threads.
    pub caches: u64,
    /// In batches and bins.
    pub batches: u64,
    /// Waiting to be sent.
    pub queued: u64,
    /// Lent to the kernel for receiving.
    pub filled: u64,
    /// Lent to the kernel for sending.
    pub tx: u64,
    /// Held on purpose.
    pub held: u64,
    /// Left with a closed socket until the kernel has surely let go.
    pub quarantined: u64,
}

impl FrameLedger {
    /// What is unaccounted for: 0, or there is a defect.
    #[must_use]
    pub fn balance(&self) -> i128 {
        let places = [self.pool, self.caches, self.batches, self.queued];
        let lent = [self.filled, self.tx, self.held, self.quarantined];
        i128::from(self.total) - sum(&places) - sum(&lent)
    }
}

fn sum(counts: &[u64]) -> i128 {
    counts.iter().copied().map(i128::from).sum()
}

/// Both ledgers, taken at a pass boundary of every thread.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Ledger {
    /// Packets.
    pub packets: PacketLedger,
    /// Frames.
    pub frames: FrameLedger,
}
