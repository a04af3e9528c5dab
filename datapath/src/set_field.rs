//! Rewriting header fields in place: where each lies in the packet, checksums kept right.

use crate::csum::Checksums;
use crate::execute::tag_of;
use crate::wire::{self, TCI_PRESENT, be16, proto};
use crate::{DropReason, Field, Layers, Packet};

/// Where a field lies in a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// In `n` bytes at `at`, `shift` bits from the end; `bits` may be written.
    At { at: usize, n: usize, shift: u32, bits: u128 },
    /// Nowhere, and rightly so: later fragments have no transport header.
    LaterFragment,
}

/// What may be written of a tag: not the bit that says in the key that there is one.
const VLAN_BITS: u128 = 0xffff & !(TCI_PRESENT as u128);

/// `n` whole bytes.
const fn bytes(at: usize, n: usize) -> Option<Place> {
    Some(Place::At { at, n, shift: 0, bits: u128::MAX >> (128 - n * 8) })
}

/// Rewrites the bits of `field` that `mask` has.
///
/// A transport field is left alone in later fragments, which do not have it; a field that the packet
/// should have and has not is a bad action.
pub(crate) fn set_field<P: Packet>(
    packet: &mut P,
    field: &Field,
    value: u128,
    mask: u128,
) -> Result<(), DropReason> {
    let layers = packet.layers();
    let place = Headers::of(packet.head(), layers).place(field).ok_or(DropReason::BadAction)?;
    let Place::At { at, n, shift, bits } = place else { return Ok(()) };
    let sums = Checksums::of(packet.head(), layers);
    let head = packet.head_mut();
    let old = head.get(at..at + n).ok_or(DropReason::BadAction)?;
    let old = old.iter().fold(0, |value, &byte| value << 8 | u128::from(byte));
    let mask = (mask & bits) << shift;
    let new = (old & !mask | (value << shift) & mask).to_be_bytes();
    let written = new.get(new.len() - n..).is_some_and(|new| sums.write(head, at, new));
    written.then_some(()).ok_or(DropReason::BadAction)
}

/// The headers of a packet, as far as fields are looked for in them.
#[derive(Clone, Copy, Debug)]
struct Headers<'a> {
    head: &'a [u8],
    l3: usize,
    l4: usize,
    eth_type: u16,
}

impl<'a> Headers<'a> {
    fn of(head: &'a [u8], Layers { l3, l4 }: Layers) -> Self {
        let (l3, l4) = (usize::from(l3), usize::from(l4));
        let eth_type = l3.checked_sub(2).and_then(|at| be16(head, at)).unwrap_or(0);
        Self { head, l3, l4, eth_type }
    }

    fn place(&self, field: &Field) -> Option<Place> {
        let l3 = self.l3;
        match field.name {
            "eth_dst" => bytes(0, 6),
            "eth_src" => bytes(6, 6),
            "vlan_tci" => {
                tag_of(self.head).map(|at| Place::At { at, n: 2, shift: 0, bits: VLAN_BITS })
            }
            "tp_src" => self.transport(0),
            "tp_dst" => self.transport(1),
            name => match self.eth_type {
                wire::ETH_IPV4 => match name {
                    "ipv4_src" => bytes(l3 + 12, 4),
                    "ipv4_dst" => bytes(l3 + 16, 4),
                    "ip_tos" => bytes(l3 + 1, 1),
                    "ip_ttl" => bytes(l3 + 8, 1),
                    _ => None,
                },
                wire::ETH_IPV6 => match name {
                    "ipv6_src" => bytes(l3 + 8, 16),
                    "ipv6_dst" => bytes(l3 + 24, 16),
                    "ip_tos" => Some(Place::At { at: l3, n: 2, shift: 4, bits: 0xff }),
                    "ip_ttl" => bytes(l3 + 7, 1),
                    "ipv6_label" => Some(Place::At { at: l3, n: 4, shift: 0, bits: 0xf_ffff }),
                    _ => self.neighbour(name),
                },
                wire::ETH_ARP | wire::ETH_RARP => match name {
                    "ip_proto" => bytes(l3 + 7, 1),
                    "arp_sha" => bytes(l3 + 8, 6),
                    "ipv4_src" => bytes(l3 + 14, 4),
                    "arp_tha" => bytes(l3 + 18, 6),
                    "ipv4_dst" => bytes(l3 + 24, 4),
                    _ => None,
                },
                _ => None,
            },
        }
    }

    /// The transport protocol, and whether this is a later fragment.
    fn protocol(&self) -> Option<(u8, bool)> {
        let ip = self.head.get(self.l3..)?;
        match self.eth_type {
            wire::ETH_IPV4 => {
                Some((*ip.get(9)?, wire::ipv4_frag(*wire::chunk(ip, 6)?) == wire::FRAG_LATER))
            }
            wire::ETH_IPV6 => {
                let end = wire::extensions(ip, wire::IPV6_LEN, *ip.get(6)?)?;
                Some((end.proto, end.frag == wire::FRAG_LATER))
            }
            _ => None,
        }
    }

    /// The `i`th port, or type and code.
    fn transport(&self, i: usize) -> Option<Place> {
        let (proto, later) = self.protocol()?;
        if later {
            return Some(Place::LaterFragment);
        }
        let l4 = Some(self.l4).filter(|&l4| l4 != 0)?;
        match proto {
            proto::TCP | proto::UDP | proto::SCTP => bytes(l4 + 2 * i, 2),
            proto::ICMP | proto::ICMPV6 => bytes(l4 + i, 1),
            _ => None,
        }
    }

    /// What neighbour discovery says.
    fn neighbour(&self, name: &str) -> Option<Place> {
        let l4 = Some(self.l4).filter(|&l4| l4 != 0)?;
        let kind = *self.head.get(l4)?;
        let is_nd = matches!(kind, wire::ND_SOLICIT | wire::ND_ADVERT);
        if !is_nd || self.protocol()? != (proto::ICMPV6, false) {
            return None;
        }
        match name {
            "nd_target" => bytes(l4 + 8, 16),
            "arp_sha" => self.nd_option(l4 + 24, 1),
            "arp_tha" => self.nd_option(l4 + 24, 2),
            _ => None,
        }
    }

    /// The address in the first link-layer address option of this kind; what follows the IP packet is
    /// padding, not options.
    fn nd_option(&self, at: usize, kind: u8) -> Option<Place> {
        let end = self.l3 + wire::IPV6_LEN + usize::from(be16(self.head, self.l3 + 4)?);
        let bytes_of_ip = self.head.get(..end).unwrap_or(self.head);
        let (_, _, at) =
            wire::nd_options(bytes_of_ip, at).find(|&(k, len, _)| k == kind && len == 8)?;
        bytes(at + 2, 6)
    }
}
