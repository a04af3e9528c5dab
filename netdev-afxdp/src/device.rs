//! A network device as the kernel describes it: indices, queues, flags, addresses, bindings.
//!
//! Netlink and ioctls see the network namespace of the calling thread. sysfs shows the one in which
//! it was mounted, so it is used only where nothing else answers and only after it has shown the same
//! index and address.

use std::fs;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use xvs_datapath::MacAddr;

pub use self::promiscuous::Promiscuous;
use crate::netlink::{Message, ask_generic, ask_route, family, ifla};
use crate::{Error, Result};

mod ethtool;
mod promiscuous;
mod tcp;

/// Queues of a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Queues {
    /// Receive queues in use.
    pub rx: u32,
    /// Transmit queues in use; a socket on a higher queue sends nothing.
    pub tx: u32,
    /// The most receive queues that `ethtool -L` can set.
    pub max_rx: u32,
    /// The most transmit queues that `ethtool -L` can set.
    pub max_tx: u32,
}

/// A device at the moment when it was looked up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// Its name.
    pub name: String,
    /// Its index, unique within its network namespace; a device made anew has another one.
    pub ifindex: u32,
    /// Its MTU, bytes without the Ethernet header.
    pub mtu: u32,
    /// Administratively up.
    pub up: bool,
    /// The peer or cable is there.
    pub carrier: bool,
    /// Operational: up, carrier, and nothing else pending (operstate up or unknown).
    pub running: bool,
    /// Its Ethernet address; zero for devices without.
    pub mac: MacAddr,
    /// The name of its driver, where it tells.
    pub driver: Option<String>,
    /// Its queues.
    pub queues: Queues,
    /// The NUMA node it is attached to, where it has one.
    pub numa_node: Option<u32>,
}

impl Device {
    /// Looks a device up by name in the network namespace of the calling thread.
    ///
    /// # Errors
    /// [`Error::NoSuchInterface`], or what the kernel says.
    pub fn find(name: &str) -> Result<Self> {
        let mut value = name.as_bytes().to_vec();
        value.push(0);
        let question = Message::route(libc::RTM_GETLINK, vec![(ifla::IFNAME, value)]);
        Self::ask(name, question)
    }

    /// Looks a device up by index, whatever it is called now; `name` is for messages.
    ///
    /// # Errors
    /// [`Error::NoSuchInterface`], or what the kernel says.
    pub fn find_index(ifindex: u32, name: &str) -> Result<Self> {
        let mut question = Message::route(libc::RTM_GETLINK, Vec::new());
        if let Some(field) = question.header.get_mut(4..8) {
            field.copy_from_slice(&ifindex.to_ne_bytes());
        }
        Self::ask(name, question)
    }

    fn ask(name: &str, question: Message) -> Result<Self> {
        let link = match ask_route(question, false) {
            Ok(answers) => answers.into_iter().next(),
            Err(error) if is_no_name(&error) => None,
            Err(source) => {
                return Err(Error::System { what: format!("cannot look up {name}"), source });
            }
        };
        link.map(|link| {
            Self::new(&link.text(ifla::IFNAME).unwrap_or_else(|| name.to_owned()), &link)
        })
        .ok_or_else(|| Error::NoSuchInterface { port: name.to_owned() })
    }

    fn new(name: &str, link: &Message) -> Self {
        let flags = link.header_u32(8);
        let flag = |flag: libc::c_int| flags & flag.cast_unsigned() != 0;
        let ifindex = link.header_u32(4);
        let mac = link.bytes(ifla::ADDRESS).and_then(|bytes| <[u8; 6]>::try_from(bytes).ok());
        let mac = MacAddr(mac.unwrap_or_default());
        let sysfs = Sysfs::find(name, ifindex, mac);
        Self {
            name: name.to_owned(),
            ifindex,
            mtu: link.u32(ifla::MTU).unwrap_or_default(),
            up: flag(libc::IFF_UP),
            carrier: flag(libc::IFF_LOWER_UP),
            running: flag(libc::IFF_RUNNING),
            mac,
            driver: ethtool::driver(name).ok(),
            queues: queues(name, link, sysfs.as_ref()),
            numa_node: sysfs.and_then(|sysfs| sysfs.numa_node()),
        }
    }

