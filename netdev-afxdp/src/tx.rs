//! The transmit half of a socket: tx ring and completion ring, one owner at a time.
//!
//! When to call the kernel is decided by [`Kick`]; here is what it acts on, and the counting. How much may
//! be with the kernel at a time is limited by bytes ([`ByteLimit`]); what exceeds it waits in a
//! [`FairQueue`], from which [`Side::reap`] refills the ring. Without congestion that queue is empty and
//! packets pass it by.
//!
//! Invariants: ring, kernel and fair queue together hold at most as many frames as the ring has entries; frames in the tx ring and in the kernel together are at most the completion ring's size,
//! so that everything can come back; a packet is counted once, as sent or as dropped, when the kernel's
//! consumer index passes its last descriptor; every descriptor in the ring is one that the kernel
//! accepts (its data lies in its frame, a checksum request lies in the first descriptor).

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use xvs_datapath::csum::{self, CsumRequest, Unfinished};
use xvs_datapath::{
    CopyPacket, DropCounters, DropReason, FairQueue, MAX_FRAMES, Nanos, Packet, TxQueue,
};

use crate::abi::Desc;
use crate::cache::FrameCache;
use crate::error::Result;
use crate::kick::{Kick, KickReport, TxKernel, Verdict};
use crate::lent::Lent;
use crate::link::{LinkState, max_frame_len};
use crate::packet::XskPacket;
use crate::ring::{Consumer, Producer};
use crate::rx::home;
use crate::socket::{Quarantine, Socket};
use crate::stats::TxStats;
use crate::sys;
use crate::umem::Umem;
use crate::xsk::InForce;

mod large;
mod limit;
#[cfg(test)]
mod tests;

use limit::{ByteLimit, Room};

/// While the carrier is off nothing moves; a thread that sleeps looks again after this time.
const NO_CARRIER_PAUSE: Nanos = Nanos::from_millis(10);

/// While packets wait, a thread that sleeps looks for completions after this time.
const REFILL_PAUSE: Nanos = Nanos(200_000);

/// Transmits on one queue. Dropped or closed, its rings are unmapped, and the frames with the kernel
/// are quarantined.
#[derive(Debug)]
pub struct XskTx {
    kick: Kick,
    verdict: Verdict,
    side: Side,
    /// Used only when the thread's cache has frames of another packet memory.
    own_cache: Option<FrameCache>,
}

/// All but the kick protocol's own state, which acts on this.
#[derive(Debug)]
struct Side {
    tx: Producer<Desc>,
    completion: Consumer<u64>,
    /// Frames in the tx ring or with the kernel.
    lent: Lent,
    /// Bytes in the tx ring or with the kernel.
    limit: ByteLimit,
    /// The entry of the tx ring that is completed next, as the kernel completes about in order.
    completes: u32,
    /// What must wait.
    fair: FairQueue<XskPacket>,
    zero_copy: bool,
    tx_metadata: bool,
    link: Arc<LinkState>,
    stats: Arc<TxStats>,
    count: Count,
    /// Last: closed after the rings are unmapped.
    socket: Arc<Socket>,
}

/// How far the packets in the tx ring are counted.
#[derive(Debug, Default)]
struct Count {
    /// The kernel's consumer index as of the last look.
    index: u32,
    /// Packets before it whose last descriptor is not.
    queued: u32,
    /// Bytes of the packet that the index is in.
    partial: u64,
    /// Packets that the kernel reported as dropped (EBUSY) before it published that it took them.
    owed_drops: u32,
    /// The most packets that one call took.
    max_per_kick: u32,
}

/// What a look at the consumer index found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Taken {
    packets: u32,
    bytes: u64,
    dropped: u32,
}

