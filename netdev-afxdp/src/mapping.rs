//! Shared memory mapped into this process: packet memory and rings.
//!
//! Invariant: a [`Mapping`] is unmapped exactly once, when dropped; whoever keeps a pointer into it
//! keeps the mapping too.
#![allow(unsafe_code, reason = "maps memory")]

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd};
use std::ptr::{self, NonNull};

use crate::abi::MPOL_PREFERRED;

/// A readable and writable MAP_SHARED mapping.
#[derive(Debug)]
pub(crate) struct Mapping {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: a mapping belongs to the process, not to a thread; access goes through raw pointers whose
// users answer for it.
unsafe impl Send for Mapping {}
// SAFETY: as above; the struct itself is never changed after creation.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps the first `len` bytes of `file`; pages come when they are touched.
    pub(crate) fn of_file(file: &File, len: usize) -> io::Result<Self> {
        Self::map(len, libc::MAP_SHARED, file.as_raw_fd(), 0)
    }

    /// Maps a ring of an AF_XDP socket: `len` bytes from `offset`, which says which ring.
    pub(crate) fn of_ring(fd: BorrowedFd<'_>, len: usize, offset: i64) -> io::Result<Self> {
        Self::map(len, libc::MAP_SHARED | libc::MAP_POPULATE, fd.as_raw_fd(), offset)
    }

    /// Maps `len` zeroed bytes that no file backs: a ring without a kernel.
    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn anonymous(len: usize) -> io::Result<Self> {
        Self::map(len, libc::MAP_SHARED | libc::MAP_ANONYMOUS, -1, 0)
    }

    fn map(len: usize, flags: i32, fd: i32, offset: i64) -> io::Result<Self> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: no address is given, so no existing mapping is replaced.
        let base = unsafe { libc::mmap(ptr::null_mut(), len, protection, flags, fd, offset) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast()).ok_or_else(|| io::Error::other("mapped at 0"))?;
        Ok(Self { base, len })
    }

    /// The first byte.
    #[inline]
    pub(crate) fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// Bytes mapped.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Asks for pages of NUMA node `node`, before they are touched.
    pub(crate) fn prefer_node(&self, node: u32) -> io::Result<()> {
        let mask =
            1u64.checked_shl(node).ok_or_else(|| io::Error::from_raw_os_error(libc::EINVAL))?;
        // SAFETY: `base` and `len` are this mapping, `mask` outlives the call; mbind changes a policy,
        // not memory. 65: the kernel reads one bit less than it is told.
        let rc = unsafe {
            libc::syscall(
                libc::SYS_mbind,
                self.base.as_ptr(),
                self.len,
                MPOL_PREFERRED,
                &raw const mask,
                65u64,
                0u64,
            )
        };
        if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: `base` and `len` came from mmap and are unmapped only here.
        let _ = unsafe { libc::munmap(self.base.as_ptr().cast(), self.len) };
    }
}

/// An anonymous file of `len` zero bytes (memfd), on hugepages when asked.
pub(crate) fn memory_file(len: u64, hugepages: bool) -> io::Result<File> {
    let flags = libc::MFD_CLOEXEC | if hugepages { libc::MFD_HUGETLB } else { 0 };
    // SAFETY: the name is a NUL-terminated constant.
    let fd = unsafe { libc::memfd_create(c"xvswitch-umem".as_ptr(), flags) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: `fd` was just made and nobody else knows it.
    let file = unsafe { File::from_raw_fd(fd) };
    file.set_len(len)?;
    Ok(file)
}
