//! Makes AF_XDP sockets: one for each (interface, queue), all over the same packet memory.
//!
//! The first socket of a [`UmemGroup`] registers the memory, later ones join through any live member
//! (XDP_SHARED_UMEM) and inherit its mode, so there is one group for each mode. A socket has two halves,
//! [`XskRx`] and [`XskTx`], with one owner each; the socket closes with the last half, after both have
//! unmapped their rings (a ring that is still mapped would keep the queue bound for ever).

use std::io;
use std::sync::{Arc, Weak};

use xvs_datapath::QueueId;

use crate::abi::DEFAULT_TX_BUDGET;
use crate::bind::{Failure, Features, Parts};
use crate::error::{Error, Result};
use crate::link::LinkState;
use crate::ring::{MAX_RING, Producer};
use crate::rx::{Filled, XskRx};
use crate::socket::{Socket, SocketStats};
use crate::sys;
use crate::tx::XskTx;
use crate::umem::{Umem, UmemConfig};

/// How packets get between the driver and the packet memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The kernel copies; works with every driver.
    Copy,
    /// The device reads and writes the packet memory.
    ZeroCopy,
}

/// What a socket is to be.
#[derive(Clone, Debug)]
pub struct XskConfig {
    /// Name of the interface, for messages.
    pub port: String,
    /// Its index in this network namespace.
    pub ifindex: u32,
    /// The queue, from 0.
    pub queue: QueueId,
    /// How many tx queues the interface has, if known. A tx ring on a queue beyond them is refused: the
    /// kernel would accept it and send nothing.
    pub n_tx_queues: Option<u32>,
    /// Entries of the rx (and fill) ring, a power of two from 64 to 32768; 0 for a socket that only
    /// transmits.
    pub rx_ring: u32,
    /// Entries of the tx (and completion) ring; 0 for a socket that only receives.
    pub tx_ring: u32,
    /// Descriptors per call, 32 to `tx_ring`; `None`: at most 256.
    pub tx_budget: Option<u32>,
    /// Send buffer in force, bytes; `None`: so that a full tx ring fits.
    pub sndbuf: Option<u32>,
    /// Packets that the kernel hands to the device together, at most the budget in force; 0: one by one.
    pub xmit_batch: u32,
    /// Busy polling, if wanted.
    pub busy_poll: Option<BusyPoll>,
    /// MTU of the interface, for `sndbuf: None`.
    pub mtu: u32,
}

/// How a socket's calls run the driver's receive routine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BusyPoll {
    /// Microseconds (SO_BUSY_POLL), at least 1; an AF_XDP socket polls once at each call, whatever the number.
    pub us: u32,
    /// The most packets of one poll (SO_BUSY_POLL_BUDGET), 1 to 65535.
    pub budget: u32,
    /// Ask the kernel to leave the queue to it (SO_PREFER_BUSY_POLL).
    pub prefer: bool,
}

/// A setting that not every kernel knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tunable {
    /// Not asked for.
    #[default]
    Off,
    /// With this value.
    InForce(u32),
    /// The kernel does not know it.
    Unsupported,
}

/// What a socket is: the values in force.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InForce {
    /// Entries of rx and fill ring.
    pub rx_ring: u32,
    /// Entries of tx and completion ring.
    pub tx_ring: u32,
    /// Descriptors per call.
    pub tx_budget: u32,
    /// The kernel knows the option; else `tx_budget` is what it always does.
    pub budget_supported: bool,
    /// Send buffer, bytes, as the kernel counts it.
    pub sndbuf: u32,
    /// What a packet of the MTU is charged to it, bytes.
    pub truesize: u32,
    /// Packets that the kernel hands to the device together.
    pub xmit_batch: Tunable,
    /// Microseconds of busy polling.
    pub busy_poll_us: Tunable,
    /// Packets of one busy poll.
    pub busy_poll_budget: Tunable,
    /// 1: the kernel leaves the queue to busy polling.
    pub prefer_busy_poll: Tunable,
    /// The device reads and writes the packet memory.
    pub zero_copy: bool,
    /// Packets of several frames are possible.
    pub multi_buffer: bool,
    /// The kernel completes checksums on request.
    pub tx_metadata: bool,
}