impl Count {
    /// Counts up to the consumer index. `busy`: the call just made reported a drop. The dropped packet is
    /// the last one that the call took; if the kernel has not published it, it is the first of the next
    /// advance.
    fn advance(&mut self, tx: &Producer<Desc>, busy: bool) -> Taken {
        let to = tx.consumed();
        // The kernel may take an index back (device busy in the middle of a packet).
        let n = to.wrapping_sub(self.index);
        let n = if n > tx.size() { 0 } else { n };
        let (mut taken, mut last) = (Taken::default(), 0);
        for _ in 0..n {
            let desc = tx.entry(self.index);
            self.index = self.index.wrapping_add(1);
            self.partial += u64::from(desc.len);
            if !desc.is_last() {
                continue;
            }
            let bytes = std::mem::take(&mut self.partial);
            self.queued = self.queued.saturating_sub(1);
            if self.owed_drops > 0 {
                self.owed_drops -= 1;
                taken.dropped += 1;
            } else {
                taken.packets += 1;
                taken.bytes += bytes;
                last = bytes;
            }
        }
        if busy && taken.packets > 0 {
            taken.packets -= 1;
            taken.bytes -= last;
            taken.dropped += 1;
        } else if busy {
            self.owed_drops += 1;
        }
        taken
    }
}

impl XskTx {
    pub(crate) fn new(
        umem: &'static Umem,
        (tx, completion): (Producer<Desc>, Consumer<u64>),
        in_force: &InForce,
        (link, socket): (Arc<LinkState>, Arc<Socket>),
    ) -> Result<Self> {
        let stats = Arc::new(TxStats::default());
        let lent = Lent::to_tx(umem, &stats)?;
        let count = Count { index: tx.index(), ..Count::default() };
        let &InForce { zero_copy, tx_metadata, tx_budget, .. } = in_force;
        let frame = max_frame_len(link.mtu());
        let side = Side {
            limit: ByteLimit::new(frame),
            completes: tx.index(),
            fair: FairQueue::new(tx.size(), frame, seed()),
            tx,
            completion,
            lent,
            zero_copy,
            tx_metadata,
            link,
            stats,
            count,
            socket,
        };
        Ok(Self { kick: Kick::new(tx_budget), verdict: Verdict::Done, side, own_cache: None })
    }

    /// Its counters.
    #[must_use]
    pub fn stats(&self) -> Arc<TxStats> {
        Arc::clone(&self.side.stats)
    }

    /// How the last pass left the queue. [`Verdict::Unbound`] and [`Verdict::Broken`] are final: close it.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        self.verdict
    }

    /// When a thread that wants to sleep must call [`TxQueue::flush`] again; `None`: when it has packets
    /// for this queue.
    #[must_use]
    pub fn next_wake(&self, now: Nanos) -> Option<Nanos> {
        let after = |pause: Nanos| Nanos(now.0.saturating_add(pause.0));
        let refill = (!self.side.fair.is_empty()).then(|| after(REFILL_PAUSE));
        let wake = self.kick.next_wake(now).into_iter().chain(refill).min()?;
        if self.side.link.carrier() {
            return Some(wake);
        }
        Some(wake.max(after(NO_CARRIER_PAUSE)))
    }

    /// Closes this half: packets that the kernel has not taken are counted as
    /// [`DropReason::TxFlushed`], what is completed goes to `cache`. The socket closes with its last half.
    pub fn close(mut self, cache: &mut FrameCache, drops: &DropCounters) -> Quarantine {
        let stats = Arc::clone(&self.side.stats);
        let cache = home(self.side.lent.umem(), cache, &mut self.own_cache);
        if self.verdict != Verdict::Broken {
            self.side.reap(cache);
        }
        self.side.settle(false, drops);
        // What the kernel takes between the last look and the end of the socket is counted here, too.
        drops.add(DropReason::TxFlushed, self.side.n_queued());
        self.side.fair.drain().for_each(|packet| cache.free(packet));
        for gauge in [&stats.queued, &stats.queued_frames, &stats.kernel_frames] {
            gauge.set(0);
        }
        Quarantine::new(self.side.lent, &self.side.socket)
    }

    /// Why nothing can be sent now.
    fn refusal(&self) -> Option<DropReason> {
        match self.verdict {
            Verdict::Unbound | Verdict::Broken => Some(DropReason::PortDown),
            _ if !self.side.link.carrier() => Some(DropReason::NoCarrier),
            Verdict::Done
            | Verdict::More
            | Verdict::Blocked
            | Verdict::Down
            | Verdict::Failed(_) => None,
        }
    }

    /// A packet of this queue's memory, or the reason why there is none; the original is then the
    /// caller's again.
    #[inline]
    fn localize(
        &mut self,
        packet: XskPacket,
        cache: &mut FrameCache,
    ) -> Result<XskPacket, (XskPacket, DropReason)> {
        let umem = self.side.lent.umem();
        if std::ptr::eq(packet.umem(), umem) {
            return Ok(packet);
        }
        match home(umem, cache, &mut self.own_cache).copy(&packet) {
            Some(copy) => {
                self.side.stats.foreign_copies.add(1);
                cache.free(packet);
                Ok(copy)
            }
            None => Err((packet, DropReason::NoFrame)),
        }
    }

    fn note(&mut self, report: &KickReport) {
        self.verdict = report.verdict;
        let stats = &self.side.stats;
        if matches!(report.verdict, Verdict::Unbound | Verdict::Broken) {
            stats.stopped.set(1);
        }
        if report.calls > 0 {
            stats.kicks.add(u64::from(report.calls));
            stats.eagain.add(u64::from(report.again));
            stats.ebusy.add(u64::from(report.busy_drops));
            stats.errors.add(u64::from(report.errors));
            stats.max_per_kick.set(u64::from(self.side.count.max_per_kick));
        }
    }
}

