//! One attempt to make and bind an AF_XDP socket: every step in the order the kernel wants.
//!
//! Fallbacks are the caller's ([`UmemGroup`](crate::UmemGroup)): each attempt starts with a new socket,
//! so that a failed one leaves nothing behind.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::Arc;

use crate::abi::{
    DEFAULT_TX_BUDGET, Desc, TX_METADATA_LEN, XDP_GENERIC_XMIT_BATCH, XDP_MAX_TX_SKB_BUDGET,
};
use crate::error::{Error, Result};
use crate::link::{LinkState, max_frame_len};
use crate::mapping::Mapping;
use crate::ring::{Consumer, Entry, Layout, Producer};
use crate::rx::{Filled, XskRx};
use crate::socket::{Socket, SocketStats};
use crate::sys;
use crate::tx::XskTx;
use crate::umem::Umem;
use crate::xsk::{BusyPoll, InForce, Mode, Tunable, Xsk, XskConfig};

/// What the kernel has and lacks, found when the first socket of a group is made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Features {
    pub(crate) multi_buffer: bool,
    pub(crate) tx_metadata: bool,
}

/// The step at which making a socket failed, with the errno where the caller may try otherwise.
pub(crate) enum Failure {
    Register(i32),
    Bind(i32),
    NotZeroCopy,
    Other(Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Other(error)
    }
}

/// The budget when none is configured, if the tx ring is not smaller.
const AUTO_TX_BUDGET: u32 = 256;

/// A bound socket with its rings. The rings come first: they are unmapped before the socket closes.
pub(crate) struct Parts {
    pub(crate) rx: Option<Consumer<Desc>>,
    pub(crate) tx: Option<Producer<Desc>>,
    pub(crate) fill: Producer<u64>,
    pub(crate) completion: Consumer<u64>,
    pub(crate) socket: Arc<Socket>,
    pub(crate) in_force: InForce,
}

/// What the caller does with the fill ring before the socket is bound.
pub(crate) type Prepare<'a> = &'a mut dyn FnMut(&mut Producer<u64>);

/// Entries of a fill or completion ring that is required and not used.
const UNUSED_RING: u32 = 64;

impl Parts {
    /// The whole order: socket, memory, ring sizes, options, mappings, bind.
    pub(crate) fn bind(
        (umem, mode): (&Umem, Mode),
        config: &XskConfig,
        member: Option<&Socket>,
        features: Features,
        prepare: Prepare<'_>,
    ) -> Result<Self, Failure> {
        let socket = socket()?;
        let fd = socket.as_fd();
        if member.is_none() {
            register(fd, umem, features).map_err(|error| Failure::Register(errno(&error)))?;
        }
        set_rings(fd, config)?;
        let mut in_force = InForce {
            rx_ring: config.rx_ring,
            tx_ring: config.tx_ring,
            multi_buffer: features.multi_buffer,
            tx_metadata: features.tx_metadata,
            ..InForce::default()
        };
        if config.tx_ring != 0 {
            set_budget(fd, config, &mut in_force)?;
            set_sndbuf(fd, config, umem, &mut in_force)?;
            set_xmit_batch(fd, config, &mut in_force)?;
        }
        if let Some(busy_poll) = config.busy_poll {
            set_busy_poll(fd, busy_poll, &mut in_force)?;
        }
        let mut parts = Self::map(socket, config, in_force)?;
        prepare(&mut parts.fill);
        let fd = parts.socket.as_fd();
        let address = libc::sockaddr_xdp {
            sxdp_family: libc::AF_XDP.try_into().unwrap_or_default(),
            sxdp_flags: bind_flags(mode, member.is_some(), features),
            sxdp_ifindex: config.ifindex,
            sxdp_queue_id: config.queue.0,
            sxdp_shared_umem_fd: member
                .map_or(0, |member| member.as_fd().as_raw_fd().try_into().unwrap_or_default()),
        };
        sys::bind_xdp(fd, &address).map_err(|error| Failure::Bind(errno(&error)))?;
        let options: libc::xdp_options = sys::get_option(fd, libc::SOL_XDP, libc::XDP_OPTIONS)
            .map_err(|source| system("cannot read XDP_OPTIONS", source))?;
        let zero_copy = options.flags & libc::XDP_OPTIONS_ZEROCOPY != 0;
        if mode == Mode::ZeroCopy && !zero_copy {
            return Err(Failure::NotZeroCopy);
        }
        parts.in_force.zero_copy = zero_copy;
        Ok(parts)
    }

