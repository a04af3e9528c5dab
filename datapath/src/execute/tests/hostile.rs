//! Actions on packets that were split, cut, fragmented or spoiled on the way.

use proptest::prelude::*;

use super::*;

/// Whatever has a transport header or may seem to have one.
fn samples() -> Vec<PacketBuilder> {
    let v4 = || eth().ipv4(A4, B4);
    let v6 = || eth().ipv6(A6, B6, 0);
    vec![
        v4().udp(1, 2),
        v4().tcp(1, 2),
        v4().sctp(1, 2),
        v4().icmp(8, 0),
        v6().udp(1, 2),
        v6().tcp(1, 2),
        v6().sctp(1, 2),
        v6().icmpv6(128, 0),
        eth().vlan(5).ipv4_options(A4, B4, &[1; 40]).tcp(1, 2),
        v6().ext(0, &[0; 6]).ext(60, &[0; 14]).udp(1, 2),
        v4().fragment(0, true).udp(1, 2),
        v6().ipv6_fragment(0, true).tcp(1, 2),
        eth().tag(0x88a8, 5).vlan(6).ipv4(A4, B4).udp(1, 2),
        v6().nd(135, A6, &[(1, MAC), (2, MAC)]),
        eth().arp(1, (MAC, A4), (MAC, B4)),
    ]
}

fn action() -> impl Strategy<Value = Action> {
    let field = (0..Field::ALL.len()).prop_map(|i| &Field::ALL[i]);
    let set = (field, any::<u128>(), any::<bool>(), any::<u128>());
    let set = set.prop_map(|(field, value, all, mask)| {
        let mask = if all { field.max() } else { mask & field.max() };
        Action::Set { field, value: value & mask, mask }
    });
    prop_oneof![
        8 => set,
        1 => any::<u16>().prop_map(|tci| Action::PushVlan { tpid: 0x88a8, tci }),
        1 => Just(Action::PopVlan),
    ]
}

/// Lists within lists, sensible or not.
fn nested() -> impl Strategy<Value = Vec<Action>> {
    let leaf = prop_oneof![
        2 => action(),
        3 => (0..5u32).prop_map(|port| Action::Output(PortNo(port))),
        1 => any::<u32>().prop_map(|len| Action::Trunc(len >> (len % 32))),
        1 => any::<u32>().prop_map(|basis| Action::Hash { over: HashOver::L4, basis }),
        1 => any::<u32>().prop_map(Action::Recirc),
        1 => (0..3u32).prop_map(Action::Meter),
        1 => any::<u16>().prop_map(|max_len| {
            let controller = Some(Controller { max_len, ..Controller::default() });
            Action::Userspace(Box::new(Userspace { pid: 0, controller }))
        }),
    ];
    let action = leaf.prop_recursive(3, 20, 4, |inner| {
        let list = || prop::collection::vec(inner.clone(), 0..5).prop_map(Vec::into_boxed_slice);
        prop_oneof![
            list().prop_map(Action::Clone),
            (any::<u32>(), list())
                .prop_map(|(probability, actions)| Action::Sample { probability, actions }),
            (0..200u16, list(), list()).prop_map(|(size, greater, less_equal)| {
                Action::CheckPktLen { size, greater, less_equal }
            }),
        ]
    });
    prop::collection::vec(action, 0..5)
}

fn set_of(field: &'static Field) -> Action {
    set(field, 0x1234 & field.max())
}

/// The fragments of a packet without options, `size` bytes of payload each.
fn fragments(bytes: &[u8], size: usize) -> Vec<Vec<u8>> {
    let v4 = bytes[12] == 8;
    let (head, body) = bytes.split_at(14 + if v4 { 20 } else { 40 });
    let n = body.len().div_ceil(size);
    let fragment = |(i, part): (usize, &[u8])| {
        let [a, b] = u16::try_from(i * size).unwrap().to_be_bytes();
        let more = i + 1 < n;
        let mut out = head.to_vec();
        let len = u16::try_from(part.len() + if v4 { 20 } else { 8 }).unwrap();
        if v4 {
            out[16..18].copy_from_slice(&len.to_be_bytes());
            let offset = (u16::from_be_bytes([a, b]) / 8) | (u16::from(more) << 13);
            out[20..22].copy_from_slice(&offset.to_be_bytes());
            out[24..26].fill(0);
            let check = !sum(&out[14..]);
            out[24..26].copy_from_slice(&check.to_be_bytes());
        } else {
            out[18..20].copy_from_slice(&len.to_be_bytes());
            out.extend([out[20], 0, a, b | u8::from(more), 0, 0, 0, 7]);
            out[20] = 44;
        }
        out.extend_from_slice(part);
        out
    };
    body.chunks(size).enumerate().map(fragment).collect()
}

