//! Segments against packets of the builder, which computes everything from scratch.
#![allow(clippy::cast_possible_truncation, reason = "lengths of test packets")]

use core::net::{Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;

use super::*;
use crate::testing::{Csum, MemPacket, PacketBuilder};
use crate::{MacAddr, PortNo, extract};

const MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);

/// A TCP packet's headers up to TCP, and where the IPv4 headers, the UDP headers of tunnels and TCP are.
struct Stack(PacketBuilder, &'static [usize], &'static [usize], usize);

fn stacks() -> Vec<Stack> {
    let v4 = |b: PacketBuilder| b.ipv4(Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2));
    let v6 = |b: PacketBuilder| {
        b.ipv6(
            Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1),
            Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2),
            5,
        )
    };
    let eth = PacketBuilder::new;
    let inside = |b: PacketBuilder| b.inner_eth(MAC, MAC);
    vec![
        Stack(v4(eth()), &[14], &[], 34),
        Stack(v6(eth()), &[], &[], 54),
        Stack(v4(eth().vlan(5)), &[18], &[], 38),
        Stack(v6(eth().tag(0x88a8, 5).vlan(6)), &[], &[], 62),
        Stack(v6(eth()).ext(60, &[0; 6]), &[], &[], 62),
        Stack(v4(inside(v4(eth()).vxlan(9))), &[14, 64], &[34], 84),
        Stack(v4(inside(v6(eth()).geneve(9)).vlan(7)), &[92], &[54], 112),
        Stack(v6(inside(v4(eth()).gre(0x6558))), &[14], &[], 96),
        Stack(v6(v4(eth()).gre(0x86dd)), &[14], &[], 82),
        Stack(v4(v4(eth())), &[14, 34], &[], 54),
        Stack(v4(inside(v4(inside(v4(eth()).vxlan(9))).vxlan(9))), &[14, 64, 114], &[34, 84], 134),
    ]
}

/// The first frame has `split` bytes.
fn parsed(bytes: &[u8], split: usize) -> MemPacket {
    let (a, b) = bytes.split_at(split.min(bytes.len()));
    let mut packet = if b.is_empty() { MemPacket::new(a) } else { MemPacket::of(&[a, b]) };
    extract(&mut packet, PortNo(1)).unwrap();
    packet
}

/// All segments as they would be sent.
fn cut(bytes: &[u8], max_len: usize) -> Option<Vec<Vec<u8>>> {
    let plan = Segments::of(&parsed(bytes, 300), max_len)?;
    let segment = |n| {
        let mut segment = [&bytes[..plan.headers()], &bytes[plan.payload(n)]].concat();
        let headers = plan.headers();
        plan.write(&mut segment[..headers], n);
        segment
    };
    Some((0..plan.count()).map(segment).collect())
}

fn sum_of(bytes: &[u8]) -> u16 {
    let sum = bytes.chunks(2).map(|w| u64::from(w[0]) << 8 | u64::from(w[1])).sum::<u64>();
    (0..4).fold(sum, |sum, _| (sum & 0xffff) + (sum >> 16)) as u16
}

/// What a stack would have sent as segment `n`, which begins at `offset`.
fn expected(
    Stack(stack, ipv4, ..): &Stack,
    (options, payload): (&[u8], &[u8]),
    flags: u16,
    (n, offset): (usize, usize),
) -> Vec<u8> {
    let built = stack.clone().tcp(5, 6).flags(flags).payload(&[options, payload].concat());
    let mut bytes = built.csum(Csum::Partial).build();
    for &at in *ipv4 {
        bytes[at + 4..at + 6].copy_from_slice(&(1 + n as u16).to_be_bytes());
        bytes[at + 10..at + 12].fill(0);
        let check = !sum_of(&bytes[at..at + 20]);
        bytes[at + 10..at + 12].copy_from_slice(&check.to_be_bytes());
    }
    with_tcp(&mut bytes, 0, options.len(), 1 + offset as u32);
    bytes
}

/// Sets TCP's header length and sequence number, whose place is found behind `from`.
fn with_tcp(bytes: &mut [u8], from: usize, options: usize, seq: u32) {
    let ports = bytes.windows(8).skip(from).rposition(|w| w[..8] == [0, 5, 0, 6, 0, 0, 0, 1]);
    let at = from + ports.unwrap();
    bytes[at + 4..at + 8].copy_from_slice(&seq.to_be_bytes());
    bytes[at + 12] = ((20 + options) as u8 / 4) << 4 | bytes[at + 12] & 15;
}

