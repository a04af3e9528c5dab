//! The XDP program of a port: loaded and attached, one socket for each receive queue.
//!
//! It is attached by a bpf_link, which the kernel removes with the last file descriptor: after a
//! crash or kill -9 no program is left, and nobody can replace it by accident. A program of somebody
//! else is never touched unless `force` says so.

#![allow(unsafe_code, reason = "two calls of libbpf that libbpf-rs does not offer as needed")]

use std::fmt;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use libbpf_rs::{
    MapCore, MapFlags, MapHandle, Object, ObjectBuilder, Program, ProgramHandle, Xdp, XdpFlags,
};

use crate::{Error, Result};

/// Where in the receive path the program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AttachMode {
    /// In the driver, before an skb exists.
    Native,
    /// After the driver, on skbs: any device, slower.
    Generic,
}

impl fmt::Display for AttachMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Native => "native",
            Self::Generic => "generic",
        })
    }
}

/// What to attach, and to which interface of the current network namespace.
#[derive(Clone, Copy, Debug)]
pub struct Attach<'a> {
    /// The interface.
    pub ifindex: u32,
    /// Its name, for messages.
    pub port: &'a str,
    /// Where the program runs.
    pub mode: AttachMode,
    /// Receive queues of the interface: the size of the socket map, at least 1.
    pub n_queues: u32,
    /// Accept packets of several buffers (needed where the MTU exceeds a buffer); sockets then
    /// must be bound with XDP_USE_SG.
    pub frags: bool,
    /// Put VLAN tags back into frames of which the device keeps them apart (see
    /// [`Device::tells_vlan_tags`](crate::Device::tells_vlan_tags)); with `frags` and in native mode only.
    pub tags: bool,
    /// Replace a program of somebody else.
    pub force: bool,
}

/// A redirect program, attached while this value lives.
#[derive(Debug)]
pub struct RedirectProgram {
    port: String,
    mode: AttachMode,
    id: u32,
    tags: bool,
    link: OwnedFd,
    xsks: MapHandle,
    unbound: MapHandle,
}

impl RedirectProgram {
    /// Loads the program and attaches it. Until [`set`](Self::set), all packets pass to the stack.
    ///
    /// # Errors
    /// [`Error::ForeignProgram`] when another program is attached and `force` is off,
    /// [`Error::ForeignLink`] when it cannot be replaced, [`Error::AttachRefused`] when the driver
    /// refuses (the caller may try another mode), [`Error::MissingCapability`].
    pub fn attach(wanted: &Attach<'_>) -> Result<Self> {
        let loaded = match Loaded::new(wanted) {
            // A kernel that tells of tags and does not like the way they are asked for.
            Err(Error::System { .. }) if wanted.tags => {
                Loaded::new(&Attach { tags: false, ..*wanted })?
            }
            loaded => loaded?,
        };
        make_room(wanted, loaded.program.as_fd())?;
        let link = create_link(wanted, loaded.program.as_fd())
            .map_err(|error| refused(wanted, loaded.program.as_fd(), error))?;
        let id = Program::id_from_fd(loaded.program.as_fd())
            .map_err(|error| bpf_error(wanted.port, "ask for the id of the program", &error))?;
        Ok(Self {
            port: wanted.port.to_owned(),
            mode: wanted.mode,
            id,
            tags: loaded.tags,
            link,
            xsks: loaded.xsks,
            unbound: loaded.unbound,
        })
    }

    /// From now on packets of `queue` go to `socket`, which must be bound to it.
    ///
    /// # Errors
    /// [`Error::NoSuchQueue`] beyond the size of the map, else what the kernel says.
    pub fn set(&self, queue: u32, socket: BorrowedFd<'_>) -> Result<()> {
        if queue >= self.xsks.max_entries() {
            return Err(Error::NoSuchQueue {
                port: self.port.clone(),
                queue,
                queues: Some(self.xsks.max_entries()),
            });
        }
        self.xsks
            .update(&queue.to_ne_bytes(), &socket.as_raw_fd().to_ne_bytes(), MapFlags::ANY)
            .map_err(|error| {
                bpf_error(
                    &self.port,
                    &format!("put the socket of queue {queue} into the map"),
                    &error,
                )
            })
    }

