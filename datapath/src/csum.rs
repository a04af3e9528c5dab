//! Checksums: keep them right while headers are rewritten, and tell and finish unfinished ones.
//!
//! A packet from a local stack with transmit checksum offload carries in its innermost TCP or UDP
//! checksum field only the folded, uncomplemented sum of the pseudo-header (the kernel's
//! CHECKSUM_PARTIAL), and in SCTP a zero CRC. Whether a packet is such a one is read from the field
//! itself. One packet in 65,536 with a *wrong* full checksum is taken for unfinished, and thereby
//! repaired; a packet with a right one that looks unfinished comes out the same either way. A packet
//! whose IPv6 routing header has segments left counts as finished.
//!
//! Sums are of big-endian 16-bit words (RFC 1071); updates follow RFC 1624.

mod crc32c;
mod finish;

pub use finish::{CsumRequest, Unfinished, complete_in_software, unfinished};
pub(crate) use finish::{MAX_NESTING, inner, outermost};

use crate::Layers;
use crate::wire::{self, proto};

/// The sum of big-endian 16-bit words; an odd last byte counts as the upper half of a word.
pub(crate) fn sum(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<4>();
    let sum: u64 = words.iter().map(|&word| u64::from(u32::from_be_bytes(word))).sum();
    let tail = match *rest {
        [a] => u64::from(a) << 8,
        [a, b] => u64::from(u16::from_be_bytes([a, b])),
        [a, b, c] => u64::from(u16::from_be_bytes([a, b])) + (u64::from(c) << 8),
        _ => 0,
    };
    sum + tail
}

/// Adds the carries back in. Not zero unless `sum` is.
#[inline]
#[allow(clippy::cast_possible_truncation, reason = "the last step leaves 16 bits")]
pub(crate) fn fold(sum: u64) -> u16 {
    let sum = (sum & 0xffff_ffff) + (sum >> 32);
    let sum = (sum & 0xffff) + (sum >> 16 & 0xffff) + (sum >> 32);
    let sum = (sum & 0xffff) + (sum >> 16);
    ((sum & 0xffff) + (sum >> 16)) as u16
}

/// An IP header, as far as checksums need it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Network {
    /// Where it begins.
    pub(crate) l3: usize,
    pub(crate) ipv4: bool,
    /// Protocol of the transport header.
    pub(crate) proto: u8,
    /// Where the transport header begins, in the packet.
    pub(crate) l4: usize,
    /// Length of the transport header and all after it.
    pub(crate) len: usize,
    pub(crate) frag: u8,
    /// The destination is not the one that the transport checksum is about.
    pub(crate) routed: bool,
}

impl Network {
    /// Reads the header at `l3`. `None` when it is not IP or contradicts itself.
    #[inline]
    pub(crate) fn read(head: &[u8], l3: usize) -> Option<Self> {
        let ip = head.get(l3..)?;
        match ip.first()? >> 4 {
            4 => {
                let header: &[u8; wire::IPV4_LEN] = ip.first_chunk()?;
                let ihl = usize::from(header[0] & 15) * 4;
                let len = usize::from(u16::from_be_bytes([header[2], header[3]]));
                let frag = wire::ipv4_frag([header[6], header[7]]);
                let (l4, len) = (l3 + ihl, len.checked_sub(ihl)?);
                (ihl >= wire::IPV4_LEN).then_some(())?;
                Some(Self { l3, ipv4: true, proto: header[9], l4, len, frag, routed: false })
            }
            6 => {
                let header: &[u8; wire::IPV6_LEN] = ip.first_chunk()?;
                let plen = usize::from(u16::from_be_bytes([header[4], header[5]]));
                let end = wire::extensions(ip, wire::IPV6_LEN, header[6])?;
                Some(Self {
                    l3,
                    ipv4: false,
                    proto: end.proto,
                    l4: l3 + end.at,
                    len: (plen + wire::IPV6_LEN).checked_sub(end.at)?,
                    frag: end.frag,
                    routed: end.routed,
                })
            }
            _ => None,
        }
    }

