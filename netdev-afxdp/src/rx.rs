//! The receive half of a socket: rx ring and fill ring, one owner.
//!
//! Invariants: at most rx-ring frames are with the kernel, so neither ring can overflow; the rx ring is
//! released only up to the end of a whole packet, so between calls no frame is in between; what comes
//! out of the ring becomes a packet only if its chunk was lent to this ring and its data lies in it.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use xvs_datapath::{MAX_FRAMES, Packet, PacketBatch, RxQueue};

use crate::abi::Desc;
use crate::cache::FrameCache;
use crate::error::Result;
use crate::frame::Frame;
use crate::lent::Lent;
use crate::link::LinkState;
use crate::packet::{MAX_UNCUT_FRAMES, XskPacket};
use crate::ring::{Consumer, Producer};
use crate::socket::{Quarantine, Socket};
use crate::stats::RxStats;
use crate::sys;
use crate::umem::Umem;
use crate::xsk::{InForce, Tunable};

#[cfg(test)]
mod tests;

/// Receives the packets of one queue. Dropped or closed, its rings are unmapped, and the frames with
/// the kernel are quarantined.
#[derive(Debug)]
pub struct XskRx {
    rx: Consumer<Desc>,
    fill: Producer<u64>,
    /// Frames with the kernel.
    lent: Lent,
    zero_copy: bool,
    /// A call runs the driver's receive routine.
    busy_poll: bool,
    /// In the middle of a packet that is too long; the rest of it is thrown away.
    skipping: bool,
    /// Used only when the thread's cache has frames of another packet memory.
    own_cache: Option<FrameCache>,
    /// Where packets arrive that their sender left to be cut: what tells them.
    uncut: Option<Arc<LinkState>>,
    stats: Arc<RxStats>,
    /// Last: closed after the rings are unmapped.
    socket: Arc<Socket>,
}

/// The frames that a fill ring has when its socket is bound, if any. In zero-copy mode there must be some: a device
/// that finds none receives nothing, so it never interrupts, and nobody tells it when there are some (igb).
#[derive(Debug)]
pub(crate) struct Filled {
    lent: Lent,
    stats: Arc<RxStats>,
}

impl Filled {
    /// None.
    pub(crate) fn none(umem: &'static Umem) -> Result<Self> {
        let stats = Arc::default();
        Ok(Self { lent: Lent::to_rx(umem, &stats)?, stats })
    }

    /// Puts `n` frames into the ring, as far as there are any.
    pub(crate) fn fill(&mut self, ring: &mut Producer<u64>, n: u32) {
        let mut cache = FrameCache::new(self.lent.umem(), 0);
        for _ in 0..ring.free(n).min(n) {
            let Some(frame) = cache.take() else { break };
            ring.put(self.lent.lend(frame));
        }
        ring.submit();
        self.stats.filled.set(u64::from(self.lent.count()));
    }

    /// Takes them back, as the socket was not bound.
    pub(crate) fn undo(self) {
        self.stats.filled.set(0);
        self.lent.reclaim();
    }
}

/// What lies next in the rx ring.
enum Next {
    /// Nothing, or not all of a packet.
    Nothing,
    /// A packet of so many descriptors.
    Packet(u32),
    /// So many descriptors that are part of a packet that is too long; `true`: its end.
    TooLong(u32, bool),
}

impl XskRx {
    pub(crate) fn new(
        (rx, fill): (Consumer<Desc>, Producer<u64>),
        filled: Filled,
        in_force: &InForce,
        socket: Arc<Socket>,
    ) -> Self {
        let &InForce { zero_copy, busy_poll_us, .. } = in_force;
        let busy_poll = matches!(busy_poll_us, Tunable::InForce(_));
        let Filled { lent, stats } = filled;
        Self {
            rx,
            fill,
            lent,
            zero_copy,
            busy_poll,
            skipping: false,
            own_cache: None,
            uncut: None,
            stats,
            socket,
        }
    }

    /// Its counters.
    #[must_use]
    pub fn stats(&self) -> Arc<RxStats> {
        Arc::clone(&self.stats)
    }

    /// Marks packets that are larger than the link's MTU allows: such are left to be cut.
    pub(crate) fn mark_uncut(&mut self, link: Arc<LinkState>) {
        self.uncut = Some(link);
    }

    /// Tops up the fill ring from `cache`; [`RxQueue::receive`] does it too. To be called once before
    /// traffic is led to the socket, so that the first packets find room.
    pub fn refill(&mut self, cache: &mut FrameCache) {
        let before = self.lent.count();
        let want = self.rx.size().saturating_sub(before);
        let n = self.fill.free(want).min(want);
        if n > 0 {
            let cache = home(self.lent.umem(), cache, &mut self.own_cache);
            for _ in 0..n {
                let Some(frame) = cache.take() else { break };
                self.fill.put(self.lent.lend(frame));
            }
            if self.lent.count() != before {
                self.fill.submit();
                self.stats.filled.set(u64::from(self.lent.count()));
            }
        }
        if self.zero_copy && self.lent.count() > 0 && self.fill.needs_wakeup() {
            self.stats.wakeups.add(1);
            sys::kick_fill(self.socket.as_fd());
        }
    }