impl Side {
    /// Takes a packet: into the ring when nothing holds it up, else it waits. Gives it back with the reason
    /// if it may not or cannot go.
    #[inline]
    fn accept(
        &mut self,
        packet: XskPacket,
        room: &mut Room,
        (cache, drops): (&mut FrameCache, &DropCounters),
        now: Nanos,
    ) -> Result<(), (XskPacket, DropReason)> {
        if packet.own_mtu().is_some() || !self.link.fits(packet.len(), packet.head()) {
            return self.accept_large(packet, room, (cache, drops), now);
        }
        self.accept_fitting(packet, room, (cache, drops), now)
    }

    /// Takes a packet that fits.
    #[inline]
    fn accept_fitting(
        &mut self,
        packet: XskPacket,
        room: &mut Room,
        (cache, drops): (&mut FrameCache, &DropCounters),
        now: Nanos,
    ) -> Result<(), (XskPacket, DropReason)> {
        if room.take(packet.len(), packet.n_frames()) {
            self.push(packet);
            return Ok(());
        }
        self.wait(packet, (cache, drops), now)
    }

    /// What may go straight into the ring: nothing while packets wait.
    #[inline]
    fn room(&mut self, n_packets: usize) -> Room {
        if !self.fair.is_empty() {
            return Room::default();
        }
        Room { bytes: self.limit.room(), frames: self.free_frames(n_packets), used: 0 }
    }

    /// Lets a packet wait. When there are too many, the flow with most gives one.
    #[cold]
    fn wait(
        &mut self,
        packet: XskPacket,
        (cache, drops): (&mut FrameCache, &DropCounters),
        now: Nanos,
    ) -> Result<(), (XskPacket, DropReason)> {
        let rest = (self.tx.size().saturating_sub(self.lent.count()) as usize)
            .saturating_sub(packet.n_frames());
        while self.fair.n_frames() > rest
            && let Some(given) = self.fair.shed()
        {
            drops.add(DropReason::TxFull, 1);
            cache.free(given);
        }
        let frames = packet.n_frames() + self.lent.count() as usize;
        if frames > self.tx.size() as usize {
            return Err((packet, DropReason::TxFull));
        }
        self.fair.push(packet, now).map_err(|packet| (packet, DropReason::TxFull))
    }

    /// Frames that fit into the ring and can come back; looks for more than the known ones if those are
    /// fewer than `want`.
    #[inline]
    fn free_frames(&mut self, want: usize) -> usize {
        let want = u32::try_from(want).unwrap_or(u32::MAX);
        let returnable = self.completion.size().saturating_sub(self.lent.count());
        self.tx.free(want).min(returnable) as usize
    }

