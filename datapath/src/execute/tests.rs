//! Actions on packets, against packets that the builder makes with the new values from the start.

use core::net::{Ipv4Addr, Ipv6Addr};
use core::slice;

use super::*;
use crate::testing::{Csum, HEADROOM, MemPacket, MemPool, PacketBuilder};
use crate::{
    Controller, Field, MacAddr, MeterConfig, MeterUnit, PortNo, Userspace, UserspacePacket, extract,
};

mod hostile;
mod lists;

const A4: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const B4: Ipv4Addr = Ipv4Addr::new(192, 168, 7, 9);
const C4: Ipv4Addr = Ipv4Addr::new(1, 2, 3, 4);
const A6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1);
const B6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 1, 2, 3, 4, 5, 6);
const MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);

/// The packets that came out on ports 1 to 3, and counters.
struct Outcome {
    out: Vec<(PortNo, Vec<u8>)>,
    stats: DatapathStats,
    again: Vec<(Passage, Vec<u8>)>,
    userspace: Vec<UserspacePacket>,
}

/// Meter 1: the first packet passes.
const ONE_A_SECOND: MeterConfig = MeterConfig { unit: MeterUnit::Packets, rate: 1, burst: 1 };

/// Parses the bytes and runs the actions; every packet must be accounted for.
fn run_on(bytes: &[u8], actions: &[Action], frames: usize) -> Outcome {
    run_on_frames(&[bytes], actions, frames)
}

/// The same for a packet in several frames.
fn run_on_frames(bytes: &[&[u8]], actions: &[Action], frames: usize) -> Outcome {
    let pool = MemPool::default();
    let mut packet = pool.packet_of(bytes).unwrap();
    extract(&mut packet, PortNo(1)).unwrap();
    pool.set_limit(frames);
    let stats = DatapathStats::default();
    let mut outputs = Outputs::new();
    for port in 1..=3 {
        outputs.open(PortNo(port));
    }
    let mut effects = Effects::new(3);
    effects.meters.set(1, ONE_A_SECOND).unwrap();
    let mut sink = Sink {
        outputs: &mut outputs,
        copies: &mut pool.clone(),
        stats: &stats,
        effects: &mut effects,
        in_port: PortNo(1),
        now: Nanos(0),
    };
    execute(actions, [packet].into_iter(), Passage::default(), &mut sink);
    let mut again = Vec::new();
    while let Some((packet, passage)) = outputs.next_again() {
        again.push((passage, packet.bytes()));
        pool.free(packet);
    }
    let mut out = Vec::new();
    let account = pool.clone();
    let mut done = |port, packets: &mut Vec<MemPacket>| {
        for packet in packets.drain(..) {
            out.push((port, packet.bytes()));
            account.free(packet);
        }
    };
    outputs.flush(&mut done);
    for packet in outputs.dropped().drain(..) {
        pool.free(packet);
    }
    assert_eq!((pool.alive(), pool.leaked()), (0, 0));
    let ended = (out.len() + again.len()) as u64;
    assert_eq!(ended + stats.drops.total(), 1 + stats.copies.get());
    let userspace = effects.userspace.read(usize::MAX);
    Outcome { out, stats, again, userspace }
}

/// What the actions make of the packet.
fn becomes(bytes: &[u8], actions: &[Action]) -> Result<Vec<u8>, DropReason> {
    becomes_in_frames(&[bytes], actions)
}

/// The same for a packet in several frames.
fn becomes_in_frames(bytes: &[&[u8]], actions: &[Action]) -> Result<Vec<u8>, DropReason> {
    let actions: Vec<_> = actions.iter().cloned().chain([Action::Output(PortNo(2))]).collect();
    let mut outcome = run_on_frames(bytes, &actions, usize::MAX);
    outcome.out.pop().map(|(_, bytes)| bytes).ok_or_else(|| {
        outcome.stats.drops.iter().find(|&(_, n)| n > 0).map(|(reason, _)| reason).unwrap()
    })
}