    /// Closes this half. The socket closes with its last half.
    pub fn close(self) -> Quarantine {
        self.stats.filled.set(0);
        Quarantine::new(self.lent, &self.socket)
    }

    /// Looks at the ring from `at`, of `available` entries.
    #[inline]
    fn next(&mut self, at: u32, available: &mut u32) -> Next {
        if at >= *available {
            return Next::Nothing;
        }
        if self.rx.peek(at).is_last() && !self.skipping {
            return Next::Packet(1);
        }
        *available = self.rx.available(u32::MAX);
        let end = (at..*available).find(|&at| self.rx.peek(at).is_last());
        let (n, whole) = match end {
            Some(end) => (end - at + 1, true),
            None => (*available - at, false),
        };
        let max = if self.uncut.is_some() { MAX_UNCUT_FRAMES } else { MAX_FRAMES };
        match (n as usize <= max, whole) {
            (true, true) if !self.skipping => Next::Packet(n),
            (true, false) if !self.skipping => Next::Nothing,
            _ => Next::TooLong(n, whole),
        }
    }

    /// Takes `n` descriptors from `at` as a packet; `None` if one of them is bad.
    #[inline]
    fn take(&mut self, at: u32, n: u32, cache: &mut FrameCache) -> Option<XskPacket> {
        let mut packet: Option<XskPacket> = None;
        let mut bad = 0;
        for at in at..at + n {
            let desc = self.rx.peek(at);
            let Some((frame, offset)) = self.lent.take_back(desc.addr) else {
                bad += 1;
                continue;
            };
            let refused = match &mut packet {
                None => match XskPacket::new(self.lent.umem(), frame, offset, desc.len) {
                    Ok(first) => {
                        packet = Some(first);
                        None
                    }
                    Err(frame) => Some(frame),
                },
                Some(packet) => packet.append(frame, offset, desc.len).err(),
            };
            if let Some(frame) = refused {
                bad += 1;
                self.free_own(frame, cache);
            }
        }
        if bad > 0 {
            self.stats.bad_descriptors.add(bad);
            if let Some(packet) = packet.take() {
                cache.free(packet);
            }
        }
        packet
    }

    /// Throws `n` descriptors from `at` away; their bytes.
    fn throw_away(&mut self, at: u32, n: u32, cache: &mut FrameCache) -> u64 {
        let mut bytes = 0;
        for at in at..at + n {
            let desc = self.rx.peek(at);
            match self.lent.take_back(desc.addr) {
                Some((frame, _)) => self.free_own(frame, cache),
                None => self.stats.bad_descriptors.add(1),
            }
            bytes += u64::from(desc.len);
        }
        bytes
    }

    fn free_own(&mut self, frame: Frame, cache: &mut FrameCache) {
        home(self.lent.umem(), cache, &mut self.own_cache).put(frame);
    }
}

/// The cache for frames of `umem`: the thread's, or an own one when the thread's is of another memory.
#[inline]
pub(crate) fn home<'a>(
    umem: &'static Umem,
    cache: &'a mut FrameCache,
    own: &'a mut Option<FrameCache>,
) -> &'a mut FrameCache {
    if std::ptr::eq(cache.umem(), umem) {
        return cache;
    }
    own.get_or_insert_with(|| FrameCache::new(umem, 0))
}

impl RxQueue for XskRx {
    type Packet = XskPacket;
    type Cache = FrameCache;

    fn receive(&mut self, batch: &mut PacketBatch<XskPacket>, cache: &mut FrameCache) -> usize {
        let before = batch.len();
        let mut available = self.rx.available(u32::try_from(batch.room()).unwrap_or(u32::MAX));
        let (mut at, mut packets, mut bytes) = (0, 0, 0);
        let longest = self.uncut.as_ref().map_or(u32::MAX, |link| link.longest_received()) as usize;
        while batch.room() > 0 {
            match self.next(at, &mut available) {
                Next::Nothing => break,
                Next::Packet(n) => {
                    if let Some(mut packet) = self.take(at, n, cache) {
                        packet.prefetch();
                        if packet.len() > longest
                            && let Some(link) = &self.uncut
                        {
                            packet.exceeds(link.mtu());
                        }
                        packets += 1;
                        bytes += packet.len() as u64;
                        // There is room, as the loop's condition says.
                        if let Err(packet) = batch.push(packet) {
                            cache.free(packet);
                        }
                    }
                    at += n;
                }
                Next::TooLong(n, end) => {
                    bytes += self.throw_away(at, n, cache);
                    self.skipping = !end;
                    if end {
                        packets += 1;
                        self.stats.too_many_frames.add(1);
                    }
                    at += n;
                }
            }
        }
        if at > 0 {
            self.rx.release(at);
            self.stats.packets.add(packets);
            self.stats.bytes.add(bytes);
            self.stats.filled.set(u64::from(self.lent.count()));
        } else if self.busy_poll {
            self.stats.wakeups.add(1);
            sys::kick_fill(self.socket.as_fd());
        }
        self.refill(cache);
        batch.len() - before
    }
}

impl AsFd for XskRx {
    /// To put into the XDP program's map, and to sleep on. A socket that also has a tx ring transmits
    /// when it is polled, and a packet that the kernel drops then is not reported.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
