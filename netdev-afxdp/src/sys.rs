//! The system calls on AF_XDP and packet sockets, each wrapped once.
//!
//! Every struct handed to the kernel has all its bytes initialised.
#![allow(unsafe_code, reason = "makes system calls")]

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr;

/// A C struct or integer without padding, for which all bits zero is a value.
///
/// # Safety
/// The type has no padding and no invalid bit patterns.
pub(crate) unsafe trait Plain: Copy {}
// SAFETY: an integer.
unsafe impl Plain for u32 {}
// SAFETY: u64 and u32 fields that fill 32 bytes.
unsafe impl Plain for libc::xdp_umem_reg {}
// SAFETY: u64 fields only.
unsafe impl Plain for libc::xdp_mmap_offsets {}
// SAFETY: u64 fields only.
unsafe impl Plain for libc::xdp_statistics {}
// SAFETY: one u32.
unsafe impl Plain for libc::xdp_options {}

// SAFETY: i32, two u16 and eight bytes that fill 16 bytes.
unsafe impl Plain for libc::packet_mreq {}

/// A new socket of AF_XDP or, receiving nothing, AF_PACKET.
pub(crate) fn raw_socket(family: i32) -> io::Result<OwnedFd> {
    // SAFETY: no memory is passed.
    let fd = unsafe { libc::socket(family, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: `fd` was just made and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// setsockopt.
pub(crate) fn set_option<T: Plain>(
    fd: BorrowedFd<'_>,
    level: i32,
    name: i32,
    value: &T,
) -> io::Result<()> {
    let len = len_of::<T>();
    // SAFETY: `value` is `len` initialised bytes (Plain) and outlives the call.
    let rc =
        unsafe { libc::setsockopt(fd.as_raw_fd(), level, name, ptr::from_ref(value).cast(), len) };
    check(rc)
}

/// getsockopt; what the kernel does not fill stays zero.
pub(crate) fn get_option<T: Plain>(fd: BorrowedFd<'_>, level: i32, name: i32) -> io::Result<T> {
    let mut value = MaybeUninit::<T>::zeroed();
    let mut len = len_of::<T>();
    // SAFETY: `value` has room for `len` bytes, and the kernel writes at most that many.
    let rc = unsafe {
        libc::getsockopt(fd.as_raw_fd(), level, name, value.as_mut_ptr().cast(), &raw mut len)
    };
    check(rc)?;
    // SAFETY: zeroed, and all bit patterns are values (Plain).
    Ok(unsafe { value.assume_init() })
}

/// bind of an AF_XDP socket.
pub(crate) fn bind_xdp(fd: BorrowedFd<'_>, address: &libc::sockaddr_xdp) -> io::Result<()> {
    let len = len_of::<libc::sockaddr_xdp>();
    // SAFETY: `address` is `len` initialised bytes without padding and outlives the call.
    check(unsafe { libc::bind(fd.as_raw_fd(), ptr::from_ref(address).cast(), len) })
}

/// Asks the kernel to transmit what is in the tx ring.
///
/// # Errors
/// The errno.
#[inline]
pub(crate) fn kick_tx(fd: BorrowedFd<'_>) -> Result<(), i32> {
    let (fd, flags) = (fd.as_raw_fd(), libc::MSG_DONTWAIT);
    // SAFETY: neither buffer nor address is passed.
    let rc = unsafe { libc::sendto(fd, ptr::null(), 0, flags, ptr::null(), 0) };
    if rc >= 0 { Ok(()) } else { Err(io::Error::last_os_error().raw_os_error().unwrap_or(0)) }
}

/// Asks the driver to look at the fill ring, and with busy polling at its device. A failure shows as no packets, and it is asked again.
#[inline]
pub(crate) fn kick_fill(fd: BorrowedFd<'_>) {
    let (fd, flags) = (fd.as_raw_fd(), libc::MSG_DONTWAIT);
    // SAFETY: neither buffer nor address is passed.
    let _ =
        unsafe { libc::recvfrom(fd, ptr::null_mut(), 0, flags, ptr::null_mut(), ptr::null_mut()) };
}

/// RLIMIT_MEMLOCK in force, bytes.
pub(crate) fn memlock_limit() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is writable and outlives the call.
    let _ = unsafe { libc::getrlimit(libc::RLIMIT_MEMLOCK, &raw mut limit) };
    limit.rlim_cur
}

fn check(rc: i32) -> io::Result<()> {
    if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[expect(clippy::cast_possible_truncation, reason = "structs of a few bytes")]
const fn len_of<T>() -> libc::socklen_t {
    size_of::<T>() as libc::socklen_t
}
