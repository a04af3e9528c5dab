//! Every member of a datapath match through the real daemon: a flow that asks for it gets the packet that has it,
//! and not the one that differs in it alone.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::time::Duration;

use xvs_tests::{
    Result, check,
    daemon::{Daemon, Setup},
    frame::{self, put},
    raw::RawSocket,
    rig::{C1_MAC, C2_MAC, Rig},
    wait_until,
};

use crate::runner::on;

/// The sender of all these packets, whom no host is.
const SRC: [u8; 6] = [0x02, 0xaa, 0, 0, 0, 1];
const ETH_SRC: &str = "eth(src=02:aa:00:00:00:01)";

/// A packet that does not hit.
#[derive(Clone, Copy)]
enum Miss {
    /// The same, but for these bytes at this place.
    Bytes(usize, &'static [u8]),
    /// Another.
    Frame(fn() -> Vec<u8>),
    /// The same on another port.
    OtherPort,
    /// The same packet does not hit this flow: what no packet has as it arrives.
    Never(&'static str),
}

/// One member, what to write around it, matches that ask for all of it or some of its bits, a packet that hits and
/// one that does not.
type Row = (&'static str, &'static str, &'static [&'static str], fn() -> Vec<u8>, Miss);

use Miss::{Bytes, Frame, Never, OtherPort};

const ANY: &str = "{}";
const IN_TAG: &str = "eth_type(0x8100),{},encap(eth_type(0x0800))";
const IN_TAGS: &str =
    "eth_type(0x88a8),vlan(vid=10),encap(eth_type(0x8100),{},encap(eth_type(0x0800)))";
const IPV4: &str = "eth_type(0x0800),ipv4({})";
const IPV6: &str = "eth_type(0x86dd),ipv6({})";
const ARP: &str = "eth_type(0x0806),arp({})";
const TCP: &str = "eth_type(0x0800),ipv4(proto=6),{}";
const UDP: &str = "eth_type(0x0800),ipv4(proto=17),{}";
const SCTP: &str = "eth_type(0x0800),ipv4(proto=132),sctp({})";
const ICMP: &str = "eth_type(0x0800),ipv4(proto=1),icmp({})";
const ICMPV6: &str = "eth_type(0x86dd),ipv6(proto=58),icmpv6({})";
const SOLICIT: &str = "eth_type(0x86dd),ipv6(proto=58),icmpv6(type=135,code=0),nd({})";
const ADVERTISE: &str = "eth_type(0x86dd),ipv6(proto=58),icmpv6(type=136,code=0),nd({})";

const TAG_11: Miss = Bytes(14, &[0x60, 11]);
const TAG_0: Miss = Bytes(14, &[0, 10]);
const INNER_0: Miss = Bytes(18, &[0, 0]);

/// Every member of the syntax has a row at least.
const ROWS: &[Row] = &[
    (
        "skb_priority",
        ANY,
        &["skb_priority(0)", "skb_priority(0/0x1)"],
        udp4,
        Never("skb_priority(0x1/0x1)"),
    ),
    ("skb_mark", ANY, &["skb_mark(0)", "skb_mark(0/0xff)"], udp4, Never("skb_mark(0x10/0x10)")),
    ("ct_state", ANY, &["ct_state(0)", "ct_state(-trk)"], udp4, Never("ct_state(-new+trk)")),
    ("ct_zone", ANY, &["ct_zone(0)", "ct_zone(0/0xf)"], udp4, Never("ct_zone(0x1)")),
    ("ct_mark", ANY, &["ct_mark(0)", "ct_mark(0/0xf)"], udp4, Never("ct_mark(0x1/0xff)")),
    (
        "ct_label",
        ANY,
        &["ct_label(0)", "ct_label(0/0xf)"],
        udp4,
        Never("ct_label(0x10000000000000000)"),
    ),
    ("recirc_id", ANY, &["recirc_id(0)", "recirc_id(0/0x1)"], udp4, Never("recirc_id(0x1)")),
    ("dp_hash", ANY, &["dp_hash(0)", "dp_hash(0/0xf)"], udp4, Never("dp_hash(0x3/0x7)")),
    ("in_port", ANY, &["in_port(1)", "in_port(v1)", "in_port(1/0x3)"], udp4, OtherPort),
    ("packet_type.ns", ANY, &["packet_type(ns=0)"], udp4, Never("packet_type(ns=1)")),
    (
        "packet_type.id",
        ANY,
        &["packet_type(ns=0,id=0/1)"],
        udp4,
        Never("packet_type(ns=1,id=0x800)"),
    ),
    (
        "eth.src",
        ANY,
        &["eth(src=02:aa:00:00:00:01)", "eth(src=02:aa:00:00:00:01/ff:ff:00:00:00:0f)"],
        udp4,
        Bytes(6, &[2, 0xaa, 0, 0, 0, 2]),
    ),
    (
        "eth.dst",
        ANY,
        &[
            "eth(src=02:aa:00:00:00:01,dst=02:00:00:00:00:02)",
            "eth(src=02:aa:00:00:00:01,dst=00:00:00:00:00:02/00:00:00:00:00:0f)",
        ],
        udp4,
        Bytes(0, &[2, 0, 0, 0, 0, 3]),
    ),
    (
        "eth_type",
        ANY,
        &["eth_type(0x0800)", "eth_type(0x0800/0xff00)"],
        udp4,
        Bytes(12, &[0x88, 0xcc]),
    ),
    ("eth_type", ANY, &["eth_type(0x8100),vlan(),encap()"], tagged, Bytes(12, &[0x88, 0xa8])),
    ("eth_type", ANY, &["eth_type(0x88a8),vlan(),encap()"], twice, Bytes(12, &[0x81, 0])),
    ("vlan.vid", IN_TAG, &["vlan(vid=10)", "vlan(vid=10/0xf)"], tagged, TAG_11),
    ("vlan.vid", ANY, &["vlan(vid=10)", "vlan(vid=10),eth_type(0x0800)"], tagged, TAG_11),
    ("vlan.pcp", IN_TAG, &["vlan(pcp=3)", "vlan(pcp=2/0x2)"], tagged, TAG_0),
    ("vlan.cfi", IN_TAG, &["vlan(cfi=1)", "vlan(cfi=1)"], tagged, Frame(udp4)),
    ("vlan.tci", ANY, &["vlan(tci=0x700a)", "vlan(tci=0x000a/0x000f)"], tagged, TAG_11),
    ("vlan.tci", ANY, &["vlan(tci=0x0000/0x1000)", "vlan(tci=0)"], udp4, Frame(tagged)),
    ("encap.vlan.vid", IN_TAGS, &["vlan(vid=20)", "vlan(vid=4/0x4)"], twice, INNER_0),
    ("encap.vlan.pcp", IN_TAGS, &["vlan(pcp=5)", "vlan(pcp=4/0x4)"], twice, INNER_0),
    ("encap.vlan.cfi", IN_TAGS, &["vlan(cfi=1)"], twice, Bytes(16, &[8, 0])),
    ("encap.vlan.tci", IN_TAGS, &["vlan(tci=0xb014)", "vlan(tci=0x4/0x4)"], twice, INNER_0),
    (
        "encap.vlan.tci",
        ANY,
        &["vlan(vid=10),encap(vlan(tci=0),eth_type(0x0800))"],
        tagged,
        Frame(twice_q),
    ),
    ("ipv4.src", IPV4, &["src=10.9.9.1", "src=10.0.0.0/8"], udp4, Bytes(26, &[11])),
    ("ipv4.dst", IPV4, &["dst=10.9.9.2", "dst=0.0.0.2/0.0.0.7"], udp4, Bytes(33, &[3])),
    ("ipv4.proto", IPV4, &["proto=17", "proto=17/0x1f"], udp4, Bytes(23, &[16])),
    ("ipv4.tos", IPV4, &["tos=0x28", "tos=0x28/0xfc"], udp4, Bytes(15, &[0x48])),
    ("ipv4.ttl", IPV4, &["ttl=64", "ttl=64/0x40"], udp4, Bytes(22, &[63])),
    ("ipv4.frag", IPV4, &["frag=no", "frag=0/0x1"], udp4, Bytes(20, &[0x20, 0])),
    ("ipv4.frag", IPV4, &["frag=first", "frag=0/0x2"], first, Bytes(20, &[0, 5])),
    ("ipv4.frag", IPV4, &["frag=later", "frag=3/0x2"], later, Bytes(20, &[0x20, 0])),
    ("ipv6.src", IPV6, &["src=fd00::9:1", "src=fd00::/8"], udp6, Bytes(22, &[0xfe])),
    ("ipv6.dst", IPV6, &["dst=fd00::9:2", "dst=::2/::f"], udp6, Bytes(53, &[3])),
    ("ipv6.label", IPV6, &["label=0x12345", "label=0x5/0xf"], udp6, Bytes(17, &[0x46])),
    ("ipv6.proto", IPV6, &["proto=17", "proto=17/0x1f"], udp6, Bytes(20, &[59])),
    ("ipv6.proto", IPV6, &["proto=17"], options6, Bytes(54, &[59])),
    ("udp.dst", ANY, &["eth_type(0x86dd),ipv6(proto=17),udp(dst=80)"], options6, Bytes(54, &[59])),
    ("ipv6.tclass", IPV6, &["tclass=0x28", "tclass=0x20/0xf0"], udp6, Bytes(14, &[0x64])),
    ("ipv6.hlimit", IPV6, &["hlimit=64", "hlimit=64/0x40"], udp6, Bytes(21, &[63])),
    ("ipv6.frag", IPV6, &["frag=no", "frag=0/0x1"], udp6, Frame(first6)),
    ("ipv6.frag", IPV6, &["frag=first", "frag=1/0x3"], first6, Bytes(56, &[0, 8])),
    ("ipv6.frag", IPV6, &["frag=later,proto=44"], later6, Bytes(56, &[0, 1])),
    ("arp.sip", ARP, &["sip=10.9.9.1", "sip=10.0.0.0/8"], arp, Bytes(28, &[11])),
    ("arp.tip", ARP, &["tip=10.9.9.2", "tip=0.0.0.2/0.0.0.7"], arp, Bytes(41, &[3])),
    ("arp.op", ARP, &["op=1", "op=1/0x3"], arp, Bytes(21, &[2])),
    ("arp.sha", ARP, &["sha=02:aa:00:00:00:01"], arp, Bytes(27, &[2])),
    ("arp.tha", ARP, &["tha=00:00:00:00:00:00/ff:00:00:00:00:00"], arp, Bytes(32, &[2])),
    ("tcp.src", TCP, &["tcp(src=7)", "tcp(src=6/0x6)"], tcp4, Bytes(35, &[8])),
    ("tcp.dst", TCP, &["tcp(dst=80)", "tcp(dst=80/0xfff0)"], tcp4, Bytes(37, &[81 + 16])),
    ("tcp_flags", TCP, &["tcp_flags(ack)", "tcp_flags(+ack-syn)"], tcp4, Bytes(47, &[0x12])),
    ("udp.src", UDP, &["udp(src=7)", "udp(src=6/0x6)"], udp4, Bytes(35, &[8])),
    ("udp.dst", UDP, &["udp(dst=80)", "udp(dst=80/0xfff0)"], udp4, Bytes(37, &[97])),
    ("sctp.src", SCTP, &["src=7", "src=6/0x6"], sctp4, Bytes(35, &[8])),
    ("sctp.dst", SCTP, &["dst=80", "dst=80/0xfff0"], sctp4, Bytes(37, &[97])),
    ("icmp.type", ICMP, &["type=8", "type=8/0x8"], icmp4, Bytes(34, &[0])),
    ("icmp.code", ICMP, &["type=8,code=0", "code=0/0x1"], icmp4, Bytes(35, &[1])),
    ("icmpv6.type", ICMPV6, &["type=135", "type=135/0xff"], solicit, Bytes(54, &[136])),
    ("icmpv6.code", ICMPV6, &["code=0", "code=0/0x1"], solicit, Bytes(55, &[1])),
    ("nd.target", SOLICIT, &["target=fd00::9:2", "target=fd00::/16"], solicit, Bytes(62, &[0xfe])),
    ("nd.sll", SOLICIT, &["sll=02:aa:00:00:00:01"], solicit, Bytes(85, &[2])),
    ("nd.tll", ADVERTISE, &["tll=02:aa:00:00:00:01"], advertise, Bytes(85, &[2])),
];

/// Every member has its rows, and every row behaves.
pub(crate) fn every_member_of_a_match_hits_and_misses() -> Result<()> {
    let known: BTreeSet<_> = xvs_datapath::text::members().collect();
    let tested: BTreeSet<_> = ROWS.iter().map(|(member, ..)| (*member).to_owned()).collect();
    check!(known == tested, "no rows, or too many: {:?}", known.symmetric_difference(&tested));
    on(Rig::pair, |rig| {
        let daemon = Daemon::start(rig, &Setup::new(rig))?;
        rig.wait_forwarding(Duration::from_secs(5))?;
        let hosts = Hosts {
            first: rig.c1.enter(|| RawSocket::open("e0"))?,
            second: rig.c2.enter(|| RawSocket::open("e0"))?,
        };
        for row in ROWS {
            for value in row.2 {
                hosts.try_match(&daemon, row, &row.1.replace("{}", value))?;
            }
        }
        daemon.stop()
    })
}

/// Rules look at the outer tag, and once that is gone at the next.
pub(crate) fn rules_see_the_second_tag_once_the_first_is_stripped() -> Result<()> {
    on(Rig::pair, |rig| {
        let daemon = Daemon::start(rig, &Setup::new(rig))?;
        rig.wait_forwarding(Duration::from_secs(5))?;
        let to = rig.c2.enter(|| RawSocket::open("e0"))?;
        let from = rig.c1.enter(|| RawSocket::open("e0"))?;
        for rule in ["priority=1,actions=NORMAL", "table=1,priority=1,actions=NORMAL"] {
            daemon.ctl(&["rule", "add", "br0", rule])?;
        }
        // The kernel takes the outer tag off before a packet socket sees the frame.
        let inner = [&[0x81, 0, 0xa0, 20], &udp4()[12..20]].concat();
        let mut short_lived = udp4()[12..23].to_vec();
        short_lived[10] = 7;
        for (rule, want) in [
            ("dl_vlan=11,actions=drop", inner),
            ("dl_vlan=10,actions=strip_vlan,resubmit(,1)", udp4()[12..23].to_vec()),
            ("table=1,ip,dl_vlan=20,actions=strip_vlan,mod_nw_ttl:7,output:2", short_lived),
        ] {
            daemon.ctl(&["rule", "add", "br0", &format!("priority=20,{rule}")])?;
            wait_until(&format!("what {rule} makes"), Duration::from_secs(3), || {
                from.send(&twice_q())?;
                let ours = |frame: &[u8]| frame.get(6..12) == Some(&SRC[..]);
                let came = to.receive(Duration::from_millis(200), ours)?.unwrap_or_default();
                Ok((came.get(12..12 + want.len()) == Some(&want[..])).then_some(()))
            })?;
        }
        daemon.stop()
    })
}

struct Hosts {
    first: RawSocket,
    second: RawSocket,
}

impl Hosts {
    /// Adds a flow, sends the packet that misses and then the one that hits, and checks that the flow counts the
    /// second alone.
    fn try_match(&self, daemon: &Daemon, row: &Row, text: &str) -> Result<()> {
        let &(member, _, _, hit, miss) = row;
        let mut flows = vec![complete(text)];
        if let Never(text) = miss {
            flows.push(complete(text));
        }
        for flow in &flows {
            daemon.appctl(&["dpctl/add-flow", flow, "drop"])?;
        }
        self.send_miss(&hit(), miss)?;
        self.first.send(&long(hit(), HIT_LEN))?;
        let dumped = wait_until(&format!("a hit of {text}"), Duration::from_secs(5), || {
            let dumped = dumped(daemon)?;
            Ok(dumped.iter().any(|(_, count)| !count.starts_with("packets:0,")).then_some(dumped))
        })?;
        check!(dumped.len() == flows.len(), "{member}: {text} makes {dumped:?}");
        for (flow, count) in &dumped {
            let never = matches!(miss, Never(text) if flow.contains(text));
            let (packets, bytes) = if never { (0, 0) } else { (1, HIT_LEN) };
            let want = format!("packets:{packets}, bytes:{bytes}, ");
            check!(count.starts_with(&want), "{member}: of {flow}, added as {text}: {count}");
            daemon.appctl(&["dpctl/del-flow", flow])?;
        }
        let left = self::dumped(daemon)?;
        check!(left.is_empty(), "{member}: {left:?} is dumped and not found");
        Ok(())
    }

