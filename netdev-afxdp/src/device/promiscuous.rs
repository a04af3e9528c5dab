//! Promiscuous mode that ends with the process: the kernel counts the sockets that want it.

#![allow(unsafe_code, reason = "makes and configures a packet socket")]

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// A packet socket that receives nothing and wants a device to be promiscuous.
#[derive(Debug)]
pub struct Promiscuous {
    _socket: OwnedFd,
}

impl Promiscuous {
    pub(super) fn new(ifindex: u32) -> io::Result<Self> {
        // SAFETY: no pointers are passed.
        let fd = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the call has just returned this descriptor; nobody else knows it.
        let socket = unsafe { OwnedFd::from_raw_fd(fd) };
        let wanted = libc::packet_mreq {
            mr_ifindex: ifindex.cast_signed(),
            mr_type: u16::try_from(libc::PACKET_MR_PROMISC).unwrap_or_default(),
            mr_alen: 0,
            mr_address: [0; 8],
        };
        // SAFETY: the pointer and the size are those of `wanted`, which outlives the call and is
        // only read.
        let outcome = unsafe {
            libc::setsockopt(
                socket.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_ADD_MEMBERSHIP,
                (&raw const wanted).cast(),
                size_of::<libc::packet_mreq>() as libc::socklen_t,
            )
        };
        if outcome < 0 { Err(io::Error::last_os_error()) } else { Ok(Self { _socket: socket }) }
    }
}
