//! Cutting a TCP packet that its sender left to the hardware to cut (TSO) into packets that fit.
//!
//! Such a packet comes from a local stack: its checksum is unfinished, which is how it is told from one that
//! is merely too large. Segments differ from it as those of the kernel do: lengths and sequence numbers,
//! IPv4 identification counted up, CWR on the first only, FIN and PSH on the last only. The TCP checksum
//! stays unfinished, that of a UDP tunnel around it is completed (RFC 1624; the kernel's "local checksum
//! offload"). Through VLAN tags, VXLAN, Geneve, GRE without checksum and sequence number, and IP in IP.

use core::ops::Range;

use crate::Packet;
use crate::csum::{MAX_NESTING, Network, fold, inner, outermost, sum, update};
use crate::wire::{self, proto};

/// More segments than this are not made of one packet: enough for 64 KiB at an MTU of 576.
const MAX_SEGMENTS: usize = 128;

/// FIN and PSH, in the second byte of offset and flags of TCP.
const LAST_ONLY: u8 = 0x09;
/// CWR.
const FIRST_ONLY: u8 = 0x80;
/// SYN, RST and URG: no sender leaves such a packet to be cut.
const NEVER: u16 = 0x26;

/// An IP header and what follows it.
#[derive(Clone, Copy, Debug, Default)]
struct Level {
    l3: usize,
    l4: usize,
    ipv4: bool,
    udp: bool,
}

/// How a packet is cut.
#[derive(Clone, Copy, Debug)]
pub struct Segments {
    /// IP headers, outermost first.
    levels: [Level; MAX_NESTING],
    n_levels: usize,
    /// The TCP header.
    tcp: usize,
    /// Length of all headers, which each segment repeats.
    headers: usize,
    /// Payload of each segment but the last.
    payload: usize,
    /// Length of the packet.
    total: usize,
}

impl Segments {
    /// How to cut a packet into ones of at most `max_len` bytes, Ethernet header included; each has some
    /// payload. `None` when it need not be cut, was not left to be cut, or is no TCP that can be.
    #[must_use]
    pub fn of<P: Packet>(packet: &P, max_len: usize) -> Option<Self> {
        let (head, total) = (packet.head(), packet.len());
        let mut l3 = outermost(head, packet.layers())?;
        let mut levels = [Level::default(); MAX_NESTING];
        for n in 0..MAX_NESTING {
            let ip = Network::read(head, l3)?;
            if ip.frag != 0 || ip.l4 + ip.len != total {
                return None;
            }
            let udp = ip.proto == proto::UDP;
            *levels.get_mut(n)? = Level { l3, l4: ip.l4, ipv4: ip.ipv4, udp };
            match ip.proto {
                proto::TCP => return Self::tcp(head, &ip, max_len, (levels, n + 1)),
                proto::UDP if usize::from(wire::be16(head, ip.l4 + 4)?) != ip.len => return None,
                // With a checksum or numbers of its own.
                proto::GRE if wire::be16(head, ip.l4)? & 0x9000 != 0 => return None,
                _ => l3 = inner(head, &ip)?,
            }
        }
        None
    }

    fn tcp(
        head: &[u8],
        ip: &Network,
        max_len: usize,
        (levels, n_levels): ([Level; MAX_NESTING], usize),
    ) -> Option<Self> {
        let flags = wire::be16(head, ip.l4 + 12)?;
        let header = usize::from(flags >> 12) * 4;
        let (headers, total) = (ip.l4 + header, ip.l4 + ip.len);
        let whole = header >= 20 && headers <= head.len().min(total);
        if !whole || total <= max_len || flags & NEVER != 0 {
            return None;
        }
        ip.is_unfinished(head, wire::be16(head, ip.l4 + 16)?).then_some(())?;
        let payload = max_len.checked_sub(headers).filter(|&payload| payload > 0)?;
        let plan = Self { levels, n_levels, tcp: ip.l4, headers, payload, total };
        (plan.count() <= MAX_SEGMENTS).then_some(plan)
    }