    fn send_miss(&self, hit: &[u8], miss: Miss) -> Result<()> {
        match miss {
            Bytes(at, bytes) => {
                let mut other = hit.to_vec();
                other.splice(at..at + bytes.len(), bytes.iter().copied());
                self.first.send(&long(other, MISS_LEN))?;
            }
            Frame(other) => _ = self.first.send(&long(other(), MISS_LEN))?,
            OtherPort => {
                let mut back = long(hit.to_vec(), MISS_LEN);
                back.splice(..6, C1_MAC);
                self.second.send(&back)?;
                let is_it = |frame: &[u8]| frame == back;
                let came = self.first.receive(Duration::from_secs(5), is_it)?;
                check!(came.is_some(), "nothing came from the other port");
            }
            Never(_) => {}
        }
        Ok(())
    }
}

/// With the sender and the port, if it does not name them.
fn complete(text: &str) -> String {
    let mut all = text.to_owned();
    for (name, item) in
        [("recirc_id(", "recirc_id(0)"), ("in_port(", "in_port(1)"), ("eth(", ETH_SRC)]
    {
        if !text.contains(name) {
            all = format!("{item},{all}");
        }
    }
    all
}

/// The flows that these tests added, and what follows them in the dump.
fn dumped(daemon: &Daemon) -> Result<Vec<(String, String)>> {
    let text = daemon.appctl(&["dpctl/dump-flows"])?;
    let ours = |line: &&str| {
        line.contains("in_port(1") && line.contains("aa:00:00:00:01") && line.ends_with(":drop")
    };
    let parts = |line: &str| {
        let (flow, rest) = line.split_once(", packets:")?;
        Some((flow.to_owned(), format!("packets:{rest}")))
    };
    Ok(text.lines().filter(ours).filter_map(parts).collect())
}

/// Lengths, so that bytes tell which packet was counted.
const HIT_LEN: usize = 200;
const MISS_LEN: usize = 160;

/// With padding, which is no part of the packet inside.
fn long(mut frame: Vec<u8>, len: usize) -> Vec<u8> {
    frame.resize(len, 0);
    frame
}

const A: Ipv4Addr = Ipv4Addr::new(10, 9, 9, 1);
const B: Ipv4Addr = Ipv4Addr::new(10, 9, 9, 2);

fn ip4(proto: u8, payload: &[u8]) -> Vec<u8> {
    let mut packet = frame::ipv4(A, B, proto, payload);
    packet[1] = 0x28;
    frame::ethernet(C2_MAC, SRC, 0x0800, &packet)
}

fn udp4() -> Vec<u8> {
    ip4(17, &frame::udp((A, 7), (B, 80), b"field"))
}

fn tcp4() -> Vec<u8> {
    ip4(6, &frame::tcp((A, 7), (B, 80), b"field"))
}

fn sctp4() -> Vec<u8> {
    ip4(132, &frame::sctp(7, 80, b"field"))
}

fn icmp4() -> Vec<u8> {
    ip4(1, &[8, 0, 0, 0, 0, 1, 0, 1])
}

/// A first fragment.
fn first() -> Vec<u8> {
    let mut frame = udp4();
    put(&mut frame, 20, 0x2000);
    frame
}

/// A later one.
fn later() -> Vec<u8> {
    let mut frame = udp4();
    put(&mut frame, 20, 5);
    frame
}

/// In 802.1Q, priority 3, VLAN 10.
fn tagged() -> Vec<u8> {
    let mut frame = udp4();
    frame.splice(12..12, [0x81, 0, 0x60, 10]);
    frame
}

/// In 802.1ad, VLAN 10, around 802.1Q, priority 5, VLAN 20.
fn twice() -> Vec<u8> {
    let mut frame = udp4();
    frame.splice(12..12, [0x88, 0xa8, 0, 10, 0x81, 0, 0xa0, 20]);
    frame
}

/// The same with both tags of 802.1Q.
fn twice_q() -> Vec<u8> {
    let mut frame = twice();
    put(&mut frame, 12, 0x8100);
    frame
}

fn arp() -> Vec<u8> {
    let head = [0, 1, 8, 0, 6, 4, 0, 1];
    let payload = [&head[..], &SRC, &A.octets(), &[0; 6], &B.octets()].concat();
    frame::ethernet(C2_MAC, SRC, 0x0806, &payload)
}

/// IPv6 with traffic class 0x28, label 0x12345, hop limit 64, from fd00::9:1 to fd00::9:2.
fn ip6(next: u8, payload: &[u8]) -> Vec<u8> {
    let length = u8::try_from(payload.len()).unwrap();
    let head = [0x62, 0x81, 0x23, 0x45, 0, length, next, 64];
    let packet = [&head[..], &address6(1), &address6(2), payload].concat();
    frame::ethernet(C2_MAC, SRC, 0x86dd, &packet)
}

fn address6(n: u8) -> [u8; 16] {
    [0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9, 0, n]
}

fn udp6() -> Vec<u8> {
    ip6(17, &UDP_TO_80)
}

const UDP_TO_80: [u8; 12] = [0, 7, 0, 80, 0, 12, 0, 0, 1, 2, 3, 4];

/// UDP after a header with destination options.
fn options6() -> Vec<u8> {
    ip6(60, &[&[17, 0, 1, 4, 0, 0, 0, 0], &UDP_TO_80[..]].concat())
}

fn first6() -> Vec<u8> {
    ip6(44, &[&[17, 0, 0, 1, 0, 0, 0, 9], &UDP_TO_80[..]].concat())
}

fn later6() -> Vec<u8> {
    ip6(44, &[&[17, 0, 0, 8, 0, 0, 0, 9], &UDP_TO_80[..]].concat())
}

/// Neighbour discovery with one option that has a link-layer address.
fn discovery(icmp_type: u8, option: u8) -> Vec<u8> {
    let head = [icmp_type, 0, 0, 0, 0, 0, 0, 0];
    ip6(58, &[&head[..], &address6(2), &[option, 1], &SRC].concat())
}

fn solicit() -> Vec<u8> {
    discovery(135, 1)
}

fn advertise() -> Vec<u8> {
    discovery(136, 2)
}
