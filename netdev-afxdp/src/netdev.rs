//! A network interface as a port: its program, its sockets, and the kind of XDP that it can do.
//!
//! [`Netdev::open`] tries the wanted mode, or the fastest that works: zero-copy, native, generic. The mode
//! is decided before a socket joins the others' registration of the packet memory, as sockets that
//! join inherit zero-copy or copy from the first. Packets arrive from [`Netdev::enter`] on and no more
//! after [`Netdev::leave`].

use std::fmt;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use xvs_datapath::{MAX_FRAMES, QueueId};

use crate::device::{Device, Promiscuous, Queues};
use crate::error::{Error, Result};
use crate::link::{LinkState, max_mtu};
use crate::program::{Attach, AttachMode, RedirectProgram};
use crate::socket::{Quarantine, SocketStats};
use crate::umem::Umem;
use crate::xsk::{BusyPoll, Mode, UmemGroup, Xsk, XskConfig, is_bindable};

#[cfg(test)]
mod tests;

/// The kind of XDP on an interface, the fastest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum XdpMode {
    /// The device reads and writes the packet memory.
    ZeroCopy,
    /// The driver runs the program, the kernel copies.
    Native,
    /// The kernel runs the program after the driver, and copies.
    Generic,
}

impl XdpMode {
    /// All, in the order in which they are tried.
    pub const ALL: [Self; 3] = [Self::ZeroCopy, Self::Native, Self::Generic];

    fn attach(self) -> AttachMode {
        match self {
            Self::ZeroCopy | Self::Native => AttachMode::Native,
            Self::Generic => AttachMode::Generic,
        }
    }
}

impl fmt::Display for XdpMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::ZeroCopy => "native-with-zerocopy",
            Self::Native => "native",
            Self::Generic => "generic",
        })
    }
}

/// What is wanted of an interface.
#[derive(Clone, Copy, Debug)]
pub struct NetdevOptions<'a> {
    /// Its name.
    pub name: &'a str,
    /// The mode, or the fastest that works.
    pub mode: Option<XdpMode>,
    /// How many queues, at least 1.
    pub n_rxq: u32,
    /// The first of them.
    pub start_queue: u32,
    /// How many transmit queues, at least 1: those of the receive queues first, then further ones of the device,
    /// with sockets that only transmit. Where it has no more (or in zero-copy mode, in which such a socket
    /// would stop what the host receives on the queue), there are fewer.
    pub n_txq: u32,
    /// Do with fewer, too, where somebody else has bound the further ones; else that is an error.
    pub share_busy: bool,
    /// Entries of each rx ring.
    pub rx_ring: u32,
    /// Entries of each tx ring.
    pub tx_ring: u32,
    /// Descriptors per call, or the best.
    pub tx_budget: Option<u32>,
    /// Send buffer in bytes, or what a full ring needs.
    pub sndbuf: Option<u32>,
    /// Packets that the kernel hands to the device together; 0: one by one.
    pub xmit_batch: u32,
    /// Busy polling, if wanted.
    pub busy_poll: Option<BusyPoll>,
    /// Replace the program of somebody else.
    pub force: bool,
}

impl<'a> NetdevOptions<'a> {
    /// One queue with rings of 2048, in the fastest mode that works, everything else as it is best.
    #[must_use]
    pub fn new(name: &'a str) -> Self {
        Self {
            name,
            mode: None,
            n_rxq: 1,
            start_queue: 0,
            n_txq: 1,
            share_busy: false,
            rx_ring: 2048,
            tx_ring: 2048,
            tx_budget: None,
            sndbuf: None,
            xmit_batch: 0,
            busy_poll: None,
            force: false,
        }
    }

    /// The queue after the last receive queue.
    fn end_queue(&self) -> u32 {
        self.start_queue.saturating_add(self.n_rxq)
    }
}

/// The two registrations of the packet memory: one for each way of moving packets.
#[derive(Debug)]
pub struct UmemGroups {
    copy: UmemGroup,
    zero_copy: UmemGroup,
}

impl UmemGroups {
    /// Nothing is registered before the first socket.
    #[must_use]
    pub fn new(umem: &'static Umem) -> Self {
        Self {
            copy: UmemGroup::new(umem, Mode::Copy, true),
            zero_copy: UmemGroup::new(umem, Mode::ZeroCopy, false),
        }
    }

    fn of(&mut self, mode: XdpMode) -> &mut UmemGroup {
        match mode {
            XdpMode::ZeroCopy => &mut self.zero_copy,
            XdpMode::Native | XdpMode::Generic => &mut self.copy,
        }
    }
}