fn sum(bytes: &[u8]) -> u16 {
    let word = |word: &[u8]| u32::from(word[0]) << 8 | word.get(1).map_or(0, |b| u32::from(*b));
    let mut sum: u32 = bytes.chunks(2).map(word).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    u16::try_from(sum).unwrap()
}

/// The addresses and the payload of fragments.
fn reassembled(fragments: &[Vec<u8>]) -> Vec<u8> {
    let v4 = fragments[0][12] == 8;
    let mut out = if v4 { fragments[0][26..34].to_vec() } else { fragments[0][22..54].to_vec() };
    for fragment in fragments {
        if v4 {
            assert_eq!(sum(&fragment[14..34]), 0xffff, "the header's own checksum");
        }
        out.extend(&fragment[if v4 { 34 } else { 62 }..]);
    }
    out
}

#[test]
fn a_checksum_out_of_reach_keeps_addresses_as_they_are() {
    let bytes = eth().ipv4(A4, B4).tcp(1, 2).payload_len(30).build();
    let address = [set_of(&Field::IPV4_DST)];
    let whole = becomes(&bytes, &address).unwrap();
    for (split, fits) in [(34, false), (50, false), (51, false), (52, true), (60, true)] {
        let (a, b) = bytes.split_at(split);
        let wanted = if fits { Ok(whole.clone()) } else { Err(DropReason::BadAction) };
        assert_eq!(becomes_in_frames(&[a, b], &address), wanted, "split at {split}");
    }
    let (a, b) = bytes.split_at(40);
    assert!(becomes_in_frames(&[a, b], &[set_of(&Field::IP_TTL)]).is_ok(), "not covered");
    let icmp = eth().ipv4(A4, B4).icmp(8, 0).build();
    let (a, b) = icmp.split_at(36);
    assert!(becomes_in_frames(&[a, b], &address).is_ok(), "not covered");
}

#[test]
fn addresses_before_endless_extension_headers_stay() {
    let endless = (0..17).fold(eth().ipv6(A6, B6, 0), |ip, _| ip.ext(60, &[0; 6])).udp(1, 2);
    let bytes = endless.build();
    let refused = Err(DropReason::BadAction);
    assert_eq!(becomes(&bytes, &[set_of(&Field::IPV6_DST)]), refused);
    assert_eq!(becomes(&bytes, &[set_of(&Field::TP_DST)]), refused);
    assert!(becomes(&bytes, &[set_of(&Field::IP_TTL), set_of(&Field::ETH_DST)]).is_ok());
}

#[test]
fn the_crc_of_a_fragmented_sctp_packet_cannot_follow() {
    let first = eth().ipv4(A4, B4).fragment(0, true).sctp(1, 2).payload_len(12).build();
    assert_eq!(becomes(&first, &[set_of(&Field::TP_DST)]), Err(DropReason::BadAction));
    let moved = becomes(&first, &[set_of(&Field::IPV4_DST)]).unwrap();
    assert_eq!(moved[34..], first[34..], "it does not cover addresses");
}

#[test]
fn a_sum_that_only_looks_unfinished_is_kept_right() {
    let fragment = eth().ipv4(A4, B4).fragment(0, true).udp(1, 2).payload_len(24);
    let routed = eth().ipv6(A6, B6, 0).ext(43, &[4, 1, 0, 0, 0, 0]).udp(1, 2).payload_len(24);
    for (build, check) in [(fragment, 40), (routed, 68)] {
        // The pseudo-header's sum, which is a finished checksum here: nobody will complete it.
        let bytes = build.csum(Csum::Partial).build();
        let rewritten = becomes(&bytes, &[set(&Field::TP_DST, 0x102)]).unwrap();
        let old = u16::from_be_bytes([bytes[check], bytes[check + 1]]);
        let new = u16::from_be_bytes([rewritten[check], rewritten[check + 1]]);
        assert_eq!(u32::from(new) + 0x100, u32::from(old), "the port is 0x100 more");
    }
}

