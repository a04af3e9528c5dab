//! Checksums against the packet builder, which computes them from scratch.

use core::net::{Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;

use super::*;
use crate::testing::{Csum, MemPacket, PacketBuilder};
use crate::{MacAddr, Packet, PortNo, extract};

const MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);

fn v4(n: u32) -> Ipv4Addr {
    Ipv4Addr::from(0x0a01_0000 | n)
}

fn v6(n: u16) -> Ipv6Addr {
    Ipv6Addr::new(0xfd00, 1, 2, 3, 4, 5, 6, n)
}

fn eth() -> PacketBuilder {
    PacketBuilder::new()
}

/// GRE with checksum, key and sequence number, around IPv4.
const GRE_ALL: [u8; 16] = [0xb0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 42, 0, 0, 0, 1];

/// Everything that can stand before a transport header, and its length.
fn stacks() -> Vec<(PacketBuilder, u16)> {
    let inner = |b: PacketBuilder| b.inner_eth(MAC, MAC);
    vec![
        (eth().ipv4(v4(1), v4(2)), 34),
        (eth().tag(0x88a8, 5).vlan(6).ipv4(v4(1), v4(2)), 42),
        (eth().vlan(5).ipv4_options(v4(1), v4(2), &[1; 12]), 50),
        (eth().ipv6(v6(1), v6(2), 9), 54),
        (eth().ipv6(v6(1), v6(2), 9).ext(0, &[0; 6]).ext(60, &[0; 14]), 78),
        (inner(eth().ipv4(v4(1), v4(2)).vxlan(999)).ipv4(v4(3), v4(4)), 84),
        (inner(eth().ipv6(v6(1), v6(2), 0).vxlan(999)).vlan(7).ipv6(v6(3), v6(4), 0), 128),
        (inner(eth().ipv4(v4(1), v4(2)).geneve(999)).ipv4(v4(3), v4(4)), 88),
        (inner(eth().ipv4(v4(1), v4(2)).gre(0x6558)).ipv4(v4(3), v4(4)), 76),
        (eth().ipv4(v4(1), v4(2)).gre(0x0800).ipv4(v4(3), v4(4)), 62),
        (eth().ipv4(v4(1), v4(2)).ipv4(v4(3), v4(4)), 54),
        (eth().ipv4(v4(1), v4(2)).ipv6(v6(3), v6(4), 0), 74),
        (eth().ipv6(v6(1), v6(2), 0).ipv4(v4(3), v4(4)), 74),
        (eth().ipv6(v6(1), v6(2), 0).ipv6(v6(3), v6(4), 0), 94),
        (inner(eth().ipv6(v6(1), v6(2), 0).vxlan(999)).ipv4(v4(3), v4(4)), 104),
        (inner(eth().ipv4(v4(1), v4(2)).vxlan(999)).tag(0x88a8, 1).vlan(2).ipv4(v4(3), v4(4)), 92),
        (eth().ipv4(v4(1), v4(2)).raw(&GRE_ALL, 0, proto::GRE).ipv4(v4(3), v4(4)), 70),
    ]
}

fn parsed(bytes: &[u8], split: usize) -> MemPacket {
    let (a, b) = bytes.split_at(split.min(bytes.len()));
    let mut packet = if b.is_empty() { MemPacket::new(a) } else { MemPacket::of(&[a, b]) };
    let _ = extract(&mut packet, PortNo(1));
    packet
}

#[test]
fn unfinished_sums_are_found_in_every_stack() {
    for (stack, at) in stacks() {
        for (transport, offset) in [(stack.clone().tcp(5, 6), 16), (stack.udp(5, 6), 6)] {
            let build = transport.payload_len(33);
            let of = |csum| {
                let packet = parsed(&build.clone().csum(csum).build(), usize::MAX);
                unfinished(packet.head(), packet.len(), packet.layers())
            };
            let request = Some(Unfinished::Sum(CsumRequest { start: at, offset }));
            assert_eq!(of(Csum::Partial), request, "{build:?}");
            assert_eq!(of(Csum::Full), None);
            assert_eq!(of(Csum::Bad), None);
            assert_eq!(of(Csum::Zero), None);
        }
    }
}

#[test]
fn software_finishes_to_what_a_full_checksum_would_be() {
    for (stack, at) in stacks() {
        for transport in [stack.clone().tcp(5, 6), stack.clone().udp(5, 6), stack.sctp(5, 6)] {
            for n in [0, 1, 40, 41] {
                let build = transport.clone().payload_len(n);
                let full = build.clone().csum(Csum::Full).build();
                for split in [usize::from(at) + 20, usize::from(at) + 35, 9999] {
                    let mut packet = parsed(&build.clone().csum(Csum::Partial).build(), split);
                    assert!(complete_in_software(&mut packet), "{build:?}");
                    assert_eq!(packet.bytes(), full);
                    let mut done = parsed(&full, split);
                    assert!(!complete_in_software(&mut done));
                    assert_eq!(done.bytes(), full);
                }
            }
        }
    }
}

