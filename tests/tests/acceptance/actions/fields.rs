//! One row for each field that `set()` rewrites.

use xvs_datapath::testing::PacketBuilder;
use xvs_tests::Result;

use super::{A4, A6, B4, B6, Bench, C4, C6, DST, NEW, SRC, eth};
use crate::runner::on;

/// A rewrite: the match, the value (with or without mask), and the frame before and after.
pub(super) struct Row {
    pub(super) group: &'static str,
    pub(super) member: &'static str,
    flow: &'static str,
    value: &'static str,
    before: PacketBuilder,
    after: PacketBuilder,
}

const TAGGED: &str = "in_port(1),eth_type(0x8100),vlan(vid=5),encap(eth_type(0x0800))";
const IPV4: &str = "in_port(1),eth_type(0x0800)";
const IPV6: &str = "in_port(1),eth_type(0x86dd)";
const ARP: &str = "in_port(1),eth_type(0x0806)";
const TCP: &str = "in_port(1),eth_type(0x0800),ipv4(proto=6)";
const TCP6: &str = "in_port(1),eth_type(0x86dd),ipv6(proto=6)";
const UDP: &str = "in_port(1),eth_type(0x0800),ipv4(proto=17)";
const UDP6: &str = "in_port(1),eth_type(0x86dd),ipv6(proto=17)";
const SCTP: &str = "in_port(1),eth_type(0x0800),ipv4(proto=132)";
const ICMP: &str = "in_port(1),eth_type(0x0800),ipv4(proto=1)";
const ICMP6: &str = "in_port(1),eth_type(0x86dd),ipv6(proto=58)";
const ND: &str = "in_port(1),eth_type(0x86dd),ipv6(proto=58),icmpv6(type=135,code=0)";

fn tcp(src: std::net::Ipv4Addr, dst: std::net::Ipv4Addr) -> PacketBuilder {
    eth().ipv4(src, dst).tcp(80, 81).payload(b"an odd number")
}

fn udp6(src: std::net::Ipv6Addr, dst: std::net::Ipv6Addr) -> PacketBuilder {
    eth().ipv6(src, dst, 5).udp(80, 81).payload(b"an odd number")
}

/// `before` and `after`, each made by `make`.
type Change = [PacketBuilder; 2];

fn two<T>(make: impl Fn(T) -> PacketBuilder, before: T, after: T) -> Change {
    [make(before), make(after)]
}

/// One line of the table.
fn row(
    (group, member): (&'static str, &'static str),
    flow: &'static str,
    value: &'static str,
    [before, after]: Change,
) -> Row {
    Row { group, member, flow, value, before, after }
}

fn lower() -> Vec<Row> {
    let eth = |(src, dst)| PacketBuilder::eth(src, dst).ipv4(A4, B4).tcp(1, 2);
    let tag = |tci| super::eth().vlan(tci).ipv4(A4, B4).udp(1, 2);
    let tos = |(tos, ttl)| super::eth().ipv4(A4, B4).tos(tos).ttl(ttl).tcp(1, 2).payload(b"odd");
    let six = |(label, tos, ttl)| super::eth().ipv6(A6, B6, label).tos(tos).ttl(ttl).udp(1, 2);
    let arp = |(op, s, t)| super::eth().arp(op, s, t);
    let was = (1, (SRC, A4), (DST, B4));
    vec![
        row(("skb_priority", ""), IPV4, "0x25", two(eth, (SRC, DST), (SRC, DST))),
        row(("skb_mark", ""), IPV4, "0x25/0x2f", two(eth, (SRC, DST), (SRC, DST))),
        row(("eth", "src"), IPV4, "02:aa:00:00:00:09", two(eth, (SRC, DST), (NEW, DST))),
        row(("eth", "dst"), IPV4, "02:aa:00:00:00:09", two(eth, (SRC, DST), (SRC, NEW))),
        row(
            ("eth", "dst"),
            IPV4,
            "00:00:00:00:00:09/00:00:00:00:00:0f",
            two(eth, (SRC, DST), (SRC, NEW)),
        ),
        row(("vlan", "vid"), TAGGED, "4094", two(tag, 0x6005, 0x6ffe)),
        row(("vlan", "vid"), TAGGED, "8/0x8", two(tag, 0x6005, 0x600d)),
        row(("vlan", "pcp"), TAGGED, "1", two(tag, 0x6005, 0x2005)),
        row(("ipv4", "src"), IPV4, "192.168.7.9", two(|src| tcp(src, B4), A4, C4)),
        row(("ipv4", "dst"), IPV4, "192.168.7.9", two(|dst| tcp(A4, dst), B4, C4)),
        row(
            ("ipv4", "dst"),
            IPV4,
            "10.9.8.0/255.255.255.0",
            two(|dst| tcp(A4, dst), B4, [10, 9, 8, 2].into()),
        ),
        row(("ipv4", "tos"), IPV4, "0xb8/0xfc", two(tos, (1, 64), (0xb9, 64))),
        row(("ipv4", "ttl"), IPV4, "63", two(tos, (1, 64), (1, 63))),
        row(("ipv6", "src"), IPV6, "2001:db8:1:2:3:4:5:6", two(|src| udp6(src, B6), A6, C6)),
        row(("ipv6", "dst"), IPV6, "2001:db8:1:2:3:4:5:6", two(|dst| udp6(A6, dst), B6, C6)),
        row(("ipv6", "label"), IPV6, "0xabcde", two(six, (5, 1, 64), (0xabcde, 1, 64))),
        row(("ipv6", "tclass"), IPV6, "0xb8/0xfc", two(six, (5, 1, 64), (5, 0xb9, 64))),
        row(("ipv6", "hlimit"), IPV6, "63", two(six, (5, 1, 64), (5, 1, 63))),
        row(("arp", "sip"), ARP, "192.168.7.9", two(arp, was, (1, (SRC, C4), (DST, B4)))),
        row(("arp", "tip"), ARP, "192.168.7.9", two(arp, was, (1, (SRC, A4), (DST, C4)))),
        row(("arp", "op"), ARP, "2", two(arp, was, (2, (SRC, A4), (DST, B4)))),
        row(("arp", "sha"), ARP, "02:aa:00:00:00:09", two(arp, was, (1, (NEW, A4), (DST, B4)))),
        row(("arp", "tha"), ARP, "02:aa:00:00:00:09", two(arp, was, (1, (SRC, A4), (NEW, B4)))),
    ]
}