fn set(field: &'static Field, value: u128) -> Action {
    Action::Set { field, value, mask: field.max() }
}

fn eth() -> PacketBuilder {
    PacketBuilder::new()
}

#[test]
fn output_takes_the_packet_and_copies_before() {
    let bytes = eth().ipv4(A4, B4).udp(1, 2).build();
    let outputs =
        |ports: &[u32]| ports.iter().map(|&p| Action::Output(PortNo(p))).collect::<Vec<_>>();
    let outcome = run_on(&bytes, &outputs(&[1, 2, 3]), usize::MAX);
    assert_eq!(outcome.out.len(), 3);
    assert!(outcome.out.iter().all(|(_, out)| *out == bytes));
    assert_eq!(outcome.stats.copies.get(), 2);

    let outcome = run_on(&bytes, &outputs(&[1, 2, 3]), 2);
    assert_eq!(outcome.out.len(), 2, "one copy, then no frame");
    assert_eq!(outcome.stats.copies.get(), 2, "both were wanted");
    assert_eq!(outcome.stats.drops.get(DropReason::NoFrame), 1);

    let outcome = run_on(&bytes, &outputs(&[9, 2]), usize::MAX);
    assert_eq!(outcome.out, [(PortNo(2), bytes.clone())]);
    assert_eq!(outcome.stats.drops.get(DropReason::NoPort), 1);
}

#[test]
fn no_output_is_a_drop() {
    let bytes = eth().build();
    for actions in [&[][..], &[Action::PopVlan], &[set(&Field::ETH_SRC, 1)]] {
        let outcome = run_on(&bytes, actions, usize::MAX);
        assert_eq!(outcome.stats.drops.get(DropReason::Action), 1);
    }
}

#[test]
fn earlier_outputs_keep_the_packet_as_it_was() {
    let bytes = eth().ipv4(A4, B4).udp(1, 2).build();
    let actions = [
        Action::Output(PortNo(1)),
        Action::PushVlan { tpid: 0x8100, tci: 5 },
        Action::Output(PortNo(2)),
        set(&Field::TP_DST, 7),
    ];
    let outcome = run_on(&bytes, &actions, usize::MAX);
    let tagged = eth().vlan(5).ipv4(A4, B4).udp(1, 2).build();
    assert_eq!(outcome.out, [(PortNo(1), bytes), (PortNo(2), tagged)]);
}

#[test]
fn tags_are_pushed_and_popped() {
    let plain = eth().ipv4(A4, B4).udp(1, 2).payload(b"abc");
    let tagged = eth().vlan(0x6005).ipv4(A4, B4).udp(1, 2).payload(b"abc").build();
    let push = Action::PushVlan { tpid: 0x8100, tci: 0x7005 };
    assert_eq!(
        becomes(&plain.build(), slice::from_ref(&push)),
        Ok(tagged.clone()),
        "bit 12 is ignored"
    );
    assert_eq!(becomes(&tagged, &[Action::PopVlan]), Ok(plain.build()));
    assert_eq!(becomes(&plain.build(), &[Action::PopVlan]), Err(DropReason::BadAction));
    let twice = eth().tag(0x88a8, 9).vlan(0x6005).ipv4(A4, B4).udp(1, 2).payload(b"abc").build();
    let outer = Action::PushVlan { tpid: 0x88a8, tci: 9 };
    assert_eq!(becomes(&tagged, &[outer]), Ok(twice.clone()));
    assert_eq!(becomes(&twice, &[Action::PopVlan, Action::PopVlan]), Ok(plain.build()));
}