    /// The IP addresses of the device, but for link-local IPv6: who has some may be the way by
    /// which someone is logged in.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn addresses(&self) -> Result<Vec<IpAddr>> {
        const IFA_ADDRESS: u16 = 1;
        const IFA_LOCAL: u16 = 2;
        let answers = ask_route(Message::route(libc::RTM_GETADDR, Vec::new()), true)
            .map_err(|source| self.error("read the addresses", source))?;
        let own = answers.iter().filter(|answer| answer.header_u32(4) == self.ifindex);
        Ok(own
            .filter_map(|answer| answer.bytes(IFA_LOCAL).or_else(|| answer.bytes(IFA_ADDRESS)))
            .filter_map(ip_addr)
            .filter(|address| !matches!(address, IpAddr::V6(v6) if v6.is_unicast_link_local()))
            .collect())
    }

    /// The far end of an established TCP connection that uses one of the addresses, if there is one: whoever is
    /// logged in through the device would be cut off.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn connection(&self) -> Result<Option<SocketAddr>> {
        let own = self.addresses()?;
        Ok(tcp::established().find(|(local, _)| own.contains(&local.ip())).map(|(_, far)| far))
    }

    /// True when a default route, of IPv4 or IPv6 and in any table, leaves through the device.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn has_default_route(&self) -> Result<bool> {
        const RTA_OIF: u16 = 4;
        const RTA_MULTIPATH: u16 = 9;
        let answers = ask_route(Message::route(libc::RTM_GETROUTE, Vec::new()), true)
            .map_err(|source| self.error("read the routes", source))?;
        Ok(answers.iter().any(|route| {
            let everywhere = route.header_u8(1) == 0 && route.header_u8(7) == libc::RTN_UNICAST;
            let hops = || next_hops(route.bytes(RTA_MULTIPATH).unwrap_or_default());
            everywhere
                && (route.u32(RTA_OIF) == Some(self.ifindex)
                    || hops().any(|ifindex| ifindex == self.ifindex))
        }))
    }

    /// Makes the device accept packets for other stations until the returned value is dropped, or
    /// the process ends: the kernel counts who wants it.
    ///
    /// # Errors
    /// [`Error::MissingCapability`], or what the kernel says.
    pub fn promiscuous(&self) -> Result<Promiscuous> {
        Promiscuous::new(self.ifindex).map_err(|source| match source.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => Error::MissingCapability {
                name: "CAP_NET_RAW",
                purpose: "switch an interface to promiscuous mode",
            },
            _ => self.error("switch to promiscuous mode", source),
        })
    }

    /// Whether the driver says that it has zero-copy. `None` where the kernel does not tell (before
    /// Linux 6.3).
    #[must_use]
    pub fn has_zero_copy(&self) -> Option<bool> {
        const XDP_FEATURES: u16 = 3;
        const ZERO_COPY: u64 = 1 << 3;
        Some(self.features(XDP_FEATURES)? & ZERO_COPY != 0)
    }

    /// Whether the driver tells an XDP program of VLAN tags that are not in the frame (Linux 6.8 and newer).
    #[must_use]
    pub fn tells_vlan_tags(&self) -> bool {
        const XDP_RX_METADATA_FEATURES: u16 = 5;
        const VLAN_TAG: u64 = 1 << 2;
        self.features(XDP_RX_METADATA_FEATURES).is_some_and(|features| features & VLAN_TAG != 0)
    }

    /// Whether the device takes VLAN tags off received frames (`rx-vlan-offload`).
    #[must_use]
    pub fn strips_vlan_tags(&self) -> bool {
        ethtool::flags(&self.name).is_ok_and(|flags| flags & ethtool::RX_VLAN != 0)
    }

    /// A set of features as the kernel's netdev family has it (linux/netdev.h).
    fn features(&self, attribute: u16) -> Option<u64> {
        const DEV_GET: u8 = 1;
        const DEV_IFINDEX: u16 = 1;
        let ifindex = vec![(DEV_IFINDEX, self.ifindex.to_ne_bytes().to_vec())];
        let question = Message::generic(family("netdev").ok()?, DEV_GET, ifindex);
        let answers = ask_generic(question).ok()?;
        answers.first()?.bytes(attribute)?.first_chunk().map(|bytes| u64::from_ne_bytes(*bytes))
    }

    /// Whether an AF_XDP socket, of any process, is bound to the queue. `None` where the kernel does
    /// not tell (before Linux 6.15) or the device is down.
    #[must_use]
    pub fn is_queue_bound(&self, queue: u32) -> Option<bool> {
        const QUEUE_GET: u8 = 10;
        const QUEUE_ID: u16 = 1;
        const QUEUE_IFINDEX: u16 = 2;
        const QUEUE_TYPE: u16 = 3;
        const QUEUE_XSK: u16 = 7;
        let family = family("netdev").ok()?;
        let of_type = |kind: u32| {
            let attribute = |number, value: u32| (number, value.to_ne_bytes().to_vec());
            let attributes = vec![
                attribute(QUEUE_ID, queue),
                attribute(QUEUE_IFINDEX, self.ifindex),
                attribute(QUEUE_TYPE, kind),
            ];
            let question = Message::generic(family, QUEUE_GET, attributes);
            let answers = ask_generic(question).ok()?;
            answers.first().map(|answer| answer.bytes(QUEUE_XSK).is_some())
        };
        // A queue may exist on one side only.
        match (of_type(0), of_type(1)) {
            (Some(true), _) | (_, Some(true)) => Some(true),
            (None, None) => None,
            _ => kernel_tells_of_bindings().then_some(false),
        }
    }

    fn error(&self, what: &str, source: io::Error) -> Error {
        Error::System { what: format!("{}: cannot {what}", self.name), source }
    }
}