impl InForce {
    /// What a full tx ring of packets of the MTU needs of the send buffer, bytes.
    #[must_use]
    pub fn sndbuf_full_ring(&self) -> u32 {
        self.truesize.saturating_mul(self.tx_ring)
    }
}

/// A bound socket: its halves, which go to their owners, and what stays with the port.
#[derive(Debug)]
pub struct Xsk {
    /// The receive half, if there is an rx ring.
    pub rx: Option<XskRx>,
    /// The transmit half, if there is a tx ring.
    pub tx: Option<XskTx>,
    /// The kernel's counters.
    pub stats: SocketStats,
    /// The values in force.
    pub in_force: InForce,
}

/// The sockets of one mode over one packet memory.
#[derive(Debug)]
pub struct UmemGroup {
    umem: &'static Umem,
    mode: Mode,
    wanted: Features,
    found: Features,
    members: Vec<Member>,
}

/// A socket of a group, and what it was bound to.
#[derive(Debug)]
struct Member {
    socket: Weak<Socket>,
    ifindex: u32,
    queue: QueueId,
}

impl UmemGroup {
    /// A group without members. `multi_buffer`: packets of several frames, where the kernel can.
    #[must_use]
    pub fn new(umem: &'static Umem, mode: Mode, multi_buffer: bool) -> Self {
        // In zero-copy mode a request that the driver does not know is silently ignored.
        let wanted = Features { multi_buffer, tx_metadata: mode == Mode::Copy };
        Self { umem, mode, wanted, found: wanted, members: Vec::new() }
    }

    /// The packet memory.
    pub(crate) fn umem(&self) -> &'static Umem {
        self.umem
    }

    /// How its sockets move packets.
    pub(crate) fn mode(&self) -> Mode {
        self.mode
    }

    /// Whether its sockets have packets of several frames, as far as is known.
    pub(crate) fn multi_buffer(&self) -> bool {
        self.found.multi_buffer
    }

    /// Makes a socket and binds it. Traffic arrives once the XDP program's map leads to it.
    ///
    /// # Errors
    /// A value is out of range, or what the kernel refused: see [`Error`]. [`Error::QueueBusy`] may pass:
    /// the kernel releases a closed socket's queue late.
    pub fn open(&mut self, config: &XskConfig, link: Arc<LinkState>) -> Result<Xsk> {
        check(config)?;
        self.members.retain(|member| member.socket.strong_count() > 0);
        let (parts, filled) = self.bind(config)?;
        let InForce { multi_buffer, tx_metadata, .. } = parts.in_force;
        self.found = Features { multi_buffer, tx_metadata };
        let socket = Arc::downgrade(&parts.socket);
        self.members.push(Member { socket, ifindex: config.ifindex, queue: config.queue });
        parts.into_xsk(self.umem, filled, link)
    }

    /// Joins a member, or registers the memory if there is none. A member whose device is gone is
    /// bound no more, and the kernel refuses it.
    fn bind(&self, config: &XskConfig) -> Result<(Parts, Filled)> {
        for member in self.members.iter().filter_map(|member| member.socket.upgrade()) {
            match self.attempt(config, Some(&member), self.found) {
                Err(Failure::Bind(libc::EBADF)) => {}
                Err(failure) => return Err(self.explain(config, failure)),
                Ok(parts) => return Ok(parts),
            }
        }
        let mut features = self.wanted;
        loop {
            match self.attempt(config, None, features) {
                Err(Failure::Register(libc::EINVAL)) if features.tx_metadata => {
                    features.tx_metadata = false;
                }
                Err(Failure::Bind(libc::EINVAL | libc::EOPNOTSUPP)) if features.multi_buffer => {
                    features.multi_buffer = false;
                }
                Err(failure) => return Err(self.explain(config, failure)),
                Ok(parts) => return Ok(parts),
            }
        }
    }

    /// One attempt; in zero-copy mode with frames to receive into.
    fn attempt(
        &self,
        config: &XskConfig,
        member: Option<&Socket>,
        features: Features,
    ) -> Result<(Parts, Filled), Failure> {
        let mut filled = Filled::none(self.umem)?;
        let n = if self.mode == Mode::ZeroCopy { config.rx_ring } else { 0 };
        let mut prepare = |ring: &mut Producer<u64>| filled.fill(ring, n);
        match Parts::bind((self.umem, self.mode), config, member, features, &mut prepare) {
            Ok(parts) => Ok((parts, filled)),
            Err(failure) => {
                filled.undo();
                Err(failure)
            }
        }
    }

    /// True when a member is bound to this very queue.
    fn has(&self, config: &XskConfig) -> bool {
        let on = (config.ifindex, config.queue);
        self.members.iter().any(|member| (member.ifindex, member.queue) == on)
    }

    fn explain(&self, config: &XskConfig, failure: Failure) -> Error {
        let (port, queue) = (config.port.clone(), config.queue.0);
        let errno = match failure {
            Failure::Other(error) => return error,
            Failure::Register(libc::ENOBUFS) => {
                let (need, limit) = (self.umem.size(), sys::memlock_limit());
                return Error::MemlockTooSmall { need, limit };
            }
            Failure::Register(errno) => {
                let what = format!("cannot register {} bytes of packet memory", self.umem.size());
                return Error::System { what, source: io::Error::from_raw_os_error(errno) };
            }
            Failure::NotZeroCopy => return Error::NoZeroCopy { port, queue },
            Failure::Bind(errno) => errno,
        };
        match errno {
            libc::EBUSY => Error::QueueBusy { port, queue },
            // To a second socket of one packet memory on one queue the kernel says this.
            libc::EINVAL if self.has(config) => Error::QueueBusy { port, queue },
            libc::EINVAL => Error::NoSuchQueue { port, queue, queues: None },
            libc::ENODEV => Error::NoSuchInterface { port },
            libc::EOPNOTSUPP if self.mode == Mode::ZeroCopy => Error::NoZeroCopy { port, queue },
            _ => Error::System {
                what: format!("cannot bind an AF_XDP socket to queue {queue} of {port}"),
                source: io::Error::from_raw_os_error(errno),
            },
        }
    }
}

