//! Packets in plain memory, for tests: no socket, no UMEM, but the same rules.
//!
//! As with real frames, a packet that is dropped instead of given back leaks: the [`MemPool`] it came
//! from counts it. [`PacketBuilder`] makes the bytes.

mod build;

use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::Arc;

pub use build::{Csum, PacketBuilder};

use crate::{CopyPacket, Layers, NoHeadroom, Packet};

/// Free bytes before a new packet.
pub const HEADROOM: usize = 128;

/// What all handles on one pool share.
#[derive(Debug, Default)]
struct Account {
    limit: AtomicUsize,
    alive: AtomicUsize,
    leaked: AtomicUsize,
}

/// Counts the packets that are alive; clones share the count.
#[derive(Clone, Debug)]
pub struct MemPool(Arc<Account>);

impl Default for MemPool {
    fn default() -> Self {
        Self::new(usize::MAX)
    }
}

impl MemPool {
    /// A pool from which at most `limit` packets may be out at a time.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self(Arc::new(Account { limit: limit.into(), ..Account::default() }))
    }

    /// Changes the limit; 0 makes it run out now.
    pub fn set_limit(&self, limit: usize) {
        self.0.limit.store(limit, Relaxed);
    }

    /// A packet of one frame with these bytes, or `None` when the limit is reached.
    #[must_use]
    pub fn packet(&self, bytes: &[u8]) -> Option<MemPacket> {
        self.packet_of(&[bytes])
    }

    /// A packet with these frames, or `None` when the limit is reached.
    #[must_use]
    pub fn packet_of(&self, segments: &[&[u8]]) -> Option<MemPacket> {
        self.charge().then(|| {
            let mut packet = MemPacket::of(segments);
            packet.pool = Some(self.clone());
            packet
        })
    }

    /// Takes a packet back.
    pub fn free(&self, mut packet: MemPacket) {
        if packet.pool.take().is_some() {
            self.0.alive.fetch_sub(1, Relaxed);
        }
    }

    /// Packets out and not yet given back, leaked ones included.
    #[must_use]
    pub fn alive(&self) -> usize {
        self.0.alive.load(Relaxed)
    }

    /// Packets whose value was dropped instead of given back.
    #[must_use]
    pub fn leaked(&self) -> usize {
        self.0.leaked.load(Relaxed)
    }

    fn charge(&self) -> bool {
        let ok = self.alive() < self.0.limit.load(Relaxed);
        self.0.alive.fetch_add(usize::from(ok), Relaxed);
        ok
    }
}

impl CopyPacket<MemPacket> for MemPool {
    fn copy(&mut self, packet: &MemPacket) -> Option<MemPacket> {
        self.charge().then(|| MemPacket {
            buffer: packet.buffer.clone(),
            start: packet.start,
            more: packet.more.clone(),
            layers: packet.layers,
            pool: Some(self.clone()),
        })
    }

    fn truncate(&mut self, packet: &mut MemPacket, len: usize) {
        let len = len.max(1);
        packet.buffer.truncate(packet.start + len);
        let mut room = len - packet.head().len();
        packet.more.retain_mut(|segment| {
            segment.truncate(room);
            room -= segment.len();
            !segment.is_empty()
        });
    }
}

/// A packet in memory: a first frame with headroom, and further frames without.
#[derive(Debug)]
pub struct MemPacket {
    buffer: Vec<u8>,
    start: usize,
    more: Vec<Vec<u8>>,
    layers: Layers,
    pool: Option<MemPool>,
}

impl MemPacket {
    /// A packet of one frame that belongs to no pool: nobody counts it.
    #[must_use]
    pub fn new(bytes: &[u8]) -> Self {
        Self::of(&[bytes])
    }

    /// A packet with these frames that belongs to no pool.
    #[must_use]
    pub fn of(segments: &[&[u8]]) -> Self {
        let mut buffer = vec![0; HEADROOM];
        buffer.extend_from_slice(segments.first().copied().unwrap_or_default());
        let more = segments.iter().skip(1).map(|s| s.to_vec()).collect();
        Self { buffer, start: HEADROOM, more, layers: Layers::default(), pool: None }
    }

    /// All bytes of all frames.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        let mut all = Vec::with_capacity(self.len());
        self.for_each_segment(&mut |segment| all.extend_from_slice(segment));
        all
    }
}

impl Drop for MemPacket {
    fn drop(&mut self) {
        if let Some(pool) = &self.pool {
            pool.0.leaked.fetch_add(1, Relaxed);
        }
    }
}

impl Packet for MemPacket {
    fn head(&self) -> &[u8] {
        self.buffer.get(self.start..).unwrap_or_default()
    }

    fn head_mut(&mut self) -> &mut [u8] {
        self.buffer.get_mut(self.start..).unwrap_or_default()
    }

    fn len(&self) -> usize {
        self.head().len() + self.more.iter().map(Vec::len).sum::<usize>()
    }

    fn n_frames(&self) -> usize {
        1 + self.more.len()
    }

    fn for_each_segment(&self, f: &mut dyn FnMut(&[u8])) {
        f(self.head());
        self.more.iter().for_each(|segment| f(segment));
    }

    fn push(&mut self, n: usize) -> Result<(), NoHeadroom> {
        self.start = self.start.checked_sub(n).ok_or(NoHeadroom)?;
        Ok(())
    }

    fn pull(&mut self, n: usize) -> bool {
        let ok = n < self.head().len();
        self.start += if ok { n } else { 0 };
        ok
    }

    fn layers(&self) -> Layers {
        self.layers
    }

    fn set_layers(&mut self, layers: Layers) {
        self.layers = layers;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dropped_packet_is_a_leak_and_a_freed_one_is_not() {
        let mut pool = MemPool::new(2);
        let packet = pool.packet(b"abc").unwrap();
        let copy = pool.copy(&packet).unwrap();
        assert_eq!(copy.bytes(), b"abc");
        assert!(pool.packet(b"x").is_none(), "the limit holds");
        pool.free(copy);
        drop(packet);
        assert_eq!((pool.alive(), pool.leaked()), (1, 1));
    }

    #[test]
    fn push_and_pull_respect_the_frame() {
        let mut packet = MemPacket::of(&[b"abcd", b"ef"]);
        assert_eq!((packet.len(), packet.n_frames()), (6, 2));
        assert_eq!(packet.push(HEADROOM + 1), Err(NoHeadroom));
        assert!(packet.push(2).is_ok() && packet.pull(2));
        assert!(!packet.pull(4), "a frame keeps at least one byte");
        assert!(packet.pull(3));
        assert_eq!(packet.bytes(), b"def");
    }
}
