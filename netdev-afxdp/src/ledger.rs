//! Where all frames are: each place counts its own, so that a lost frame shows as a difference.

use std::sync::Arc;

use crate::stats::{RxStats, TxStats};

/// The places of frames that are not in the hands of a running pass. At a pass boundary of all threads
/// (no packet in a batch, a bin or a capture) [`Ledger::at_rest`] equals `frames`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    /// Frames that the packet memory has.
    pub frames: u64,
    /// In the shared pool.
    pub pool: u64,
    /// In the caches of threads.
    pub caches: u64,
    /// With the kernel to receive into, not yet received.
    pub filled: u64,
    /// In tx rings, not yet taken by the kernel.
    pub queued: u64,
    /// Taken by the kernel to send, not yet completed.
    pub tx: u64,
    /// Lent to closed sockets whose queue may still be bound.
    pub quarantined: u64,
    /// Halves of sockets that are open, or closed and not reclaimed.
    pub halves: u64,
}

impl Ledger {
    /// The sum of all places.
    #[must_use]
    pub fn at_rest(&self) -> u64 {
        self.pool + self.caches + self.filled + self.queued + self.tx + self.quarantined
    }
}

/// Who an id of the packet memory belongs to.
#[derive(Debug)]
pub(crate) enum Owner {
    /// Nobody.
    Free,
    /// A receive half.
    Rx(Arc<RxStats>),
    /// A transmit half.
    Tx(Arc<TxStats>),
    /// A closed half that may still have frames.
    Closed,
}

impl Owner {
    /// Adds it and what it counts itself; a closed one counts no more.
    pub(crate) fn add_to(&self, ledger: &mut Ledger) {
        match self {
            Self::Free => return,
            Self::Closed => {}
            Self::Rx(stats) => ledger.filled += stats.filled.get(),
            Self::Tx(stats) => {
                ledger.queued += stats.queued_frames.get();
                ledger.tx += stats.kernel_frames.get();
            }
        }
        ledger.halves += 1;
    }
}