    /// From now on packets of `queue` pass to the stack. Does nothing when it has no socket.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn clear(&self, queue: u32) -> Result<()> {
        match self.xsks.delete(&queue.to_ne_bytes()) {
            Err(error) if error.kind() != libbpf_rs::ErrorKind::NotFound => Err(bpf_error(
                &self.port,
                &format!("take the socket of queue {queue} out of the map"),
                &error,
            )),
            _ => Ok(()),
        }
    }

    /// The kernel's id of the program.
    #[must_use]
    pub fn program_id(&self) -> u32 {
        self.id
    }

    /// True when it puts VLAN tags that lie beside the frame back.
    #[must_use]
    pub fn puts_tags_back(&self) -> bool {
        self.tags
    }

    /// Where it runs.
    #[must_use]
    pub fn mode(&self) -> AttachMode {
        self.mode
    }

    /// The link that keeps it attached: a process that inherits it keeps it so, unless this value is
    /// dropped.
    #[must_use]
    pub fn link_fd(&self) -> BorrowedFd<'_> {
        self.link.as_fd()
    }

    /// Packets that passed to the stack since the attach because their queue had no socket.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn unbound_packets(&self) -> Result<u64> {
        let per_cpu =
            self.unbound.lookup_percpu(&0u32.to_ne_bytes(), MapFlags::ANY).map_err(|error| {
                bpf_error(&self.port, "read the counter of unbound packets", &error)
            })?;
        let counts = per_cpu.iter().flatten();
        Ok(counts.filter_map(|value| value.first_chunk()).map(|b| u64::from_ne_bytes(*b)).sum())
    }
}

impl Drop for RedirectProgram {
    /// At once, and not when the last copy of the descriptor goes: a child that has been forked and has
    /// not executed its program yet has one.
    fn drop(&mut self) {
        // SAFETY: no pointers are passed; the descriptor is open.
        let _ = unsafe { libbpf_sys::bpf_link_detach(self.link.as_raw_fd()) };
    }
}

/// A program in the kernel, not attached yet, and its maps.
struct Loaded {
    program: OwnedFd,
    tags: bool,
    xsks: MapHandle,
    unbound: MapHandle,
}

/// The objects that build.rs compiles.
const REDIRECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/redirect.bpf.o"));
const TAGS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/tags.bpf.o"));

/// BPF_F_XDP_DEV_BOUND_ONLY (linux/bpf.h): the program may ask its device about a packet.
const DEV_BOUND_ONLY: u32 = 1 << 6;

impl Loaded {
    fn new(wanted: &Attach<'_>) -> Result<Self> {
        let failed = |error| load_error(wanted.port, &error);
        let (object, name) = match (wanted.tags, wanted.frags) {
            (true, _) => (TAGS, "redirect_tags"),
            (false, true) => (REDIRECT, "redirect_frags"),
            (false, false) => (REDIRECT, "redirect"),
        };
        let mut open = ObjectBuilder::default().open_memory(object).map_err(failed)?;
        for mut program in open.progs_mut() {
            program.set_autoload(program.name() == name);
            if wanted.tags {
                program.set_flags(DEV_BOUND_ONLY);
                program.set_ifindex(wanted.ifindex);
            }
        }
        for mut map in open.maps_mut().filter(|map| map.name() == "xsks") {
            map.set_max_entries(wanted.n_queues.max(1)).map_err(failed)?;
        }
        let object = open.load().map_err(failed)?;
        let missing = || bpf_error(wanted.port, "find the XDP program", &unknown(name));
        let program = object.progs().find(|program| program.name() == name).ok_or_else(missing)?;
        Ok(Self {
            program: program.as_fd().try_clone_to_owned().map_err(|source| Error::System {
                what: format!("{}: keep the XDP program", wanted.port),
                source,
            })?,
            tags: wanted.tags,
            xsks: map(wanted.port, &object, "xsks")?,
            unbound: map(wanted.port, &object, "unbound")?,
        })
    }
}

/// A map of a loaded object, by name.
fn map(port: &str, object: &Object, name: &str) -> Result<MapHandle> {
    let found = object.maps().find(|map| map.name() == name).ok_or_else(|| unknown(name));
    found
        .and_then(|map| MapHandle::try_from(&map))
        .map_err(|error| bpf_error(port, &format!("keep the map {name}"), &error))
}

fn unknown(name: &str) -> libbpf_rs::Error {
    libbpf_rs::Error::from(io::Error::new(io::ErrorKind::NotFound, name.to_owned()))
}

/// Finds programs of others on the interface; with `force` takes them off.
fn make_room(wanted: &Attach<'_>, own: BorrowedFd<'_>) -> Result<()> {
    let xdp = Xdp::new(own);
    for (mode, id) in attached(wanted, &xdp)? {
        if !wanted.force {
            return Err(foreign(wanted.port, id));
        }
        detach(wanted, mode).map_err(|source| match source.raw_os_error() {
            Some(libc::EBUSY) => Error::ForeignLink { port: wanted.port.to_owned(), id },
            Some(libc::EPERM | libc::EACCES) => missing_capability("replace an XDP program"),
            _ => Error::System {
                what: format!("{}: cannot take XDP program {id} off", wanted.port),
                source,
            },
        })?;
    }
    Ok(())
}