/// An interface with its program attached and its sockets bound.
#[derive(Debug)]
pub struct Netdev {
    device: Device,
    mode: XdpMode,
    stepped_down: Option<String>,
    program: RedirectProgram,
    /// Those that receive.
    sockets: Vec<(QueueId, SocketStats)>,
    link: Arc<LinkState>,
    _promiscuous: Promiscuous,
}

impl Netdev {
    /// Looks at an interface and refuses what it cannot be asked for; changes nothing.
    ///
    /// # Errors
    /// [`Error::NoSuchInterface`], [`Error::TooFewQueues`], or what the kernel says.
    pub fn inspect(options: &NetdevOptions<'_>) -> Result<Device> {
        let device = Device::find(options.name)?;
        let (end, Queues { rx, tx, .. }) = (options.end_queue(), device.queues);
        // What is received needs no tx queue of the same number, but there must be one.
        if end > rx || options.start_queue >= tx {
            let (port, first) = (options.name.to_owned(), options.start_queue);
            return Err(Error::TooFewQueues { port, first, wanted: options.n_rxq, rx, tx });
        }
        Ok(device)
    }

    /// Attaches the program, makes a socket for each queue, and switches to promiscuous mode. On an error
    /// nothing is left behind.
    ///
    /// # Errors
    /// Why the wanted mode, or the last one tried, does not work.
    pub fn open(
        groups: &mut UmemGroups,
        options: &NetdevOptions<'_>,
    ) -> Result<(Self, Vec<(QueueId, Xsk)>)> {
        let device = Self::inspect(options)?;
        let mut steps: Vec<String> = Vec::new();
        let modes = XdpMode::ALL.into_iter().filter(|&mode| options.mode.is_none_or(|m| m == mode));
        let mut failed = None;
        for mode in modes {
            match Opened::anew(groups, options, &device, mode, !steps.is_empty()) {
                Ok(opened) => {
                    let stepped_down = (!steps.is_empty())
                        .then(|| format!("{mode} is in use because {}", steps.join("; ")));
                    return Ok(opened.into_netdev(device, mode, stepped_down));
                }
                Err(error) if error.is_about_mode() && options.mode.is_none() => {
                    steps.push(if matches!(error, Error::NoZeroCopy { .. }) {
                        "the driver has no zero-copy mode".to_owned()
                    } else {
                        error.to_string()
                    });
                    failed = Some(error);
                }
                Err(error) => return Err(error),
            }
        }
        Err(failed.unwrap_or(Error::NoSuchInterface { port: options.name.to_owned() }))
    }

    /// Lets packets arrive: puts the sockets into the program's map.
    ///
    /// # Errors
    /// What the kernel says; no packets arrive then.
    pub fn enter(&self) -> Result<()> {
        for (queue, socket) in &self.sockets {
            let socket = socket
                .socket()
                .ok_or_else(|| Error::NoSuchInterface { port: self.device.name.clone() })?;
            if let Err(error) = self.program.set(queue.0, socket.as_fd()) {
                self.leave();
                return Err(error);
            }
        }
        Ok(())
    }

    /// Takes the sockets out of the program's map: packets pass to the stack from now on.
    pub fn leave(&self) {
        for (queue, _) in &self.sockets {
            // The kernel takes a closed socket out itself, and a map without device has no packets.
            let _ = self.program.clear(queue.0);
        }
    }

    /// What remains of one of its sockets' halves after its end.
    #[must_use]
    pub fn drain(&self, queue: QueueId, quarantine: Quarantine) -> Drain {
        let driver = self.device.driver.as_deref().unwrap_or_default();
        Drain {
            port: self.device.name.clone(),
            ifindex: self.device.ifindex,
            queue,
            copied: self.mode != XdpMode::ZeroCopy && COPYING_DRIVERS.contains(&driver),
            quarantine: Some(quarantine),
        }
    }

    /// The interface as it was when it was opened.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The mode in use.
    #[must_use]
    pub fn mode(&self) -> XdpMode {
        self.mode
    }

    /// Why no faster mode is in use, if one was tried.
    #[must_use]
    pub fn stepped_down(&self) -> Option<&str> {
        self.stepped_down.as_deref()
    }

