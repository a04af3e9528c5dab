//! Texts as Open vSwitch writes them, and parsing as the inverse of printing.

mod mistakes;

use proptest::prelude::*;

use super::table::{GROUPS, Need};
use super::*;
use crate::testing::{MemPacket, PacketBuilder};
use crate::wire::proto;
use crate::{Action, Field, FlowMask, Match, extract};

/// Port 1 is v1, port 2 is v2.
struct Names;

impl PortNames for Names {
    fn number(&self, name: &str) -> Option<PortNo> {
        name.strip_prefix('v')?.parse().ok().filter(|n| (1..3).contains(n)).map(PortNo)
    }

    fn name(&self, port: PortNo) -> Option<String> {
        (1..3).contains(&port.0).then(|| format!("v{port}"))
    }
}

fn parse(text: &str) -> Match {
    parse_match(text, &Names).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// The text is what is printed for what it says.
fn same(text: &str) {
    assert_eq!(print_match(&parse(text), &NumbersOnly), text);
}

const TCP4: &str = "in_port(1),eth_type(0x0800),ipv4(proto=6)";

#[test]
fn matches_as_open_vswitch_prints_them() {
    same(
        "recirc_id(0),in_port(1),packet_type(ns=0,id=0),eth(src=02:00:00:00:00:01,dst=02:00:00:00:00:02),eth_type(0x0800),ipv4(frag=no)",
    );
    same(
        "recirc_id(0),in_port(1),packet_type(ns=0,id=0),eth_type(0x8100),vlan(vid=10,pcp=0),encap(eth_type(0x0800),ipv4(dst=10.0.0.0/255.255.255.0,tos=0/0xfc,ttl=64,frag=first))",
    );
    same(
        "packet_type(ns=0,id=0),eth_type(0x86dd),ipv6(src=fd00::1,dst=fd00::/ffff::,label=0x12345,proto=17,tclass=0x28,hlimit=64,frag=later),udp(src=768/0xff00,dst=53)",
    );
    same(
        "in_port(2),packet_type(ns=0,id=0),eth_type(0x0806),arp(sip=10.0.0.1,tip=10.0.0.2,op=1,sha=02:00:00:00:00:01,tha=00:00:00:00:00:00)",
    );
    same("packet_type(ns=0,id=0),eth_type(0x0800),ipv4(proto=6),tcp(dst=80),tcp_flags(syn|ack)");
    same("packet_type(ns=0,id=0),eth_type(0x0800),ipv4(proto=6),tcp_flags(+syn-ack)");
    same("packet_type(ns=0,id=0),eth_type(0x0800),ipv4(proto=6),tcp_flags(0)");
    same("packet_type(ns=0,id=0),eth_type(0x0800),ipv4(proto=1),icmp(type=8,code=0)");
    same("packet_type(ns=0,id=0),eth_type(0x0800),ipv4(proto=132),sctp(src=5)");
    same(
        "packet_type(ns=0,id=0),eth_type(0x86dd),ipv6(proto=58),icmpv6(type=135,code=0),nd(target=fd00::1,sll=02:00:00:00:00:01)",
    );
    same("packet_type(ns=0,id=0),eth(dst=01:00:00:00:00:00/01:00:00:00:00:00),eth_type(0x05ff)");
    same("packet_type(ns=0,id=0),eth_type(0x8100),vlan(vid=0/0xf00),encap(eth_type(0x8100))");
    same("packet_type(ns=0,id=0),eth_type(0x8100),vlan(),encap(eth_type(0x88cc))");
    same("packet_type(ns=0,id=0),eth_type(0x8100)");
    same(
        "in_port(1),packet_type(ns=0,id=0),eth_type(0x88a8),vlan(vid=10,pcp=0),encap(eth_type(0x8100),vlan(vid=20),encap(eth_type(0x0800),ipv4(proto=17),udp(dst=53)))",
    );
    same(
        "packet_type(ns=0,id=0),eth_type(0x8100),vlan(vid=10),encap(eth_type(0x88a8),vlan(),encap(eth_type(0x8100)))",
    );
    same("packet_type(ns=0,id=0),eth_type(0x8100),vlan(vid=10),encap()");
    same("packet_type(ns=0,id=0),eth_type(0x8100),vlan(),encap(eth_type(0x8100),vlan(),encap())");
    same(
        "packet_type(ns=0,id=0),eth_type(0x8100),vlan(vid=1),encap(vlan(tci=0x0000/0x0000),eth_type(0x0800))",
    );
    same("packet_type(ns=0,id=0),vlan(tci=0x0000/0x0000),eth_type(0x8100)");
    same("packet_type(ns=0,id=0),vlan(tci=0x000a/0x0fff)");
    same("packet_type(ns=0,id=0),eth_type(0x8100/0xff00)");
    same("recirc_id(0x1),packet_type(ns=0,id=0)");
    same(
        "skb_priority(0x1),skb_mark(0x2/0xff),ct_state(-new+trk),ct_zone(0x5),ct_mark(0),ct_label(0x10000000000000000/0xf0000000000000000),recirc_id(0),dp_hash(0x3/0xf),in_port(1),packet_type(ns=1,id=0x800)",
    );
    same("ct_state(est|trk),packet_type(ns=0/0x1,id=0x1/0xff)");
    same("ct_state(0),packet_type(ns=0,id=0)");
}

#[test]
fn other_spellings_are_accepted() {
    let m = parse("in_port(1),eth(),eth_type(0x0806)");
    assert_eq!(m, parse("ufid:1234-5,in_port(v1), eth_type(2054)"));
    assert_eq!(m.key.get(&Field::IN_PORT), 1);
    assert_eq!(m.mask.get(&Field::VLAN_TCI), 0xffff, "no vlan() means untagged");
    assert_eq!(m.mask.get(&Field::ETH_DST), 0);
    let nothing = "skb_priority(0/0),skb_mark(0/0),dp_hash(0/0x0),ct_state(0/0),ct_zone(0/0),\
                   ct_mark(5/0),ct_label(0/0),recirc_id(0),packet_type(ns=0,id=0)";
    assert_eq!(parse(nothing), Match::default().with(&Field::RECIRC_ID, 0));
    let tracked = Match::default().with_masked(&Field::CT_STATE, 0x22, 0x23);
    assert_eq!(parse("ct_state(+trk+est-new)"), tracked);
    assert_eq!(parse("ct_state(0x22/0x23)"), tracked);
    let tagged = parse("eth_type(0x8100),vlan(vid=10),encap(eth_type(0x0800))");
    assert_eq!(tagged.mask.get(&Field::VLAN_TCI), 0x1fff);
    assert_eq!(tagged, parse("encap(eth_type(0x0800)),eth_type(0x8100),vlan(vid=0xa,cfi=1)"));
    assert_eq!(tagged, parse("vlan(vid=10),eth_type(0x0800)"));
    assert_eq!(tagged, parse("vlan(vid=10),encap(eth_type(0x0800))"));
    let net = "eth_type(0x0800),ipv4(src=10.1.2.3/24)";
    assert_eq!(parse(net), parse("eth_type(0x0800),ipv4(src=10.1.2.0/255.255.255.0)"));
    let net = "eth_type(0x86dd),ipv6(dst=fd00::1/8)";
    assert_eq!(parse(net), parse("eth_type(0x86dd) ipv6(dst=fd00::/ff00::)"));
    // As Open vSwitch dumps flows with -m: all fields, most of them with a mask of zero.
    let verbose = "ufid:9a1c, skb_priority(0/0),skb_mark(0/0),ct_state(0/0),ct_zone(0/0),ct_mark(0/0),\
                   ct_label(0/0),recirc_id(0),dp_hash(0/0),in_port(v1),packet_type(ns=0,id=0),\
                   eth(src=02:00:00:00:00:0A,dst=02:00:00:00:00:02/00:00:00:00:00:00),eth_type(0x0800),\
                   ipv4(src=10.0.0.1/0.0.0.0,dst=10.0.0.2,proto=6/0,tos=0/0,ttl=64/0,frag=no),\
                   tcp(src=1/0,dst=2/0),tcp_flags(0/0)";
    let short = "recirc_id(0),in_port(1),eth(src=02:00:00:00:00:0a),eth_type(0x0800),\
                 ipv4(dst=10.0.0.2,frag=no)";
    assert_eq!(parse(verbose), parse(short));
    assert_eq!(parse(""), Match::default());
    assert_eq!(print_match(&parse("in_port(1)"), &Names), "in_port(v1),packet_type(ns=0,id=0)");
}

/// What is printed for what the text says.
fn round(actions: &str, flow: &str) -> String {
    let m = parse(flow);
    let parsed = parse_actions(actions, &m, &Names).unwrap_or_else(|e| panic!("{actions}: {e}"));
    print_actions(&parsed, &m, &NumbersOnly)
}

#[test]
fn actions_as_open_vswitch_prints_them() {
    for text in [
        "drop",
        "2",
        "1,2,3",
        "push_vlan(vid=5,pcp=3),2",
        "push_vlan(tpid=0x88a8,vid=5,pcp=0),2",
        "pop_vlan,2",
        "set(eth(src=02:00:00:00:00:09,dst=02:00:00:00:00:05)),2",
        "set(eth(dst=02:00:00:00:00:05)),set(eth(src=02:00:00:00:00:06)),2",
        "set(ipv4(src=10.0.0.1,ttl=63)),set(tcp(dst=80)),1,set(tcp(dst=81)),2",
        "set(ipv4(dst=10.0.0.0/255.0.0.0,tos=0x8/0xfc)),2",
        "set(vlan(vid=7)),2",
        "set(vlan(vid=7,pcp=1)),2",
        "set(vlan(vid=7)),set(vlan(pcp=1)),2",
        "trunc(100),2",
        "hash(l4(0)),recirc(0x1)",
        "hash(sym_l4(7)),recirc(0xffffffff)",
        "clone(drop),2",
        "clone(set(eth(dst=02:00:00:00:00:05)),1),set(eth(dst=02:00:00:00:00:06)),2",
        "clone(clone(clone(clone(clone(clone(clone(clone(1)))))))),2",
        "sample(sample=50.0%,actions(1)),2",
        "sample(sample=100.0%,actions(drop))",
        "check_pkt_len(size=1500,gt(drop),le(set(tcp(dst=80)),1)),2",
        "meter(1),2",
        "userspace(pid=7),2",
        "userspace(pid=0,controller(reason=1,dont_send=0,continuation=0,recirc_id=3,rule_cookie=0x1f,\
         controller_id=2,max_len=65535))",
    ] {
        assert_eq!(round(text, TCP4), text);
    }
    assert_eq!(round("", TCP4), "drop");
    assert_eq!(round("v2 , v1", TCP4), "2,1");
    assert_eq!(round("push_vlan(pcp=0,vid=5,cfi=1)", TCP4), "push_vlan(vid=5,pcp=0)");
    let udp6 = "eth_type(0x86dd),ipv6(proto=17)";
    let set = "set(ipv6(src=fd00::1,label=0x5,tclass=0x8,hlimit=3)),set(udp(src=5)),2";
    assert_eq!(round(set, udp6), set);
    let arp = "set(arp(sip=10.0.0.1,op=2,tha=02:00:00:00:00:01)),2";
    assert_eq!(round(arp, "eth_type(0x0806)"), arp);
    let actions = parse_actions("v2", &parse(TCP4), &Names).unwrap();
    assert_eq!(print_actions(&actions, &parse(TCP4), &Names), "v2");
}

#[test]
fn errors_in_actions_name_the_word() {
    let m = parse(TCP4);
    for (text, word, says) in [
        ("bogus", "bogus", "no such port"),
        ("bogus(1)", "bogus", "syntax error at bogus"),
        ("2000", "2000", "no such port"),
        ("lb_output(1)", "lb_output", "not supported"),
        ("trunc", "", "want \"(\""),
        ("trunc(1.5)", "1.5", "want a number"),
        ("meter(4294967296)", "4294967296", "at most 4294967295"),
        ("recirc(0x1,2)", ",", "want \")\""),
        ("hash(l3(0))", "l3", "want l4 or sym_l4"),
        ("clone(1,bogus)", "bogus", "no such port"),
        ("clone(drop,1)", "drop", "without other actions"),
        ("clone(1", "", "want \")\""),
        ("1)", ")", "want an action"),
        ("sample(sample=101%,actions(1))", "101%", "want 0% to 100%"),
        ("sample(sample=nan%,actions(1))", "nan%", "want 0% to 100%"),
        ("sample(sample=5,actions(1))", "5", "want 0% to 100%"),
        ("sample(sample=5%,1)", "1", "want actions"),
        ("check_pkt_len(size=70000,gt(1),le(2))", "70000", "at most 65535"),
        ("check_pkt_len(size=7,le(1),gt(2))", "le", "want gt"),
        ("userspace(1)", "1", "want pid"),
        ("userspace(pid=1,slow_path(cfm))", "slow_path", "want controller"),
        ("userspace(pid=1,controller(reason=1,dont_send=1,continuation=0))", "1", "not supported"),
        (
            "clone(clone(clone(clone(clone(clone(clone(clone(clone(1)))))))))",
            "clone",
            "at most 8 lists",
        ),
        ("ct", "ct", "not supported"),
        ("1,drop", "drop", "without other actions"),
        ("drop,1", "drop", "without other actions"),
        ("set(udp(dst=1))", "udp", "needs ipv4(proto=17)"),
        ("set(ipv6(hlimit=1))", "ipv6", "needs eth_type(0x86dd)"),
        ("set(ipv4(proto=1))", "proto", "cannot be rewritten"),
        ("set(in_port(1))", "in_port", "cannot be rewritten"),
        ("set(eth())", ")", "want a member"),
        ("set(eth(dst=1))", "1", "Ethernet address"),
        ("set(foo(dst=1))", "foo", "syntax error at foo: want skb_priority, skb_mark, eth,"),
        ("set(tcp(dst=80)", "", "want \")\""),
        ("push_vlan(vid=5/0xf)", "5", "without mask"),
        ("push_vlan(vid=5000)", "5000", "at most 4095"),
        ("push_vlan(tpid=0x9100,vid=5)", "0x9100", "0x8100 or 0x88a8"),
        ("push_vlan", "", "want \"(\""),
    ] {
        let error = parse_actions(text, &m, &Names).expect_err(text);
        assert_eq!(error.word, word, "{text}: {error}");
        assert_eq!(text.get(error.at..error.at + word.len()), Some(word), "{text}");
        assert!(error.to_string().contains(says), "{text}: {error}");
    }
}

#[test]
fn validation_refuses_what_cannot_work() {
    let tcp = parse(TCP4);
    let set = |field, value, mask| Action::Set { field, value, mask };
    let check = |m: &Match, actions: &[Action]| {
        validate(m, actions, &|id| id == 1).map_err(|e| e.to_string())
    };
    assert_eq!(check(&tcp, &[]), Ok(()));
    assert_eq!(check(&Match::default(), &[Action::Output(PortNo(1))]), Ok(()));
    let fine = [
        set(&Field::ETH_DST, 5, 0xff),
        set(&Field::IPV4_SRC, 1, u128::from(u32::MAX)),
        set(&Field::TP_DST, 80, 0xffff),
        Action::PushVlan { tpid: 0x8100, tci: 5 },
        set(&Field::VLAN_TCI, 6, 0xefff),
        Action::PopVlan,
        Action::Output(PortNo(2)),
    ];
    assert_eq!(check(&tcp, &fine), Ok(()));
    let bad: &[(&[Action], InvalidFlow)] = &[
        (&[Action::PopVlan], InvalidFlow::NoTag),
        (&[Action::Output(PortNo(0))], InvalidFlow::Port { port: PortNo(0) }),
        (&[Action::Output(PortNo(1024))], InvalidFlow::Port { port: PortNo(1024) }),
        (&[Action::PushVlan { tpid: 0x9100, tci: 5 }], InvalidFlow::TagKind { tpid: 0x9100 }),
        (&[set(&Field::TCP_FLAGS, 0, 1)], InvalidFlow::ReadOnly { field: "tcp_flags" }),
        (&[set(&Field::ETH_DST, 0, 0)], InvalidFlow::Value { field: "eth_dst" }),
        (&[set(&Field::ETH_DST, 2, 1)], InvalidFlow::Value { field: "eth_dst" }),
        (&[set(&Field::VLAN_TCI, 0, 0x1000)], InvalidFlow::Value { field: "vlan_tci" }),
        (
            &[set(&Field::IPV6_SRC, 0, 1)],
            InvalidFlow::Set { field: "ipv6_src", needs: "eth_type(0x86dd)" },
        ),
        (
            &[set(&Field::VLAN_TCI, 1, 1)],
            InvalidFlow::Set { field: "vlan_tci", needs: "eth_type(0x8100),vlan()" },
        ),
    ];
    for (actions, error) in bad {
        assert_eq!(validate(&tcp, actions, &|id| id == 1), Err(*error), "{error}");
    }
    let messages = bad.iter().map(|(_, error)| error.to_string()).collect::<Vec<_>>();
    let tag = "eth_type(0x8100),vlan() in the match";
    let wanted = [
        format!("pop_vlan needs {tag}"),
        "there can be no port 0 (1 to 1023 are allowed)".to_owned(),
        "there can be no port 1024 (1 to 1023 are allowed)".to_owned(),
        "push_vlan cannot make a tag 0x9100 (only 0x8100 and 0x88a8)".to_owned(),
        "tcp_flags cannot be rewritten".to_owned(),
        "value or mask does not fit eth_dst".to_owned(),
        "value or mask does not fit eth_dst".to_owned(),
        "value or mask does not fit vlan_tci".to_owned(),
        "setting ipv6_src needs eth_type(0x86dd) in the match".to_owned(),
        format!("setting vlan_tci needs {tag}"),
    ];
    assert_eq!(messages, wanted);
    let tagged = parse("eth_type(0x8100),vlan(),encap(eth_type(0x0800))");
    assert_eq!(check(&tagged, &[set(&Field::VLAN_TCI, 1, 1), Action::PopVlan]), Ok(()));
    assert!(check(&tagged, &[Action::PopVlan, set(&Field::VLAN_TCI, 1, 1)]).is_err());
    let unfit = Match::default().with(&Field::TP_DST, 80);
    let needs = "ipv4(proto=6) or ipv6(proto=6)";
    let error = InvalidFlow::Match { field: "tp_dst", needs };
    assert_eq!(validate(&unfit, &[], &|_| false), Err(error));
    assert_eq!(error.to_string(), format!("matching tp_dst needs {needs} in the match"));
}

#[test]
fn validation_refuses_what_makes_no_sense_in_that_order() {
    let tcp = parse(TCP4);
    let check = |m: &Match, actions: &[Action]| {
        validate(m, actions, &|id| id == 1).map_err(|e| e.to_string())
    };
    let clone = |list: &[Action]| Action::Clone(list.into());
    let nested = (0..9).fold(Action::Meter(1), |action, _| clone(&[action]));
    let out = || Action::Output(PortNo(2));
    for (list, says) in [
        (vec![Action::PushVlan { tpid: 0x8100, tci: 1 }; 5], "more than 4 tags pushed"),
        (vec![Action::Trunc(13), out()], "trunc(13) leaves no Ethernet header (at least 14)"),
        (vec![out(), Action::Trunc(64)], "trunc(64) needs an output"),
        (vec![Action::Trunc(64), Action::Trunc(65), out()], "trunc(64) needs an output"),
        (vec![clone(&[Action::Trunc(64)]), out()], "trunc(64) needs an output"),
        (vec![Action::Recirc(0)], "recirc(0) is the first lookup"),
        (vec![Action::Recirc(1), out()], "output comes after recirc()"),
        (vec![out(), Action::Meter(2)], "meter(2) does not exist"),
        (vec![clone(&[Action::PopVlan])], "pop_vlan needs"),
        (vec![nested], "clone() is in too many others (at most 8"),
    ] {
        let error = check(&tcp, &list).expect_err(says);
        assert!(error.contains(says), "{error}");
    }
    let fine = [clone(&[Action::PushVlan { tpid: 0x8100, tci: 5 }, out()]), Action::Recirc(1)];
    assert_eq!(check(&tcp, &fine), Ok(()));
    assert!(check(&tcp, &[fine[0].clone(), Action::PopVlan]).is_err(), "only its copy has the tag");
}

#[test]
fn every_field_has_a_place_in_the_syntax() {
    // The kind of a tag is said by the eth_type() before it.
    let is_kind = |field: &&Field| Field::TAGS.iter().any(|(_, kind)| kind == field);
    for field in Field::ALL.iter().filter(|field| !is_kind(field)) {
        assert!(GROUPS.iter().any(|group| group.has(field)), "{}", field.name);
    }
}

#[test]
fn what_is_printed_of_a_parsed_packet_matches_it() {
    let mac = crate::MacAddr([2, 0, 0, 0, 0, 1]);
    let a = "fd00::1".parse().unwrap();
    let packets = [
        PacketBuilder::new().tag(0x88a8, 5).vlan(6).ipv6(a, a, 3).nd(135, a, &[(1, mac)]),
        PacketBuilder::new().ipv4([1, 2, 3, 4].into(), [1, 2, 3, 5].into()).tcp(1, 2),
        PacketBuilder::new().arp(1, (mac, [1; 4].into()), (mac, [2; 4].into())),
        PacketBuilder::new().next(30),
    ];
    for packet in packets {
        let key = extract(&mut MemPacket::new(&packet.build()), PortNo(3)).unwrap();
        let mut mask = FlowMask::exact();
        for field in Field::ALL {
            let there = GROUPS.iter().any(|group| {
                group.has(field) && group.need.holds(&Match::new(&key, FlowMask::exact()))
            });
            if !there && !Field::TAGS.iter().any(|(tci, kind)| [*tci, *kind].contains(&field)) {
                mask.set(field, 0);
            }
        }
        let m = Match::new(&key, mask);
        let text = print_match(&m, &Names);
        assert_eq!(parse(&text), m, "{text}");
        assert_eq!(validate(&m, &[], &|_| false), Ok(()), "{text}");
    }
}

/// Any match that can be inserted: a random one, without the fields whose prerequisites fail.
fn matches() -> impl Strategy<Value = Match> {
    let eth_types =
        prop::sample::select(vec![0x0800, 0x86dd, 0x0806, 0x8035, 0x8100, 0x05ff, 0x1234]);
    let protos = prop::sample::select(vec![
        proto::TCP,
        proto::UDP,
        proto::SCTP,
        proto::ICMP,
        proto::ICMPV6,
        proto::GRE,
    ]);
    let part = prop_oneof![Just(u128::MAX), Just(0), any::<u128>()];
    let fields = prop::collection::vec((any::<u128>(), part), Field::ALL.len());
    let tci = || prop::sample::select(vec![0, 0xffff, 0x1000, 0x1fff, 0x0fff, 0xe000]);
    (eth_types, protos, fields, any::<[bool; 5]>(), tci(), tci()).prop_map(
        |(eth_type, proto, fields, [typed, with_proto, nd, tagged, inner], tci, inner_tci)| {
            let mut m = Match::default();
            for (field, (value, mask)) in Field::ALL.iter().zip(fields) {
                let value = if field.name == "in_port" { value & 1023 } else { value };
                m = m.with_masked(field, value, mask);
            }
            if typed {
                m = m.with(&Field::ETH_TYPE, eth_type);
            }
            if with_proto {
                m = m.with(&Field::IP_PROTO, proto.into());
            }
            if nd {
                m = m.with(&Field::TP_SRC, 136).with(&Field::TP_DST, 0);
            }
            m = m.with_masked(&Field::VLAN_TCI, if tagged { 0x100a } else { 0 }, tci);
            m = m.with_masked(&Field::INNER_TCI, if inner { 0x300b } else { 0 }, inner_tci);
            prune(m)
        },
    )
}

/// Without what is not there, in the order of dependence.
fn prune(mut m: Match) -> Match {
    let order = [
        Field::IP_PROTO,
        Field::IPV4_SRC,
        Field::IPV4_DST,
        Field::IP_TOS,
        Field::IP_TTL,
        Field::IP_FRAG,
        Field::IPV6_SRC,
        Field::IPV6_DST,
        Field::IPV6_LABEL,
        Field::TP_SRC,
        Field::TP_DST,
        Field::TCP_FLAGS,
        Field::ARP_SHA,
        Field::ARP_THA,
        Field::ND_TARGET,
    ];
    for field in order {
        if !GROUPS.iter().any(|group| group.has(&field) && group.need.holds(&m)) {
            m = m.with_masked(&field, 0, 0);
        }
    }
    let present = [Need::Tag, Need::TwoTags].map(|need| need.holds(&m));
    if !present[0] {
        m = m.with_masked(&Field::INNER_TCI, 0, 0);
    }
    for ((_, kind), present) in Field::TAGS.iter().zip(present) {
        m = if present { m } else { m.with_masked(kind, 0, 0) };
    }
    // Nor values that no packet has.
    let pruned = m;
    for group in GROUPS.iter().filter(|group| group.need.holds(&pruned)) {
        for member in group.members.iter().filter(|member| member.limit < member.max()) {
            let (value, mask) = (m.key.get(member.field), m.mask.get(member.field));
            m = m.with_masked(member.field, value & member.limit, mask);
        }
    }
    Match::new(&m.key, m.mask)
}

/// What a careless or hostile hand makes of a text.
fn mutated(text: &str, edits: &[(prop::sample::Index, u8, String)]) -> String {
    let mut chars: Vec<char> = text.chars().collect();
    for (at, n, with) in edits {
        let at = at.index(chars.len() + 1);
        let end = (at + usize::from(*n)).min(chars.len());
        chars.splice(at..end, with.chars());
    }
    chars.into_iter().collect()
}

fn edits() -> impl Strategy<Value = Vec<(prop::sample::Index, u8, String)>> {
    prop::collection::vec((any::<prop::sample::Index>(), 0..4u8, "[(),=/0-9a-fx+|-]{0,2}"), 1..4)
}

/// What is accepted says what is printed for it; what is refused names a word of the text.
fn check_text(text: &str, flow: &Match) -> Result<(), TestCaseError> {
    let named =
        |error: &ParseError| text.get(error.at..error.at + error.word.len()) == Some(&error.word);
    match parse_match(text, &Names) {
        Ok(m) => {
            let printed = print_match(&m, &Names);
            prop_assert_eq!(parse_match(&printed, &Names), Ok(m), "{} is {}", text, printed);
        }
        Err(error) => prop_assert!(named(&error), "{}: {}", text, error),
    }
    match parse_actions(text, flow, &Names) {
        Ok(actions) => {
            let printed = print_actions(&actions, flow, &Names);
            let again = parse_actions(&printed, flow, &Names);
            prop_assert_eq!(again, Ok(actions), "{} is {}", text, printed);
        }
        Err(error) => prop_assert!(named(&error), "{}: {}", text, error),
    }
    Ok(())
}

/// Actions that fit the match.
fn actions(m: Match) -> impl Strategy<Value = (Match, Vec<Action>)> {
    let one = (0..12u8, 1..1024u32, any::<prop::sample::Index>(), any::<u128>(), any::<u128>());
    prop::collection::vec(one, 0..8).prop_map(move |list| {
        let list = list.into_iter().filter_map(|(kind, port, index, value, mask)| {
            let member = || {
                let fits = |group: &&table::Group| group.need.holds(&m) && group.need != Need::Tag;
                let fits: Vec<_> = GROUPS
                    .iter()
                    .filter(fits)
                    .flat_map(|group| group.members)
                    .filter(|member| member.rewritable)
                    .collect();
                fits[index.index(fits.len())]
            };
            #[allow(clippy::cast_possible_truncation, reason = "any bits will do")]
            let tci = value as u16 & 0xefff;
            let inner = || [Action::Output(PortNo(port))].into();
            #[allow(clippy::cast_possible_truncation, reason = "any bits will do")]
            let (word, half) = (value as u32, value as u16);
            match kind {
                0 => Some(Action::Output(PortNo(port))),
                4 => Some(Action::Clone(inner())),
                5 => Some(Action::Sample { probability: word, actions: inner() }),
                6 => Some(Action::CheckPktLen {
                    size: half,
                    greater: [].into(),
                    less_equal: inner(),
                }),
                7 => Some(Action::Meter(word)),
                8 => Some(Action::Hash { over: crate::HashOver::SymmetricL4, basis: word }),
                9 => Some(Action::Clone([Action::Recirc(word | 1)].into())),
                10 => {
                    let controller = Some(crate::Controller {
                        reason: half,
                        recirc_id: word,
                        #[allow(clippy::cast_possible_truncation, reason = "any bits will do")]
                        rule_cookie: mask as u64,
                        controller_id: half,
                        max_len: half,
                    });
                    Some(Action::Userspace(Box::new(crate::Userspace { pid: word, controller })))
                }
                11 => Some(Action::Clone(
                    [Action::Trunc(word | 16), Action::Output(PortNo(port))].into(),
                )),
                1 => Some(Action::PushVlan { tpid: 0x8100, tci }),
                _ => {
                    let (member, mask) = (member(), if kind == 2 { u128::MAX } else { mask });
                    let mask = mask & member.field.max();
                    let value = value & mask & member.limit;
                    (mask != 0).then_some(Action::Set { field: member.field, value, mask })
                }
            }
        });
        (m, list.collect())
    })
}

proptest! {
    #[test]
    fn parsing_is_the_inverse_of_printing(m in matches()) {
        let text = print_match(&m, &NumbersOnly);
        prop_assert_eq!(parse_match(&text, &NumbersOnly), Ok(m), "{}", text);
        let named = print_match(&m, &Names);
        prop_assert_eq!(parse_match(&named, &Names), Ok(m), "{}", named);
        prop_assert_eq!(validate(&m, &[], &|_| false), Ok(()));
    }

    #[test]
    fn parsing_actions_is_the_inverse_of_printing((m, actions) in matches().prop_flat_map(actions)) {
        let text = print_actions(&actions, &m, &Names);
        prop_assert_eq!(parse_actions(&text, &m, &Names), Ok(actions.clone()), "{}", text);
        prop_assert_eq!(validate(&m, &actions, &|_| true), Ok(()), "{}", text);
    }

    #[test]
    fn arbitrary_text_is_read_or_refused(
        likely in "[a-z0-9_():,=/.+|é -]{0,60}",
        bytes in prop::collection::vec(any::<u8>(), 0..80),
        any in any::<String>(),
        flow in matches(),
    ) {
        check_text(&likely, &flow)?;
        check_text(&String::from_utf8_lossy(&bytes), &flow)?;
        check_text(&any, &flow)?;
    }

    #[test]
    fn a_mutated_flow_is_read_or_refused(
        (m, actions) in matches().prop_flat_map(actions), edits in edits(),
    ) {
        check_text(&mutated(&print_match(&m, &Names), &edits), &m)?;
        check_text(&mutated(&print_actions(&actions, &m, &Names), &edits), &m)?;
    }
}