proptest! {
    #[test]
    fn each_segment_is_what_a_stack_would_have_sent(
        which in 0..stacks().len(), options in 0..=10usize, len in 1..20_000usize,
        max_len in 300..9014usize, flags in any::<u16>(), outer in any::<bool>(),
    ) {
        let stack = &stacks()[which];
        let flags = flags & 0xfff & !NEVER | 0x10;
        let options = &[1; 40][..options * 4];
        let payload: Vec<u8> = (0..len).map(|n| (n * n / 7) as u8 | 0x80).collect();
        let mut bytes = expected(stack, (options, &payload), flags, (0, 0));
        for &at in stack.2 {
            bytes[at + 6..at + 8].copy_from_slice(&[if outer { 0xab } else { 0 }; 2]);
        }
        let headers = stack.3 + 20 + options.len();
        let Some(segments) = cut(&bytes, max_len) else {
            prop_assert!(bytes.len() <= max_len || len.div_ceil(max_len - headers) > MAX_SEGMENTS);
            return Ok(());
        };
        let count = segments.len();
        let mut offset = 0;
        for (n, segment) in segments.iter().enumerate() {
            prop_assert!(segment.len() <= max_len && segment.len() > headers);
            prop_assert!(n + 1 == count || segment.len() == max_len);
            let part = segment.len() - headers;
            let mut flags = flags;
            flags &= if n == 0 { 0xfff } else { !0x80 };
            flags &= if n + 1 == count { 0xfff } else { !9 };
            let part = &payload[offset..offset + part];
            let mut expected = expected(stack, (options, part), flags, (n, offset));
            if !outer {
                for &at in stack.2 {
                    expected[at + 6..at + 8].fill(0);
                }
            }
            prop_assert_eq!(segment, &expected, "segment {} of {}", n, count);
            offset += part.len();
        }
        prop_assert_eq!(offset, len, "all of the payload");
    }

    #[test]
    fn whatever_arrives_is_cut_within_its_bounds_or_left(
        which in 0..stacks().len(), len in 1400..4000usize, max_len in 0..3000usize,
        changes in prop::collection::vec((0..200usize, any::<u8>()), 0..4), split in 40..400usize,
    ) {
        let Stack(stack, ..) = &stacks()[which];
        let mut bytes = stack.clone().tcp(5, 6).payload_len(len).csum(Csum::Partial).build();
        for (at, value) in changes {
            bytes[at] = value;
        }
        let mut packet = MemPacket::of(&[&bytes[..split], &bytes[split..]]);
        let _ = extract(&mut packet, PortNo(1));
        if let Some(plan) = Segments::of(&packet, max_len) {
            prop_assert!(plan.headers() <= split && (2..=MAX_SEGMENTS).contains(&plan.count()));
            let mut end = plan.headers();
            for n in 0..plan.count() {
                prop_assert_eq!(plan.payload(n).start, end);
                end = plan.payload(n).end;
                let mut head = bytes[..plan.headers()].to_vec();
                plan.write(&mut head, n);
            }
            prop_assert_eq!(end, bytes.len());
            prop_assert!(plan.payload(plan.count()).is_empty());
        }
    }
}

#[test]
fn what_was_not_left_to_be_cut_stays_whole() {
    let Stack(stack, ..) = &stacks()[0];
    let tcp = stack.clone().tcp(5, 6).payload_len(4000);
    let partial = |b: PacketBuilder| b.csum(Csum::Partial).build();
    assert!(cut(&partial(tcp.clone()), 1514).is_some());
    assert!(cut(&partial(tcp.clone()), 4054).is_none(), "it fits");
    assert!(cut(&partial(tcp.clone()), 54).is_none(), "no room for payload");
    for csum in [Csum::Full, Csum::Bad, Csum::Zero] {
        assert!(cut(&tcp.clone().csum(csum).build(), 1514).is_none(), "{csum:?}");
    }
    for flag in [0x02, 0x04, 0x20] {
        assert!(cut(&partial(tcp.clone().flags(0x10 | flag)), 1514).is_none(), "{flag:#x}");
    }
    assert!(cut(&partial(stack.clone().udp(5, 6).payload_len(4000)), 1514).is_none());
    assert!(
        cut(&partial(stack.clone().fragment(0, true).tcp(5, 6).payload_len(4000)), 1514).is_none()
    );
    let padded = [partial(tcp), vec![0; 6]].concat();
    assert!(cut(&padded, 1514).is_none(), "padding is no payload");
}
