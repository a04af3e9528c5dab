//! Promiscuous mode that ends with the process: the kernel counts the sockets that want it.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use crate::sys;

/// A packet socket that receives nothing and wants a device to be promiscuous.
#[derive(Debug)]
pub struct Promiscuous {
    _socket: OwnedFd,
}

impl Promiscuous {
    pub(super) fn new(ifindex: u32) -> io::Result<Self> {
        let socket = sys::raw_socket(libc::AF_PACKET)?;
        let wanted = libc::packet_mreq {
            mr_ifindex: ifindex.cast_signed(),
            mr_type: u16::try_from(libc::PACKET_MR_PROMISC).unwrap_or_default(),
            mr_alen: 0,
            mr_address: [0; 8],
        };
        let (level, name) = (libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP);
        sys::set_option(socket.as_fd(), level, name, &wanted)?;
        Ok(Self { _socket: socket })
    }
}