#[test]
fn padding_after_the_ip_packet_is_not_summed_in_software() {
    let build = eth().ipv4(v4(1), v4(2)).udp(1, 2).payload_len(3);
    let padded = |csum| [build.clone().csum(csum).build(), vec![0xa5; 15]].concat();
    let mut packet = parsed(&padded(Csum::Partial), usize::MAX);
    assert!(complete_in_software(&mut packet));
    assert_eq!(packet.bytes(), padded(Csum::Full));
}

#[test]
fn a_vxlan_packet_whose_outer_sum_is_unfinished_asks_for_that_one() {
    let outer = eth().ipv4(v4(1), v4(2)).vxlan(999).inner_eth(MAC, MAC).ipv4(v4(3), v4(4));
    let mut bytes = outer.tcp(5, 6).build();
    let network = Network::read(&bytes, 14).unwrap();
    let sum = network.pseudo_sum(&bytes).unwrap();
    bytes[40..42].copy_from_slice(&sum.to_be_bytes());
    let packet = parsed(&bytes, usize::MAX);
    let request = CsumRequest { start: 34, offset: 6 };
    assert_eq!(
        unfinished(packet.head(), packet.len(), packet.layers()),
        Some(Unfinished::Sum(request))
    );
}

#[test]
fn padding_is_no_part_of_a_sum() {
    let udp = eth().ipv4(v4(1), v4(2)).udp(5, 6).payload_len(9);
    let padded = |csum| [udp.clone().csum(csum).build(), vec![0x55; 9]].concat();
    let mut packet = parsed(&padded(Csum::Partial), usize::MAX);
    let found = unfinished(packet.head(), packet.len(), packet.layers());
    assert_eq!(found, Some(Unfinished::Software), "the kernel would sum the padding too");
    assert!(complete_in_software(&mut packet));
    assert_eq!(packet.head(), padded(Csum::Full));
}

#[test]
fn fragments_and_an_sctp_crc_of_zero() {
    let first = eth().ipv4(v4(1), v4(2)).fragment(0, true).udp(1, 2).csum(Csum::Partial);
    let packet = parsed(&first.build(), usize::MAX);
    assert_eq!(unfinished(packet.head(), packet.len(), packet.layers()), None);
    let sctp = eth().ipv6(v6(1), v6(2), 0).sctp(1, 2).payload_len(20);
    let packet = parsed(&sctp.clone().csum(Csum::Partial).build(), usize::MAX);
    assert_eq!(
        unfinished(packet.head(), packet.len(), packet.layers()),
        Some(Unfinished::Software)
    );
    let packet = parsed(&sctp.build(), usize::MAX);
    assert_eq!(unfinished(packet.head(), packet.len(), packet.layers()), None);
    let short = eth().ipv4(v4(1), v4(2)).raw(&[1; 8], 0, proto::SCTP).build();
    let mut packet = parsed(&[short, vec![0; 18]].concat(), usize::MAX);
    assert!(!complete_in_software(&mut packet), "zeros after the IP packet are no CRC");
}

#[test]
fn crc32c_of_the_check_string() {
    assert_eq!(!crc32c::add(crc32c::START, b"123456789"), 0xe306_9283);
}

/// What a rewrite test varies.
#[derive(Clone, Debug)]
struct Values {
    src: u16,
    dst: u16,
    tos: u8,
    ttl: u8,
    sport: u16,
    dport: u16,
}

fn values() -> impl Strategy<Value = Values> {
    let edge = || prop_oneof![Just(0u16), Just(0xffff), any::<u16>()];
    (edge(), edge(), any::<u8>(), any::<u8>(), edge(), edge())
        .prop_map(|(src, dst, tos, ttl, sport, dport)| Values { src, dst, tos, ttl, sport, dport })
}

#[derive(Clone, Copy, Debug)]
enum Transport {
    Tcp,
    Udp,
    Sctp,
    Icmp,
}

fn build(ipv4: bool, kind: Transport, csum: Csum, v: &Values, payload: &[u8]) -> Vec<u8> {
    let ip = if ipv4 {
        eth().ipv4(v4(v.src.into()), v4(v.dst.into()))
    } else {
        eth().ipv6(v6(v.src), v6(v.dst), 0).tos(v.tos).ext(60, &[0; 6])
    };
    let ip = if ipv4 { ip.tos(v.tos).ttl(v.ttl) } else { ip };
    let [a, ..] = v.sport.to_be_bytes();
    let [b, ..] = v.dport.to_be_bytes();
    let transport = match kind {
        Transport::Tcp => ip.tcp(v.sport, v.dport),
        Transport::Udp => ip.udp(v.sport, v.dport),
        Transport::Sctp => ip.sctp(v.sport, v.dport),
        Transport::Icmp if ipv4 => ip.icmp(a, b),
        Transport::Icmp => ip.icmpv6(a, b),
    };
    transport.payload(payload).csum(csum).build()
}

