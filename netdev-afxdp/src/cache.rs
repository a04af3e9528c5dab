//! A thread's own store of free frames: what the packet path allocates from and frees to.
//!
//! It exchanges magazines of 64 frames with the shared pool, so that most packets touch no shared
//! memory. Bounded: above its limit it gives frames back. Its count is exact at any time.

use std::sync::Arc;

use xvs_datapath::{CopyPacket, Counter, MAX_FRAMES, Packet};

use crate::frame::Frame;
use crate::packet::XskPacket;
use crate::pool::MAGAZINE;
use crate::umem::Umem;

/// The free frames of one thread. Dropping it gives them back to the pool.
#[derive(Debug)]
pub struct FrameCache {
    umem: &'static Umem,
    frames: Vec<Frame>,
    limit: usize,
    /// How many `frames` holds, for the ledger.
    gauge: Arc<Counter>,
}

impl FrameCache {
    /// The usual limit.
    pub const DEFAULT_LIMIT: usize = 512;

    /// An empty cache of frames of `umem` that keeps at most `limit`, at least two magazines (128).
    /// The only allocation.
    #[must_use]
    pub fn new(umem: &'static Umem, limit: usize) -> Self {
        let limit = limit.max(2 * MAGAZINE);
        let gauge = umem.register_cache();
        Self { umem, frames: Vec::with_capacity(limit + MAGAZINE), limit, gauge }
    }

    /// The packet memory whose frames it keeps.
    #[inline]
    #[must_use]
    pub fn umem(&self) -> &'static Umem {
        self.umem
    }

    /// Free frames at hand.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.frames.len()
    }

    /// True when none is at hand; the pool may have some.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// Frees all frames of a packet.
    #[inline]
    pub fn free(&mut self, packet: XskPacket) {
        #[cfg(feature = "leak-one-frame")]
        if self.umem.leak_now() {
            return;
        }
        let umem = packet.umem();
        packet.into_frames(|frame| {
            if std::ptr::eq(umem, self.umem) { self.put(frame) } else { umem.free(frame) }
        });
    }

    /// Frees all packets of a list and leaves it empty.
    #[inline]
    pub fn free_all(&mut self, packets: &mut Vec<XskPacket>) {
        for packet in packets.drain(..) {
            self.free(packet);
        }
    }

    /// A packet with these bytes, its layers not yet known; `None` when frames are short or the bytes
    /// need more frames than a packet may have.
    #[must_use]
    pub fn packet(&mut self, bytes: &[u8]) -> Option<XskPacket> {
        self.packet_with(bytes.len(), |at, place| {
            if let Some(part) = bytes.get(at..at + place.len()) {
                place.copy_from_slice(part);
            }
        })
    }

    /// A packet of `len` bytes, its layers not yet known; `fill` gets where each frame's bytes are in the
    /// packet, and the bytes to write. `None` as [`packet`](Self::packet).
    pub(crate) fn packet_with(
        &mut self,
        len: usize,
        mut fill: impl FnMut(usize, &mut [u8]),
    ) -> Option<XskPacket> {
        let room = self.umem.rx_room();
        let n = len.div_ceil(room);
        if n == 0 || n > MAX_FRAMES || !self.reserve(n) {
            return None;
        }
        let offset = self.umem.rx_offset();
        let part = |at| room.min(len - at);
        let mut packet =
            XskPacket::filled(self.umem, self.take()?, offset, part(0), |place| fill(0, place))?;
        for at in (0..len).step_by(room).skip(1) {
            let appended = self.take().is_some_and(|frame| {
                packet.append_filled(frame, offset, part(at), |place| fill(at, place))
            });
            if !appended {
                self.free(packet);
                return None;
            }
        }
        Some(packet)
    }

    /// Gives everything back to the pool.
    pub fn give_back(&mut self) {
        while !self.frames.is_empty() {
            self.umem.pool().push(self.umem.links(), || self.frames.pop());
        }
        self.settle();
    }

    /// A free frame; `None` when the pool is empty too.
    #[inline]
    pub(crate) fn take(&mut self) -> Option<Frame> {
        if self.frames.is_empty() {
            self.umem.pool().pop(self.umem.links(), &mut self.frames);
        }
        let frame = self.frames.pop();
        self.settle();
        frame
    }

    /// Takes a frame back.
    #[inline]
    pub(crate) fn put(&mut self, frame: Frame) {
        if self.frames.len() >= self.limit {
            self.umem.pool().push(self.umem.links(), || self.frames.pop());
        }
        self.frames.push(frame);
        self.settle();
    }

    /// Makes sure that `n` frames are at hand; false when pool and cache together have fewer.
    #[inline]
    pub(crate) fn reserve(&mut self, n: usize) -> bool {
        while self.frames.len() < n {
            if self.umem.pool().pop(self.umem.links(), &mut self.frames) == 0 {
                break;
            }
        }
        self.settle();
        self.frames.len() >= n
    }

    #[inline]
    fn settle(&self) {
        self.gauge.set(self.frames.len() as u64);
    }
}

impl Drop for FrameCache {
    fn drop(&mut self) {
        self.give_back();
    }
}

impl CopyPacket<XskPacket> for FrameCache {
    fn copy(&mut self, packet: &XskPacket) -> Option<XskPacket> {
        if packet.umem().frame_size() > self.umem.frame_size() || !self.reserve(packet.n_frames()) {
            return None;
        }
        packet.copy_with(self.umem, || self.take())
    }

    fn truncate(&mut self, packet: &mut XskPacket, len: usize) {
        let umem = packet.umem();
        let own = std::ptr::eq(umem, self.umem);
        packet.truncate(len, |frame| if own { self.put(frame) } else { umem.free(frame) });
    }
}
