//! The packet memory: made once, shared by all sockets and threads, never freed.
//!
//! It is cut into frames of equal size. A side table says who has each frame: 0 for user space, else
//! the id of the ring pair (rx + fill, or tx + completion) to which the kernel owes it.
//!
//! Invariants: a frame is in exactly one place (pool, a cache, a packet, lent to one id); only the owner
//! of an id lends to it and takes back from it; an address that comes out of a ring becomes a frame only
//! if its chunk is lent to that ring's id. The memory lives as long as the process, so handles on it
//! need no lifetime.

use std::fs::File;
use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU16, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use xvs_datapath::Counter;

use crate::abi::{TX_METADATA_LEN, XDP_PACKET_HEADROOM};
use crate::error::{Error, Result};
use crate::frame::{Frame, Links};
use crate::ledger::{Ledger, Owner};
use crate::mapping::{Mapping, memory_file};
use crate::pool::FramePool;

/// Whether the packet memory lies on hugepages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Hugepages {
    /// Ordinary pages.
    #[default]
    Never,
    /// Hugepages if there are enough, else ordinary pages; [`Umem::hugepages`] says which.
    Prefer,
    /// Hugepages, or an error.
    Require,
}

/// What the packet memory is to be.
#[derive(Clone, Copy, Debug)]
pub struct UmemConfig {
    /// How many frames, 64 to 16777216.
    pub frames: u32,
    /// Bytes per frame: 2048 or 4096; 8192 to 65536, powers of two, with [`Hugepages::Require`].
    pub frame_size: u32,
    /// Bytes before a received packet, beside the kernel's own 256.
    pub headroom: u32,
    /// Hugepages or not.
    pub hugepages: Hugepages,
    /// Where the memory should be, as far as the kernel can.
    pub numa_node: Option<u32>,
}

impl Default for UmemConfig {
    fn default() -> Self {
        Self {
            frames: 16384,
            frame_size: 4096,
            headroom: 0,
            hugepages: Hugepages::Never,
            numa_node: None,
        }
    }
}

/// The least room that the headroom must leave for packet data: a minimal Ethernet MTU and its header.
const MIN_ROOM: u32 = 640;

/// Hugepages are at least this large; the memory is rounded up to it.
const HUGEPAGE: u64 = 2 << 20;

/// The packet memory of one NUMA node.
#[derive(Debug)]
pub struct Umem {
    mapping: Mapping,
    file: File,
    frames: u32,
    shift: u32,
    headroom: u32,
    hugepages: bool,
    numa_node: Option<u32>,
    links: Links,
    lent: Box<[AtomicU16]>,
    pool: FramePool,
    owners: Mutex<Vec<Owner>>,
    caches: Mutex<Vec<Weak<Counter>>>,
    #[cfg(feature = "leak-one-frame")]
    leaked: std::sync::atomic::AtomicBool,
}