/// Rewrites all that differs between two packets of one shape, except checksums.
fn rewrite(from: &[u8], to: &[u8], kind: Transport, ipv4: bool) -> Vec<u8> {
    let mut packet = parsed(from, usize::MAX);
    let (l3, l4) = (usize::from(packet.layers().l3), usize::from(packet.layers().l4));
    let sums = Checksums::of(packet.head(), packet.layers());
    let addresses =
        if ipv4 { vec![(12, 4), (16, 4), (1, 1), (8, 1)] } else { vec![(8, 16), (24, 16), (0, 4)] };
    let ports = match kind {
        Transport::Icmp => vec![(0, 1), (1, 1)],
        Transport::Tcp | Transport::Udp | Transport::Sctp => vec![(0, 2), (2, 2)],
    };
    let places = addresses.into_iter().map(|(at, n)| (l3 + at, n));
    for (at, n) in places.chain(ports.into_iter().map(|(at, n)| (l4 + at, n))) {
        assert!(sums.write(packet.head_mut(), at, &to[at..at + n]));
    }
    packet.bytes()
}

proptest! {
    #[test]
    fn a_rewritten_packet_is_as_if_built_that_way(
        from in values(),
        to in values(),
        ipv4 in any::<bool>(),
        kind in prop::sample::select(vec![
            Transport::Tcp, Transport::Udp, Transport::Sctp, Transport::Icmp,
        ]),
        csum in prop::sample::select(vec![Csum::Full, Csum::Partial, Csum::Zero]),
        payload in prop::collection::vec(any::<u8>(), 4..80),
    ) {
        let no_offload = matches!(kind, Transport::Icmp);
        let csum = match (kind, csum) {
            _ if no_offload => Csum::Full,
            (Transport::Tcp, Csum::Zero) => Csum::Full,
            _ => csum,
        };
        let (a, b) = (build(ipv4, kind, csum, &from, &payload), build(ipv4, kind, csum, &to, &payload));
        prop_assert_eq!(rewrite(&a, &b, kind, ipv4), b);
    }

    #[test]
    fn a_wrong_checksum_stays_wrong(
        from in values(),
        to in values(),
        ipv4 in any::<bool>(),
        kind in prop::sample::select(vec![Transport::Tcp, Transport::Udp, Transport::Sctp]),
        payload in prop::collection::vec(any::<u8>(), 4..80),
    ) {
        let bad = build(ipv4, kind, Csum::Bad, &from, &payload);
        let good = build(ipv4, kind, Csum::Full, &to, &payload);
        prop_assert_ne!(rewrite(&bad, &good, kind, ipv4), good);
    }

    #[test]
    fn nothing_is_read_or_written_out_of_bounds(
        bytes in prop::collection::vec(any::<u8>(), 0..160),
        (l3, l4, at) in (0..200u16, 0..200u16, 0..200usize),
    ) {
        let layers = Layers { l3, l4 };
        if let Some(Unfinished::Sum(request)) = unfinished(&bytes, bytes.len(), layers) {
            prop_assert!(usize::from(request.start + request.offset) + 2 <= bytes.len());
        }
        let mut packet = MemPacket::new(&bytes);
        packet.set_layers(layers);
        complete_in_software(&mut packet);
        let sums = Checksums::of(&bytes, layers);
        let fits = at + 4 <= bytes.len();
        let written = sums.write(packet.head_mut(), at, &[1, 2, 3, 4]);
        // What a checksum that cannot be kept covers is refused as well.
        prop_assert!(written == fits || (sums.kind == Kind::Lost && !written));
    }

    #[test]
    fn truncated_and_corrupted_stacks_are_in_bounds(
        which in 0..stacks().len(),
        at in any::<prop::sample::Index>(),
        value in any::<u8>(),
        cut in any::<prop::sample::Index>(),
    ) {
        let (stack, _) = &stacks()[which];
        let mut bytes = stack.clone().udp(5, 6).payload_len(9).csum(Csum::Partial).build();
        let at = at.index(bytes.len());
        bytes[at] = value;
        let packet = parsed(&bytes, usize::MAX);
        let cut = &bytes[..=cut.index(bytes.len())];
        for bytes in [&bytes, cut] {
            if let Some(Unfinished::Sum(request)) = unfinished(bytes, bytes.len(), packet.layers()) {
                prop_assert!(usize::from(request.start + request.offset) + 2 <= bytes.len());
            }
        }
    }
}
