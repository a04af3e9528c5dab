//! One chunk of packet memory as an exclusive handle, and the table that chains chunks.
//!
//! Invariant: for each chunk there is at most one [`Frame`] in the process, and none while the pool or
//! the kernel has the chunk. Three places make a Frame: the pool (of a chunk that it had),
//! [`Umem::take_back`](crate::Umem) (of a ring address whose chunk was lent to that ring), and a packet
//! that is taken apart (of the chunks it consists of).

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Exclusive handle on one chunk of a Umem. Not Copy, not Clone; forgetting one loses the chunk.
#[derive(Debug)]
#[must_use = "a frame that is forgotten is lost"]
pub(crate) struct Frame(u32);

impl Frame {
    /// Makes the handle of a chunk that nobody else has: see the module's invariant.
    pub(crate) fn claim(index: u32) -> Self {
        Self(index)
    }

    /// The number of its chunk.
    #[inline]
    pub(crate) fn index(&self) -> u32 {
        self.0
    }

    /// Gives the handle up; the chunk now belongs to whoever gets the number.
    #[inline]
    pub(crate) fn into_index(self) -> u32 {
        self.0
    }
}

/// What the chain table says of one chunk: where its data is, and the chunk that follows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Link {
    /// The chunk after this one.
    pub(crate) next: u32,
    /// Where the data starts in the chunk.
    pub(crate) offset: u16,
    /// Bytes of data in the chunk.
    pub(crate) len: u16,
}

/// The chain table: one [`Link`] for each chunk, written by whoever has the chunk. It links the frames
/// of a packet, and those of a magazine in the pool.
#[derive(Debug)]
pub(crate) struct Links(Box<[AtomicU64]>);

impl Links {
    pub(crate) fn new(frames: u32) -> Self {
        Self((0..frames).map(|_| AtomicU64::new(0)).collect())
    }

    #[inline]
    pub(crate) fn get(&self, index: u32) -> Link {
        let word = self.0.get(index as usize).map_or(0, |word| word.load(Relaxed));
        let [a, b, c, d, e, f, g, h] = word.to_ne_bytes();
        Link {
            next: u32::from_ne_bytes([a, b, c, d]),
            offset: u16::from_ne_bytes([e, f]),
            len: u16::from_ne_bytes([g, h]),
        }
    }

    #[inline]
    pub(crate) fn set(&self, index: u32, link: Link) {
        if let Some(word) = self.0.get(index as usize) {
            let [a, b, c, d] = link.next.to_ne_bytes();
            let [e, f] = link.offset.to_ne_bytes();
            let [g, h] = link.len.to_ne_bytes();
            word.store(u64::from_ne_bytes([a, b, c, d, e, f, g, h]), Relaxed);
        }
    }
}
