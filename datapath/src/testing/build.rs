//! Packets from headers: lengths, next protocols and checksums are filled in.
//!
//! Headers are listed outermost first and written innermost first, so that each knows its payload.
//! This code is deliberately naive and shares nothing with the code under test.

#![allow(clippy::wildcard_enum_match_arm, reason = "each function is about a few headers")]

use core::net::{Ipv4Addr, Ipv6Addr};

use super::MemPacket;
use crate::MacAddr;

/// What the innermost transport checksum is to be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Csum {
    /// Correct.
    #[default]
    Full,
    /// Only the pseudo-header's sum, as a stack with checksum offload leaves it; CRC 0 for SCTP.
    Partial,
    /// Zero: none.
    Zero,
    /// Wrong by one bit, and not the pseudo-header's sum.
    Bad,
}

#[derive(Clone, Debug)]
enum Header {
    Eth { dst: MacAddr, src: MacAddr },
    Tag { tpid: u16, tci: u16 },
    Ipv4 { src: Ipv4Addr, dst: Ipv4Addr, options: Vec<u8> },
    Ipv6 { src: Ipv6Addr, dst: Ipv6Addr, label: u32 },
    Ext { kind: u8, body: Vec<u8> },
    Tcp { src: u16, dst: u16 },
    Udp { src: u16, dst: u16 },
    Sctp { src: u16, dst: u16 },
    Icmp { kind: u8, code: u8 },
    Icmpv6 { kind: u8, code: u8 },
    Raw { bytes: Vec<u8>, eth_type: u16, proto: u8 },
}

/// A header with what may be changed after it was added.
#[derive(Clone, Debug)]
struct Layer {
    header: Header,
    /// TOS or traffic class.
    tos: u8,
    ttl: u8,
    /// IPv4 flags and fragment offset.
    frag: u16,
    tcp_flags: u16,
    /// In place of what the next header would say.
    next: Option<u16>,
}

/// Builds packets, outermost header first.
#[derive(Clone, Debug)]
pub struct PacketBuilder {
    layers: Vec<Layer>,
    payload: Vec<u8>,
    csum: Csum,
}

impl Default for PacketBuilder {
    fn default() -> Self {
        Self::new()
    }
}

impl PacketBuilder {
    /// Ethernet from 02:00:00:00:00:01 to 02:00:00:00:00:02.
    #[must_use]
    pub fn new() -> Self {
        Self::eth(MacAddr([2, 0, 0, 0, 0, 1]), MacAddr([2, 0, 0, 0, 0, 2]))
    }

    /// Ethernet between these.
    #[must_use]
    pub fn eth(src: MacAddr, dst: MacAddr) -> Self {
        Self { layers: Vec::new(), payload: Vec::new(), csum: Csum::Full }
            .add(Header::Eth { dst, src })
    }

    fn add(mut self, header: Header) -> Self {
        self.layers.push(Layer { header, tos: 0, ttl: 64, frag: 0, tcp_flags: 0x10, next: None });
        self
    }

    fn edit(mut self, f: impl FnOnce(&mut Layer)) -> Self {
        self.layers.last_mut().map(f);
        self
    }

    /// Another Ethernet header, inside a tunnel.
    #[must_use]
    pub fn inner_eth(self, src: MacAddr, dst: MacAddr) -> Self {
        self.add(Header::Eth { dst, src })
    }

    /// An 802.1Q tag.
    #[must_use]
    pub fn vlan(self, tci: u16) -> Self {
        self.tag(0x8100, tci)
    }

    /// A tag of this kind.
    #[must_use]
    pub fn tag(self, tpid: u16, tci: u16) -> Self {
        self.add(Header::Tag { tpid, tci })
    }

    /// ARP over Ethernet for IPv4. `sha` and `sip` are the sender's, `tha` and `tip` the target's.
    #[must_use]
    pub fn arp(self, op: u16, sender: (MacAddr, Ipv4Addr), target: (MacAddr, Ipv4Addr)) -> Self {
        let mut bytes = vec![0, 1, 8, 0, 6, 4];
        bytes.extend(op.to_be_bytes());
        for (mac, ip) in [sender, target] {
            bytes.extend(mac.0);
            bytes.extend(ip.octets());
        }
        self.raw(&bytes, 0x0806, 0)
    }

    /// IPv4, TTL 64.
    #[must_use]
    pub fn ipv4(self, src: Ipv4Addr, dst: Ipv4Addr) -> Self {
        self.ipv4_options(src, dst, &[])
    }

    /// IPv4 with options, a multiple of 4 bytes, at most 40.
    #[must_use]
    pub fn ipv4_options(self, src: Ipv4Addr, dst: Ipv4Addr, options: &[u8]) -> Self {
        self.add(Header::Ipv4 { src, dst, options: options.to_vec() })
    }

