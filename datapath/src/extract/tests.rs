//! The parser against keys written by hand, and against arbitrary bytes.

use core::net::{Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;

use super::*;
use crate::testing::{MemPacket, PacketBuilder};
use crate::{Field, MacAddr};

const SRC: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const DST: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);
const A4: Ipv4Addr = Ipv4Addr::new(10, 1, 1, 1);
const B4: Ipv4Addr = Ipv4Addr::new(10, 1, 1, 2);
const A6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1);
const B6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2);

/// Parses and checks that exactly these fields, beside port and addresses of Ethernet, are not zero.
fn check(bytes: &[u8], layers: (u16, u16), want: &[(Field, u128)]) {
    let mut packet = MemPacket::new(bytes);
    let key = extract(&mut packet, PortNo(7)).unwrap();
    let eth =
        |at: usize| bytes[at..at + 6].iter().fold(0, |acc, &byte| acc << 8 | u128::from(byte));
    let mut expected = FlowKey::default();
    expected.set(&Field::IN_PORT, 7);
    expected.set(&Field::ETH_DST, eth(0));
    expected.set(&Field::ETH_SRC, eth(6));
    for (field, value) in want {
        expected.set(field, *value);
    }
    for field in Field::ALL {
        assert_eq!(key.get(field), expected.get(field), "{} of {bytes:02x?}", field.name);
    }
    assert_eq!(key, expected);
    assert_eq!(packet.layers(), Layers { l3: layers.0, l4: layers.1 });
}

fn v4(extra: &[(Field, u128)]) -> Vec<(Field, u128)> {
    let mut fields = vec![
        (Field::ETH_TYPE, 0x0800),
        (Field::IPV4_SRC, 0x0a01_0101),
        (Field::IPV4_DST, 0x0a01_0102),
        (Field::IP_TTL, 64),
    ];
    fields.extend_from_slice(extra);
    fields
}

fn v6(extra: &[(Field, u128)]) -> Vec<(Field, u128)> {
    let mut fields = vec![
        (Field::ETH_TYPE, 0x86dd),
        (Field::IPV6_SRC, u128::from(A6)),
        (Field::IPV6_DST, u128::from(B6)),
        (Field::IPV6_LABEL, 0x12345),
        (Field::IP_TTL, 64),
    ];
    fields.extend_from_slice(extra);
    fields
}

fn ip4() -> PacketBuilder {
    PacketBuilder::eth(SRC, DST).ipv4(A4, B4)
}

fn ip6() -> PacketBuilder {
    PacketBuilder::eth(SRC, DST).ipv6(A6, B6, 0x12345)
}

#[test]
fn a_frame_shorter_than_ethernet_is_malformed_and_nothing_else_is() {
    for n in 0..14 {
        let mut packet = MemPacket::new(&vec![0xff; n]);
        assert_eq!(extract(&mut packet, PortNo(1)), Err(DropReason::Malformed));
    }
    check(&[0x11; 14], (0, 0), &[(Field::ETH_TYPE, 0x1111)]);
}

#[test]
fn udp_tcp_sctp_and_icmp_over_ipv4() {
    let ports = [(Field::TP_SRC, 1000), (Field::TP_DST, 53)];
    let udp = v4(&[(Field::IP_PROTO, 17), ports[0], ports[1]]);
    check(&ip4().udp(1000, 53).payload_len(18).build(), (14, 34), &udp);
    let tcp = v4(&[(Field::IP_PROTO, 6), ports[0], ports[1], (Field::TCP_FLAGS, 0x112)]);
    check(&ip4().tcp(1000, 53).flags(0x112).build(), (14, 34), &tcp);
    let sctp = v4(&[(Field::IP_PROTO, 132), ports[0], ports[1]]);
    check(&ip4().sctp(1000, 53).payload_len(4).build(), (14, 34), &sctp);
    let icmp = v4(&[(Field::IP_PROTO, 1), (Field::TP_SRC, 3), (Field::TP_DST, 1)]);
    check(&ip4().icmp(3, 1).build(), (14, 34), &icmp);
}

