//! What can fail here, with the object it failed on and, where the user can help, the remedy.

use std::fmt;
use std::io;

use crate::AttachMode;

/// A failure of this crate. The message names the object and the remedy.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// Frame size is not one that the kernel takes.
    FrameSize {
        /// As configured, bytes.
        size: u32,
    },
    /// A frame larger than a page needs hugepages.
    FrameNeedsHugepages {
        /// As configured, bytes.
        size: u32,
    },
    /// The number of frames is out of range.
    FrameCount {
        /// As configured.
        frames: u32,
    },
    /// The headroom leaves too little room for a packet.
    Headroom {
        /// As configured, bytes.
        headroom: u32,
        /// The most that is allowed, bytes.
        max: u32,
    },
    /// Hugepages were required and there are not enough.
    NoHugepages {
        /// Bytes of packet memory.
        need: u64,
        /// What the kernel said.
        source: io::Error,
    },
    /// The packet memory could not be had.
    Memory {
        /// Bytes of packet memory.
        need: u64,
        /// The step that failed.
        step: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
    /// The packet memory knows no more sockets.
    TooManySockets,
    /// The limit of locked memory is below the packet memory.
    MemlockTooSmall {
        /// Bytes of packet memory.
        need: u64,
        /// RLIMIT_MEMLOCK, bytes.
        limit: u64,
    },
    /// A ring size is not a power of two in the allowed range.
    RingSize {
        /// Which ring.
        ring: &'static str,
        /// As configured.
        size: u32,
    },
    /// The kernel's description of a ring contradicts itself.
    RingLayout,
    /// The tx budget is out of range.
    TxBudget {
        /// As configured.
        budget: u32,
        /// Entries of the tx ring, the upper limit.
        tx_ring: u32,
    },
    /// The kernel was built without AF_XDP sockets.
    NoKernelSupport,
    /// A capability is missing.
    MissingCapability {
        /// Its name, as CAP_NET_RAW.
        name: &'static str,
        /// What it is needed for.
        purpose: &'static str,
    },
    /// The interface does not exist (any more).
    NoSuchInterface {
        /// The interface.
        port: String,
    },
    /// The interface has not that many queues.
    NoSuchQueue {
        /// The interface.
        port: String,
        /// The queue, from 0.
        queue: u32,
        /// How many it has, where known.
        queues: Option<u32>,
    },
    /// The interface has fewer queues than wanted.
    TooFewQueues {
        /// The interface.
        port: String,
        /// The first queue, from 0.
        first: u32,
        /// How many from there.
        wanted: u32,
        /// How many receive queues it has.
        rx: u32,
        /// How many transmit queues it has.
        tx: u32,
    },
    /// Another socket is bound to the queue, or the kernel has not yet let go of an earlier one.
    QueueBusy {
        /// The interface.
        port: String,
        /// The queue.
        queue: u32,
    },
    /// Packets of the MTU need more frames than a packet can have: 1 where kernel or mode have no more, 18
    /// elsewhere.
    MtuTooLarge {
        /// The interface.
        port: String,
        /// Its MTU, bytes.
        mtu: u32,
        /// The largest that is possible.
        max: u32,
        /// How many frames a packet can have.
        frames: u32,
    },
    /// The driver has no zero-copy support for this queue.
    NoZeroCopy {
        /// The interface.
        port: String,
        /// The queue.
        queue: u32,
    },
    /// A program of somebody else is attached to the interface.
    ForeignProgram {
        /// The interface.
        port: String,
        /// The kernel's id of the program.
        id: u32,
        /// Its name, where it may be read.
        name: Option<String>,
    },
    /// A program of somebody else is attached by a bpf_link, which nobody else can take off.
    ForeignLink {
        /// The interface.
        port: String,
        /// The kernel's id of the program.
        id: u32,
    },
    /// The interface does not take the XDP program in this mode.
    AttachRefused {
        /// The interface.
        port: String,
        /// How it was to be attached.
        mode: AttachMode,
        /// What the kernel said.
        source: io::Error,
    },
    /// Anything else that the kernel refused.
    System {
        /// What it was asked for, on which object.
        what: String,
        /// What it said.
        source: io::Error,
    },
}

/// The result of this crate's fallible functions.
pub type Result<T, E = Error> = core::result::Result<T, E>;

