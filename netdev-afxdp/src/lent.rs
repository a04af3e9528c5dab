//! The frames that are lent to one ring pair: rx and fill, or tx and completion.
//!
//! Invariants: a ring pair has an id of its own, and only the owner of its [`Lent`] lends to the id and
//! takes back from it, so the count is exact; the id is free again once nothing is lent to it and its
//! [`Lent`] is gone, and never before.

use std::sync::Arc;

use crate::error::Result;
use crate::frame::Frame;
use crate::ledger::Owner;
use crate::stats::{RxStats, TxStats};
use crate::umem::Umem;

/// What is lent to one ring pair. Dropped while frames are lent, those stay out of use for good.
#[derive(Debug)]
pub(crate) struct Lent {
    umem: &'static Umem,
    id: u16,
    n: u32,
}

impl Lent {
    /// Nothing lent to a receive half with these counters.
    pub(crate) fn to_rx(umem: &'static Umem, stats: &Arc<RxStats>) -> Result<Self> {
        Ok(Self { umem, id: umem.register(Owner::Rx(Arc::clone(stats)))?, n: 0 })
    }

    /// Nothing lent to a transmit half with these counters.
    pub(crate) fn to_tx(umem: &'static Umem, stats: &Arc<TxStats>) -> Result<Self> {
        Ok(Self { umem, id: umem.register(Owner::Tx(Arc::clone(stats)))?, n: 0 })
    }

    /// The packet memory.
    #[inline]
    pub(crate) fn umem(&self) -> &'static Umem {
        self.umem
    }

    /// How many frames are lent.
    #[inline]
    pub(crate) fn count(&self) -> u32 {
        self.n
    }

    /// Lends a frame to the kernel; the address of its first byte.
    #[inline]
    pub(crate) fn lend(&mut self, frame: Frame) -> u64 {
        self.n += 1;
        self.umem.lend(frame, self.id)
    }

    /// The frame at an address that came out of one of the rings, and the offset in it; `None` if it is
    /// not lent to them.
    #[inline]
    pub(crate) fn take_back(&mut self, addr: u64) -> Option<(Frame, u32)> {
        let taken = self.umem.take_back(addr, self.id)?;
        self.n -= 1;
        Some(taken)
    }

    /// The half is closed: from now on its frames count as quarantined.
    pub(crate) fn quarantine(&self) {
        self.umem.set_owner(self.id, Owner::Closed);
    }

    /// Takes all that is lent into the pool; how many frames that is.
    pub(crate) fn reclaim(mut self) -> usize {
        let n = self.umem.reclaim(self.id);
        self.n = 0;
        n
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        let owner = if self.n == 0 { Owner::Free } else { Owner::Closed };
        self.umem.set_owner(self.id, owner);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FrameCache, Ledger, UmemConfig};

    fn memory() -> (&'static Umem, FrameCache) {
        let config = UmemConfig { frames: 64, ..UmemConfig::default() };
        let umem = Umem::create(config).unwrap();
        (umem, FrameCache::new(umem, 0))
    }

    #[test]
    fn an_id_is_free_again_once_nothing_is_lent_to_it() {
        let (umem, mut cache) = memory();
        let (rx, tx) = (Arc::default(), Arc::default());
        for _ in 0..3 {
            let mut lent = Lent::to_rx(umem, &rx).unwrap();
            let other = Lent::to_tx(umem, &tx).unwrap();
            assert_eq!((lent.id, other.id), (1, 2));
            let addr = lent.lend(cache.take().unwrap());
            let (frame, offset) = lent.take_back(addr + 300).unwrap();
            cache.put(frame);
            assert_eq!((offset, umem.ledger().halves), (300, 2));
        }
        assert_eq!(umem.ledger().halves, 0);
    }

    #[test]
    fn frames_of_a_lost_half_stay_out_of_use_and_its_id_too() {
        let (umem, mut cache) = memory();
        let stats = Arc::default();
        let mut lent = Lent::to_rx(umem, &stats).unwrap();
        let addr = lent.lend(cache.take().unwrap());
        drop(lent);
        let mut next = Lent::to_rx(umem, &stats).unwrap();
        assert_eq!(next.id, 2);
        assert!(next.take_back(addr).is_none());
        assert_eq!(umem.ledger(), Ledger { pool: 0, quarantined: 1, halves: 2, ..umem.ledger() });
        assert_eq!(umem.ledger().at_rest(), 64);
    }

    #[test]
    fn nothing_comes_back_twice_or_from_outside() {
        let (umem, mut cache) = memory();
        let mut lent = Lent::to_rx(umem, &Arc::default()).unwrap();
        let addr = lent.lend(cache.take().unwrap());
        for wild in [addr ^ 4096, 64 * 4096, u64::MAX, 1 << 63] {
            assert!(lent.take_back(wild).is_none(), "{wild:x}");
        }
        cache.put(lent.take_back(addr).unwrap().0);
        assert!(lent.take_back(addr).is_none());
        assert_eq!(lent.count(), 0);
    }

    #[test]
    fn reclaiming_brings_all_back_and_frees_the_id() {
        let (umem, mut cache) = memory();
        let mut lent = Lent::to_tx(umem, &Arc::default()).unwrap();
        for _ in 0..40 {
            lent.lend(cache.take().unwrap());
        }
        lent.quarantine();
        assert_eq!(umem.ledger().quarantined, 40);
        assert_eq!(lent.reclaim(), 40);
        assert_eq!((umem.ledger().at_rest(), umem.ledger().halves), (64, 0));
    }
}
