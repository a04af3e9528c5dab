//! Unfinished checksums: which, and how to finish them without the kernel's help.

use super::{Network, crc32c, fold, sum};
use crate::wire::{self, proto};
use crate::{Layers, Packet};

/// A TCP or UDP checksum that the kernel is to finish: it sums from `start` to the end of the packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CsumRequest {
    /// The transport header, from the start of the packet.
    pub start: u16,
    /// The checksum field, from `start`. It lies within the first frame.
    pub offset: u16,
}

/// What is still to be done to a packet before it may go on a wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unfinished {
    /// A sum to the end of the packet, which the kernel can finish too.
    Sum(CsumRequest),
    /// What only [`complete_in_software`] can finish: a sum with padding behind what it covers, or an
    /// SCTP CRC.
    Software,
}

/// An unfinished checksum and how many bytes it covers.
#[derive(Clone, Copy, Debug)]
struct Gap {
    start: usize,
    offset: usize,
    len: usize,
    what: u8,
}

/// Headers of tunnels inside each other that are looked through.
pub(crate) const MAX_NESTING: usize = 4;

/// Which checksum is unfinished, if one is, of a packet of `total` bytes whose first frame is `head`.
#[inline]
#[must_use]
pub fn unfinished(head: &[u8], total: usize, layers: Layers) -> Option<Unfinished> {
    let gap = find(head, layers)?;
    if gap.what == proto::SCTP || gap.start + gap.len != total {
        return Some(Unfinished::Software);
    }
    let (start, offset) = (u16::try_from(gap.start).ok()?, u16::try_from(gap.offset).ok()?);
    Some(Unfinished::Sum(CsumRequest { start, offset }))
}

/// Finishes the packet's unfinished checksum, if it has one; true when it had.
pub fn complete_in_software<P: Packet>(packet: &mut P) -> bool {
    let Some(gap) = find(packet.head(), packet.layers()) else { return false };
    if gap.what == proto::SCTP {
        let mut crc = crc32c::START;
        each_covered(packet, gap, &mut |bytes| crc = crc32c::add(crc, bytes));
        put(packet, gap, (!crc).to_le_bytes());
    } else {
        let (mut total, mut odd) = (0, false);
        each_covered(packet, gap, &mut |bytes| {
            let part = fold(sum(bytes));
            total += u64::from(if odd { part.swap_bytes() } else { part });
            odd ^= bytes.len() % 2 == 1;
        });
        let check = match !fold(total) {
            0 if gap.what == proto::UDP => 0xffff,
            check => check,
        };
        put(packet, gap, check.to_be_bytes());
    }
    true
}

/// Writes the checksum.
fn put<P: Packet, const N: usize>(packet: &mut P, gap: Gap, check: [u8; N]) {
    let at = gap.start + gap.offset;
    if let Some(field) = packet.head_mut().get_mut(at..).and_then(<[u8]>::first_chunk_mut) {
        *field = check;
    }
}

/// Calls `f` with the bytes that the checksum covers, frame by frame.
fn each_covered<P: Packet>(packet: &P, gap: Gap, f: &mut dyn FnMut(&[u8])) {
    let (mut skip, mut left) = (gap.start, gap.len);
    packet.for_each_segment(&mut |bytes| {
        let (_, covered) = bytes.split_at(skip.min(bytes.len()));
        let (covered, _) = covered.split_at(left.min(covered.len()));
        skip = skip.saturating_sub(bytes.len());
        left -= covered.len();
        f(covered);
    });
}

/// Looks for the innermost unfinished checksum.
#[inline]
fn find(head: &[u8], layers: Layers) -> Option<Gap> {
    let l3 = outermost(head, layers)?;
    usual(head, l3).unwrap_or_else(|| find_any(head, l3))
}

/// The same as [`find_any`] at a quarter of the cost for the usual packet: TCP or UDP over IPv4 without options
/// or fragments, outside any tunnel. The outer `None`: it is another.
#[inline]
fn usual(head: &[u8], l3: usize) -> Option<Option<Gap>> {
    let bytes: &[u8; wire::IPV4_LEN + 18] = wire::chunk(head, l3)?;
    let word = |at: usize| Some(u32::from_be_bytes(*wire::chunk(bytes, at)?));
    let half = |at: usize| wire::be16(bytes, at);
    let what = bytes[9];
    let is_plain = bytes[0] == 0x45 && wire::ipv4_frag([bytes[6], bytes[7]]) == 0;
    let offset = match what {
        proto::TCP if is_plain => 16,
        proto::UDP if is_plain && !TUNNELS.contains(&half(wire::IPV4_LEN + 2)?) => 6,
        _ => return None,
    };
    let len = usize::from(half(2)?).checked_sub(wire::IPV4_LEN)?;
    let addresses = u64::from(word(12)?) + u64::from(word(16)?);
    let pseudo = fold(addresses + len as u64 + u64::from(what));
    let unfinished = len >= offset + 2 && half(wire::IPV4_LEN + offset)? == pseudo;
    Some(unfinished.then_some(Gap { start: l3 + wire::IPV4_LEN, offset, len, what }))
}