#[test]
fn layers_follow_tags() {
    let bytes = eth().ipv4(A4, B4).udp(1, 2).build();
    let wanted = eth().vlan(5).ipv4(A4, C4).udp(1, 99).build();
    let push = Action::PushVlan { tpid: 0x8100, tci: 5 };
    let rewrite = [set(&Field::IPV4_DST, u128::from(C4.to_bits())), set(&Field::TP_DST, 99)];
    let after: Vec<_> = [push.clone()].into_iter().chain(rewrite.clone()).collect();
    assert_eq!(becomes(&bytes, &after), Ok(wanted.clone()));
    let before: Vec<_> = rewrite.into_iter().chain([push, Action::PopVlan]).collect();
    let untagged = eth().ipv4(A4, C4).udp(1, 99).build();
    assert_eq!(becomes(&bytes, &before), Ok(untagged));
}

#[test]
fn headroom_runs_out() {
    let bytes = eth().ipv4(A4, B4).udp(1, 2).build();
    let push = Action::PushVlan { tpid: 0x88a8, tci: 1 };
    assert!(becomes(&bytes, &vec![push.clone(); HEADROOM / 4]).is_ok());
    let too_many = vec![push; HEADROOM / 4 + 1];
    assert_eq!(becomes(&bytes, &too_many), Err(DropReason::NoHeadroom));
}

/// A packet, an action, and the packet that it must become, with each kind of checksum.
fn check(name: &str, from: &PacketBuilder, action: Action, to: &PacketBuilder) {
    for csum in [Csum::Full, Csum::Partial] {
        if csum == Csum::Partial && name == "icmp" {
            continue; // No stack leaves it unfinished.
        }
        let (from, to) = (from.clone().csum(csum), to.clone().csum(csum));
        assert_eq!(
            becomes(&from.build(), slice::from_ref(&action)),
            Ok(to.build()),
            "{name} {csum:?}"
        );
    }
}

#[test]
fn ethernet_is_rewritten() {
    let other = MacAddr([0x12, 0x34, 0x56, 0x78, 0x9a, 0xbc]);
    let mac = u128::from(other.to_u64());
    let from = PacketBuilder::eth(MAC, MAC).vlan(0x2003).ipv4(A4, B4).tcp(1, 2);
    let like = |src, dst, tci| PacketBuilder::eth(src, dst).vlan(tci).ipv4(A4, B4).tcp(1, 2);
    check("src", &from, set(&Field::ETH_SRC, mac), &like(other, MAC, 0x2003));
    check("dst", &from, set(&Field::ETH_DST, mac), &like(MAC, other, 0x2003));
    let vid = Action::Set { field: &Field::VLAN_TCI, value: 0x1fff, mask: 0x1fff };
    check("vid", &from, vid.clone(), &like(MAC, MAC, 0x2fff));
    assert_eq!(becomes(&eth().build(), &[vid]), Err(DropReason::BadAction));
}

type Body = fn(PacketBuilder) -> PacketBuilder;

#[test]
fn ipv4_is_rewritten() {
    let b = u128::from(B4.to_bits());
    let bodies: [(&str, Body); 5] = [
        ("udp", |p| p.udp(1, 2).payload(b"odd")),
        ("tcp", |p| p.tcp(1, 2)),
        ("icmp", |p| p.icmp(8, 0)),
        ("sctp", |p| p.sctp(1, 2)),
        ("other", |p| p.raw(b"xyz", 0, 200)),
    ];
    for (name, body) in bodies {
        let ip = |src, dst| body(eth().ipv4_options(src, dst, &[1; 8]));
        check(name, &ip(A4, A4), set(&Field::IPV4_SRC, b), &ip(B4, A4));
        check(name, &ip(A4, A4), set(&Field::IPV4_DST, b), &ip(A4, B4));
        let tos = |tos, ttl| body(eth().ipv4(A4, B4).tos(tos).ttl(ttl));
        check(name, &tos(3, 64), set(&Field::IP_TTL, 63), &tos(3, 63));
        let dscp = Action::Set { field: &Field::IP_TOS, value: 0xff, mask: 0xfc };
        check(name, &tos(1, 64), dscp, &tos(0xfd, 64));
    }
}

