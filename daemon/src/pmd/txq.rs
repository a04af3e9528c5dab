//! A transmit queue as a PMD thread holds it: its own, or shared under the one lock of the packet path.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use xvs_datapath::{DropCounters, Nanos, TxQueue};
use xvs_netdev_afxdp::{FrameCache, XskPacket, XskTx};

/// Who else uses the queue was decided when queues were assigned, not per packet.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "there are few, and a box would cost every packet")]
pub enum TxHandle {
    /// Only this thread sends on it.
    Owned(XskTx),
    /// The device has fewer queues than there are threads.
    Shared(Arc<Mutex<XskTx>>),
}

fn lock(queue: &Mutex<XskTx>) -> MutexGuard<'_, XskTx> {
    // The queue is consistent between any two of its operations, so a poisoned lock is as good as any.
    queue.lock().unwrap_or_else(PoisonError::into_inner)
}

impl TxHandle {
    /// Runs `f` on the queue, under its lock when it is shared.
    #[inline]
    pub fn with<R>(&mut self, f: impl FnOnce(&mut XskTx) -> R) -> R {
        match self {
            Self::Owned(queue) => f(queue),
            Self::Shared(queue) => f(&mut lock(queue)),
        }
    }

    /// The queue itself, when nobody else holds it any more.
    #[must_use]
    pub fn into_inner(self) -> Option<XskTx> {
        match self {
            Self::Owned(queue) => Some(queue),
            Self::Shared(queue) => Arc::into_inner(queue)
                .map(|q| q.into_inner().unwrap_or_else(PoisonError::into_inner)),
        }
    }
}

impl TxQueue for TxHandle {
    type Packet = XskPacket;
    type Cache = FrameCache;

    #[inline]
    fn enqueue(
        &mut self,
        bin: &mut Vec<XskPacket>,
        cache: &mut FrameCache,
        drops: &DropCounters,
        now: Nanos,
    ) {
        self.with(|queue| queue.enqueue(bin, cache, drops, now));
    }

    #[inline]
    fn flush(&mut self, cache: &mut FrameCache, drops: &DropCounters, now: Nanos) {
        self.with(|queue| queue.flush(cache, drops, now));
    }

    #[inline]
    fn queued(&self) -> usize {
        match self {
            Self::Owned(queue) => queue.queued(),
            Self::Shared(queue) => lock(queue).queued(),
        }
    }
}
