//! The four rings of an AF_XDP socket: single producer, single consumer, a power of two of entries.
//!
//! The user side produces into fill and tx and consumes from rx and completion; the kernel is the
//! other side. Both halves are here, over any mapping, so that the rings are tested without a kernel.
//!
//! Invariants: indices are free-running `u32` and wrap; `producer - consumer` is at most the size; an
//! entry is written before the producer index that publishes it (Release) and read before the consumer
//! index that gives it back (Release); each side looks at the other's index with Acquire. What the
//! other side writes is only data: a wild index or entry never makes an access out of bounds.
#![allow(unsafe_code, reason = "reads and writes memory shared with the kernel")]

use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use crate::abi::Desc;
use crate::error::{Error, Result};
use crate::mapping::Mapping;

#[cfg(any(test, feature = "testing"))]
pub(crate) mod memory;
#[cfg(test)]
pub(crate) mod tests;

/// The most entries a ring may have.
pub(crate) const MAX_RING: u32 = 32768;

/// What a ring carries, as 64-bit words in the kernel's layout.
pub(crate) trait Entry: Copy {
    /// Words per entry.
    const WORDS: usize;
    /// Writes the entry to its words.
    fn store(self, words: &[AtomicU64]);
    /// Reads the entry from its words.
    fn load(words: &[AtomicU64]) -> Self;
}

/// Fill and completion rings carry addresses.
impl Entry for u64 {
    const WORDS: usize = 1;

    #[inline]
    fn store(self, words: &[AtomicU64]) {
        if let [word] = words {
            word.store(self, Ordering::Relaxed);
        }
    }

    #[inline]
    fn load(words: &[AtomicU64]) -> Self {
        words.first().map_or(Self::MAX, |word| word.load(Ordering::Relaxed))
    }
}

/// Rx and tx rings carry descriptors; `len` and `options` share a word, in memory order.
impl Entry for Desc {
    const WORDS: usize = 2;

    #[inline]
    fn store(self, words: &[AtomicU64]) {
        if let [addr, rest] = words {
            let [a, b, c, d] = self.len.to_ne_bytes();
            let [e, f, g, h] = self.options.to_ne_bytes();
            addr.store(self.addr, Ordering::Relaxed);
            rest.store(u64::from_ne_bytes([a, b, c, d, e, f, g, h]), Ordering::Relaxed);
        }
    }

    #[inline]
    fn load(words: &[AtomicU64]) -> Self {
        let [addr, rest] = words else { return Self { addr: u64::MAX, len: 0, options: 0 } };
        let [a, b, c, d, e, f, g, h] = rest.load(Ordering::Relaxed).to_ne_bytes();
        Self {
            addr: addr.load(Ordering::Relaxed),
            len: u32::from_ne_bytes([a, b, c, d]),
            options: u32::from_ne_bytes([e, f, g, h]),
        }
    }
}

/// Where a ring's parts are in its mapping, in bytes (`struct xdp_ring_offset`), and how many entries.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    pub(crate) producer: u64,
    pub(crate) consumer: u64,
    pub(crate) flags: u64,
    pub(crate) desc: u64,
    pub(crate) size: u32,
}

impl Layout {
    /// Bytes to map for entries of type `T`.
    pub(crate) fn bytes<T: Entry>(&self) -> Result<usize> {
        let entries = u64::from(self.size) * (T::WORDS * size_of::<u64>()) as u64;
        let bytes = self.desc.checked_add(entries).ok_or(Error::RingLayout)?;
        usize::try_from(bytes).map_err(|_| Error::RingLayout)
    }
}

/// A ring in memory; checked once, so that each access is a mask and an offset.
#[derive(Debug)]
struct Ring<T> {
    producer: NonNull<AtomicU32>,
    consumer: NonNull<AtomicU32>,
    flags: NonNull<AtomicU32>,
    words: NonNull<AtomicU64>,
    mask: u32,
    _mapping: Arc<Mapping>,
    _entries: PhantomData<T>,
}