    /// Moves waiting packets into the ring when enough has come back.
    fn refill(&mut self, cache: &mut FrameCache, drops: &DropCounters, now: Nanos) {
        if self.fair.is_empty() || !self.link.carrier() || !self.limit.refills(now) {
            return;
        }
        while self.limit.room() > 0 && self.free_frames(MAX_FRAMES) >= MAX_FRAMES {
            let late = |packet| {
                drops.add(DropReason::TxLate, 1);
                cache.free(packet);
            };
            let Some(packet) = self.fair.pop(now, late) else { break };
            self.limit.add(packet.len() as u64);
            self.push(packet);
        }
        self.tx.submit();
    }

    /// Puts a packet into the ring, in which there is room for it.
    #[inline(always)]
    fn push(&mut self, mut packet: XskPacket) {
        let options = self.finish_checksum(&mut packet);
        self.count.queued += 1;
        match packet.into_only_frame() {
            Ok((frame, segment)) => {
                let addr = self.lent.lend(frame) + u64::from(segment.offset);
                self.tx.put(Desc { addr, len: u32::from(segment.len), options });
            }
            Err(packet) => self.push_chain(packet, options),
        }
    }

    /// A packet of several frames.
    #[cold]
    fn push_chain(&mut self, packet: XskPacket, mut options: u32) {
        let n = packet.n_frames();
        for (at, segment) in (1..).zip(packet.segments()) {
            let more = if at < n { Desc::CONTINUED } else { 0 };
            let addr =
                (u64::from(segment.index) << self.lent.umem().shift()) + u64::from(segment.offset);
            self.tx.put(Desc {
                addr,
                len: u32::from(segment.len),
                options: std::mem::take(&mut options) | more,
            });
        }
        packet.into_frames(|frame| {
            self.lent.lend(frame);
        });
    }

    /// Completes the checksum that the packet's sender left to its hardware, or asks the kernel to; the
    /// descriptor's options for that.
    #[inline]
    fn finish_checksum(&self, packet: &mut XskPacket) -> u32 {
        let request = match csum::unfinished(packet.head(), packet.len(), packet.layers()) {
            None => return 0,
            Some(Unfinished::Sum(request)) if self.tx_metadata => request,
            Some(Unfinished::Sum(_) | Unfinished::Software) => {
                csum::complete_in_software(packet);
                self.stats.csum_software.add(1);
                return 0;
            }
        };
        let CsumRequest { start, offset } = request;
        let metadata = packet.metadata_mut();
        metadata.fill(0);
        put(metadata, 0, u64::from(libc::XDP_TXMD_FLAGS_CHECKSUM).to_ne_bytes());
        put(metadata, 8, start.to_ne_bytes());
        put(metadata, 10, offset.to_ne_bytes());
        self.stats.csum_requests.add(1);
        Desc::METADATA
    }

    /// Takes back what is completed.
    fn reap(&mut self, cache: &mut FrameCache) -> u32 {
        let n = self.completion.available(u32::MAX);
        let mut good = 0;
        for at in 0..n {
            match self.lent.take_back(self.completion.peek(at)) {
                Some((frame, _)) => {
                    cache.put(frame);
                    good += 1;
                }
                None => self.stats.bad_completions.add(1),
            }
        }
        if n > 0 {
            self.completion.release(n);
            self.uncount(good);
        }
        n
    }

    /// So many descriptors came back: their bytes count no more.
    #[inline]
    fn uncount(&mut self, n: u32) {
        if self.lent.count() == 0 {
            self.completes = self.tx.index();
            return self.limit.complete_all();
        }
        for _ in 0..n {
            self.limit.complete(u64::from(self.tx.entry(self.completes).len));
            self.completes = self.completes.wrapping_add(1);
        }
    }

    /// Packets accepted and not taken by the kernel.
    #[inline]
    fn n_queued(&self) -> u64 {
        u64::from(self.count.queued) + self.fair.len() as u64
    }

    /// Counts what the kernel took since the last look. `busy`: it just reported a drop.
    fn settle(&mut self, busy: bool, drops: &DropCounters) -> Taken {
        let taken = self.count.advance(&self.tx, busy);
        if taken != Taken::default() {
            self.stats.packets.add(u64::from(taken.packets));
            self.stats.bytes.add(taken.bytes);
            if taken.dropped > 0 {
                drops.add(DropReason::TxBusy, u64::from(taken.dropped));
            }
        }
        taken
    }