/// The programs on the interface, each with the flag of its mode.
fn attached(wanted: &Attach<'_>, xdp: &Xdp<'_>) -> Result<Vec<(XdpFlags, u32)>> {
    let found = xdp
        .query(ifindex(wanted), XdpFlags::NONE)
        .map_err(|error| bpf_error(wanted.port, "ask for the attached XDP program", &error))?;
    let modes = [
        (XdpFlags::DRV_MODE, found.drv_prog_id),
        (XdpFlags::SKB_MODE, found.skb_prog_id),
        (XdpFlags::HW_MODE, found.hw_prog_id),
    ];
    Ok(modes.into_iter().filter(|&(_, id)| id != 0).collect())
}

/// Takes a program off that was attached by netlink. libbpf-rs has this, but hides the errno.
fn detach(wanted: &Attach<'_>, mode: XdpFlags) -> io::Result<()> {
    // SAFETY: no options are passed, so libbpf reads no memory of ours.
    let outcome =
        unsafe { libbpf_sys::bpf_xdp_detach(ifindex(wanted), mode.bits(), std::ptr::null()) };
    if outcome < 0 { Err(io::Error::from_raw_os_error(-outcome)) } else { Ok(()) }
}

/// BPF_LINK_CREATE with a mode, which libbpf-rs does not offer.
fn create_link(wanted: &Attach<'_>, program: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let options = libbpf_sys::bpf_link_create_opts {
        sz: size_of::<libbpf_sys::bpf_link_create_opts>() as libbpf_sys::size_t,
        flags: match wanted.mode {
            AttachMode::Native => libbpf_sys::XDP_FLAGS_DRV_MODE,
            AttachMode::Generic => libbpf_sys::XDP_FLAGS_SKB_MODE,
        },
        ..Default::default()
    };
    // SAFETY: `options` is a whole, initialized structure that names its own size and outlives the
    // call, which only reads it.
    let fd = unsafe {
        libbpf_sys::bpf_link_create(
            program.as_raw_fd(),
            ifindex(wanted),
            libbpf_sys::BPF_XDP,
            &raw const options,
        )
    };
    if fd < 0 {
        return Err(io::Error::from_raw_os_error(-fd));
    }
    // SAFETY: the call has just returned this descriptor; nobody else knows it.
    Ok(unsafe { std::os::fd::FromRawFd::from_raw_fd(fd) })
}

/// Why the link was refused.
fn refused(wanted: &Attach<'_>, program: BorrowedFd<'_>, source: io::Error) -> Error {
    let port = wanted.port.to_owned();
    match source.raw_os_error() {
        Some(libc::EBUSY | libc::EEXIST) => match attached(wanted, &Xdp::new(program)) {
            Ok(found) if !found.is_empty() => {
                foreign(wanted.port, found.first().map_or(0, |&(_, id)| id))
            }
            _ => Error::AttachRefused { port, mode: wanted.mode, source },
        },
        Some(libc::EPERM | libc::EACCES) => missing_capability("attach an XDP program"),
        Some(libc::ENODEV) => Error::NoSuchInterface { port },
        _ => Error::AttachRefused { port, mode: wanted.mode, source },
    }
}

/// Names a program of somebody else; its name may be read with CAP_SYS_ADMIN only.
fn foreign(port: &str, id: u32) -> Error {
    let name = ProgramHandle::from_prog_id(id).ok();
    let name = name.map(|program| program.name().to_string_lossy().into_owned());
    Error::ForeignProgram { port: port.to_owned(), id, name }
}

/// libbpf takes a signed interface index.
fn ifindex(wanted: &Attach<'_>) -> i32 {
    i32::try_from(wanted.ifindex).unwrap_or(i32::MAX)
}

/// libbpf-rs hides the errno and keeps the text.
fn bpf_error(port: &str, what: &str, error: &libbpf_rs::Error) -> Error {
    let source = io::Error::other(format!("{error:#}"));
    Error::System { what: format!("{port}: cannot {what}"), source }
}

fn load_error(port: &str, error: &libbpf_rs::Error) -> Error {
    if error.kind() == libbpf_rs::ErrorKind::PermissionDenied {
        return missing_capability("load an XDP program");
    }
    bpf_error(port, "load the XDP program", error)
}

/// Says which of the capabilities for BPF this process lacks.
fn missing_capability(purpose: &'static str) -> Error {
    const CAP_NET_ADMIN: u64 = 1 << 12;
    const CAP_BPF: u64 = 1 << 39;
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))
        .and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok())
        .unwrap_or_default();
    let name = match (effective & CAP_BPF != 0, effective & CAP_NET_ADMIN != 0) {
        (false, true) => "CAP_BPF",
        (true, false) => "CAP_NET_ADMIN",
        // With both, the process is in a user namespace, where they do not count.
        (false, false) | (true, true) => "CAP_BPF and CAP_NET_ADMIN",
    };
    Error::MissingCapability { name, purpose }
}