    /// How many there will be, 2 to 128.
    #[must_use]
    pub fn count(&self) -> usize {
        (self.total - self.headers).div_ceil(self.payload)
    }

    /// How many bytes at the beginning of the packet each segment begins with.
    #[must_use]
    pub fn headers(&self) -> usize {
        self.headers
    }

    /// Which bytes of the packet follow in segment `n`, from 0; empty if there is none.
    #[must_use]
    pub fn payload(&self, n: usize) -> Range<usize> {
        let start = (self.headers + n * self.payload).min(self.total);
        start..(start + self.payload).min(self.total)
    }

    /// Makes the headers of segment `n` from those of the packet, of which `head` begins with a copy.
    pub fn write(&self, head: &mut [u8], n: usize) {
        let payload = self.payload(n);
        let total = self.headers + payload.len();
        let levels = self.levels.get(..self.n_levels).unwrap_or_default();
        for level in levels {
            if level.ipv4 {
                put_ipv4(head, level.l3, total - level.l3, n);
            } else {
                put(head, level.l3 + 4, total - level.l3 - wire::IPV6_LEN);
            }
            if level.udp {
                put(head, level.l4 + 4, total - level.l4);
            }
        }
        self.put_tcp(head, n, payload.end == self.total);
        let Some(unfinished) = levels.last().and_then(|level| pseudo_sum(head, level)) else {
            return;
        };
        update(head, self.tcp + 16, |_| unfinished);
        // What the finished TCP segment will sum up to: the complement of the pseudo-header.
        for level in levels.iter().rev().filter(|level| level.udp) {
            self.put_udp_sum(head, level, !unfinished);
        }
    }

    fn put_tcp(&self, head: &mut [u8], n: usize, last: bool) {
        let Some(tcp) = head.get_mut(self.tcp..).and_then(<[u8]>::first_chunk_mut::<20>) else {
            return;
        };
        let seq = u32::from_be_bytes([tcp[4], tcp[5], tcp[6], tcp[7]]);
        let offset = u32::try_from(n * self.payload).unwrap_or(0);
        tcp[4..8].copy_from_slice(&seq.wrapping_add(offset).to_be_bytes());
        tcp[13] &= if last { 0xff } else { !LAST_ONLY };
        tcp[13] &= if n == 0 { 0xff } else { !FIRST_ONLY };
    }

    /// Completes the checksum of a UDP tunnel, unless it has none.
    fn put_udp_sum(&self, head: &mut [u8], level: &Level, inside: u16) {
        let at = level.l4 + 6;
        let Some(pseudo) = pseudo_sum(head, level) else { return };
        if wire::be16(head, at).is_none_or(|check| check == 0) {
            return;
        }
        update(head, at, |_| 0);
        let headers = sum(head.get(level.l4..self.tcp).unwrap_or_default());
        let check = !fold(u64::from(pseudo) + headers + u64::from(inside));
        update(head, at, |_| if check == 0 { 0xffff } else { check });
    }
}

/// Length and identification of an IPv4 header, and its checksum, which stays wrong if it was.
fn put_ipv4(head: &mut [u8], l3: usize, len: usize, n: usize) {
    let old = |head: &[u8], at| u64::from(wire::be16(head, l3 + at).unwrap_or(0));
    let before = old(head, 2) + old(head, 4);
    put(head, l3 + 2, len);
    let count = u16::try_from(n).unwrap_or(0);
    update(head, l3 + 4, |id| id.wrapping_add(count));
    let delta = 0x1_fffe - before + old(head, 2) + old(head, 4);
    update(head, l3 + 10, |check| !fold(u64::from(!check) + delta));
}

/// The sum of a level's pseudo-header, as its lengths are now.
fn pseudo_sum(head: &[u8], level: &Level) -> Option<u16> {
    Network::read(head, level.l3)?.pseudo_sum(head)
}

/// A length, which is one of a packet of at most 64 KiB.
fn put(head: &mut [u8], at: usize, len: usize) {
    update(head, at, |_| u16::try_from(len).unwrap_or(0));
}

#[cfg(test)]
mod tests;