/// True when a socket can be bound to the queue, which therefore no other has. It is given back at once,
/// but the kernel takes its time.
pub(crate) fn is_bindable(ifindex: u32, queue: QueueId) -> bool {
    let config = XskConfig {
        port: String::new(),
        ifindex,
        queue,
        n_tx_queues: None,
        rx_ring: 64,
        tx_ring: 0,
        tx_budget: None,
        sndbuf: None,
        xmit_batch: 0,
        busy_poll: None,
        mtu: 0,
    };
    let features = Features { multi_buffer: false, tx_metadata: false };
    let umem = Umem::new(&UmemConfig { frames: 64, ..UmemConfig::default() });
    umem.is_ok_and(|umem| {
        Parts::bind((&umem, Mode::Copy), &config, None, features, &mut |_| ()).is_ok()
    })
}

fn check(config: &XskConfig) -> Result<()> {
    for (ring, size) in [("rx", config.rx_ring), ("tx", config.tx_ring)] {
        if size != 0 && (!size.is_power_of_two() || !(64..=MAX_RING).contains(&size)) {
            return Err(Error::RingSize { ring, size });
        }
    }
    if config.rx_ring == 0 && config.tx_ring == 0 {
        return Err(Error::RingSize { ring: "rx", size: 0 });
    }
    if config.tx_ring != 0 {
        let tx_ring = config.tx_ring;
        if let Some(budget) = config.tx_budget
            && !(DEFAULT_TX_BUDGET..=tx_ring).contains(&budget)
        {
            return Err(Error::TxBudget { budget, tx_ring });
        }
        let (port, queue, queues) = (config.port.clone(), config.queue.0, config.n_tx_queues);
        if queues.is_some_and(|queues| queue >= queues) {
            return Err(Error::NoSuchQueue { port, queue, queues });
        }
    }
    Ok(())
}