#[test]
fn padding_is_no_neighbour_discovery_option() {
    let mut bytes = eth().ipv6(A6, B6, 0).nd(135, A6, &[]).build();
    bytes.extend([1, 1, 2, 0, 0, 0, 0, 9]);
    assert_eq!(becomes(&bytes, &[set_of(&Field::ARP_SHA)]), Err(DropReason::BadAction));
}

proptest! {
    /// Where a packet is cut into frames makes no difference, or the packet is dropped and counted.
    #[test]
    fn frames_make_no_difference(
        which in 0..15usize,
        payload in 0..60usize,
        actions in prop::collection::vec(action(), 1..5),
        at in any::<prop::sample::Index>(),
    ) {
        let bytes = samples()[which].clone().payload_len(payload).build();
        let (a, b) = bytes.split_at(14 + at.index(bytes.len() - 14));
        let (whole, split) = (becomes(&bytes, &actions), becomes_in_frames(&[a, b], &actions));
        if let Ok(split) = split {
            prop_assert_eq!(whole, Ok(split));
        } else if a.len() >= 120 {
            prop_assert_eq!(whole, split, "all headers are in the first frame");
        }
    }

    /// A packet that is rewritten in fragments is, put together again, the packet rewritten as one.
    #[test]
    fn fragments_make_no_difference(
        (which, payload, size) in (0..8usize, 4..100usize, 1..9usize),
        v in (any::<u32>(), any::<u16>()),
        with_port in any::<bool>(),
    ) {
        let bytes = samples()[which].clone().payload_len(payload).build();
        let address = if which < 4 { &Field::IPV4_SRC } else { &Field::IPV6_SRC };
        let mut actions = vec![set(address, v.0.into())];
        if with_port {
            let max = if matches!(which, 3 | 7) { 0xff } else { 0xffff };
            actions.push(set(&Field::TP_SRC, u128::from(v.1) & max));
        }
        let whole = becomes(&bytes, &actions).unwrap();
        let parts: Result<Vec<_>, _> =
            fragments(&bytes, size * 8).iter().map(|part| becomes(part, &actions)).collect();
        match parts {
            Ok(parts) => {
                let fragment = fragments(&whole, size * 8);
                prop_assert_eq!(reassembled(&parts), reassembled(&fragment));
            }
            Err(reason) => {
                prop_assert_eq!(reason, DropReason::BadAction);
                let sctp = matches!(which, 2 | 6);
                prop_assert!(size * 8 < 20 || sctp && with_port, "the header is in the first");
            }
        }
    }

    /// Whatever lists say, each packet and copy ends in one place ([`run_on_frames`] checks it), also when
    /// frames run out.
    #[test]
    fn nested_lists_lose_no_packet(
        which in 0..15usize,
        payload in 0..100usize,
        at in any::<prop::sample::Index>(),
        actions in nested(),
        frames in prop_oneof![Just(usize::MAX), 1..4usize],
    ) {
        let bytes = samples()[which].clone().payload_len(payload).build();
        let (a, b) = bytes.split_at(14 + at.index(bytes.len() - 14));
        run_on_frames(&[a, b], &actions, frames);
    }

    /// Spoiled packets and actions that need not fit: one counted outcome ([`run_on`] checks it), and
    /// nobody reads or writes out of bounds.
    #[test]
    fn spoiled_packets_have_one_outcome(
        which in 0..15usize,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..5),
        cut in any::<prop::sample::Index>(),
        actions in prop::collection::vec(action(), 0..6),
        frames in 0..3usize,
    ) {
        let mut bytes = samples()[which].clone().payload_len(9).build();
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        bytes.truncate(14 + cut.index(bytes.len() - 13));
        let outputs = [Action::Output(PortNo(1)), Action::Output(PortNo(9))];
        let actions: Vec<_> = outputs.into_iter().chain(actions).collect();
        run_on(&bytes, &actions, frames);
        let _ = becomes(&bytes, &actions);
    }
}
