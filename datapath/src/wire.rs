//! Numbers and shapes of headers on the wire, and bounded reads of them.

/// Ethernet header.
pub const ETH_LEN: usize = 14;
/// One VLAN tag.
pub const TAG_LEN: usize = 4;
/// IPv4 header without options.
pub const IPV4_LEN: usize = 20;
/// IPv6 header without extensions.
pub const IPV6_LEN: usize = 40;

/// Ethertype of IPv4.
pub const ETH_IPV4: u16 = 0x0800;
/// Ethertype of ARP.
pub const ETH_ARP: u16 = 0x0806;
/// Ethertype of reverse ARP.
pub const ETH_RARP: u16 = 0x8035;
/// Ethertype of IPv6.
pub const ETH_IPV6: u16 = 0x86dd;
/// Ethertype of an 802.1Q tag.
pub const ETH_VLAN: u16 = 0x8100;
/// Ethertype of an 802.1ad tag.
pub const ETH_QINQ: u16 = 0x88a8;
/// Ethertype of Ethernet inside GRE or Geneve.
pub const ETH_TEB: u16 = 0x6558;
/// What the flow key says of 802.2 frames that carry no Ethertype; never on the wire.
pub const ETH_NONE: u16 = 0x05ff;
/// The smallest Ethertype; below it the field is a length.
pub const ETH_MIN: u16 = 0x0600;

/// Set in the flow key's VLAN TCI when there is a tag.
pub const TCI_PRESENT: u16 = 0x1000;

/// Protocol numbers of IPv4 and next headers of IPv6.
pub mod proto {
    #![allow(missing_docs, reason = "IANA's names")]
    pub const HOP_BY_HOP: u8 = 0;
    pub const ICMP: u8 = 1;
    pub const IPIP: u8 = 4;
    pub const TCP: u8 = 6;
    pub const UDP: u8 = 17;
    pub const IPV6: u8 = 41;
    pub const ROUTING: u8 = 43;
    pub const FRAGMENT: u8 = 44;
    pub const GRE: u8 = 47;
    pub const AH: u8 = 51;
    pub const ICMPV6: u8 = 58;
    pub const DST_OPTIONS: u8 = 60;
    pub const SCTP: u8 = 132;
}

/// First octets and code of neighbour discovery: solicitation.
pub const ND_SOLICIT: u8 = 135;
/// Neighbour advertisement.
pub const ND_ADVERT: u8 = 136;

/// The value of [`Field::IP_FRAG`](crate::Field::IP_FRAG) for the first fragment.
pub const FRAG_FIRST: u8 = 1;
/// The value for later fragments.
pub const FRAG_LATER: u8 = 3;

/// What flags and offset of an IPv4 header say: 0, [`FRAG_FIRST`] or [`FRAG_LATER`].
#[inline]
#[must_use]
pub const fn ipv4_frag(flags_and_offset: [u8; 2]) -> u8 {
    match u16::from_be_bytes(flags_and_offset) & 0x3fff {
        0 => 0,
        0x2000 => FRAG_FIRST,
        _ => FRAG_LATER,
    }
}

/// The `N` bytes at `at`.
#[inline]
#[must_use]
pub fn chunk<const N: usize>(bytes: &[u8], at: usize) -> Option<&[u8; N]> {
    bytes.get(at..)?.first_chunk()
}

/// The 16-bit number at `at`.
#[inline]
#[must_use]
pub fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    chunk(bytes, at).map(|b| u16::from_be_bytes(*b))
}

/// The 32-bit number at `at`.
#[inline]
#[must_use]
pub fn be32(bytes: &[u8], at: usize) -> Option<u32> {
    chunk(bytes, at).map(|b| u32::from_be_bytes(*b))
}

/// More options of neighbour discovery than this are not looked at.
const MAX_ND_OPTIONS: usize = 16;

/// The options of neighbour discovery that begin at `at`: kind, length in bytes and place of each, up
/// to one that is cut off or has no length.
pub fn nd_options(bytes: &[u8], at: usize) -> impl Iterator<Item = (u8, usize, usize)> + '_ {
    let option = move |at| {
        let &[kind, units] = chunk(bytes, at)?;
        let len = usize::from(units) * 8;
        (len != 0 && at + len <= bytes.len()).then_some((kind, len, at))
    };
    core::iter::successors(option(at), move |&(_, len, at)| option(at + len)).take(MAX_ND_OPTIONS)
}

/// Where IPv6 extension headers end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extensions {
    /// The first next header that is none of them; 44 in later fragments.
    pub proto: u8,
    /// Where it begins, from the start of `bytes`.
    pub at: usize,
    /// 0, [`FRAG_FIRST`] or [`FRAG_LATER`].
    pub frag: u8,
    /// A routing header says that this is not the last destination.
    pub routed: bool,
}

/// More extension headers than this are taken for nonsense.
const MAX_EXTENSIONS: usize = 16;

/// Walks over hop-by-hop, routing, destination option, authentication and fragment headers that begin
/// at `at`; `None` when one is cut off or there are more than 16.
#[inline]
#[must_use]
pub fn extensions(bytes: &[u8], at: usize, proto: u8) -> Option<Extensions> {
    let end = Extensions { proto, at, frag: 0, routed: false };
    match proto {
        proto::TCP | proto::UDP | proto::ICMPV6 => Some(end),
        _ => walk(bytes, end),
    }
}

fn walk(bytes: &[u8], mut end: Extensions) -> Option<Extensions> {
    for _ in 0..MAX_EXTENSIONS {
        let is_extension = matches!(
            end.proto,
            proto::HOP_BY_HOP | proto::ROUTING | proto::DST_OPTIONS | proto::AH | proto::FRAGMENT
        );
        if !is_extension {
            return Some(end);
        }
        let [next, len, offset @ .., _, _, _, _] = *chunk::<8>(bytes, end.at)?;
        let len = match end.proto {
            proto::FRAGMENT => 8,
            proto::AH => (usize::from(len) + 2) * 4,
            _ => (usize::from(len) + 1) * 8,
        };
        bytes.get(end.at..end.at + len)?;
        if end.proto == proto::FRAGMENT {
            let offset = u16::from_be_bytes(offset);
            if offset & !7 != 0 {
                return Some(Extensions { frag: FRAG_LATER, at: end.at + len, ..end });
            }
            end.frag = if offset == 0 { end.frag } else { FRAG_FIRST };
        }
        end.routed |= end.proto == proto::ROUTING && offset[1] != 0;
        end.proto = next;
        end.at += len;
    }
    None
}