/// Looks through all headers.
#[inline(never)]
fn find_any(head: &[u8], l3: usize) -> Option<Gap> {
    let mut found = None;
    let mut next = Some(l3);
    for _ in 0..MAX_NESTING {
        let Some(ip) = next.and_then(|l3| Network::read(head, l3)) else { break };
        if ip.frag != 0 {
            break;
        }
        let gap = match ip.proto {
            proto::TCP => sum_gap(head, &ip, 16),
            proto::UDP => sum_gap(head, &ip, 6),
            proto::SCTP => crc_gap(head, &ip),
            _ => None,
        };
        found = gap.or(found);
        next = inner(head, &ip);
        if next.is_none() {
            break;
        }
    }
    found
}

#[inline]
fn sum_gap(head: &[u8], ip: &Network, offset: usize) -> Option<Gap> {
    let check = wire::be16(head, ip.l4 + offset)?;
    let unfinished = ip.len >= offset + 2 && ip.is_unfinished(head, check);
    unfinished.then_some(Gap { start: ip.l4, offset, len: ip.len, what: ip.proto })
}

fn crc_gap(head: &[u8], ip: &Network) -> Option<Gap> {
    let crc = wire::be32(head, ip.l4 + 8)?;
    (crc == 0 && ip.len >= 12).then_some(Gap {
        start: ip.l4,
        offset: 8,
        len: ip.len,
        what: ip.proto,
    })
}

/// Where the outermost IP header begins; parsing looks through one tag only.
#[inline]
pub(crate) fn outermost(head: &[u8], layers: Layers) -> Option<usize> {
    if layers.l3 == 0 { inner_eth(head, 0) } else { Some(usize::from(layers.l3)) }
}

/// Where the IP header inside a tunnel begins.
#[inline]
pub(crate) fn inner(head: &[u8], ip: &Network) -> Option<usize> {
    match ip.proto {
        proto::UDP => inner_udp(head, ip.l4),
        proto::GRE => inner_gre(head, ip.l4),
        proto::IPIP | proto::IPV6 => Some(ip.l4),
        _ => None,
    }
}

/// Ports of VXLAN, as assigned and as Linux has it by default, and of Geneve.
const TUNNELS: [u16; 3] = [4789, 8472, 6081];

#[inline]
fn inner_udp(head: &[u8], udp: usize) -> Option<usize> {
    let [vxlan, linux_vxlan, geneve] = TUNNELS;
    let at = udp + 8;
    match wire::be16(head, udp + 2)? {
        port if port == vxlan || port == linux_vxlan => inner_eth(head, at + 8),
        port if port == geneve => {
            let options = usize::from(head.get(at)? & 0x3f) * 4;
            inner_of(head, wire::be16(head, at + 2)?, at + 8 + options)
        }
        _ => None,
    }
}

fn inner_gre(head: &[u8], at: usize) -> Option<usize> {
    let flags = wire::be16(head, at)?;
    let words = [0x8000, 0x2000, 0x1000].into_iter().filter(|flag| flags & flag != 0).count();
    (flags & 0x4007 == 0).then_some(())?;
    inner_of(head, wire::be16(head, at + 2)?, at + 4 + 4 * words)
}

fn inner_of(head: &[u8], eth_type: u16, at: usize) -> Option<usize> {
    match eth_type {
        wire::ETH_TEB => inner_eth(head, at),
        wire::ETH_IPV4 | wire::ETH_IPV6 => Some(at),
        _ => None,
    }
}

/// Up to two tags are looked through.
fn inner_eth(head: &[u8], eth: usize) -> Option<usize> {
    let mut at = eth + wire::ETH_LEN;
    for _ in 0..3 {
        match wire::be16(head, at - 2)? {
            wire::ETH_VLAN | wire::ETH_QINQ => at += wire::TAG_LEN,
            wire::ETH_IPV4 | wire::ETH_IPV6 => return Some(at),
            _ => return None,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::{Csum, PacketBuilder};
    use crate::{MacAddr, PortNo, extract};

    proptest! {
        /// The short cut finds what the whole search finds, whatever is wrong with the packet.
        #[test]
        fn the_usual_packet_is_no_special_case(
            (tcp, partial) in any::<(bool, bool)>(),
            dst in prop_oneof![Just(4789), Just(8472), Just(6081), any::<u16>()],
            changes in prop::collection::vec((0..60usize, any::<u8>()), 0..3),
            cut in 14..80usize,
        ) {
            let mac = MacAddr([2, 0, 0, 0, 0, 1]);
            let packet = PacketBuilder::eth(mac, mac).ipv4([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
            let packet = if tcp { packet.tcp(1, dst) } else { packet.udp(1, dst) };
            let csum = if partial { Csum::Partial } else { Csum::Full };
            let mut bytes = packet.payload(&[7; 40]).csum(csum).build();
            for (at, value) in changes {
                bytes[at] = value;
            }
            bytes.truncate(cut);
            let mut parsed = crate::testing::MemPacket::new(&bytes);
            let l3 = extract(&mut parsed, PortNo(1)).map_or(0, |_| usize::from(parsed.layers().l3));
            for l3 in [l3, 14].into_iter().filter(|&l3| l3 > 0) {
                let gap = |gap: Option<Gap>| gap.map(|g| (g.start, g.offset, g.len, g.what));
                if let Some(found) = usual(&bytes, l3) {
                    prop_assert_eq!(gap(found), gap(find_any(&bytes, l3)));
                }
            }
        }
    }
}