fn upper() -> Vec<Row> {
    let v4 = || eth().ipv4(A4, B4);
    let v6 = || eth().ipv6(A6, B6, 0);
    let tcp = |(src, dst)| v4().tcp(src, dst).payload(b"odd");
    let tcp6 = |(src, dst)| v6().tcp(src, dst).payload(b"odd");
    let udp = |(src, dst)| v4().udp(src, dst).payload(b"odd");
    let udp6 = |(src, dst)| v6().udp(src, dst).payload(b"odd");
    let sctp = |(src, dst)| v4().sctp(src, dst).payload(b"chunk");
    let icmp = |(kind, code)| v4().icmp(kind, code).payload(b"five!");
    let icmp6 = |(kind, code)| v6().icmpv6(kind, code).payload(b"five!");
    let nd = |(target, sll, tll)| v6().nd(135, target, &[(1, sll), (2, tll)]);
    vec![
        row(("tcp", "src"), TCP, "500", two(tcp, (1, 2), (500, 2))),
        row(("tcp", "dst"), TCP, "500", two(tcp, (1, 2), (1, 500))),
        row(("tcp", "dst"), TCP6, "256/0xff00", two(tcp6, (1, 2), (1, 258))),
        row(("udp", "src"), UDP, "500", two(udp, (1, 2), (500, 2))),
        row(("udp", "dst"), UDP, "500", two(udp, (1, 2), (1, 500))),
        row(("udp", "src"), UDP6, "500", two(udp6, (1, 2), (500, 2))),
        row(("sctp", "src"), SCTP, "500", two(sctp, (1, 2), (500, 2))),
        row(("sctp", "dst"), SCTP, "500", two(sctp, (1, 2), (1, 500))),
        row(("icmp", "type"), ICMP, "0", two(icmp, (8, 3), (0, 3))),
        row(("icmp", "code"), ICMP, "7", two(icmp, (8, 3), (8, 7))),
        row(("icmpv6", "type"), ICMP6, "129", two(icmp6, (128, 3), (129, 3))),
        row(("icmpv6", "code"), ICMP6, "7", two(icmp6, (128, 3), (128, 7))),
        row(("nd", "target"), ND, "2001:db8:1:2:3:4:5:6", two(nd, (A6, SRC, DST), (C6, SRC, DST))),
        row(("nd", "sll"), ND, "02:aa:00:00:00:09", two(nd, (A6, SRC, DST), (A6, NEW, DST))),
        row(("nd", "tll"), ND, "02:aa:00:00:00:09", two(nd, (A6, SRC, DST), (A6, SRC, NEW))),
    ]
}

/// What is noted of a packet and lies in none of its headers: the next lookup sees it.
fn noted(
    bench: &Bench<'_>,
    group: &str,
    flow: &str,
    value: &str,
    frames: &[Vec<u8>],
) -> Result<()> {
    let again =
        |value: &str| format!("recirc_id(0x9),{group}({value}),in_port(1),eth_type(0x0800)");
    bench.add(&format!("recirc_id(0),{flow}"), &format!("set({group}({value})),recirc(0x9)"))?;
    bench.add(&again("0x25"), "2")?;
    bench.add(&again("0x20"), "drop")?;
    bench.send(frames)?;
    xvs_tests::check!(bench.arrived(1, frames.len())? == frames, "{group} was not seen");
    bench.clear()
}

/// The table.
pub(super) fn rows() -> Vec<Row> {
    lower().into_iter().chain(upper()).collect()
}

pub(crate) fn every_field_is_rewritten_with_its_checksums() -> Result<()> {
    on(xvs_tests::rig::Rig::pair, |rig| {
        let bench = Bench::new(rig)?;
        for Row { group, member, flow, value, before, after } in rows() {
            let frames = (&[before.build()], &[after.build()]);
            if member.is_empty() {
                noted(&bench, group, flow, value, frames.0)?;
                continue;
            }
            let actions = format!("set({group}({member}={value})),2");
            bench.row(flow, &actions, frames.0, frames.1)?;
        }
        bench.finish()
    })
}
