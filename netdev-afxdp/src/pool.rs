//! The free frames that no thread has: a lock-free stack of magazines.
//!
//! A magazine is a chain of up to [`MAGAZINE`] frames (through [`Links`]); the stack links magazines by
//! their first frame. All threads push and pop whole magazines, so that one compare-and-swap moves 64
//! frames. The head carries a tag that changes with every operation: a pop that read an outdated
//! `below` fails its compare-and-swap (no ABA). Tables are only indexed with checks, so even a broken
//! chain could not leave memory.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::frame::{Frame, Link, Links};

/// Frames in a full magazine.
pub(crate) const MAGAZINE: usize = 64;

/// Index and a second number in one word that can be swapped atomically. Index 0 means none, so
/// frame indices are stored plus one.
#[derive(Clone, Copy)]
struct Pair {
    index: u32,
    other: u32,
}

impl Pair {
    fn of(word: u64) -> Self {
        let [a, b, c, d, e, f, g, h] = word.to_ne_bytes();
        Self { index: u32::from_ne_bytes([a, b, c, d]), other: u32::from_ne_bytes([e, f, g, h]) }
    }

    fn word(self) -> u64 {
        let [a, b, c, d] = self.index.to_ne_bytes();
        let [e, f, g, h] = self.other.to_ne_bytes();
        u64::from_ne_bytes([a, b, c, d, e, f, g, h])
    }
}

/// The stack.
#[derive(Debug)]
pub(crate) struct FramePool {
    /// (first frame of the top magazine + 1, tag).
    head: AtomicU64,
    /// For the first frame of each magazine: (first frame of the magazine below + 1, frames in it).
    below: Box<[AtomicU64]>,
    /// Frames in all magazines.
    count: AtomicUsize,
}

impl FramePool {
    /// An empty pool for frames 0 to `frames` - 1.
    pub(crate) fn new(frames: u32) -> Self {
        Self {
            head: AtomicU64::new(0),
            below: (0..frames).map(|_| AtomicU64::new(0)).collect(),
            count: AtomicUsize::new(0),
        }
    }

    /// Frames in the pool; exact when no thread is in `push` or `pop`.
    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    /// Moves up to [`MAGAZINE`] frames into the pool, as many as `frames` gives.
    pub(crate) fn push(&self, links: &Links, mut frames: impl FnMut() -> Option<Frame>) {
        let Some(first) = frames().map(Frame::into_index) else { return };
        let (mut last, mut n) = (first, 1u32);
        while (n as usize) < MAGAZINE {
            let Some(frame) = frames() else { break };
            links.set(last, Link { next: frame.index(), ..Link::default() });
            last = frame.into_index();
            n += 1;
        }
        let Some(below) = self.below.get(first as usize) else { return };
        // Before the frames can be popped, so that the count never goes below zero.
        self.count.fetch_add(n as usize, Ordering::AcqRel);
        let mut head = self.head.load(Ordering::Relaxed);
        loop {
            let Pair { index, other: tag } = Pair::of(head);
            below.store(Pair { index, other: n }.word(), Ordering::Relaxed);
            let new = Pair { index: first + 1, other: tag.wrapping_add(1) }.word();
            match self.head.compare_exchange_weak(head, new, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
    }

    /// Moves one magazine to the end of `frames`; how many frames that were, 0 when the pool is empty.
    pub(crate) fn pop(&self, links: &Links, frames: &mut Vec<Frame>) -> usize {
        let mut head = self.head.load(Ordering::Acquire);
        let (first, n) = loop {
            let Pair { index, other: tag } = Pair::of(head);
            let Some(first) = index.checked_sub(1) else { return 0 };
            let Some(below) = self.below.get(first as usize) else { return 0 };
            let below = Pair::of(below.load(Ordering::Relaxed));
            let new = Pair { index: below.index, other: tag.wrapping_add(1) }.word();
            match self.head.compare_exchange_weak(head, new, Ordering::Acquire, Ordering::Acquire) {
                Ok(_) => break (first, below.other),
                Err(now) => head = now,
            }
        };
        let mut index = first;
        for _ in 0..n {
            frames.push(Frame::claim(index));
            index = links.get(index).next;
        }
        self.count.fetch_sub(n as usize, Ordering::AcqRel);
        n as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(frames: u32) -> (FramePool, Links) {
        let (pool, links) = (FramePool::new(frames), Links::new(frames));
        let mut all: Vec<Frame> = (0..frames).map(Frame::claim).collect();
        while !all.is_empty() {
            pool.push(&links, || all.pop());
        }
        (pool, links)
    }

    #[test]
    fn hands_out_every_frame_once() {
        let (pool, links) = filled(200);
        assert_eq!(pool.count(), 200);
        let mut out = Vec::new();
        while pool.pop(&links, &mut out) > 0 {}
        assert_eq!(pool.count(), 0);
        let mut seen: Vec<u32> = out.iter().map(Frame::index).collect();
        seen.sort_unstable();
        assert_eq!(seen, (0..200).collect::<Vec<u32>>());
    }

    #[test]
    fn threads_never_share_a_frame() {
        const FRAMES: u32 = 64 * 16;
        let (pool, links) = filled(FRAMES);
        let owned: Vec<AtomicUsize> = (0..FRAMES).map(|_| AtomicUsize::new(0)).collect();
        std::thread::scope(|scope| {
            for thread in 1..=4usize {
                let (pool, links, owned) = (&pool, &links, &owned);
                scope.spawn(move || {
                    let mut have = Vec::new();
                    for round in 0..20_000 {
                        let before = have.len();
                        pool.pop(links, &mut have);
                        for frame in have.iter().skip(before) {
                            let was = owned[frame.index() as usize].swap(thread, Ordering::Relaxed);
                            assert_eq!(was, 0, "frame {} had an owner", frame.index());
                        }
                        if round % 3 != 0 {
                            let keep = have.len().saturating_sub(MAGAZINE);
                            for frame in have.iter().skip(keep) {
                                owned[frame.index() as usize].store(0, Ordering::Relaxed);
                            }
                            pool.push(links, || have.pop());
                        }
                        if have.len() > 4 * MAGAZINE {
                            for frame in &have {
                                owned[frame.index() as usize].store(0, Ordering::Relaxed);
                            }
                            while !have.is_empty() {
                                pool.push(links, || have.pop());
                            }
                        }
                    }
                    for frame in &have {
                        owned[frame.index() as usize].store(0, Ordering::Relaxed);
                    }
                    while !have.is_empty() {
                        pool.push(links, || have.pop());
                    }
                });
            }
        });
        assert_eq!(pool.count(), FRAMES as usize);
    }
}