// SAFETY: the pointers lead to atomics in a mapping that the ring keeps alive; which thread uses them
// does not matter.
unsafe impl<T> Send for Ring<T> {}

impl<T: Entry> Ring<T> {
    fn new(mapping: Arc<Mapping>, layout: &Layout) -> Result<Self> {
        let size = layout.size;
        if !size.is_power_of_two() || layout.bytes::<T>()? > mapping.len() {
            return Err(Error::RingLayout);
        }
        Ok(Self {
            producer: at(&mapping, layout.producer)?,
            consumer: at(&mapping, layout.consumer)?,
            flags: at(&mapping, layout.flags)?,
            words: at(&mapping, layout.desc)?,
            mask: size - 1,
            _mapping: mapping,
            _entries: PhantomData,
        })
    }

    #[inline]
    fn producer(&self) -> &AtomicU32 {
        // SAFETY: checked by `at` to be aligned and inside the mapping, which `self` keeps.
        unsafe { self.producer.as_ref() }
    }

    #[inline]
    fn consumer(&self) -> &AtomicU32 {
        // SAFETY: as for `producer`.
        unsafe { self.consumer.as_ref() }
    }

    #[inline]
    fn flags(&self) -> &AtomicU32 {
        // SAFETY: as for `producer`.
        unsafe { self.flags.as_ref() }
    }

    /// The words of the entry at a free-running index.
    #[inline]
    fn entry(&self, index: u32) -> &[AtomicU64] {
        let first = (index & self.mask) as usize * T::WORDS;
        // SAFETY: `first` is below size * WORDS, and `new` checked that all entries are mapped.
        let word = unsafe { self.words.add(first) };
        // SAFETY: WORDS words from there are one entry, aligned like the first; the memory lives as
        // long as `self`, and atomics may be written by the other side meanwhile.
        unsafe { std::slice::from_raw_parts(word.as_ptr(), T::WORDS) }
    }

    /// True while the kernel wants a system call before it goes on. The fence orders our index before
    /// the flag: the kernel sets the flag first and looks at the index then.
    #[inline]
    fn needs_wakeup(&self) -> bool {
        fence(Ordering::SeqCst);
        self.flags().load(Ordering::Relaxed) & libc::XDP_RING_NEED_WAKEUP != 0
    }
}

/// The place of a `T` in the mapping, checked for bounds and alignment.
fn at<T>(mapping: &Mapping, offset: u64) -> Result<NonNull<T>> {
    let offset = usize::try_from(offset).map_err(|_| Error::RingLayout)?;
    let end = offset.checked_add(size_of::<T>()).ok_or(Error::RingLayout)?;
    if end > mapping.len() || offset % align_of::<T>() != 0 {
        return Err(Error::RingLayout);
    }
    // SAFETY: `offset` is inside the mapping.
    Ok(unsafe { mapping.base().add(offset) }.cast())
}

/// The side that writes entries.
#[derive(Debug)]
pub(crate) struct Producer<T> {
    ring: Ring<T>,
    /// Next index to write; what is below is published by [`Producer::submit`].
    next: u32,
    /// The other side's index as last seen: at or behind the truth, so free space is never overrated.
    consumer: u32,
}

impl<T: Entry> Producer<T> {
    pub(crate) fn new(mapping: Arc<Mapping>, layout: &Layout) -> Result<Self> {
        let ring = Ring::new(mapping, layout)?;
        let next = ring.producer().load(Ordering::Acquire);
        let consumer = ring.consumer().load(Ordering::Acquire);
        Ok(Self { ring, next, consumer })
    }

    /// Entries in all.
    #[inline]
    #[must_use]
    pub(crate) fn size(&self) -> u32 {
        self.ring.mask + 1
    }