#[test]
fn ipv6_is_rewritten() {
    let b = u128::from(B6);
    let bodies: [(&str, Body); 4] = [
        ("udp", |p| p.udp(1, 2).payload(b"odd")),
        ("tcp", |p| p.tcp(1, 2)),
        ("icmp", |p| p.icmpv6(128, 0).payload(b"echo")),
        ("extended", |p| p.ext(60, &[1, 4, 0, 0, 0, 0]).udp(3, 4)),
    ];
    for (name, body) in bodies {
        let ip = |src, dst| body(eth().ipv6(src, dst, 5));
        check(name, &ip(A6, A6), set(&Field::IPV6_SRC, b), &ip(B6, A6));
        check(name, &ip(A6, A6), set(&Field::IPV6_DST, b), &ip(A6, B6));
        let rest = |label, tos, ttl| body(eth().ipv6(A6, B6, label).tos(tos).ttl(ttl));
        check(name, &rest(5, 1, 64), set(&Field::IPV6_LABEL, 0xabcde), &rest(0xabcde, 1, 64));
        check(name, &rest(5, 1, 64), set(&Field::IPV6_LABEL, u128::MAX), &rest(0xf_ffff, 1, 64));
        check(name, &rest(5, 1, 64), set(&Field::IP_TOS, 0xee), &rest(5, 0xee, 64));
        check(name, &rest(5, 1, 64), set(&Field::IP_TTL, 1), &rest(5, 1, 1));
    }
}

#[test]
fn transport_is_rewritten() {
    let v4 = || eth().ipv4(A4, B4);
    let v6 = || eth().ipv6(A6, B6, 0);
    check("udp", &v4().udp(1, 2), set(&Field::TP_SRC, 500), &v4().udp(500, 2));
    check("udp6", &v6().udp(1, 2), set(&Field::TP_DST, 500), &v6().udp(1, 500));
    check("tcp", &v4().tcp(1, 2), set(&Field::TP_DST, 500), &v4().tcp(1, 500));
    check("tcp6", &v6().tcp(1, 2), set(&Field::TP_SRC, 500), &v6().tcp(500, 2));
    let sctp = |src, dst| v4().sctp(src, dst).payload(b"chunk");
    check("sctp", &sctp(1, 2), set(&Field::TP_SRC, 500), &sctp(500, 2));
    let icmp = v4().icmp(8, 1).csum(Csum::Full).build();
    assert_eq!(becomes(&icmp, &[set(&Field::TP_SRC, 0)]), Ok(v4().icmp(0, 1).build()));
    let icmp = v6().icmpv6(128, 1).payload(b"echo").build();
    assert_eq!(
        becomes(&icmp, &[set(&Field::TP_DST, 7)]),
        Ok(v6().icmpv6(128, 7).payload(b"echo").build())
    );
    let none = v4().udp(1, 2).csum(Csum::Zero).build();
    let wanted = v4().udp(1, 9).csum(Csum::Zero).build();
    assert_eq!(becomes(&none, &[set(&Field::TP_DST, 9)]), Ok(wanted), "no checksum stays none");
}

#[test]
fn arp_is_rewritten() {
    let other = MacAddr([0x12, 0x34, 0x56, 0x78, 0x9a, 0xbc]);
    let mac = u128::from(other.to_u64());
    let arp = |op, s, t| eth().arp(op, s, t).build();
    let from = arp(1, (MAC, A4), (MAC, A4));
    for (action, to) in [
        (set(&Field::IP_PROTO, 2), arp(2, (MAC, A4), (MAC, A4))),
        (set(&Field::ARP_SHA, mac), arp(1, (other, A4), (MAC, A4))),
        (set(&Field::ARP_THA, mac), arp(1, (MAC, A4), (other, A4))),
        (set(&Field::IPV4_SRC, u128::from(B4.to_bits())), arp(1, (MAC, B4), (MAC, A4))),
        (set(&Field::IPV4_DST, u128::from(B4.to_bits())), arp(1, (MAC, A4), (MAC, B4))),
    ] {
        assert_eq!(becomes(&from, &[action]), Ok(to));
    }
}