#[test]
fn ipv4_with_options_tos_and_unknown_protocol() {
    let options = PacketBuilder::eth(SRC, DST).ipv4_options(A4, B4, &[1; 8]).tos(0xb8).ttl(3);
    let mut want = v4(&[(Field::IP_PROTO, 17), (Field::IP_TOS, 0xb8), (Field::TP_DST, 9)]);
    want.push((Field::IP_TTL, 3));
    check(&options.udp(0, 9).build(), (14, 42), &want);
    check(&ip4().next(89).payload_len(40).build(), (14, 0), &v4(&[(Field::IP_PROTO, 89)]));
    let icmpv6_in_v4 = ip4().icmpv6(135, 0).payload_len(40).build();
    check(&icmpv6_in_v4, (14, 0), &v4(&[(Field::IP_PROTO, 58)]));
}

#[test]
fn ipv4_fragments() {
    let first = v4(&[(Field::IP_PROTO, 17), (Field::IP_FRAG, 1), (Field::TP_SRC, 5)]);
    check(&ip4().fragment(0, true).udp(5, 0).build(), (14, 34), &first);
    let later = v4(&[(Field::IP_PROTO, 17), (Field::IP_FRAG, 3)]);
    check(&ip4().fragment(64, true).udp(5, 6).build(), (14, 0), &later);
    check(&ip4().fragment(64, false).udp(5, 6).build(), (14, 0), &later);
}

#[test]
fn an_ipv4_header_that_contradicts_itself_has_no_fields() {
    let good = ip4().udp(1, 2).build();
    let eth_only = [(Field::ETH_TYPE, 0x0800)];
    for (at, value) in [(14, 0x65), (14, 0x44), (14, 0x4f), (16, 1), (17, 19), (17, 29)] {
        let mut bad = good.clone();
        bad[at] = value;
        check(&bad, (0, 0), &eth_only);
    }
}

#[test]
fn padding_is_not_parsed() {
    let mut bytes = ip4().next(17).build();
    bytes.extend([0xff; 26]);
    check(&bytes, (14, 0), &v4(&[(Field::IP_PROTO, 17)]));
}

#[test]
fn tags() {
    let udp = [(Field::IP_PROTO, 17), (Field::TP_SRC, 1), (Field::TP_DST, 2)];
    for tpid in [0x8100, 0x88a8] {
        let tagged = PacketBuilder::eth(SRC, DST).tag(tpid, 0xa00a).ipv4(A4, B4).udp(1, 2).build();
        let mut want = v4(&udp);
        want.push((Field::VLAN_TCI, 0xb00a));
        want.push((Field::VLAN_AD, u128::from(tpid == 0x88a8)));
        check(&tagged, (18, 38), &want);
    }
    let double = PacketBuilder::eth(SRC, DST).tag(0x88a8, 5).vlan(6).ipv4(A4, B4).udp(1, 2);
    let mut want = v4(&udp);
    want.extend([(Field::VLAN_TCI, 0x1005), (Field::VLAN_AD, 1), (Field::INNER_TCI, 0x1006)]);
    check(&double.build(), (22, 42), &want);
    let double =
        PacketBuilder::eth(SRC, DST).vlan(5).tag(0x88a8, 6).ipv6(A6, B6, 0x12345).udp(1, 2);
    let mut want = v6(&udp);
    want.extend([(Field::VLAN_TCI, 0x1005), (Field::INNER_AD, 1), (Field::INNER_TCI, 0x1006)]);
    check(&double.build(), (22, 62), &want);
    let triple = PacketBuilder::eth(SRC, DST).vlan(5).vlan(6).vlan(7).ipv4(A4, B4).udp(1, 2);
    let two = [(Field::VLAN_TCI, 0x1005), (Field::INNER_TCI, 0x1006), (Field::ETH_TYPE, 0x8100)];
    check(&triple.build(), (0, 0), &two);
    let cut = &PacketBuilder::eth(SRC, DST).vlan(5).vlan(6).build()[..21];
    check(cut, (0, 0), &[(Field::VLAN_TCI, 0x1005), (Field::ETH_TYPE, 0x8100)]);
    let cut = &PacketBuilder::eth(SRC, DST).vlan(5).build()[..17];
    check(cut, (0, 0), &[(Field::ETH_TYPE, 0x8100)]);
}

