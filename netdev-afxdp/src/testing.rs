//! A port without a kernel: its sockets' rings lie in ordinary memory, and a [`Wire`] plays the kernel at
//! their other ends. What it takes to move a packet in user space can so be counted by instructions.
#![allow(
    unsafe_code,
    reason = "writes packets as the kernel does: into frames that are lent to it"
)]

use std::os::unix::net::UnixStream;
use std::sync::Arc;

use crate::abi::Desc;
use crate::error::{Error, Result};
use crate::link::LinkState;
use crate::ring::memory::pair;
use crate::ring::{Consumer, Producer};
use crate::rx::{Filled, XskRx};
use crate::socket::Socket;
use crate::tx::XskTx;
use crate::umem::Umem;
use crate::xsk::InForce;

/// The kernel's side of a port.
#[derive(Debug)]
pub struct Wire {
    umem: &'static Umem,
    rx: Producer<Desc>,
    fill: Consumer<u64>,
    tx: Consumer<Desc>,
    completion: Producer<u64>,
    /// Sending nothing into it succeeds, as a kick does.
    _peer: UnixStream,
}

/// Both halves of a port with rings of `ring` entries, and the other side of them.
///
/// # Errors
/// What the machine is short of.
pub fn port(umem: &'static Umem, ring: u32) -> Result<(XskRx, XskTx, Wire)> {
    let system = |source| Error::System { what: "make a port without a kernel".to_owned(), source };
    let (socket, peer) = UnixStream::pair().map_err(system)?;
    let socket = Arc::new(Socket::new(socket.into()));
    let (rx, received) = pair::<Desc>(ring, 0)?;
    let (to_fill, fill) = pair::<u64>(ring, 0)?;
    let (to_send, tx) = pair::<Desc>(ring, 0)?;
    let (completion, completed) = pair::<u64>(ring, 0)?;
    let in_force = InForce { tx_budget: 256, tx_metadata: true, ..InForce::default() };
    let link = Arc::new(LinkState::new(true, 1500));
    let rx_half =
        XskRx::new((received, to_fill), Filled::none(umem)?, &in_force, Arc::clone(&socket));
    let tx_half = XskTx::new(umem, (to_send, completed), &in_force, (link, socket))?;
    let wire = Wire { umem, rx, fill, tx, completion, _peer: peer };
    Ok((rx_half, tx_half, wire))
}

impl Wire {
    /// Lets a packet of one frame arrive; false when there is no room for it.
    pub fn receive(&mut self, bytes: &[u8]) -> bool {
        self.receive_frames(&[bytes])
    }

    /// Lets a packet of these frames arrive; false when there is no room for all of it.
    pub fn receive_frames(&mut self, frames: &[&[u8]]) -> bool {
        let n = u32::try_from(frames.len()).unwrap_or(u32::MAX);
        let fits = frames.iter().all(|bytes| bytes.len() <= self.umem.rx_room());
        if !fits || self.fill.available(n) < n || self.rx.free(n) < n {
            return false;
        }
        let mut left = n;
        frames.iter().all(|bytes| {
            left -= 1;
            self.receive_frame(bytes, if left > 0 { Desc::CONTINUED } else { 0 })
        })
    }

    fn receive_frame(&mut self, bytes: &[u8], options: u32) -> bool {
        let addr = self.fill.peek(0) + u64::from(self.umem.rx_offset());
        self.fill.release(1);
        let at = usize::try_from(addr).unwrap_or(usize::MAX);
        // SAFETY: an address in the fill ring is that of a frame of this memory.
        let start = unsafe { self.umem.base().as_ptr().add(at) };
        // SAFETY: the bytes fit into the frame, which is lent to this side and nobody else looks at.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), start, bytes.len()) };
        let len = u32::try_from(bytes.len()).unwrap_or(0);
        self.rx.push(Desc { addr, len, options })
    }

    /// Shows what arrived.
    pub fn deliver(&mut self) {
        self.rx.submit();
    }

    /// Takes all that is to be sent, and completes it; how many descriptors that were.
    pub fn transmit(&mut self) -> u32 {
        let n = self.tx.available(u32::MAX);
        let mask = !(u64::from(self.umem.frame_size()) - 1);
        for at in 0..n {
            // As large as the tx ring, and emptied by whoever fills that.
            let _ = self.completion.push(self.tx.peek(at).addr & mask);
        }
        self.tx.release(n);
        self.completion.submit();
        n
    }
}