#[test]
fn neighbour_discovery_is_rewritten() {
    let other = MacAddr([0x12, 0x34, 0x56, 0x78, 0x9a, 0xbc]);
    let mac = u128::from(other.to_u64());
    let nd =
        |target, sll, tll| eth().ipv6(A6, B6, 0).nd(135, target, &[(1, sll), (2, tll)]).build();
    let from = nd(A6, MAC, MAC);
    for (action, to) in [
        (set(&Field::ND_TARGET, u128::from(B6)), nd(B6, MAC, MAC)),
        (set(&Field::ARP_SHA, mac), nd(A6, other, MAC)),
        (set(&Field::ARP_THA, mac), nd(A6, MAC, other)),
    ] {
        assert_eq!(becomes(&from, &[action]), Ok(to));
    }
    let bare = eth().ipv6(A6, B6, 0).nd(136, A6, &[]).build();
    assert_eq!(becomes(&bare, &[set(&Field::ARP_SHA, mac)]), Err(DropReason::BadAction));
}

#[test]
fn later_fragments_have_addresses_but_no_ports() {
    let frag = |dst| eth().ipv4(A4, dst).fragment(64, false).raw(&[9; 40], 0, 17).build();
    let actions = [set(&Field::IPV4_DST, u128::from(B4.to_bits())), set(&Field::TP_DST, 5)];
    assert_eq!(becomes(&frag(A4), &actions), Ok(frag(B4)));
    let frag = |dst| eth().ipv6(A6, dst, 0).ipv6_fragment(64, true).raw(&[9; 40], 0, 17).build();
    let actions = [set(&Field::IPV6_DST, u128::from(B6)), set(&Field::TP_DST, 5)];
    assert_eq!(becomes(&frag(A6), &actions), Ok(frag(B6)));
}

#[test]
fn absent_fields_are_bad_actions() {
    let udp = eth().ipv4(A4, B4).udp(1, 2).build();
    let absent = [
        &Field::IN_PORT,
        &Field::RECIRC_ID,
        &Field::ETH_TYPE,
        &Field::IP_PROTO,
        &Field::IP_FRAG,
        &Field::TCP_FLAGS,
        &Field::IPV6_SRC,
        &Field::IPV6_DST,
        &Field::IPV6_LABEL,
        &Field::ARP_SHA,
        &Field::ARP_THA,
        &Field::ND_TARGET,
        &Field::VLAN_TCI,
    ];
    for field in absent {
        assert_eq!(becomes(&udp, &[set(field, 1)]), Err(DropReason::BadAction), "{}", field.name);
    }
    let other = eth().raw(&[0; 50], 0x88cc, 0).build();
    for field in [&Field::IPV4_SRC, &Field::IP_TTL, &Field::TP_SRC] {
        assert_eq!(becomes(&other, &[set(field, 1)]), Err(DropReason::BadAction), "{}", field.name);
    }
}

#[test]
fn every_field_has_a_place_or_is_refused() {
    let settable = [
        "eth_dst",
        "eth_src",
        "vlan_tci",
        "ipv4_src",
        "ipv4_dst",
        "ip_tos",
        "ip_ttl",
        "tp_src",
        "tp_dst",
        "ipv6_label",
        "ipv6_src",
        "ipv6_dst",
        "arp_sha",
        "arp_tha",
        "nd_target",
        "ip_proto",
        "skb_mark",
        "skb_priority",
    ];
    let mac = (MAC, A4);
    let packets = [
        eth().vlan(1).ipv4(A4, B4).udp(1, 2).build(),
        eth().ipv6(A6, B6, 0).nd(135, A6, &[(1, MAC), (2, MAC)]).build(),
        eth().arp(1, mac, mac).build(),
    ];
    for field in Field::ALL {
        let fits = packets.iter().any(|bytes| becomes(bytes, &[set(field, 0)]).is_ok());
        assert_eq!(fits, settable.contains(&field.name), "{}", field.name);
    }
}