#[test]
fn frames_of_802_2() {
    let llc = PacketBuilder::eth(SRC, DST).next(38).payload(&[0x42, 0x42, 3, 0, 0, 0, 8, 0, 1]);
    check(&llc.build(), (0, 0), &[(Field::ETH_TYPE, 0x05ff)]);
    let snap = [&[0xaa, 0xaa, 3, 0, 0, 0, 8, 0][..], &ip4().icmp(8, 0).build()[14..]].concat();
    let bytes = PacketBuilder::eth(SRC, DST).next(44).payload(&snap).build();
    check(&bytes, (22, 42), &v4(&[(Field::IP_PROTO, 1), (Field::TP_SRC, 8)]));
    let short = PacketBuilder::eth(SRC, DST).next(44).payload(&snap[..7]).build();
    check(&short, (0, 0), &[(Field::ETH_TYPE, 0x05ff)]);
    let low = PacketBuilder::eth(SRC, DST).next(3).payload(&[0xaa, 0xaa, 3, 0, 0, 0, 5, 0xff]);
    check(&low.build(), (0, 0), &[(Field::ETH_TYPE, 0x05ff)]);
}

#[test]
fn arp() {
    let tha = MacAddr([9, 8, 7, 6, 5, 4]);
    let arp = |op| PacketBuilder::eth(SRC, MacAddr::BROADCAST).arp(op, (SRC, A4), (tha, B4));
    let mut want = vec![
        (Field::ETH_TYPE, 0x0806),
        (Field::IPV4_SRC, 0x0a01_0101),
        (Field::IPV4_DST, 0x0a01_0102),
        (Field::ARP_SHA, 0x0200_0000_0001),
        (Field::ARP_THA, 0x0908_0706_0504),
    ];
    check(&arp(0x0102).build(), (14, 0), &want);
    want.push((Field::IP_PROTO, 2));
    check(&arp(2).build(), (14, 0), &want);
    let mut token_ring = arp(2).build();
    token_ring[15] = 6;
    check(&token_ring, (0, 0), &[(Field::ETH_TYPE, 0x0806)]);
    check(&arp(2).build()[..41], (0, 0), &[(Field::ETH_TYPE, 0x0806)]);
}

#[test]
fn ipv6_with_and_without_extension_headers() {
    let udp = [(Field::IP_PROTO, 17), (Field::TP_SRC, 1), (Field::TP_DST, 2)];
    check(&ip6().udp(1, 2).payload_len(9).build(), (14, 54), &v6(&udp));
    let many = ip6().tos(0xfc).ext(0, &[0; 6]).ext(43, &[0; 14]).ext(60, &[0; 6]).ext(51, &[0; 14]);
    let mut want = v6(&udp);
    want.push((Field::IP_TOS, 0xfc));
    check(&many.udp(1, 2).build(), (14, 102), &want);
    let tcp = v6(&[(Field::IP_PROTO, 6), (Field::TP_SRC, 1), (Field::TCP_FLAGS, 0x10)]);
    check(&ip6().tcp(1, 0).build(), (14, 54), &tcp);
    check(&ip6().payload_len(3).build(), (14, 0), &v6(&[(Field::IP_PROTO, 59)]));
    let icmp_in_v6 = ip6().icmp(8, 0).build();
    check(&icmp_in_v6, (14, 0), &v6(&[(Field::IP_PROTO, 1)]));
}

#[test]
fn ipv6_fragments() {
    let udp = |frag| [(Field::IP_PROTO, 17), (Field::TP_SRC, 1), (Field::IP_FRAG, frag)];
    check(&ip6().ipv6_fragment(0, false).udp(1, 0).build(), (14, 62), &v6(&udp(0)));
    check(&ip6().ipv6_fragment(0, true).udp(1, 0).build(), (14, 62), &v6(&udp(1)));
    let later = v6(&[(Field::IP_PROTO, 44), (Field::IP_FRAG, 3)]);
    check(&ip6().ipv6_fragment(64, false).udp(1, 0).build(), (14, 0), &later);
}

#[test]
fn ipv6_that_is_cut_off_or_endless() {
    let addresses = [v6(&[])[0], v6(&[])[1], v6(&[])[2]];
    let mut cut = ip6().ext(0, &[0; 6]).udp(1, 2).build();
    cut[55] = 200;
    check(&cut, (14, 0), &addresses);
    let endless = (0..17).fold(ip6(), |ip, _| ip.ext(60, &[0; 6])).udp(1, 2);
    check(&endless.build(), (14, 0), &addresses);
    let mut long = ip6().udp(1, 2).build();
    long[19] += 1;
    check(&long, (0, 0), &[(Field::ETH_TYPE, 0x86dd)]);
    let mut version = ip6().udp(1, 2).build();
    version[14] = 0x50;
    check(&version, (0, 0), &[(Field::ETH_TYPE, 0x86dd)]);
}