    /// Shows where the frames are. A frame may be completed before its index is published.
    fn gauge(&self) {
        let lent = self.lent.count();
        let ring = self.tx.index().wrapping_sub(self.count.index).min(lent);
        self.stats.queued.set(self.n_queued());
        self.stats.queued_frames.set(u64::from(ring) + self.fair.n_frames() as u64);
        self.stats.limit_bytes.set(self.limit.get());
        self.stats.kernel_frames.set(u64::from(lent - ring));
    }
}

/// What the hash that tells flows apart starts from: not to be guessed from outside.
fn seed() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    std::hash::RandomState::new().build_hasher().finish()
}

/// Writes a field of the metadata.
fn put<const N: usize>(metadata: &mut [u8], at: usize, value: [u8; N]) {
    if let Some(field) = metadata.get_mut(at..).and_then(<[u8]>::first_chunk_mut) {
        *field = value;
    }
}

/// What the kick protocol acts on during a pass.
struct Pass<'a> {
    side: &'a mut Side,
    cache: &'a mut FrameCache,
    drops: &'a DropCounters,
    now: Nanos,
}

impl TxKernel for Pass<'_> {
    fn pending(&self) -> u32 {
        self.side.tx.index().wrapping_sub(self.side.tx.consumed())
    }

    fn reap(&mut self) -> u32 {
        let n = self.side.reap(self.cache);
        self.side.refill(self.cache, self.drops, self.now);
        n
    }

    fn send(&mut self) -> Result<(), i32> {
        let outcome = sys::kick_tx(self.side.socket.as_fd());
        // Only the copy path drops a packet when it says EBUSY; a driver's EBUSY means later.
        let outcome = match outcome {
            Err(libc::EBUSY) if self.side.zero_copy => Err(libc::EAGAIN),
            outcome => outcome,
        };
        let taken = self.side.settle(outcome == Err(libc::EBUSY), self.drops);
        let packets = taken.packets + taken.dropped;
        self.side.count.max_per_kick = self.side.count.max_per_kick.max(packets);
        outcome
    }

    fn needs_kick(&self) -> bool {
        // Without carrier every call would cost a packet; what is queued waits for it.
        self.side.link.carrier() && (!self.side.zero_copy || self.side.tx.needs_wakeup())
    }
}

impl TxQueue for XskTx {
    type Packet = XskPacket;
    type Cache = FrameCache;

    fn enqueue(
        &mut self,
        bin: &mut Vec<XskPacket>,
        cache: &mut FrameCache,
        drops: &DropCounters,
        now: Nanos,
    ) {
        if let Some(reason) = self.refusal() {
            drops.add(reason, bin.len() as u64);
            cache.free_all(bin);
            return;
        }
        let mut room = self.side.room(bin.len());
        for packet in bin.drain(..) {
            let queued = self.localize(packet, cache).and_then(|packet| {
                let cache = home(self.side.lent.umem(), cache, &mut self.own_cache);
                self.side.accept(packet, &mut room, (cache, drops), now)
            });
            if let Err((packet, reason)) = queued {
                drops.add(reason, 1);
                cache.free(packet);
            }
        }
        self.side.limit.add(room.used);
        self.side.tx.submit();
        self.side.gauge();
    }

    fn flush(&mut self, cache: &mut FrameCache, drops: &DropCounters, now: Nanos) {
        if self.side.lent.count() == 0 && self.side.n_queued() == 0 {
            return;
        }
        let cache = home(self.side.lent.umem(), cache, &mut self.own_cache);
        let report = self.kick.run(&mut Pass { side: &mut self.side, cache, drops, now }, now);
        self.side.settle(false, drops);
        self.note(&report);
        self.side.gauge();
    }

    fn queued(&self) -> usize {
        self.side.count.queued as usize + self.side.fair.len()
    }
}

impl AsFd for XskTx {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.side.socket.as_fd()
    }
}
