//! Questions to the kernel over netlink, and the events of interfaces.
//!
//! Only what is needed is decoded: the fixed header by offset, attributes by number. So a kernel that
//! adds or widens an attribute cannot make an event unreadable.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use netlink_packet_core::{
    DecodeError, DefaultNla, Emitable, NLM_F_ACK, NLM_F_DUMP, NLM_F_REQUEST, NetlinkDeserializable,
    NetlinkHeader, NetlinkMessage, NetlinkPayload, NetlinkSerializable, NlasIterator,
};
use netlink_sys::{Socket, SocketAddr};

use crate::{Error, Result};

/// Attributes of a link (linux/if_link.h).
pub(crate) mod ifla {
    pub(crate) const ADDRESS: u16 = 1;
    pub(crate) const IFNAME: u16 = 3;
    pub(crate) const MTU: u16 = 4;
    pub(crate) const NUM_TX_QUEUES: u16 = 31;
    pub(crate) const NUM_RX_QUEUES: u16 = 32;
}

/// More than the kernel puts into one datagram of a dump.
const RECEIVE_SIZE: usize = 64 << 10;
/// Datagrams that one [`LinkMonitor::drain`] reads at most; the rest waits for the next.
const MAX_DATAGRAMS: usize = 1024;

/// Length of a generic netlink message's fixed header (genlmsghdr).
const GENERIC_HEADER: usize = 4;

/// A message: its type, the fixed header of its family, its attributes.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    pub(crate) kind: u16,
    pub(crate) header: Vec<u8>,
    pub(crate) attributes: Vec<(u16, Vec<u8>)>,
}

impl Message {
    /// A question about links, addresses or routes: an all-zero header matches everything.
    pub(crate) fn route(kind: u16, attributes: Vec<(u16, Vec<u8>)>) -> Self {
        Self { kind, header: vec![0; route_header(kind)], attributes }
    }

    /// A question to a generic netlink family.
    pub(crate) fn generic(family: u16, command: u8, attributes: Vec<(u16, Vec<u8>)>) -> Self {
        Self { kind: family, header: vec![command, 1, 0, 0], attributes }
    }

    /// The value of the first attribute with this number.
    pub(crate) fn bytes(&self, attribute: u16) -> Option<&[u8]> {
        self.attributes.iter().find(|(kind, _)| *kind == attribute).map(|(_, value)| &**value)
    }

    pub(crate) fn u32(&self, attribute: u16) -> Option<u32> {
        self.bytes(attribute)?.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes))
    }

    pub(crate) fn u16(&self, attribute: u16) -> Option<u16> {
        self.bytes(attribute)?.first_chunk().map(|bytes| u16::from_ne_bytes(*bytes))
    }

    /// A string attribute without its closing zero.
    pub(crate) fn text(&self, attribute: u16) -> Option<String> {
        let bytes = self.bytes(attribute)?;
        let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
        bytes.get(..end).map(|text| String::from_utf8_lossy(text).into_owned())
    }

    /// A number in the fixed header.
    pub(crate) fn header_u32(&self, at: usize) -> u32 {
        let bytes = self.header.get(at..).and_then(|bytes| bytes.first_chunk());
        bytes.map_or(0, |bytes| u32::from_ne_bytes(*bytes))
    }

    /// An octet in the fixed header.
    pub(crate) fn header_u8(&self, at: usize) -> u8 {
        self.header.get(at).copied().unwrap_or_default()
    }

    fn nlas(&self) -> Vec<DefaultNla> {
        let attributes = self.attributes.iter();
        attributes.map(|(kind, value)| DefaultNla::new(*kind, value.clone())).collect()
    }
}

/// Length of an rtnetlink message's fixed header: ifinfomsg, ifaddrmsg or rtmsg.
fn route_header(kind: u16) -> usize {
    match kind {
        libc::RTM_NEWLINK | libc::RTM_DELLINK | libc::RTM_GETLINK => 16,
        libc::RTM_NEWADDR | libc::RTM_GETADDR => 8,
        libc::RTM_NEWROUTE | libc::RTM_GETROUTE => 12,
        _ => 4,
    }
}