    /// IPv6, hop limit 64.
    #[must_use]
    pub fn ipv6(self, src: Ipv6Addr, dst: Ipv6Addr, label: u32) -> Self {
        self.add(Header::Ipv6 { src, dst, label })
    }

    /// An IPv6 extension header of this protocol number (0, 43, 51, 60, …); `body` follows its two first
    /// bytes and makes it a multiple of 8 (of 4 for 51).
    #[must_use]
    pub fn ext(self, kind: u8, body: &[u8]) -> Self {
        self.add(Header::Ext { kind, body: body.to_vec() })
    }

    /// An IPv6 fragment header; `offset` in bytes, a multiple of 8.
    #[must_use]
    pub fn ipv6_fragment(self, offset: u16, more: bool) -> Self {
        let [a, b] = (offset | u16::from(more)).to_be_bytes();
        self.ext(44, &[a, b, 0, 0, 0, 7])
    }

    /// TCP with ACK.
    #[must_use]
    pub fn tcp(self, src: u16, dst: u16) -> Self {
        self.add(Header::Tcp { src, dst })
    }

    /// UDP.
    #[must_use]
    pub fn udp(self, src: u16, dst: u16) -> Self {
        self.add(Header::Udp { src, dst })
    }

    /// SCTP.
    #[must_use]
    pub fn sctp(self, src: u16, dst: u16) -> Self {
        self.add(Header::Sctp { src, dst })
    }

    /// ICMP with four zero bytes after the checksum.
    #[must_use]
    pub fn icmp(self, kind: u8, code: u8) -> Self {
        self.add(Header::Icmp { kind, code })
    }

    /// ICMPv6; all after the checksum is payload.
    #[must_use]
    pub fn icmpv6(self, kind: u8, code: u8) -> Self {
        self.add(Header::Icmpv6 { kind, code })
    }

    /// Neighbour solicitation (135) or advertisement (136) with link-layer address options
    /// (1 source, 2 target).
    #[must_use]
    pub fn nd(self, kind: u8, target: Ipv6Addr, options: &[(u8, MacAddr)]) -> Self {
        let mut body = vec![0; 4];
        body.extend(target.octets());
        for (option, mac) in options {
            body.extend([*option, 1]);
            body.extend(mac.0);
        }
        self.icmpv6(kind, 0).payload(&body)
    }

    /// VXLAN after UDP; then comes [`inner_eth`](Self::inner_eth).
    #[must_use]
    pub fn vxlan(self, src_port: u16) -> Self {
        self.udp(src_port, 4789).raw(&[8, 0, 0, 0, 0, 0, 42, 0], 0, 0)
    }

    /// Geneve after UDP, with one 4-byte option.
    #[must_use]
    pub fn geneve(self, src_port: u16) -> Self {
        let bytes = [1, 0, 0x65, 0x58, 0, 0, 42, 0, 0, 1, 2, 0];
        self.udp(src_port, 6081).raw(&bytes, 0, 0)
    }

    /// GRE with a key; `eth_type` is 0x6558 for Ethernet inside, else 0x0800 or 0x86dd.
    #[must_use]
    pub fn gre(self, eth_type: u16) -> Self {
        let [a, b] = eth_type.to_be_bytes();
        self.raw(&[0x20, 0, a, b, 0, 0, 0, 42], 0, 47)
    }

    /// Any bytes as a header; the header before it says `eth_type` or `proto`.
    #[must_use]
    pub fn raw(self, bytes: &[u8], eth_type: u16, proto: u8) -> Self {
        self.add(Header::Raw { bytes: bytes.to_vec(), eth_type, proto })
    }

    /// Type of service or traffic class of the IP header added last.
    #[must_use]
    pub fn tos(self, tos: u8) -> Self {
        self.edit(|layer| layer.tos = tos)
    }

    /// Time to live or hop limit of the IP header added last.
    #[must_use]
    pub fn ttl(self, ttl: u8) -> Self {
        self.edit(|layer| layer.ttl = ttl)
    }

    /// Makes the IPv4 header added last a fragment; `offset` in bytes, a multiple of 8.
    #[must_use]
    pub fn fragment(self, offset: u16, more: bool) -> Self {
        self.edit(|layer| layer.frag = (offset / 8) | (u16::from(more) << 13))
    }

    /// Flags of the TCP header added last.
    #[must_use]
    pub fn flags(self, flags: u16) -> Self {
        self.edit(|layer| layer.tcp_flags = flags)
    }

    /// What the header added last says about the next one, in place of the truth.
    #[must_use]
    pub fn next(self, next: u16) -> Self {
        self.edit(|layer| layer.next = Some(next))
    }

