//! An open AF_XDP socket as seen by those who do not own a half: its counters, its end.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{Ordering, fence};
use std::sync::{Arc, Weak};

use crate::lent::Lent;
use crate::sys;

/// The file descriptor; closed when both halves are gone.
#[derive(Debug)]
pub(crate) struct Socket {
    fd: OwnedFd,
    /// After the descriptor, so that it goes when that *is* closed and the kernel has let go of the
    /// rings, not when it is about to be.
    open: Arc<()>,
}

impl Socket {
    pub(crate) fn new(fd: OwnedFd) -> Self {
        Self { fd, open: Arc::new(()) }
    }
}

impl AsFd for Socket {
    #[inline]
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// The six counters of XDP_STATISTICS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KernelStats {
    /// Received packets dropped because the fill ring was empty or they need more frames than may be.
    pub rx_dropped: u64,
    /// Fill ring addresses that the kernel found invalid; Linux up to 6.18 shows none of them.
    pub rx_invalid_descs: u64,
    /// Tx ring descriptors that the kernel found invalid.
    pub tx_invalid_descs: u64,
    /// Received packets dropped because the rx ring was full.
    pub rx_ring_full: u64,
    /// Times the kernel wanted a frame and found the fill ring empty.
    pub rx_fill_ring_empty_descs: u64,
    /// Times the kernel looked for something to send and found the tx ring empty.
    pub tx_ring_empty_descs: u64,
}

/// Reads the kernel's counters from any thread; does not keep the socket open.
#[derive(Clone, Debug)]
pub struct SocketStats(Weak<Socket>);

impl SocketStats {
    /// The counters; `None` once the socket is closed, or if the kernel refuses.
    #[must_use]
    pub fn read(&self) -> Option<KernelStats> {
        let socket = self.0.upgrade()?;
        let stats: libc::xdp_statistics =
            sys::get_option(socket.as_fd(), libc::SOL_XDP, libc::XDP_STATISTICS).ok()?;
        Some(KernelStats {
            rx_dropped: stats.rx_dropped,
            rx_invalid_descs: stats.rx_invalid_descs,
            tx_invalid_descs: stats.tx_invalid_descs,
            rx_ring_full: stats.rx_ring_full,
            rx_fill_ring_empty_descs: stats.rx_fill_ring_empty_descs,
            tx_ring_empty_descs: stats.tx_ring_empty_descs,
        })
    }

    /// The socket, if it is still open.
    pub(crate) fn socket(&self) -> Option<Arc<Socket>> {
        self.0.upgrade()
    }

    pub(crate) fn of(socket: &Arc<Socket>) -> Self {
        Self(Arc::downgrade(socket))
    }
}

/// The frames that the kernel still owed to a closed half of a socket. They are out of use until
/// [`Quarantine::reclaim`].
#[derive(Debug)]
#[must_use = "the frames are lost until they are reclaimed"]
pub struct Quarantine {
    lent: Lent,
    open: Weak<()>,
}

impl Quarantine {
    pub(crate) fn new(lent: Lent, socket: &Socket) -> Self {
        lent.quarantine();
        Self { lent, open: Arc::downgrade(&socket.open) }
    }

    /// How many frames they are.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.lent.count()
    }

    /// Takes the frames back into the pool; how many they were. The caller answers for it that the
    /// queue is bound no more: in copy mode on veth that is so as soon as the socket is closed; a device
    /// that sends from the pages, or zero-copy mode, may use the frames until the kernel reports
    /// the queue unbound.
    ///
    /// # Errors
    /// Gives the frames back to the caller while the other half of the socket is open.
    pub fn reclaim(self) -> Result<usize, Self> {
        if self.open.strong_count() > 0 {
            return Err(self);
        }
        // With the release of the last count: whatever the closing thread did is done.
        fence(Ordering::Acquire);
        Ok(self.lent.reclaim())
    }
}

#[cfg(test)]
mod tests;