/// A message that was received. Where its attributes start is for its protocol to say: the numbers of
/// generic families are those of rtnetlink's messages, too.
#[derive(Debug)]
struct Received {
    kind: u16,
    payload: Vec<u8>,
}

impl NetlinkDeserializable for Received {
    type Error = DecodeError;

    fn deserialize(header: &NetlinkHeader, payload: &[u8]) -> Result<Self, DecodeError> {
        Ok(Self { kind: header.message_type, payload: payload.to_vec() })
    }
}

impl Received {
    /// Takes it apart behind a fixed header of `header` bytes.
    fn parse(&self, header: usize) -> io::Result<Message> {
        let (fixed, rest) = self.payload.split_at(header.min(self.payload.len()));
        let attributes = NlasIterator::new(rest)
            .map(|nla| nla.map(|nla| (nla.kind(), nla.value().to_vec())))
            .collect::<Result<_, DecodeError>>()
            .map_err(io::Error::other)?;
        Ok(Message { kind: self.kind, header: fixed.to_vec(), attributes })
    }
}

impl NetlinkSerializable for Message {
    fn message_type(&self) -> u16 {
        self.kind
    }

    fn buffer_len(&self) -> usize {
        self.header.len() + self.nlas().as_slice().buffer_len()
    }

    fn serialize(&self, buffer: &mut [u8]) {
        let (header, rest) = buffer.split_at_mut(self.header.len());
        header.copy_from_slice(&self.header);
        self.nlas().as_slice().emit(rest);
    }
}

/// Asks one question on a socket of its own, in the network namespace of the calling thread.
/// `dump` asks for all objects, otherwise for one. `header` gives the length of an answer's fixed header.
fn ask(
    protocol: isize,
    question: Message,
    dump: bool,
    header: impl Fn(u16) -> usize,
) -> io::Result<Vec<Message>> {
    let socket = Socket::new(protocol)?;
    socket.connect(&SocketAddr::new(0, 0))?;
    let mut request =
        NetlinkMessage::new(NetlinkHeader::default(), NetlinkPayload::InnerMessage(question));
    request.header.flags = NLM_F_REQUEST | if dump { NLM_F_DUMP } else { NLM_F_ACK };
    request.finalize();
    let mut bytes = vec![0; request.buffer_len()];
    request.serialize(&mut bytes);
    socket.send(&bytes, 0)?;
    let mut answers = Vec::new();
    loop {
        for payload in receive(&socket)? {
            match payload {
                NetlinkPayload::InnerMessage(answer) => {
                    answers.push(answer.parse(header(answer.kind))?);
                }
                NetlinkPayload::Done(_) => return Ok(answers),
                NetlinkPayload::Error(error) if error.code.is_none() => return Ok(answers),
                NetlinkPayload::Error(error) => return Err(error.to_io()),
                NetlinkPayload::Noop | NetlinkPayload::Overrun(_) | _ => {}
            }
        }
    }
}

/// The messages of one datagram. One that cannot be decoded ends it with an error.
fn receive(socket: &Socket) -> io::Result<Vec<NetlinkPayload<Received>>> {
    let mut datagram = Vec::with_capacity(RECEIVE_SIZE);
    socket.recv(&mut datagram, 0)?;
    let mut rest = datagram.as_slice();
    let mut messages = Vec::new();
    while !rest.is_empty() {
        let message = NetlinkMessage::deserialize(rest).map_err(io::Error::other)?;
        let length = usize::try_from(message.header.length).map_or(0, |n| n.next_multiple_of(4));
        rest = rest.get(length.max(4)..).unwrap_or_default();
        messages.push(message.payload);
    }
    Ok(messages)
}

/// The number of a generic netlink family; it differs from boot to boot.
pub(crate) fn family(name: &str) -> io::Result<u16> {
    const CONTROLLER: u16 = 16;
    const GET_FAMILY: u8 = 3;
    const FAMILY_ID: u16 = 1;
    const FAMILY_NAME: u16 = 2;
    let mut value = name.as_bytes().to_vec();
    value.push(0);
    let question = Message::generic(CONTROLLER, GET_FAMILY, vec![(FAMILY_NAME, value)]);
    ask_generic(question)?
        .iter()
        .find_map(|message| message.u16(FAMILY_ID))
        .ok_or_else(|| io::Error::from_raw_os_error(libc::ENOENT))
}