    /// The bytes after all headers.
    #[must_use]
    pub fn payload(mut self, bytes: &[u8]) -> Self {
        self.payload = bytes.to_vec();
        self
    }

    /// `n` bytes 0, 1, 2, … after all headers.
    #[must_use]
    pub fn payload_len(mut self, n: usize) -> Self {
        self.payload = (0..=255).cycle().take(n).collect();
        self
    }

    /// What the innermost transport checksum is to be; those further out are correct.
    #[must_use]
    pub fn csum(mut self, csum: Csum) -> Self {
        self.csum = csum;
        self
    }

    /// The packet as [`MemPacket`] without pool.
    #[must_use]
    pub fn packet(&self) -> MemPacket {
        MemPacket::new(&self.build())
    }

    /// The bytes.
    #[must_use]
    pub fn build(&self) -> Vec<u8> {
        let mut bytes = self.payload.clone();
        let mut csum = self.csum;
        // Sums further out are as if this one were finished, as the kernel computes them.
        let mut unfinished = None;
        for (i, layer) in self.layers.iter().enumerate().rev() {
            let (outer, inner) = (self.layers.get(..i), self.layers.get(i + 1));
            let next = layer.next.unwrap_or_else(|| layer.says(inner));
            let pseudo = outer.and_then(|outer| pseudo_header(outer, layer, bytes.len()));
            bytes = layer.write(next, bytes);
            let mut innermost = bytes.clone();
            if layer.patch(&mut innermost, pseudo.as_deref(), csum) {
                if csum == Csum::Partial {
                    layer.patch(&mut bytes, pseudo.as_deref(), Csum::Full);
                    unfinished = Some(innermost);
                } else {
                    bytes = innermost;
                }
                csum = Csum::Full;
            }
        }
        if let Some(unfinished) = unfinished {
            let at = bytes.len() - unfinished.len();
            bytes.splice(at.., unfinished);
        }
        bytes
    }
}

/// The pseudo-header of a transport header, which the next IP header outwards gives.
fn pseudo_header(outer: &[Layer], layer: &Layer, payload: usize) -> Option<Vec<u8>> {
    let len = u32::try_from(payload + layer.header_len()).ok()?;
    let proto = layer.proto()?;
    let mut bytes = Vec::new();
    match outer.iter().rev().find(|l| !matches!(l.header, Header::Ext { .. }))?.header {
        Header::Ipv4 { src, dst, .. } => {
            bytes.extend(src.octets());
            bytes.extend(dst.octets());
        }
        Header::Ipv6 { src, dst, .. } => {
            bytes.extend(src.octets());
            bytes.extend(dst.octets());
        }
        _ => return None,
    }
    bytes.extend(len.to_be_bytes());
    bytes.extend([0, 0, 0, proto]);
    Some(bytes)
}

/// The sum of big-endian 16-bit words with the carries added back in.
fn sum(parts: &[&[u8]]) -> u16 {
    let words = parts.iter().flat_map(|part| part.chunks(2));
    let mut sum: u64 = words
        .map(|word| match *word {
            [a, b] => u64::from(u16::from_be_bytes([a, b])),
            [a] => u64::from(a) << 8,
            _ => 0,
        })
        .sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    u16::try_from(sum).unwrap_or(0)
}

/// CRC32c, bit by bit.
fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| {
            (crc >> 1) ^ (0x82f6_3b78 & (crc & 1).wrapping_neg())
        })
    })
}

impl Layer {
    /// The IP protocol number of this header, if it has one.
    fn proto(&self) -> Option<u8> {
        match &self.header {
            Header::Ext { kind, .. } => Some(*kind),
            Header::Tcp { .. } => Some(6),
            Header::Udp { .. } => Some(17),
            Header::Sctp { .. } => Some(132),
            Header::Icmp { .. } => Some(1),
            Header::Icmpv6 { .. } => Some(58),
            Header::Raw { proto, .. } => Some(*proto),
            Header::Ipv4 { .. } => Some(4),
            Header::Ipv6 { .. } => Some(41),
            Header::Eth { .. } | Header::Tag { .. } => None,
        }
    }

    fn header_len(&self) -> usize {
        match &self.header {
            Header::Tcp { .. } => 20,
            Header::Udp { .. } | Header::Icmp { .. } => 8,
            Header::Sctp { .. } => 12,
            Header::Icmpv6 { .. } => 4,
            _ => 0,
        }
    }