/// What the kernel says to a name that is unknown, or cannot be one (too long, empty).
fn is_no_name(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENODEV | libc::ERANGE | libc::EINVAL))
}

fn ip_addr(bytes: &[u8]) -> Option<IpAddr> {
    <[u8; 4]>::try_from(bytes)
        .map(IpAddr::from)
        .or_else(|_| <[u8; 16]>::try_from(bytes).map(IpAddr::from))
        .ok()
}

/// The interfaces in a list of `struct rtnexthop`: length (u16), flags, hops, ifindex, attributes.
fn next_hops(mut bytes: &[u8]) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        let length = bytes.first_chunk().map(|b| usize::from(u16::from_ne_bytes(*b)))?;
        let ifindex = bytes.get(4..)?.first_chunk().map(|b| u32::from_ne_bytes(*b))?;
        bytes = bytes.get(length.next_multiple_of(4).max(8)..).unwrap_or_default();
        Some(ifindex)
    })
}

/// How many queues are in use: by the driver's own word, by sysfs, or as many as were allocated.
fn queues(name: &str, link: &Message, sysfs: Option<&Sysfs>) -> Queues {
    let allocated = Queues {
        rx: link.u32(ifla::NUM_RX_QUEUES).unwrap_or(1),
        tx: link.u32(ifla::NUM_TX_QUEUES).unwrap_or(1),
        max_rx: link.u32(ifla::NUM_RX_QUEUES).unwrap_or(1),
        max_tx: link.u32(ifla::NUM_TX_QUEUES).unwrap_or(1),
    };
    if let Ok(channels) = ethtool::channels(name)
        && channels.rx > 0
        && channels.tx > 0
    {
        return channels;
    }
    match sysfs.map(Sysfs::queues) {
        Some((rx, tx)) if rx > 0 && tx > 0 => Queues { rx, tx, ..allocated },
        _ => allocated,
    }
}

/// Since Linux 6.15 the netdev family names bindings; before, their absence says nothing.
fn kernel_tells_of_bindings() -> bool {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse::<u32>);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => (major, minor) >= (6, 15),
        _ => false,
    }
}

/// The directory of a device in sysfs.
struct Sysfs(PathBuf);

impl Sysfs {
    /// `None` when sysfs shows another namespace, where the name means another device or none.
    fn find(name: &str, ifindex: u32, mac: MacAddr) -> Option<Self> {
        let sysfs = Self(PathBuf::from("/sys/class/net").join(name));
        let same = sysfs.read("ifindex")?.parse() == Ok(ifindex)
            && sysfs.read("address")?.parse() == Ok(mac);
        same.then_some(sysfs)
    }

    fn read(&self, file: &str) -> Option<String> {
        fs::read_to_string(self.0.join(file)).ok().map(|text| text.trim().to_owned())
    }

    /// Receive and transmit queues in use.
    fn queues(&self) -> (u32, u32) {
        let names = fs::read_dir(self.0.join("queues")).into_iter().flatten().flatten();
        names.fold((0, 0), |(rx, tx), entry| {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            (rx + u32::from(name.starts_with("rx-")), tx + u32::from(name.starts_with("tx-")))
        })
    }

    /// -1 means none.
    fn numa_node(&self) -> Option<u32> {
        self.read("device/numa_node")?.parse().ok()
    }
}