    /// Maps the rings.
    fn map(socket: Socket, config: &XskConfig, in_force: InForce) -> Result<Self> {
        let fd = socket.as_fd();
        let offsets: libc::xdp_mmap_offsets =
            sys::get_option(fd, libc::SOL_XDP, libc::XDP_MMAP_OFFSETS)
                .map_err(|source| system("cannot read XDP_MMAP_OFFSETS", source))?;
        let fill = layout(&offsets.fr, ring_or_unused(config.rx_ring));
        let completion = layout(&offsets.cr, ring_or_unused(config.tx_ring));
        let fill_at = page_offset(libc::XDP_UMEM_PGOFF_FILL_RING)?;
        let completion_at = page_offset(libc::XDP_UMEM_PGOFF_COMPLETION_RING)?;
        let rx = match config.rx_ring {
            0 => None,
            size => {
                let rx = layout(&offsets.rx, size);
                Some(Consumer::new(map::<Desc>(fd, &rx, libc::XDP_PGOFF_RX_RING)?, &rx)?)
            }
        };
        let tx = match config.tx_ring {
            0 => None,
            size => {
                let tx = layout(&offsets.tx, size);
                Some(Producer::new(map::<Desc>(fd, &tx, libc::XDP_PGOFF_TX_RING)?, &tx)?)
            }
        };
        Ok(Self {
            rx,
            tx,
            fill: Producer::new(map::<u64>(fd, &fill, fill_at)?, &fill)?,
            completion: Consumer::new(map::<u64>(fd, &completion, completion_at)?, &completion)?,
            socket: Arc::new(socket),
            in_force,
        })
    }

    /// Splits into the halves.
    pub(crate) fn into_xsk(
        self,
        umem: &'static Umem,
        filled: Filled,
        link: Arc<LinkState>,
    ) -> Result<Xsk> {
        let Self { rx, tx, fill, completion, socket, in_force } = self;
        let stats = SocketStats::of(&socket);
        let rx = rx.map(|rx| XskRx::new((rx, fill), filled, &in_force, Arc::clone(&socket)));
        let tx = match tx {
            Some(tx) => {
                Some(XskTx::new(umem, (tx, completion), &in_force, (link, Arc::clone(&socket)))?)
            }
            None => None,
        };
        Ok(Xsk { rx, tx, stats, in_force })
    }
}

/// A new socket.
fn socket() -> Result<Socket> {
    match sys::raw_socket(libc::AF_XDP) {
        Ok(fd) => Ok(Socket::new(fd)),
        Err(error) => Err(match errno(&error) {
            libc::EAFNOSUPPORT => Error::NoKernelSupport,
            libc::EPERM => {
                Error::MissingCapability { name: "CAP_NET_RAW", purpose: "open AF_XDP sockets" }
            }
            _ => system("cannot open an AF_XDP socket", error),
        }),
    }
}

/// Registers the packet memory with the kernel (XDP_UMEM_REG), which pins it.
fn register(fd: BorrowedFd<'_>, umem: &Umem, features: Features) -> io::Result<()> {
    let registration = libc::xdp_umem_reg {
        addr: umem.base().as_ptr().expose_provenance() as u64,
        len: umem.size(),
        chunk_size: umem.frame_size(),
        headroom: umem.headroom(),
        flags: if features.tx_metadata { libc::XDP_UMEM_TX_METADATA_LEN } else { 0 },
        tx_metadata_len: if features.tx_metadata { TX_METADATA_LEN } else { 0 },
    };
    sys::set_option(fd, libc::SOL_XDP, libc::XDP_UMEM_REG, &registration)
}

/// Sets the sizes of the rings; the kernel wants fill and completion ring in any case.
fn set_rings(fd: BorrowedFd<'_>, config: &XskConfig) -> Result<()> {
    let rings = [
        ("fill", libc::XDP_UMEM_FILL_RING, ring_or_unused(config.rx_ring)),
        ("completion", libc::XDP_UMEM_COMPLETION_RING, ring_or_unused(config.tx_ring)),
        ("rx", libc::XDP_RX_RING, config.rx_ring),
        ("tx", libc::XDP_TX_RING, config.tx_ring),
    ];
    for (name, option, size) in rings {
        if size != 0 {
            sys::set_option(fd, libc::SOL_XDP, option, &size)
                .map_err(|source| system(format!("cannot make a {name} ring of {size}"), source))?;
        }
    }
    Ok(())
}

/// Sets how many descriptors the kernel takes per call, where it knows the option.
fn set_budget(fd: BorrowedFd<'_>, config: &XskConfig, in_force: &mut InForce) -> Result<()> {
    let budget = config.tx_budget.unwrap_or_else(|| config.tx_ring.min(AUTO_TX_BUDGET));
    match sys::set_option(fd, libc::SOL_XDP, XDP_MAX_TX_SKB_BUDGET, &budget) {
        Ok(()) => {
            in_force.tx_budget = budget;
            in_force.budget_supported = true;
            Ok(())
        }
        Err(error) if errno(&error) == libc::ENOPROTOOPT => {
            in_force.tx_budget = DEFAULT_TX_BUDGET;
            Ok(())
        }
        Err(error) => Err(system(format!("cannot set a tx budget of {budget}"), error)),
    }
}