impl Umem {
    /// Makes the memory, all frames in the pool.
    ///
    /// # Errors
    /// A value is out of range ([`Error::FrameSize`], [`Error::FrameCount`], [`Error::Headroom`],
    /// [`Error::FrameNeedsHugepages`]), or the memory cannot be had ([`Error::NoHugepages`],
    /// [`Error::Memory`]).
    pub fn create(config: UmemConfig) -> Result<&'static Self> {
        Ok(Box::leak(Box::new(Self::new(&config)?)))
    }

    /// The same, to be unmapped when it is dropped: for whoever makes no handles on it.
    pub(crate) fn new(config: &UmemConfig) -> Result<Self> {
        check(config)?;
        let need = u64::from(config.frames) * u64::from(config.frame_size);
        let (file, mapping, hugepages) = memory(need, config.hugepages)?;
        let numa_node = config.numa_node.filter(|&node| mapping.prefer_node(node).is_ok());
        let umem = Self {
            mapping,
            file,
            frames: config.frames,
            shift: config.frame_size.trailing_zeros(),
            headroom: config.headroom,
            hugepages,
            numa_node,
            links: Links::new(config.frames),
            lent: (0..config.frames).map(|_| AtomicU16::new(0)).collect(),
            pool: FramePool::new(config.frames),
            owners: Mutex::new(Vec::new()),
            caches: Mutex::new(Vec::new()),
            #[cfg(feature = "leak-one-frame")]
            leaked: std::sync::atomic::AtomicBool::new(false),
        };
        // Low numbers last, so that they are handed out first.
        let mut all = (0..config.frames).rev().map(Frame::claim).peekable();
        while all.peek().is_some() {
            umem.pool.push(&umem.links, || all.next());
        }
        Ok(umem)
    }

    /// Frames in all.
    #[must_use]
    pub fn frames(&self) -> u32 {
        self.frames
    }

    /// Bytes per frame.
    #[inline]
    #[must_use]
    pub fn frame_size(&self) -> u32 {
        1 << self.shift
    }

    /// Bytes that all frames have together.
    #[must_use]
    pub fn size(&self) -> u64 {
        u64::from(self.frames) << self.shift
    }

    /// Configured headroom, bytes.
    #[must_use]
    pub fn headroom(&self) -> u32 {
        self.headroom
    }

    /// True when the memory lies on hugepages.
    #[must_use]
    pub fn hugepages(&self) -> bool {
        self.hugepages
    }

    /// The NUMA node that was asked for, if the kernel accepted it.
    #[must_use]
    pub fn numa_node(&self) -> Option<u32> {
        self.numa_node
    }

    /// The memory as a file (memfd), to be handed to another process.
    #[must_use]
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Where everything is, as far as it is at rest: see [`Ledger`].
    #[must_use]
    pub fn ledger(&self) -> Ledger {
        let mut caches = lock(&self.caches);
        caches.retain(|cache| cache.strong_count() > 0);
        let cached = caches.iter().filter_map(Weak::upgrade).map(|cache| cache.get()).sum();
        let mut ledger = Ledger {
            frames: u64::from(self.frames),
            pool: self.pool.count() as u64,
            caches: cached,
            ..Ledger::default()
        };
        let owners = lock(&self.owners);
        for owner in owners.iter() {
            owner.add_to(&mut ledger);
        }
        for lent in &self.lent {
            let id = lent.load(Relaxed);
            if id != 0 && matches!(owners.get(usize::from(id) - 1), Some(Owner::Closed)) {
                ledger.quarantined += 1;
            }
        }
        ledger
    }

    /// How many bytes into its frame the kernel puts a received packet.
    #[must_use]
    pub fn rx_offset(&self) -> u16 {
        u16::try_from(self.headroom + XDP_PACKET_HEADROOM).unwrap_or(u16::MAX)
    }

    /// How many bytes of a packet the kernel puts into one frame.
    #[must_use]
    pub fn rx_room(&self) -> usize {
        (self.frame_size() as usize).saturating_sub(usize::from(self.rx_offset()))
    }

    /// A gauge for the frames of a new cache.
    pub(crate) fn register_cache(&self) -> Arc<Counter> {
        let gauge = Arc::new(Counter::default());
        lock(&self.caches).push(Arc::downgrade(&gauge));
        gauge
    }

    /// An id for a new ring pair; never 0.
    pub(crate) fn register(&self, owner: Owner) -> Result<u16> {
        let mut owners = lock(&self.owners);
        let slot = match owners.iter().position(|owner| matches!(owner, Owner::Free)) {
            Some(slot) => slot,
            None => {
                owners.push(Owner::Free);
                owners.len() - 1
            }
        };
        let id = u16::try_from(slot + 1).map_err(|_| Error::TooManySockets)?;
        if let Some(free) = owners.get_mut(slot) {
            *free = owner;
        }
        Ok(id)
    }

    /// Takes all frames lent to a closed id into the pool. How many those were.
    pub(crate) fn reclaim(&self, id: u16) -> usize {
        let mut n = 0;
        let mut frames = (0u32..).zip(&self.lent).filter_map(|(index, lent)| {
            // Only the owner of the id wrote it, and the owner is gone.
            lent.compare_exchange(id, 0, Relaxed, Relaxed).ok()?;
            n += 1;
            Some(Frame::claim(index))
        });
        let mut next = frames.next();
        while next.is_some() {
            self.pool.push(&self.links, || std::mem::replace(&mut next, frames.next()));
        }
        drop(frames);
        n
    }

    /// Notes whose the id is from now on.
    pub(crate) fn set_owner(&self, id: u16, owner: Owner) {
        if let Some(slot) = usize::from(id).checked_sub(1)
            && let Some(entry) = lock(&self.owners).get_mut(slot)
        {
            *entry = owner;
        }
    }

    /// Frees one frame without a cache.
    pub(crate) fn free(&self, frame: Frame) {
        let mut one = Some(frame);
        self.pool.push(&self.links, || one.take());
    }

    /// Lends a frame to the kernel; the address of its first byte.
    #[inline]
    pub(crate) fn lend(&self, frame: Frame, id: u16) -> u64 {
        let index = frame.into_index();
        if let Some(lent) = self.lent.get(index as usize) {
            lent.store(id, Relaxed);
        }
        u64::from(index) << self.shift
    }

    /// The frame at an address that came out of a ring of `id`, and the offset in it; `None` if the
    /// chunk does not exist or is not lent to `id`.
    #[inline]
    pub(crate) fn take_back(&self, addr: u64, id: u16) -> Option<(Frame, u32)> {
        let index = u32::try_from(addr >> self.shift).ok()?;
        let lent = self.lent.get(index as usize)?;
        if lent.load(Relaxed) != id {
            return None;
        }
        lent.store(0, Relaxed);
        let offset = u32::try_from(addr & (u64::from(self.frame_size()) - 1)).ok()?;
        Some((Frame::claim(index), offset))
    }

    /// The first byte of the memory.
    #[inline]
    pub(crate) fn base(&self) -> NonNull<u8> {
        self.mapping.base()
    }

    /// log2 of the frame size.
    #[inline]
    pub(crate) fn shift(&self) -> u32 {
        self.shift
    }

    #[inline]
    pub(crate) fn links(&self) -> &Links {
        &self.links
    }

    #[inline]
    pub(crate) fn pool(&self) -> &FramePool {
        &self.pool
    }

    /// True once: the frame that the build with `leak-one-frame` loses on purpose.
    #[cfg(feature = "leak-one-frame")]
    pub(crate) fn leak_now(&self) -> bool {
        !self.leaked.swap(true, Relaxed)
    }
}