#[test]
fn neighbour_discovery() {
    let icmp = |kind| [(Field::IP_PROTO, 58), (Field::TP_SRC, kind)];
    let target = (Field::ND_TARGET, u128::from(B6));
    let mut want = v6(&icmp(135));
    want.extend([target, (Field::ARP_SHA, 0x0200_0000_0001)]);
    check(&ip6().nd(135, B6, &[(1, SRC)]).build(), (14, 54), &want);
    let mut want = v6(&icmp(136));
    want.extend([target, (Field::ARP_THA, 0x0200_0000_0002)]);
    check(&ip6().nd(136, B6, &[(14, SRC), (2, DST)]).build(), (14, 54), &want);
    let twice = ip6().nd(135, B6, &[(1, SRC), (1, DST)]).build();
    check(&twice, (14, 54), &v6(&icmp(135)));
    let mut endless = ip6().nd(135, B6, &[(1, SRC)]).build();
    endless[54 + 25] = 0;
    let mut want = v6(&icmp(135));
    want.push(target);
    check(&endless, (14, 54), &want);
    let short = ip6().icmpv6(135, 0).payload_len(19).build();
    check(&short, (14, 54), &v6(&icmp(135)));
    let router = ip6().icmpv6(133, 0).payload_len(40).build();
    check(&router, (14, 54), &v6(&icmp(133)));
}

#[test]
fn headers_must_be_in_the_first_frame_and_payload_need_not() {
    let bytes = ip4().udp(1, 2).payload_len(3000).build();
    for (split, l4) in [(42, 34), (41, 0), (34, 0)] {
        let mut packet = MemPacket::of(&[&bytes[..split], &bytes[split..]]);
        let key = extract(&mut packet, PortNo(1)).unwrap();
        assert_eq!(packet.layers(), Layers { l3: 14, l4 });
        assert_eq!(key.get(&Field::IP_PROTO), 17);
        assert_eq!(key.get(&Field::TP_DST), if l4 == 0 { 0 } else { 2 });
    }
}

/// Packets of every kind.
fn samples() -> Vec<Vec<u8>> {
    let eth = || PacketBuilder::eth(SRC, DST);
    vec![
        ip4().udp(1, 2).payload_len(20).build(),
        ip4().tcp(1, 2).payload_len(20).build(),
        ip4().sctp(1, 2).payload_len(20).build(),
        ip4().icmp(8, 0).payload_len(20).build(),
        eth().vlan(5).vlan(6).ipv4(A4, B4).udp(1, 2).build(),
        eth().vlan(5).ipv4_options(A4, B4, &[1; 40]).tcp(1, 2).build(),
        eth().arp(1, (SRC, A4), (DST, B4)).build(),
        ip6().ext(0, &[0; 6]).ipv6_fragment(0, true).ext(51, &[0; 14]).udp(1, 2).build(),
        ip6().nd(135, B6, &[(1, SRC), (2, DST)]).build(),
        ip4().vxlan(7).inner_eth(SRC, DST).ipv6(A6, B6, 0).tcp(1, 2).build(),
    ]
}

/// Parses, and checks what must hold for every packet.
fn parse_any(bytes: &[u8]) {
    let mut packet = MemPacket::new(bytes);
    let Ok(key) = extract(&mut packet, PortNo(1)) else {
        assert!(bytes.len() < 14);
        return;
    };
    assert_eq!(key, FlowKey::from_words(*key.words()), "used is exact");
    let layers = packet.layers();
    assert!(usize::from(layers.l3) < bytes.len() && usize::from(layers.l4) < bytes.len());
    let ip = matches!(key.get(&Field::ETH_TYPE), 0x0800 | 0x86dd);
    assert!(layers.l4 == 0 || layers.l3 != 0 && ip);
    let exact = key.masked(&crate::FlowMask::exact());
    assert_eq!(exact, key, "no bit outside the fields");
}

#[test]
fn truncation_at_every_length_never_panics() {
    for bytes in samples() {
        (0..=bytes.len()).for_each(|n| parse_any(&bytes[..n]));
    }
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        parse_any(&bytes);
    }

    #[test]
    fn corrupted_packets_never_panic(
        which in 0..10usize,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut bytes = samples()[which].clone();
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        parse_any(&bytes);
        parse_any(&bytes[..cut.index(bytes.len())]);
    }
}