    /// Where the addresses lie, from the start of the packet.
    fn addresses(&self) -> core::ops::Range<usize> {
        if self.ipv4 { self.l3 + 12..self.l3 + 20 } else { self.l3 + 8..self.l3 + 40 }
    }

    /// An IPv6 header of which only the addresses count, as what follows cannot be read.
    #[cold]
    fn stub(head: &[u8], l3: usize) -> Option<Self> {
        let header: &[u8; wire::IPV6_LEN] = wire::chunk(head, l3)?;
        let l4 = l3 + wire::IPV6_LEN;
        let stub = Self { l3, ipv4: false, proto: header[6], l4, len: 0, frag: 0, routed: false };
        (header[0] >> 4 == 6).then_some(stub)
    }

    /// True when a transport checksum covers the byte at `at`.
    fn transport_covers(&self, at: usize) -> bool {
        let pseudo = self.proto != proto::SCTP && !(self.ipv4 && self.proto == proto::ICMP);
        let is_address = self.addresses().contains(&at) && !(self.routed && at >= self.l3 + 24);
        pseudo && is_address || at >= self.l4
    }

    /// True when `check` is what a stack leaves that wants the hardware to finish the sum.
    #[inline]
    pub(crate) fn is_unfinished(&self, head: &[u8], check: u16) -> bool {
        self.frag == 0 && !self.routed && self.pseudo_sum(head) == Some(check)
    }

    /// The folded sum of the pseudo-header.
    #[inline]
    pub(crate) fn pseudo_sum(&self, head: &[u8]) -> Option<u16> {
        let addresses = sum(head.get(self.addresses())?);
        Some(fold(addresses + self.len as u64 + u64::from(self.proto)))
    }
}

/// What the transport checksum of a packet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// There is none to keep: no such header, a later fragment, UDP without.
    None,
    /// Over pseudo-header and all.
    Full,
    /// As full, but never zero.
    Udp,
    /// Over all but the pseudo-header.
    Icmp,
    /// Unfinished: the pseudo-header's sum, not complemented.
    Partial,
    /// CRC32c over `len` bytes.
    Sctp { len: usize },
    /// There is one that cannot be kept: it is cut off, not in the first frame or behind headers that cannot be
    /// read, or it is an SCTP CRC, which depends on how much follows, in a first fragment.
    Lost,
}

/// The checksums of the outermost IP and transport headers of a packet, found before the first
/// rewrite and kept right by each [`write`](Checksums::write).
///
/// A wrong checksum stays exactly as wrong, an unfinished one stays unfinished, and UDP without
/// checksum stays without. What would need a checksum out of reach to change is refused.
#[derive(Clone, Copy, Debug)]
pub struct Checksums {
    /// The IP header; `None` for packets without, whose writes are then plain.
    ip: Option<Network>,
    /// Where the transport checksum is.
    field: usize,
    kind: Kind,
}

impl Checksums {
    /// Looks at the headers where `layers` says they are.
    #[must_use]
    pub fn of(head: &[u8], layers: Layers) -> Self {
        let l3 = usize::from(layers.l3);
        let plain = Self { ip: None, field: 0, kind: Kind::None };
        if l3 == 0 {
            return plain;
        }
        let Some(ip) = Network::read(head, l3) else {
            // Either no IP at all, or IPv6 whose extension headers have no end.
            return Network::stub(head, l3).map_or(plain, |ip| Self {
                ip: Some(ip),
                kind: Kind::Lost,
                ..plain
            });
        };
        let (offset, kind) = match ip.proto {
            _ if ip.frag == wire::FRAG_LATER => (0, Kind::None),
            proto::TCP => (16, Kind::Full),
            proto::UDP => (6, Kind::Udp),
            proto::ICMP if ip.ipv4 => (2, Kind::Icmp),
            proto::ICMPV6 if !ip.ipv4 => (2, Kind::Full),
            proto::SCTP if ip.frag != 0 || ip.len < 12 => (8, Kind::Lost),
            proto::SCTP => (8, Kind::Sctp { len: ip.len }),
            _ => (0, Kind::None),
        };
        let field = ip.l4 + offset;
        let kind = match wire::be16(head, field) {
            _ if kind == Kind::None => kind,
            Some(check) if ip.len >= offset + 2 => match ip.proto {
                proto::UDP if check == 0 => Kind::None,
                proto::SCTP if wire::be32(head, field) == Some(0) => Kind::None,
                proto::TCP | proto::UDP if ip.is_unfinished(head, check) => Kind::Partial,
                _ => kind,
            },
            _ => Kind::Lost,
        };
        Self { ip: Some(ip), field, kind }
    }