/// The lock's contents; what a panicking holder left is still a list of gauges.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn check(config: &UmemConfig) -> Result<()> {
    let &UmemConfig { frames, frame_size, headroom, hugepages, .. } = config;
    if !frame_size.is_power_of_two() || !(2048..=65536).contains(&frame_size) {
        return Err(Error::FrameSize { size: frame_size });
    }
    if frame_size > 4096 && hugepages != Hugepages::Require {
        return Err(Error::FrameNeedsHugepages { size: frame_size });
    }
    if !(64..=1 << 24).contains(&frames) {
        return Err(Error::FrameCount { frames });
    }
    let max = frame_size.min(32768) - XDP_PACKET_HEADROOM - TX_METADATA_LEN - MIN_ROOM;
    if headroom > max {
        return Err(Error::Headroom { headroom, max });
    }
    Ok(())
}

/// A mapped file of `need` bytes, and whether it is on hugepages.
fn memory(need: u64, hugepages: Hugepages) -> Result<(File, Mapping, bool)> {
    let failed = |step| move |source| Error::Memory { need, step, source };
    if hugepages != Hugepages::Never {
        match map(need.next_multiple_of(HUGEPAGE), true) {
            Ok((file, mapping)) => return Ok((file, mapping, true)),
            Err((_, source)) if hugepages == Hugepages::Require => {
                return Err(Error::NoHugepages { need, source });
            }
            Err(_) => {}
        }
    }
    let (file, mapping) = map(need, false).map_err(|(step, source)| failed(step)(source))?;
    Ok((file, mapping, false))
}

fn map(len: u64, hugepages: bool) -> Result<(File, Mapping), (&'static str, io::Error)> {
    let file = memory_file(len, hugepages).map_err(|error| ("memfd_create", error))?;
    let len = usize::try_from(len).map_err(|_| ("mmap", io::ErrorKind::OutOfMemory.into()))?;
    let mapping = Mapping::of_file(&file, len).map_err(|error| ("mmap", error))?;
    Ok((file, mapping))
}
