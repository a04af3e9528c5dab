//! Frames as they are on the wire, sent and received through a packet socket: what no local stack would
//! send, such as corrupt checksums and headers cut short.

use std::os::fd::{AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::ifaddrs::getifaddrs;
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, bind, recv, send, setsockopt,
    socket, sockopt::ReceiveTimeout,
};
use nix::sys::time::TimeVal;

use crate::{Error, Result};

/// A packet socket bound to one interface. Belongs to the namespace in which it was opened, and can be
/// used outside.
#[derive(Debug)]
pub struct RawSocket(OwnedFd);

impl RawSocket {
    /// Opens it on an interface of the calling thread's namespace (see [`crate::ns::Netns::enter`]).
    ///
    /// # Errors
    /// When there is no such interface, or no privilege.
    pub fn open(interface: &str) -> Result<Self> {
        let fd = socket(
            AddressFamily::Packet,
            SockType::Raw,
            SockFlag::SOCK_CLOEXEC,
            Some(SockProtocol::EthAll),
        )
        .map_err(Error::io("open a packet socket"))?;
        // The list of addresses has for each interface one that a packet socket binds to.
        let address = getifaddrs()
            .map_err(Error::io("list interfaces"))?
            .filter(|entry| entry.interface_name == interface)
            .find_map(|entry| entry.address?.as_link_addr().copied())
            .ok_or_else(|| Error::Check(format!("no interface {interface}")))?;
        bind(fd.as_raw_fd(), &address).map_err(Error::io(format!("bind to {interface}")))?;
        setsockopt(&fd, ReceiveTimeout, &TimeVal::new(0, 20_000))
            .map_err(Error::io("set a timeout"))?;
        Ok(Self(fd))
    }

    /// Sends one frame. A full queue or a length that the device refuses is reported as `false`.
    ///
    /// # Errors
    /// Anything else.
    pub fn send(&self, frame: &[u8]) -> Result<bool> {
        match send(self.0.as_raw_fd(), frame, MsgFlags::empty()) {
            Ok(_) => Ok(true),
            Err(Errno::ENOBUFS | Errno::EMSGSIZE | Errno::EINVAL) => Ok(false),
            Err(error) => Err(Error::io("send a frame")(error)),
        }
    }

    /// The next frame for which `wanted` holds, if one comes within `limit`.
    ///
    /// # Errors
    /// When the interface went away.
    pub fn receive(
        &self,
        limit: Duration,
        wanted: impl Fn(&[u8]) -> bool,
    ) -> Result<Option<Vec<u8>>> {
        let start = Instant::now();
        let mut buffer = vec![0; 65_600];
        while start.elapsed() < limit {
            if let Some(frame) = self.next(&mut buffer)?
                && wanted(frame)
            {
                return Ok(Some(frame.to_vec()));
            }
        }
        Ok(None)
    }

    /// The next frame of any kind, read into `buffer`, if one comes within 20 ms.
    ///
    /// # Errors
    /// When the interface went away.
    pub fn next<'a>(&self, buffer: &'a mut [u8]) -> Result<Option<&'a [u8]>> {
        match recv(self.0.as_raw_fd(), buffer, MsgFlags::empty()) {
            Ok(length) => Ok(buffer.get(..length)),
            Err(Errno::EAGAIN | Errno::EINTR) => Ok(None),
            Err(error) => Err(Error::io("receive a frame")(error)),
        }
    }
}