/// Raises the send buffer as far as the kernel allows, and notes what is in force.
fn set_sndbuf(
    fd: BorrowedFd<'_>,
    config: &XskConfig,
    umem: &Umem,
    in_force: &mut InForce,
) -> Result<()> {
    let rx_room = u32::try_from(umem.rx_room()).unwrap_or(u32::MAX);
    let descriptor = max_frame_len(config.mtu).min(rx_room);
    in_force.truesize = truesize(descriptor);
    let want = config.sndbuf.unwrap_or_else(|| in_force.sndbuf_full_ring());
    // The kernel doubles what it is given, and takes what is negative for 0.
    let half = want.div_ceil(2).min(MAX_HALF_SNDBUF);
    if sys::set_option(fd, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &half).is_err() {
        // Without CAP_NET_ADMIN: as far as net.core.wmem_max goes.
        sys::set_option(fd, libc::SOL_SOCKET, libc::SO_SNDBUF, &half)
            .map_err(|source| system(format!("cannot set a send buffer of {want}"), source))?;
    }
    in_force.sndbuf = sys::get_option(fd, libc::SOL_SOCKET, libc::SO_SNDBUF)
        .map_err(|source| system("cannot read the send buffer", source))?;
    Ok(())
}

/// Sets how many packets the kernel hands to the device together, if that is wanted. To be done after the
/// budget, which is the most.
fn set_xmit_batch(fd: BorrowedFd<'_>, config: &XskConfig, in_force: &mut InForce) -> Result<()> {
    let batch = config.xmit_batch.min(in_force.tx_budget);
    if batch != 0 {
        in_force.xmit_batch =
            tune(fd, libc::SOL_XDP, (XDP_GENERIC_XMIT_BATCH, "xmit-batch"), batch)?;
    }
    Ok(())
}

/// Switches busy polling on.
fn set_busy_poll(fd: BorrowedFd<'_>, wanted: BusyPoll, in_force: &mut InForce) -> Result<()> {
    let set = |option, name, value| tune(fd, libc::SOL_SOCKET, (option, name), value);
    in_force.busy_poll_us = set(libc::SO_BUSY_POLL, "busy-poll-us", wanted.us)?;
    in_force.busy_poll_budget = set(libc::SO_BUSY_POLL_BUDGET, "busy-poll-budget", wanted.budget)?;
    if wanted.prefer {
        in_force.prefer_busy_poll = set(libc::SO_PREFER_BUSY_POLL, "prefer-busy-poll", 1)?;
    }
    Ok(())
}

/// Sets an option that not every kernel knows.
fn tune(
    fd: BorrowedFd<'_>,
    level: i32,
    (option, name): (i32, &str),
    value: u32,
) -> Result<Tunable> {
    match sys::set_option(fd, level, option, &value) {
        Ok(()) => Ok(Tunable::InForce(value)),
        Err(error) if errno(&error) == libc::ENOPROTOOPT => Ok(Tunable::Unsupported),
        Err(error) => Err(system(format!("cannot set {name} to {value}: leave it out"), error)),
    }
}

/// Half of the largest send buffer.
const MAX_HALF_SNDBUF: u32 = i32::MAX.unsigned_abs() / 2;

/// What one descriptor of `len` bytes is charged to the send buffer in copy mode: the kernel's struct
/// sk_buff (256 bytes) and one allocation, rounded up to a power of two, for headroom, data and struct
/// skb_shared_info (320 bytes). 64 bytes of headroom are usual; 128 are counted, so that a device may
/// ask for more. The further descriptors of a packet are charged a page each, which is less.
fn truesize(len: u32) -> u32 {
    let data = len.saturating_add(128).next_multiple_of(64).saturating_add(320);
    data.max(512).checked_next_power_of_two().unwrap_or(u32::MAX).saturating_add(256)
}

fn bind_flags(mode: Mode, joins: bool, features: Features) -> u16 {
    if joins {
        return libc::XDP_SHARED_UMEM;
    }
    let mode = match mode {
        Mode::Copy => libc::XDP_COPY,
        Mode::ZeroCopy => libc::XDP_ZEROCOPY,
    };
    let several = if features.multi_buffer { libc::XDP_USE_SG } else { 0 };
    mode | several | libc::XDP_USE_NEED_WAKEUP
}

fn ring_or_unused(size: u32) -> u32 {
    if size == 0 { UNUSED_RING } else { size }
}

fn layout(offsets: &libc::xdp_ring_offset, size: u32) -> Layout {
    let &libc::xdp_ring_offset { producer, consumer, desc, flags } = offsets;
    Layout { producer, consumer, flags, desc, size }
}

fn map<T: Entry>(fd: BorrowedFd<'_>, layout: &Layout, page_offset: i64) -> Result<Arc<Mapping>> {
    let mapping = Mapping::of_ring(fd, layout.bytes::<T>()?, page_offset)
        .map_err(|source| system("cannot map a ring", source))?;
    Ok(Arc::new(mapping))
}

fn page_offset(offset: u64) -> Result<i64> {
    i64::try_from(offset).map_err(|_| Error::RingLayout)
}

fn errno(error: &io::Error) -> i32 {
    error.raw_os_error().unwrap_or(0)
}

fn system(what: impl Into<String>, source: io::Error) -> Error {
    Error::System { what: what.into(), source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn truesize_is_what_the_kernel_charges() {
        // Measured on veth: 768 for a small packet; 2304 for one of 1514 bytes.
        assert_eq!(truesize(60), 768);
        assert_eq!(truesize(1518), 2304);
        assert_eq!(truesize(3840), 8448);
    }
}