    /// What this header says about the next one.
    fn says(&self, inner: Option<&Self>) -> u16 {
        let Some(inner) = inner else { return 59 };
        if !matches!(self.header, Header::Eth { .. } | Header::Tag { .. }) {
            return u16::from(inner.proto().unwrap_or(59));
        }
        match &inner.header {
            Header::Tag { tpid, .. } => *tpid,
            Header::Ipv4 { .. } => 0x0800,
            Header::Ipv6 { .. } => 0x86dd,
            Header::Raw { eth_type, .. } => *eth_type,
            _ => 0,
        }
    }

    /// The header and its payload, with a transport checksum of zero.
    #[allow(clippy::cast_possible_truncation, reason = "lengths of test packets")]
    fn write(&self, next: u16, payload: Vec<u8>) -> Vec<u8> {
        let mut out = Vec::new();
        match &self.header {
            Header::Eth { dst, src } => {
                out.extend(dst.0);
                out.extend(src.0);
                out.extend(next.to_be_bytes());
            }
            Header::Tag { tci, .. } => {
                out.extend(tci.to_be_bytes());
                out.extend(next.to_be_bytes());
            }
            Header::Ipv4 { src, dst, options } => {
                let header = 20 + options.len();
                out.extend([0x40 | (header / 4) as u8, self.tos]);
                out.extend(((header + payload.len()) as u16).to_be_bytes());
                out.extend([0, 1]);
                out.extend(self.frag.to_be_bytes());
                out.extend([self.ttl, next as u8, 0, 0]);
                out.extend(src.octets());
                out.extend(dst.octets());
                out.extend(options);
                let check = (!sum(&[&out])).to_be_bytes();
                out.splice(10..12, check);
            }
            Header::Ipv6 { src, dst, label } => {
                out.extend((6 << 28 | u32::from(self.tos) << 20 | label & 0xf_ffff).to_be_bytes());
                out.extend((payload.len() as u16).to_be_bytes());
                out.extend([next as u8, self.ttl]);
                out.extend(src.octets());
                out.extend(dst.octets());
            }
            Header::Ext { kind, body } => {
                let len = body.len() + 2;
                let units = if *kind == 51 { len / 4 - 2 } else { len / 8 - 1 };
                out.extend([next as u8, if *kind == 44 { 0 } else { units as u8 }]);
                out.extend(body);
            }
            Header::Tcp { src, dst } => {
                out.extend(src.to_be_bytes());
                out.extend(dst.to_be_bytes());
                out.extend([0, 0, 0, 1, 0, 0, 0, 2]);
                out.extend((5 << 12 | self.tcp_flags & 0xfff).to_be_bytes());
                out.extend([0x20, 0, 0, 0, 0, 0]);
            }
            Header::Udp { src, dst } => {
                out.extend(src.to_be_bytes());
                out.extend(dst.to_be_bytes());
                out.extend(((8 + payload.len()) as u16).to_be_bytes());
                out.extend([0, 0]);
            }
            Header::Sctp { src, dst } => {
                out.extend(src.to_be_bytes());
                out.extend(dst.to_be_bytes());
                out.extend([0, 0, 0, 9, 0, 0, 0, 0]);
            }
            Header::Icmp { kind, code } => out.extend([*kind, *code, 0, 0, 0, 0, 0, 0]),
            Header::Icmpv6 { kind, code } => out.extend([*kind, *code, 0, 0]),
            Header::Raw { bytes, .. } => out.extend(bytes),
        }
        out.extend(payload);
        out
    }

    /// Writes the checksum of a transport header; false when it has none.
    fn patch(&self, bytes: &mut Vec<u8>, pseudo: Option<&[u8]>, csum: Csum) -> bool {
        let pseudo = pseudo.unwrap_or_default();
        let (at, pseudo) = match &self.header {
            Header::Tcp { .. } => (16, pseudo),
            Header::Udp { .. } => (6, pseudo),
            Header::Icmp { .. } => (2, &[][..]),
            Header::Icmpv6 { .. } => (2, pseudo),
            Header::Sctp { .. } => {
                let crc = match csum {
                    Csum::Full => crc32c(bytes),
                    Csum::Bad => crc32c(bytes) ^ 0x40,
                    Csum::Partial | Csum::Zero => 0,
                };
                bytes.splice(8..12, crc.to_le_bytes());
                return true;
            }
            _ => return false,
        };
        let partial = sum(&[pseudo]);
        let full = match !sum(&[pseudo, bytes]) {
            0 if at == 6 => 0xffff,
            full => full,
        };
        let check = match csum {
            Csum::Full => full,
            Csum::Partial => partial,
            Csum::Zero => 0,
            Csum::Bad if full ^ 0x40 == partial => full ^ 0x20,
            Csum::Bad => full ^ 0x40,
        };
        bytes.splice(at..at + 2, check.to_be_bytes());
        true
    }
}