    /// How many entries can be written now; looks at the other side only if fewer than `want` are
    /// known to be free.
    #[inline]
    pub(crate) fn free(&mut self, want: u32) -> u32 {
        let known = self.size().saturating_sub(self.next.wrapping_sub(self.consumer));
        if known >= want {
            return known;
        }
        self.consumer = self.ring.consumer().load(Ordering::Acquire);
        self.size().saturating_sub(self.next.wrapping_sub(self.consumer))
    }

    /// Writes an entry, visible to the other side after [`Producer::submit`]. False, and nothing is
    /// written, when the ring is full.
    #[cfg(any(test, feature = "testing"))]
    #[must_use]
    pub(crate) fn push(&mut self, entry: T) -> bool {
        let has_room = self.free(1) > 0;
        if has_room {
            self.put(entry);
        }
        has_room
    }

    /// Writes an entry, visible to the other side after [`Producer::submit`]. [`free`](Self::free) has just said
    /// that there is room, which the other side only makes more of.
    #[inline]
    pub(crate) fn put(&mut self, entry: T) {
        debug_assert!(self.next.wrapping_sub(self.consumer) < self.size(), "the ring is full");
        entry.store(self.ring.entry(self.next));
        self.next = self.next.wrapping_add(1);
    }

    /// Publishes what was pushed.
    #[inline]
    pub(crate) fn submit(&mut self) {
        self.ring.producer().store(self.next, Ordering::Release);
    }

    /// The index that the next entry gets.
    #[inline]
    #[must_use]
    pub(crate) fn index(&self) -> u32 {
        self.next
    }

    /// How far the other side has come, as it says itself; at most [`Producer::index`].
    #[inline]
    #[must_use]
    pub(crate) fn consumed(&self) -> u32 {
        let consumer = self.ring.consumer().load(Ordering::Acquire);
        if self.next.wrapping_sub(consumer) > self.size() { self.next } else { consumer }
    }

    /// An entry as it was pushed; it stays until its place is reused, which cannot happen before
    /// `size` further entries.
    #[inline]
    #[must_use]
    pub(crate) fn entry(&self, index: u32) -> T {
        T::load(self.ring.entry(index))
    }

    /// True while the kernel waits for a system call.
    #[inline]
    #[must_use]
    pub(crate) fn needs_wakeup(&self) -> bool {
        self.ring.needs_wakeup()
    }
}

/// The side that reads entries.
#[derive(Debug)]
pub(crate) struct Consumer<T> {
    ring: Ring<T>,
    /// Next index to read; what is below is given back by [`Consumer::release`].
    next: u32,
    /// The other side's index as last seen: at or behind the truth.
    producer: u32,
}

impl<T: Entry> Consumer<T> {
    pub(crate) fn new(mapping: Arc<Mapping>, layout: &Layout) -> Result<Self> {
        let ring = Ring::new(mapping, layout)?;
        let next = ring.consumer().load(Ordering::Acquire);
        let producer = ring.producer().load(Ordering::Acquire);
        Ok(Self { ring, next, producer })
    }

    /// Entries in all.
    #[inline]
    #[must_use]
    pub(crate) fn size(&self) -> u32 {
        self.ring.mask + 1
    }

    /// How many entries wait; looks at the other side only if fewer than `want` are known to.
    /// At most the size, whatever the other side says.
    #[inline]
    pub(crate) fn available(&mut self, want: u32) -> u32 {
        let known = self.producer.wrapping_sub(self.next);
        if known >= want && known <= self.size() {
            return known;
        }
        self.producer = self.ring.producer().load(Ordering::Acquire);
        self.producer.wrapping_sub(self.next).min(self.size())
    }

    /// The entry `ahead` places from the next one; meaningful below [`Consumer::available`].
    #[inline]
    #[must_use]
    pub(crate) fn peek(&self, ahead: u32) -> T {
        T::load(self.ring.entry(self.next.wrapping_add(ahead)))
    }

    /// Gives `n` entries back to the other side; they must have been available.
    #[inline]
    pub(crate) fn release(&mut self, n: u32) {
        self.next = self.next.wrapping_add(n);
        self.ring.consumer().store(self.next, Ordering::Release);
    }
}