impl fmt::Display for Error {
    #[expect(clippy::too_many_lines, reason = "one message for each variant")]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FrameSize { size } => write!(
                f,
                "frame size {size} is not allowed: choose 2048 or 4096 (8192 to 65536 with hugepages)"
            ),
            Self::FrameNeedsHugepages { size } => write!(
                f,
                "frame size {size} needs hugepages: switch them on or choose 2048 or 4096"
            ),
            Self::FrameCount { frames } => {
                write!(f, "{frames} frames of packet memory are not allowed: choose 64 to 16777216")
            }
            Self::Headroom { headroom, max } => write!(
                f,
                "a headroom of {headroom} bytes leaves no room for packets: choose 0 to {max}"
            ),
            Self::NoHugepages { need, source } => write!(
                f,
                "no hugepages for {need} bytes of packet memory ({source}): raise vm.nr_hugepages, \
                 configure fewer frames, or switch hugepages off"
            ),
            Self::Memory { need, step, source } => {
                write!(f, "cannot get {need} bytes of packet memory: {step}: {source}")
            }
            Self::TooManySockets => {
                f.write_str("the packet memory has no number left for a socket")
            }
            Self::MemlockTooSmall { need, limit } => write!(
                f,
                "the limit of locked memory is {limit} bytes and the packet memory needs {need}: set \
                 LimitMEMLOCK=infinity in the unit, raise `ulimit -l`, or configure fewer frames"
            ),
            Self::RingSize { ring, size } => write!(
                f,
                "the {ring} ring cannot have {size} entries: choose a power of two from 64 to 32768"
            ),
            Self::RingLayout => {
                f.write_str("the kernel described a ring that lies outside its mapping")
            }
            Self::TxBudget { budget, tx_ring } => {
                write!(
                    f,
                    "a tx budget of {budget} is not allowed: choose 32 to {tx_ring} (the tx ring)"
                )
            }
            Self::NoKernelSupport => f.write_str(
                "this kernel has no AF_XDP sockets: use a kernel built with CONFIG_XDP_SOCKETS=y",
            ),
            Self::MissingCapability { name, purpose } => {
                write!(f, "{name} is missing, needed to {purpose}: run as root or grant {name}")
            }
            Self::NoSuchInterface { port } => write!(
                f,
                "there is no interface {port}: make it, or correct the name (ip link shows all)"
            ),
            Self::NoSuchQueue { port, queue, queues } => {
                write!(f, "{port} has no queue {queue}")?;
                queues.map_or(Ok(()), |n| write!(f, ", it has {n}"))?;
                f.write_str(": ask for fewer queues or raise them with ethtool -L")
            }
            Self::TooFewQueues { port, first, wanted, rx, tx } => write!(
                f,
                "{port} has {rx} rx and {tx} tx queues, too few for {wanted} from queue {first} on: \
                 lower n-rxq or start-queue, or raise them with ethtool -L {port}"
            ),
            Self::QueueBusy { port, queue } => write!(
                f,
                "queue {queue} of {port} is bound by another AF_XDP socket, or one that was closed is \
                 still being released: stop whoever has it (ss --xdp -p shows it) or choose other \
                 queues; one that is being released comes free by itself"
            ),
            Self::MtuTooLarge { port, mtu, max, frames } => write!(
                f,
                "{port} has an MTU of {mtu}, and a packet can have {frames} frame(s) at most: lower it to \
                 {max}, or make frames larger (frame-size)"
            ),
            Self::NoZeroCopy { port, queue } => write!(
                f,
                "the driver of {port} has no zero-copy mode for queue {queue}: choose xdp-mode \
                 best-effort or native"
            ),
            Self::ForeignProgram { port, id, name } => {
                write!(f, "{port} already has XDP program {id}")?;
                if let Some(name) = name {
                    write!(f, " (\"{name}\")")?;
                }
                f.write_str(", which is not ours: take it off, or use force to replace it")
            }
            Self::ForeignLink { port, id } => write!(
                f,
                "XDP program {id} on {port} is held by a bpf_link and cannot be replaced: stop the \
                 process that holds it (bpftool link shows it)"
            ),
            Self::AttachRefused { port, mode, source } => {
                write!(f, "{port} refuses an XDP program in {mode} mode ({source})")?;
                match (mode, source.raw_os_error()) {
                    (AttachMode::Native, Some(libc::EOPNOTSUPP)) => {
                        f.write_str(": its driver has none; choose xdp-mode best-effort or generic")
                    }
                    (AttachMode::Native, Some(libc::ERANGE | libc::EINVAL | libc::E2BIG)) => f
                        .write_str(
                            ": lower the MTU (on veth the peer's) or switch LRO off, or choose \
                             xdp-mode generic",
                        ),
                    (AttachMode::Native, Some(libc::ENOSPC)) => f.write_str(
                        ": it needs as many rx queues as its peer has tx queues; see ethtool -L",
                    ),
                    _ => Ok(()),
                }
            }
            Self::System { what, source } => write!(f, "{what}: {source}"),
        }
    }
}

impl Error {
    /// True when the interface may do better in another XDP mode.
    #[must_use]
    pub fn is_about_mode(&self) -> bool {
        matches!(
            self,
            Self::NoZeroCopy { .. } | Self::AttachRefused { .. } | Self::MtuTooLarge { .. }
        )
    }
}

impl core::error::Error for Error {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::NoHugepages { source, .. }
            | Self::Memory { source, .. }
            | Self::AttachRefused { source, .. }
            | Self::System { source, .. } => Some(source),
            Self::FrameSize { .. }
            | Self::FrameNeedsHugepages { .. }
            | Self::FrameCount { .. }
            | Self::Headroom { .. }
            | Self::TooManySockets
            | Self::MemlockTooSmall { .. }
            | Self::RingSize { .. }
            | Self::RingLayout
            | Self::TxBudget { .. }
            | Self::NoKernelSupport
            | Self::MissingCapability { .. }
            | Self::NoSuchInterface { .. }
            | Self::NoSuchQueue { .. }
            | Self::TooFewQueues { .. }
            | Self::QueueBusy { .. }
            | Self::MtuTooLarge { .. }
            | Self::NoZeroCopy { .. }
            | Self::ForeignProgram { .. }
            | Self::ForeignLink { .. } => None,
        }
    }
}