    /// What may be missing in frames and how to get it: VLAN tags that a sender leaves to its device, or that the
    /// device takes off, where the program cannot put them back.
    #[must_use]
    pub fn hidden_tags(&self) -> Option<String> {
        let driver = self.device.driver.as_deref().unwrap_or_default();
        let local = SOFTWARE_DRIVERS.contains(&driver);
        let name = &self.device.name;
        match self.mode {
            XdpMode::Native if self.program.puts_tags_back() => None,
            XdpMode::Native | XdpMode::ZeroCopy | XdpMode::Generic if local => Some(format!(
                "VLAN tags that a sender leaves to its device are not seen in {} mode: use native mode, or \
                 switch them off at the other end (ethtool -K … txvlan off)",
                self.mode
            )),
            XdpMode::Native | XdpMode::ZeroCopy | XdpMode::Generic => {
                self.device.strips_vlan_tags().then(|| {
                    format!(
                        "{name} takes VLAN tags off the frames, and they are not seen: ethtool -K {name} \
                         rxvlan off"
                    )
                })
            }
        }
    }

    /// The kernel's id of the program.
    #[must_use]
    pub fn program_id(&self) -> u32 {
        self.program.program_id()
    }

    /// Packets that passed to the stack because their queue has no socket.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn unbound_packets(&self) -> Result<u64> {
        self.program.unbound_packets()
    }

    /// What the transmit halves know of the link; to be kept up to date by whoever watches it.
    #[must_use]
    pub fn link(&self) -> &Arc<LinkState> {
        &self.link
    }
}

/// Drivers whose frames come from a stack on the same machine.
const SOFTWARE_DRIVERS: [&str; 4] = ["veth", "tun", "macvlan", "macvtap"];

/// Drivers that copy what an AF_XDP socket in copy mode sends, so that nothing refers to the packet memory
/// once the socket is closed.
const COPYING_DRIVERS: [&str; 2] = ["veth", "tun"];

/// The frames of a closed half of a socket, until they may be used again.
#[derive(Debug)]
pub struct Drain {
    port: String,
    ifindex: u32,
    queue: QueueId,
    copied: bool,
    quarantine: Option<Quarantine>,
}

impl Drain {
    /// Takes the frames back if the kernel provably has let go of the queue; true when that is done.
    pub fn reclaim(&mut self) -> bool {
        if !self.copied && !self.is_unbound() {
            return false;
        }
        match self.quarantine.take().map(Quarantine::reclaim) {
            None | Some(Ok(_)) => true,
            Some(Err(quarantine)) => {
                self.quarantine = Some(quarantine);
                false
            }
        }
    }

    /// The port whose socket it was.
    #[must_use]
    pub fn port(&self) -> &str {
        &self.port
    }

    fn is_unbound(&self) -> bool {
        match Device::find_index(self.ifindex, &self.port) {
            // Whatever was bound to a device is unbound with the end of the device.
            Err(Error::NoSuchInterface { .. }) => true,
            Ok(device) => match device.is_queue_bound(self.queue.0) {
                Some(bound) => !bound,
                // A kernel that does not tell, or a device that is down: whoever can bind knows.
                None => is_bindable(self.ifindex, self.queue),
            },
            Err(_) => false,
        }
    }
}

/// A packet of more frames than one can have would be lost without a word.
fn check_mtu(device: &Device, group: &UmemGroup) -> Result<()> {
    let frames = if group.multi_buffer() { MAX_FRAMES } else { 1 };
    let room = match group.mode() {
        Mode::Copy => group.umem().rx_room(),
        Mode::ZeroCopy => zero_copy_room(device.driver.as_deref(), group.umem().rx_room()),
    };
    let max = max_mtu(u32::try_from(frames * room).unwrap_or(u32::MAX));
    if device.mtu <= max {
        return Ok(());
    }
    let (port, frames) = (device.name.clone(), u32::try_from(frames).unwrap_or(u32::MAX));
    Err(Error::MtuTooLarge { port, mtu: device.mtu, max, frames })
}

/// How much of `room` bytes a device fills: it knows buffer sizes in whole KiB or, at best, in units of 128 bytes,
/// and cuts a longer packet without a word.
fn zero_copy_room(driver: Option<&str>, room: usize) -> usize {
    let unit = if matches!(driver, Some("igb" | "igc" | "ixgbe")) { 1024 } else { 128 };
    room / unit * unit
}

/// An idle queue is free this long after its socket was closed.
const RELEASED_WITHIN: Duration = Duration::from_secs(1);

/// An attempt in one mode.
struct Opened {
    program: RedirectProgram,
    sockets: Vec<(QueueId, Xsk)>,
    link: Arc<LinkState>,
    promiscuous: Promiscuous,
}