    /// Replaces the bytes at `at` (from the start of the packet) by `new` and updates the checksums
    /// that cover them. Not for fields that say how long or what a header is, nor for checksums.
    /// Returns false and changes nothing when they are not all in the first frame, or when a checksum
    /// that covers them cannot be kept.
    #[must_use]
    pub fn write(&self, head: &mut [u8], at: usize, new: &[u8]) -> bool {
        if self.kind == Kind::Lost && self.ip.is_some_and(|ip| ip.transport_covers(at)) {
            return false;
        }
        let Some(place) = head.get_mut(at..at + new.len()) else { return false };
        let Some(ip) = self.ip.filter(|ip| at >= ip.l3) else {
            place.copy_from_slice(new);
            return true;
        };
        let mut delta = 0;
        let mut changed = [0; 16];
        for (i, (old, new)) in place.iter_mut().zip(new).enumerate() {
            let shift = if (at + i - ip.l3).is_multiple_of(2) { 8 } else { 0 };
            delta += 0xffff + (u64::from(*new) << shift) - (u64::from(*old) << shift);
            if let Some(changed) = changed.get_mut(i) {
                *changed = *old ^ *new;
            }
            *old = *new;
        }
        if at >= ip.l4 {
            self.body(head, delta, at - ip.l4, changed.get(..new.len()).unwrap_or(&changed));
        } else {
            if ip.ipv4 && at < ip.l3 + wire::IPV4_LEN {
                update(head, ip.l3 + 10, |check| !fold(u64::from(!check) + delta));
            }
            if ip.transport_covers(at) {
                self.pseudo(head, delta);
            }
        }
        true
    }

    /// An address changed.
    fn pseudo(&self, head: &mut [u8], delta: u64) {
        match self.kind {
            Kind::None | Kind::Icmp | Kind::Sctp { .. } | Kind::Lost => {}
            Kind::Partial => update(head, self.field, |check| fold(u64::from(check) + delta)),
            Kind::Full | Kind::Udp => self.full(head, delta),
        }
    }

    /// `changed`, at `at` from the transport header, changed.
    fn body(&self, head: &mut [u8], delta: u64, at: usize, changed: &[u8]) {
        match self.kind {
            Kind::None | Kind::Partial | Kind::Lost => {}
            Kind::Full | Kind::Udp | Kind::Icmp => self.full(head, delta),
            Kind::Sctp { len } => {
                let crc = crc32c::change(changed, len.saturating_sub(at + changed.len()));
                let field = head.get_mut(self.field..).and_then(<[u8]>::first_chunk_mut);
                if let Some(field) = field {
                    *field = (u32::from_le_bytes(*field) ^ crc).to_le_bytes();
                }
            }
        }
    }

    fn full(&self, head: &mut [u8], delta: u64) {
        update(head, self.field, |check| match !fold(u64::from(!check) + delta) {
            0 if self.kind == Kind::Udp => 0xffff,
            check => check,
        });
    }
}

/// Replaces the 16-bit number at `at`.
pub(crate) fn update(head: &mut [u8], at: usize, f: impl FnOnce(u16) -> u16) {
    if let Some(field) = head.get_mut(at..).and_then(<[u8]>::first_chunk_mut) {
        *field = f(u16::from_be_bytes(*field)).to_be_bytes();
    }
}

#[cfg(test)]
mod tests;