/// Asks rtnetlink.
pub(crate) fn ask_route(question: Message, dump: bool) -> io::Result<Vec<Message>> {
    ask(netlink_sys::protocols::NETLINK_ROUTE, question, dump, route_header)
}

/// Asks a generic netlink family for one object.
pub(crate) fn ask_generic(question: Message) -> io::Result<Vec<Message>> {
    ask(netlink_sys::protocols::NETLINK_GENERIC, question, false, |_| GENERIC_HEADER)
}

/// An interface appeared, changed or vanished.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkEvent {
    /// Its index; a name that comes back has another one.
    pub ifindex: u32,
    /// Its name now (after a rename, the new one).
    pub name: String,
    /// Administratively up.
    pub up: bool,
    /// The peer is there: packets can leave.
    pub carrier: bool,
    /// Its MTU, bytes.
    pub mtu: u32,
    /// It was deleted, or left for another network namespace.
    pub deleted: bool,
}

impl LinkEvent {
    /// `None` for messages about anything else, bridge ports included (they concern the bridge).
    fn new(message: &Message) -> Option<Self> {
        let family = i32::from(message.header_u8(0));
        if !matches!(message.kind, libc::RTM_NEWLINK | libc::RTM_DELLINK)
            || family != libc::AF_UNSPEC
        {
            return None;
        }
        let flags = message.header_u32(8);
        Some(Self {
            ifindex: message.header_u32(4),
            name: message.text(ifla::IFNAME)?,
            up: flags & libc::IFF_UP.cast_unsigned() != 0,
            carrier: flags & libc::IFF_LOWER_UP.cast_unsigned() != 0,
            mtu: message.u32(ifla::MTU).unwrap_or_default(),
            deleted: message.kind == libc::RTM_DELLINK,
        })
    }
}

/// What [`LinkMonitor::drain`] found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkEvents {
    /// The events, oldest first.
    pub events: Vec<LinkEvent>,
    /// Some were lost because they were not fetched in time: look at every interface again.
    pub lost: bool,
}

/// Tells of every change of an interface in the network namespace in which it was made. Readable
/// (`AsFd`) when there is something to [`drain`](Self::drain); never blocks.
#[derive(Debug)]
pub struct LinkMonitor(Socket);

impl LinkMonitor {
    /// Starts to listen.
    ///
    /// # Errors
    /// When the kernel gives no netlink socket.
    pub fn new() -> Result<Self> {
        let start = || {
            let mut socket = Socket::new(netlink_sys::protocols::NETLINK_ROUTE)?;
            socket.bind_auto()?;
            socket.add_membership(libc::RTNLGRP_LINK)?;
            socket.set_non_blocking(true)?;
            Ok(socket)
        };
        start().map(Self).map_err(|source| Error::System {
            what: "cannot listen for events of interfaces".to_owned(),
            source,
        })
    }

    /// Takes all events that have come; at most 1024 datagrams at once, then it stays
    /// readable.
    ///
    /// # Errors
    /// When the socket fails.
    pub fn drain(&mut self) -> Result<LinkEvents> {
        let mut found = LinkEvents::default();
        for _ in 0..MAX_DATAGRAMS {
            match receive(&self.0) {
                Ok(payloads) => {
                    for payload in payloads {
                        let NetlinkPayload::InnerMessage(message) = payload else { continue };
                        match message.parse(route_header(message.kind)) {
                            Ok(message) => found.events.extend(LinkEvent::new(&message)),
                            Err(_) => found.lost = true,
                        }
                    }
                }
                Err(error) => match error.raw_os_error() {
                    Some(libc::EAGAIN) => break,
                    Some(libc::EINTR) => {}
                    // The kernel threw events away, or one is unreadable.
                    Some(libc::ENOBUFS) | None => found.lost = true,
                    Some(_) => {
                        let what = "cannot read events of interfaces".to_owned();
                        return Err(Error::System { what, source: error });
                    }
                },
            }
        }
        Ok(found)
    }
}

impl AsFd for LinkMonitor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