impl Opened {
    /// After another attempt the queues that it had bound come free only by and by.
    fn anew(
        groups: &mut UmemGroups,
        options: &NetdevOptions<'_>,
        device: &Device,
        mode: XdpMode,
        again: bool,
    ) -> Result<Self> {
        let start = Instant::now();
        loop {
            match Self::new(groups, options, device, mode) {
                Err(Error::QueueBusy { .. }) if again && start.elapsed() < RELEASED_WITHIN => {
                    std::thread::sleep(Duration::from_millis(20));
                }
                outcome => return outcome,
            }
        }
    }

    fn new(
        groups: &mut UmemGroups,
        options: &NetdevOptions<'_>,
        device: &Device,
        mode: XdpMode,
    ) -> Result<Self> {
        // Trying would register the packet memory for it, and pin it a second time.
        if mode == XdpMode::ZeroCopy && device.has_zero_copy() == Some(false) {
            let (port, queue) = (options.name.to_owned(), options.start_queue);
            return Err(Error::NoZeroCopy { port, queue });
        }
        let group = groups.of(mode);
        check_mtu(device, group)?;
        let program = RedirectProgram::attach(&Attach {
            ifindex: device.ifindex,
            port: options.name,
            mode: mode.attach(),
            n_queues: device.queues.rx,
            frags: mode != XdpMode::ZeroCopy,
            tags: mode == XdpMode::Native && device.tells_vlan_tags(),
            force: options.force,
        })?;
        let link = Arc::new(LinkState::new(device.carrier, device.mtu));
        let open = |queue, rx_ring, tx_ring| {
            let config = XskConfig {
                port: options.name.to_owned(),
                ifindex: device.ifindex,
                queue,
                n_tx_queues: Some(device.queues.tx),
                rx_ring,
                tx_ring,
                tx_budget: options.tx_budget,
                sndbuf: options.sndbuf,
                xmit_batch: options.xmit_batch,
                busy_poll: options.busy_poll,
                mtu: device.mtu,
            };
            let mut xsk = group.open(&config, Arc::clone(&link))?;
            if mode == XdpMode::Generic
                && let Some(rx) = &mut xsk.rx
            {
                rx.mark_uncut(Arc::clone(&link));
            }
            Ok(xsk)
        };
        // In zero-copy mode a socket that only transmits takes the queue's buffers away from the host.
        let further = mode != XdpMode::ZeroCopy;
        let sockets = open_all(options, device.queues.tx, further, open)?;
        // The first socket of a group finds out.
        check_mtu(device, group)?;
        Ok(Self { program, sockets, link, promiscuous: device.promiscuous()? })
    }

    fn into_netdev(
        self,
        device: Device,
        mode: XdpMode,
        stepped_down: Option<String>,
    ) -> (Netdev, Vec<(QueueId, Xsk)>) {
        let receiving = self.sockets.iter().filter(|(_, xsk)| xsk.rx.is_some());
        let sockets = receiving.map(|(queue, xsk)| (*queue, xsk.stats.clone())).collect();
        let netdev = Netdev {
            device,
            mode,
            stepped_down,
            program: self.program,
            sockets,
            link: self.link,
            _promiscuous: self.promiscuous,
        };
        (netdev, self.sockets)
    }
}

/// Opens the sockets of a port: those that receive and, with `further`, those that only transmit. `open` takes
/// the queue and the entries of both rings.
fn open_all<S>(
    options: &NetdevOptions<'_>,
    tx_queues: u32,
    further: bool,
    mut open: impl FnMut(QueueId, u32, u32) -> Result<S>,
) -> Result<Vec<(QueueId, S)>> {
    let (mut sockets, mut missing, mut busy) = (Vec::new(), options.n_txq, None);
    let end = options.end_queue();
    for queue in options.start_queue..end {
        let sends = missing > 0 && queue < tx_queues;
        missing -= u32::from(sends);
        let (queue, tx_ring) = (QueueId(queue), if sends { options.tx_ring } else { 0 });
        sockets.push((queue, open(queue, options.rx_ring, tx_ring)?));
    }
    for queue in (end..tx_queues).filter(|_| further).map(QueueId) {
        if missing == 0 {
            break;
        }
        match open(queue, 0, options.tx_ring) {
            Ok(socket) => {
                sockets.push((queue, socket));
                missing -= 1;
            }
            Err(error @ Error::QueueBusy { .. }) => busy = busy.or(Some(error)),
            Err(error) => return Err(error),
        }
    }
    match busy {
        Some(error) if missing > 0 && !options.share_busy => Err(error),
        _ => Ok(sockets),
    }
}
