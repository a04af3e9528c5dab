//! What people get wrong in a match, and what they are told.

use super::Names;
use crate::text::parse_match;

/// Texts and messages.
const MISTAKES: &[(&str, &str)] = &[
    ("bogus", "syntax error at bogus: not known, position 0"),
    ("in_port(1),bogus(1)", "syntax error at bogus: not known, position 11"),
    ("in_port", "syntax error at end of text: want \"(\", position 7"),
    ("(1)", "syntax error at (: not known, position 0"),
    ("in_port(7777)", "syntax error at 7777: no such port, position 8"),
    ("in_port(v9)", "syntax error at v9: no such port, position 8"),
    ("in_port(1", "syntax error at end of text: want \")\", position 9"),
    ("in_port()", "syntax error at ): want a value, position 8"),
    ("in_port(1),in_port(2)", "syntax error at in_port: given twice, position 11"),
    (
        "eth(src=02:00)",
        "syntax error at 02:00: want an Ethernet address, as 02:00:00:00:00:01, position 8",
    ),
    (
        "eth(src=02:00:00:00:00:01,src=02:00:00:00:00:01)",
        "syntax error at src: given twice, position 26",
    ),
    ("eth(srd=02:00:00:00:00:01)", "syntax error at srd: want src, dst, position 4"),
    ("eth(src)", "syntax error at ): want \"=\", position 7"),
    ("eth(src=02:00:00:00:00:01", "syntax error at end of text: want \",\" or \")\", position 25"),
    ("eth_type(0x10000)", "syntax error at 0x10000: at most 65535 is allowed, position 9"),
    ("eth_type(0xg)", "syntax error at 0xg: want a number, position 9"),
    ("eth_type(-1)", "syntax error at -1: want a number, position 9"),
    ("ipv4(src=10.0.0.1)", "syntax error at ipv4: needs eth_type(0x0800) in the match, position 0"),
    (
        "eth_type(0x0800/0xff00),ipv4(src=10.0.0.1)",
        "syntax error at ipv4: needs eth_type(0x0800) in the match, position 24",
    ),
    (
        "eth_type(0x0800),ipv4(src=10.0.0.256)",
        "syntax error at 10.0.0.256: want an IPv4 address, position 26",
    ),
    (
        "eth_type(0x0800),ipv4(src=10.0.0.1/33)",
        "syntax error at 33: want a prefix length that fits, or an address as mask, position 35",
    ),
    (
        "eth_type(0x0800),ipv4(frag=maybe)",
        "syntax error at maybe: want no, first or later, position 27",
    ),
    (
        "eth_type(0x0800),ipv4(proto=17),tcp(dst=80)",
        "syntax error at tcp: needs ipv4(proto=6) or ipv6(proto=6) in the match, position 32",
    ),
    (
        "eth_type(0x0800),ipv4(proto=6),tcp_flags(syn|foo)",
        "syntax error at syn|foo: want TCP flags, as syn|ack or +syn-ack, position 41",
    ),
    (
        "eth_type(0x0800),ipv4(proto=1),icmp(type=256)",
        "syntax error at 256: at most 255 is allowed, position 41",
    ),
    (
        "eth_type(0x86dd),ipv6(proto=58),nd(target=::1)",
        "syntax error at nd: needs icmpv6(type=135,code=0) or icmpv6(type=136,code=0) in the match, position 32",
    ),
    (
        "eth_type(0x86dd),ipv6(label=0x100000)",
        "syntax error at 0x100000: at most 1048575 is allowed, position 28",
    ),
    (
        "eth_type(0x8100),vlan(vid=4096),encap()",
        "syntax error at 4096: at most 4095 is allowed, position 26",
    ),
    (
        "encap(eth_type(0x0800))",
        "syntax error at encap: needs eth_type(0x8100),vlan() in the match, position 0",
    ),
    ("eth_type(0x0800),eth_type(0x0800)", "syntax error at eth_type: given twice, position 17"),
    ("eth_type(0x8100),eth_type(0x0800)", "syntax error at 0x8100: given twice, position 9"),
    ("tunnel(tun_id=1)", "syntax error at tunnel: not supported by this datapath, position 0"),
    (
        "skb_mark(0x100000000)",
        "syntax error at 0x100000000: at most 4294967295 is allowed, position 9",
    ),
    (
        "ct_state(+tracked)",
        "syntax error at +tracked: want flags of ct_state, as trk|est or +trk-new, position 9",
    ),
    ("ct_state(0x100)", "syntax error at 0x100: at most 255 is allowed, position 9"),
    ("packet_type(1)", "syntax error at 1: want ns, id, position 12"),
    ("in_port=1", "syntax error at =: want \"(\", position 7"),
    ("nw_src=10.0.0.1", "syntax error at nw_src: not known, position 0"),
    ("ip,nw_dst=10.0.0.1", "syntax error at ip: not known, position 0"),
    ("eth_type(ip)", "syntax error at ip: want a number, position 9"),
    ("eth(02:00:00:00:00:01)", "syntax error at 02:00:00:00:00:01: want src, dst, position 4"),
    (
        "eth(src=02:00:00:00:00:01/40)",
        "syntax error at 40: want an Ethernet address, as 02:00:00:00:00:01, position 26",
    ),
    ("vlan(10)", "syntax error at 10: want vid, pcp, cfi, tci, position 5"),
    ("vlan(vid=10,prio=3)", "syntax error at prio: want vid, pcp, cfi, tci, position 12"),
    (
        "eth_type(0x0800),ipv4(src=10.0.0.1/255.255.0)",
        "syntax error at 255.255.0: want a prefix length that fits, or an address as mask, position 35",
    ),
    (
        "eth_type(0x0800),ipv4(proto=17),udp(dst=70000)",
        "syntax error at 70000: at most 65535 is allowed, position 40",
    ),
    (
        "eth_type(0x0800),ipv4(proto=17),udp(dst=http)",
        "syntax error at http: want a number, position 40",
    ),
    ("eth_type(0x0800),ipv4(proto=tcp)", "syntax error at tcp: want a number, position 28"),
    (
        "eth_type(0x0800),ipv4(src=10.0.0.1;dst=10.0.0.2)",
        "syntax error at 10.0.0.1;dst: want an IPv4 address, position 26",
    ),
    (
        "eth_type(0x86dd),ipv6(src=10.0.0.1)",
        "syntax error at 10.0.0.1: want an IPv6 address, position 26",
    ),
    (
        "eth_type(0x86dd),ipv6(src=fd00::1/129)",
        "syntax error at 129: want a prefix length that fits, or an address as mask, position 34",
    ),
    (
        "ct_state(trk+new)",
        "syntax error at trk+new: want flags of ct_state, as trk|est or +trk-new, position 9",
    ),
    (
        "eth_type(0x8100),vlan(vid=1),encap(eth_type(0x8100),vlan(vid=2),encap(vlan(vid=3)))",
        "syntax error at vlan: want at most two tags, position 70",
    ),
    (
        "eth_type(0x8100),vlan(vid=1),encap(eth_type(0x8100),vlan(vid=2),encap(encap()))",
        "syntax error at encap: want at most two tags, position 70",
    ),
    (
        "eth_type(0x8100),vlan(vid=1),encap(),encap()",
        "syntax error at encap: given twice, position 37",
    ),
    (
        "in_port(1),mpls(label=5)",
        "syntax error at mpls: not supported by this datapath, position 11",
    ),
    ("in_port(1))", "syntax error at ): not known, position 10"),
    ("recirc_id(-1)", "syntax error at -1: want a number, position 10"),
    (
        "dp_hash(0x1/0x1ffffffff)",
        "syntax error at 0x1ffffffff: at most 4294967295 is allowed, position 12",
    ),
];

#[test]
fn mistakes_are_named_with_word_and_position() {
    for (text, message) in MISTAKES {
        let error = parse_match(text, &Names).expect_err(text);
        assert_eq!(error.to_string(), *message, "{text}");
        let named = text.get(error.at..error.at + error.word.len());
        assert_eq!(named, Some(error.word.as_str()), "{text}");
    }
}
