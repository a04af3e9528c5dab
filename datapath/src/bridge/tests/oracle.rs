//! Decisions against an oracle that knows no masks: it tries rules one by one on one packet.

use core::cmp::Reverse;

use proptest::prelude::*;

use super::{BR, checked, mac, secs, switch};
use crate::{
    Action, Field, FlowKey, FlowMask, MacAddr, PortNo, Rule, RuleAction, Switch, Translation,
    Upcall, VlanId,
};

const TAG: u16 = 0x1000;

/// A packet, its tags apart: the key has none.
struct Probe {
    key: FlowKey,
    /// Outermost last.
    tags: Vec<u16>,
    /// So many of them came with it.
    n_own: usize,
    /// A rule pushed too many tags: nothing is sent at all.
    full: bool,
}

impl Probe {
    fn of(mut key: FlowKey) -> Self {
        let mut tags = Vec::new();
        for (field, _) in Field::TAGS.into_iter().rev() {
            let tci = u16::try_from(key.get(field)).unwrap();
            key.set(field, 0);
            tags.extend((tci & TAG != 0).then_some(tci & !TAG));
        }
        Self { key, n_own: tags.len(), tags, full: false }
    }

    /// As rules see it.
    fn seen(&self) -> FlowKey {
        let mut key = self.key;
        key.set(&Field::VLAN_TCI, self.tags.last().map_or(0, |tci| (tci | TAG).into()));
        key
    }

    fn push(&mut self, tci: u16) {
        self.full |= self.tags.len() == 4 + self.n_own;
        self.tags.push(tci & !TAG);
    }

    /// Takes the outer tag off; false when there is none.
    fn pop(&mut self) -> bool {
        let popped = self.tags.pop().is_some();
        self.n_own = self.n_own.min(self.tags.len());
        popped
    }

    fn to(&self, port: PortNo) -> (PortNo, FlowKey, Vec<u16>) {
        (port, self.key, self.tags.clone())
    }

    fn set(&mut self, field: &Field, value: u128, mask: u128) {
        if *field == Field::VLAN_TCI {
            let bits = |bits: u128| u16::try_from(bits).unwrap() & !TAG;
            let tci = self.tags.last_mut().expect("a tag to write to");
            *tci = *tci & !bits(mask) | bits(value & mask);
        } else {
            self.key.set(field, self.key.get(field) & !mask | value & mask);
        }
    }
}

/// What goes where, in order.
type Sent = Vec<(PortNo, FlowKey, Vec<u16>)>;

/// The rules by falling priority, and where hosts are.
struct Oracle {
    rules: Vec<Rule>,
    hosts: Vec<((u16, MacAddr), PortNo)>,
}

impl Oracle {
    fn new(mut rules: Vec<Rule>) -> Self {
        rules.sort_by_key(|rule| Reverse(rule.priority));
        Self { rules, hosts: Vec::new() }
    }

    fn decide(&self, key: &FlowKey) -> Sent {
        let in_port = PortNo(u32::try_from(key.get(&Field::IN_PORT)).unwrap());
        let (mut probe, mut sent) = (Probe::of(*key), Sent::new());
        self.table(0, in_port, &mut probe, &mut sent);
        if probe.full { Sent::new() } else { sent }
    }

    fn table(&self, table: u8, in_port: PortNo, probe: &mut Probe, sent: &mut Sent) {
        let seen = probe.seen();
        let mut rules = self.rules.iter().filter(|rule| rule.table == table);
        let Some(rule) = rules.find(|rule| rule.matching.matches(&seen)) else { return };
        let others = || (1..=3).map(PortNo).filter(move |&port| port != in_port);
        for action in &rule.actions {
            match *action {
                RuleAction::OutputPart { .. }
                | RuleAction::Meter(_)
                | RuleAction::Controller { .. } => panic!("no rule here says {action:?}"),
                RuleAction::Output(port) if port == in_port || port > PortNo(3) => {}
                RuleAction::Output(port) => sent.push(probe.to(port)),
                RuleAction::InPort => sent.push(probe.to(in_port)),
                RuleAction::Normal => match self.normal(probe) {
                    Some(port) if port == in_port => {}
                    Some(port) => sent.push(probe.to(port)),
                    None => sent.extend(others().map(|port| probe.to(port))),
                },
                RuleAction::Flood | RuleAction::All => {
                    sent.extend(others().map(|port| probe.to(port)));
                }
                RuleAction::StripVlan => _ = probe.pop(),
                RuleAction::PushVlan { .. } => probe.push(0),
                RuleAction::SetVlan { value, mask } => {
                    if probe.tags.is_empty() {
                        probe.push(0);
                    }
                    probe.set(&Field::VLAN_TCI, value.into(), mask.into());
                }
                RuleAction::Set { field, value, mask } => probe.set(field, value, mask),
                RuleAction::Resubmit(to) | RuleAction::Goto(to) => {
                    self.table(to, in_port, probe, sent);
                }
            }
        }
    }

    fn normal(&self, probe: &Probe) -> Option<PortNo> {
        let vlan = probe.tags.last().map_or(0, |tci| tci & 0xfff);
        let dst = u64::try_from(probe.key.get(&Field::ETH_DST)).unwrap();
        let host = (vlan, MacAddr::from_u64(dst));
        self.hosts.iter().find(|(known, _)| *known == host).map(|&(_, port)| port)
    }
}

/// What datapath actions make of a packet.
fn execute(actions: &[Action], key: &FlowKey) -> Sent {
    let (mut probe, mut sent) = (Probe::of(*key), Sent::new());
    for action in actions {
        match *action {
            Action::Output(port) => sent.push(probe.to(port)),
            Action::PushVlan { tci, .. } => probe.push(tci),
            Action::PopVlan => assert!(probe.pop(), "no tag to pop"),
            Action::Set { field, value, mask } => probe.set(field, value, mask),
            Action::Trunc(_)
            | Action::Hash { .. }
            | Action::Recirc(_)
            | Action::Clone(_)
            | Action::Sample { .. }
            | Action::CheckPktLen { .. }
            | Action::Meter(_)
            | Action::Userspace(_) => panic!("no rule here asks for {}", action.name()),
        }
    }
    sent
}

/// Bits that no packet has: what no rule looks at may be anything.
fn noise() -> impl Strategy<Value = FlowKey> {
    prop::collection::vec(any::<u64>(), FlowKey::default().words().len()).prop_map(|words| {
        let mut key = FlowKey::from_words(words.try_into().unwrap());
        for (tci, _) in Field::TAGS {
            key.set(tci, key.get(tci) | u128::from(TAG));
        }
        key
    })
}

fn decide(switch: &Switch, key: &FlowKey) -> Translation {
    switch.translate(key, checked(0), secs(1))
}

/// A packet that agrees with `key` in all bits of `mask` and is like `other` in the rest; none if
/// there is no such packet.
fn mixed(key: &FlowKey, mask: &FlowMask, other: &FlowKey) -> Option<FlowKey> {
    let words = key.words().iter().zip(mask.words()).zip(other.words());
    let words: Vec<_> = words.map(|((key, mask), other)| key & mask | other & !mask).collect();
    let mixed = FlowKey::from_words(words.try_into().unwrap());
    let [outer, inner] = Field::TAGS.map(|(tci, _)| mixed.get(tci));
    let real = |tci| tci == 0 || tci & u128::from(TAG) != 0;
    (real(outer) && real(inner) && (inner == 0 || outer != 0)).then_some(mixed)
}

/// Numbers that are close to each other in every way: equal, or other in a high or low bit.
fn near(base: u128, bits: u32) -> impl Strategy<Value = u128> {
    prop_oneof![2 => Just(base), 1 => (0..bits).prop_map(move |bit| base ^ (1 << bit))]
}

fn key() -> impl Strategy<Value = FlowKey> {
    let l2 = (
        1u32..4,
        0u64..4,
        0u64..4,
        prop::sample::select(vec![0u16, 0x1000, 0x1005, 0x3005, 0x1007]),
        prop::sample::select(vec![0u16, 0, 0x1000, 0x1005, 0x3007]),
    );
    let l3 = (
        prop::sample::select(vec![
            (0x0800u16, 6u8),
            (0x0800, 17),
            (0x86dd, 17),
            (0x0806, 1),
            (0x0806, 2),
            (0x86dd, 58),
        ]),
        near(0x0a00_0001, 32),
        near(0x0a00_0002, 32),
        (near(1 << 100, 128), near(1 << 100, 128), 0u32..8),
        (0u8..8, prop::sample::select(vec![0u8, 1, 3]), prop::sample::select(vec![1u8, 64, 255])),
    );
    // Fields that lie in ARP and neighbour discovery only.
    let below = (0u64..4, 0u64..4, near(1 << 100, 128));
    let ports = prop_oneof![4 => near(80, 16), 1 => Just(135)];
    let ports = (ports, prop_oneof![4 => near(80, 16), 1 => Just(0)]);
    (l2, l3, ports, below, 0u16..0x20).prop_map(
        |(
            (port, src, dst, tci, inner),
            ((eth_type, proto), ip_src, ip_dst, (ip6_src, ip6, label), (tos, frag, ttl)),
            (sport, dport),
            (sha, tha, target),
            flags,
        )| {
            let mut key = FlowKey::default();
            for (field, value) in [
                (&Field::IN_PORT, port.into()),
                (&Field::ETH_SRC, mac(src).to_u64().into()),
                (&Field::ETH_DST, mac(dst).to_u64().into()),
                (&Field::VLAN_TCI, tci.into()),
                (&Field::INNER_TCI, if tci == 0 { 0 } else { inner.into() }),
                (&Field::ETH_TYPE, eth_type.into()),
                (&Field::IP_PROTO, proto.into()),
                (&Field::IPV4_SRC, ip_src),
                (&Field::IPV4_DST, ip_dst),
                (&Field::IPV6_SRC, ip6_src),
                (&Field::IPV6_DST, ip6),
                (&Field::IPV6_LABEL, label.into()),
                (&Field::ARP_SHA, mac(sha).to_u64().into()),
                (&Field::ARP_THA, mac(tha).to_u64().into()),
                (&Field::ND_TARGET, target),
                (&Field::IP_TTL, ttl.into()),
                (&Field::IP_TOS, tos.into()),
                (&Field::IP_FRAG, frag.into()),
                (&Field::TP_SRC, sport),
                (&Field::TP_DST, dport),
                (&Field::TCP_FLAGS, flags.into()),
            ] {
                key.set(field, value);
            }
            key
        },
    )
}

/// One word of a match of ARP.
fn arp() -> BoxedStrategy<String> {
    prop_oneof![
        (1u8..3).prop_map(|op| format!("arp_op={op}")),
        (near(0x0a00_0001, 32), 0u32..=32, prop::sample::select(vec!["arp_spa", "arp_tpa"]))
            .prop_map(|(ip, prefix, name)| {
                let ip = core::net::Ipv4Addr::from_bits(u32::try_from(ip).unwrap());
                format!("{name}={ip}/{prefix}")
            }),
        (0u64..4).prop_map(|n| format!("arp_sha={}", mac(n))),
        (0u64..4).prop_map(|n| format!("arp_tha={}/00:00:00:00:00:03", mac(n))),
    ]
    .boxed()
}

/// One word of a match of neighbour discovery.
fn nd() -> BoxedStrategy<String> {
    prop_oneof![
        (near(1 << 100, 128), 0u32..=128).prop_map(|(ip, prefix)| format!(
            "nd_target={}/{prefix}",
            core::net::Ipv6Addr::from_bits(ip)
        )),
        (0u64..4).prop_map(|n| format!("nd_sll={}", mac(n))),
        Just("icmpv6_code=0".to_owned()),
    ]
    .boxed()
}

/// One word of a match for this protocol.
fn word(protocol: usize) -> BoxedStrategy<String> {
    let l2 = prop_oneof![
        (1..4).prop_map(|port| format!("in_port={port}")),
        prop::sample::select(vec![
            "dl_vlan=5",
            "dl_vlan=7",
            "dl_vlan=0xffff",
            "dl_vlan_pcp=1",
            "vlan_tci=0x1001/0x1001",
            "vlan_tci=0/0x0002",
            "vlan_tci=0x1000/0x1000",
        ])
        .prop_map(str::to_owned),
        (0u64..4).prop_map(|n| format!("dl_src={}", mac(n))),
        (0u64..4).prop_map(|n| format!("dl_dst={}", mac(n))),
        Just("dl_dst=00:00:00:00:00:01/00:00:00:00:00:01".to_owned()),
    ];
    let ip = (near(0x0a00_0001, 32), 0u32..=32, prop::sample::select(vec!["nw_src", "nw_dst"]))
        .prop_map(|(ip, prefix, name)| {
            format!(
                "{name}={}/{prefix}",
                core::net::Ipv4Addr::from_bits(u32::try_from(ip).unwrap())
            )
        });
    let ip6 = (near(1 << 100, 128), 0u32..=128, prop::sample::select(vec!["ipv6_src", "ipv6_dst"]))
        .prop_map(|(ip, prefix, name)| {
            format!("{name}={}/{prefix}", core::net::Ipv6Addr::from_bits(ip))
        });
    let ip6 = prop_oneof![
        4 => ip6,
        1 => (0u32..4, 0u32..8).prop_map(|(label, mask)| format!("ipv6_label={label}/{mask:#x}")),
    ];
    let l4 = prop_oneof![
        (near(80, 16), 0u16..=0xffff, prop::sample::select(vec!["tp_src", "tp_dst"]))
            .prop_map(|(port, mask, name)| format!("{name}={port}/{mask:#x}")),
        Just("tp_dst=80".to_owned()),
        prop::sample::select(vec![
            "nw_frag=no",
            "nw_frag=yes",
            "nw_frag=not_later",
            "nw_tos=4",
            "nw_ecn=1",
            "nw_ttl=64",
            "nw_ttl=1",
        ])
        .prop_map(str::to_owned),
    ];
    match protocol {
        0 => l2.boxed(),
        1 => prop_oneof![1 => l2, 3 => ip].boxed(),
        2 => prop_oneof![1 => l2, 2 => ip, 2 => l4].boxed(),
        3 => prop_oneof![1 => l2, 2 => ip, 2 => l4, 1 => Just("tcp_flags=+syn-ack".to_owned())]
            .boxed(),
        4 => prop_oneof![1 => l2, 2 => ip6, 2 => l4].boxed(),
        5 => prop_oneof![1 => l2, 3 => arp()].boxed(),
        _ => prop_oneof![1 => l2, 1 => ip6, 2 => nd()].boxed(),
    }
}

const PROTOCOLS: [&str; 7] = ["", "ip,", "udp,", "tcp,", "udp6,", "arp,", "icmp6,icmpv6_type=135,"];

fn action(protocol: usize, table: u8) -> BoxedStrategy<String> {
    let any_packet = prop::sample::select(vec![
        "output:1",
        "output:2",
        "output:3",
        "output:9",
        "IN_PORT",
        "NORMAL",
        "NORMAL",
        "FLOOD",
        "ALL",
        "strip_vlan",
        "strip_vlan",
        "push_vlan:0x8100",
        "mod_vlan_vid:5",
        "mod_vlan_vid:7",
        "mod_vlan_pcp:1",
        "set_field:0x1001/0x1001->vlan_tci",
        "mod_dl_dst:02:00:00:00:00:01",
        "set_field:00:00:00:00:00:02/00:00:00:00:00:03->dl_src",
    ]);
    let ip = prop::sample::select(vec!["mod_nw_dst:10.0.0.1", "set_field:10.0.0.2/8->nw_src"]);
    let l4 = prop::sample::select(vec![
        "mod_tp_dst:80",
        "set_field:1/3->tp_src",
        "mod_nw_tos:4",
        "mod_nw_ecn:1",
        "mod_nw_ttl:64",
    ]);
    let resubmit = (table + 1..=3).prop_map(|to| format!("resubmit(,{to})"));
    let all = match protocol {
        1 => prop_oneof![3 => any_packet, 1 => ip].boxed(),
        2 | 3 => prop_oneof![3 => any_packet, 1 => ip, 1 => l4].boxed(),
        4 => prop_oneof![3 => any_packet, 1 => l4].boxed(),
        _ => any_packet.boxed(),
    };
    let all = all.prop_map(str::to_owned);
    if table < 3 { prop_oneof![6 => all, 1 => resubmit].boxed() } else { all.boxed() }
}

/// Rules in tables 0 to 3; their place in the list is their priority.
pub(super) fn rules() -> impl Strategy<Value = Vec<String>> {
    let rule = (0u8..=3, 0..PROTOCOLS.len()).prop_flat_map(|(table, protocol)| {
        let actions = prop::collection::vec(action(protocol, table), 0..5);
        let words = prop::collection::vec(word(protocol), 0..3);
        (words, actions, any::<bool>()).prop_map(move |(words, mut actions, goto)| {
            if goto && table < 3 {
                actions.push(format!("goto_table:{}", table + 1));
            }
            let actions = if actions.is_empty() { "drop".to_owned() } else { actions.join(",") };
            format!("table={table},{}{},actions={actions}", PROTOCOLS[protocol], words.join(","))
        })
    });
    prop::collection::vec(rule, 1..24).prop_map(|rules| {
        rules
            .iter()
            .enumerate()
            .map(|(i, rule)| format!("priority={},{rule}", i * 7 % 100))
            .collect()
    })
}

/// A bridge with these rules that knows some hosts, and its oracle. Rules that contradict themselves
/// are left out.
fn both(texts: &[String]) -> (Switch, Oracle) {
    let switch = switch();
    let read = texts.iter().filter_map(|text| Some((text, switch.parse_rule(BR, text).ok()?)));
    let (texts, rules): (Vec<_>, Vec<_>) = read.unzip();
    switch.add_rules(BR, &texts, secs(0)).unwrap();
    // Without any rule the bridge would be something else.
    switch.add_rules(BR, &["table=9,actions=drop"], secs(0)).unwrap();
    let mut oracle = Oracle::new(rules);
    for (vlan, host, port) in [(0, 1, 1), (5, 1, 2), (5, 2, 3), (7, 3, 1)] {
        switch.fdb_add(BR, PortNo(port), VlanId(vlan), mac(host)).unwrap();
        oracle.hosts.push(((vlan, mac(host)), PortNo(port)));
    }
    (switch, oracle)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, ..ProptestConfig::default() })]

    /// The decision is the oracle's, and is so for every packet that agrees with this one in what was
    /// looked at; of these, each looks at the same.
    #[test]
    fn decisions_are_the_oracles_for_all_that_the_mask_covers(
        texts in rules(),
        keys in prop::collection::vec(key(), 2..8),
        noise in prop::collection::vec(noise(), 2..4),
    ) {
        let (switch, oracle) = both(&texts);
        for key in &keys {
            let made = decide(&switch, key);
            prop_assert_eq!(execute(&made.actions, key), oracle.decide(key));
            for other in keys.iter().chain(&noise) {
                let Some(like) = mixed(key, &made.mask, other) else { continue };
                prop_assert_eq!(&decide(&switch, &like), &made, "looked at {:x?}", made.mask);
                prop_assert_eq!(execute(&made.actions, &like), oracle.decide(&like));
            }
        }
    }

    /// Rules that were added one by one, with others that were removed, are as those added at once.
    #[test]
    fn edited_rules_are_as_fresh_ones(
        first in rules(),
        second in rules(),
        removed in prop::collection::vec(any::<prop::sample::Index>(), 0..10),
        keys in prop::collection::vec(key(), 1..6),
    ) {
        let (switch, _) = both(&first);
        for index in removed {
            if let Ok(rule) = switch.parse_rule(BR, index.get(&first[..]).as_str()) {
                let (table, priority) = (rule.table, rule.priority);
                let text = format!("table={table},priority={priority},{}", rule.match_text());
                switch.del_rules(BR, &text, true).unwrap();
            }
        }
        for text in second.iter().filter(|text| switch.parse_rule(BR, text).is_ok()) {
            // Priorities from 100, where those of the first end.
            let text = text.replace("priority=", "priority=10");
            switch.add_rules(BR, &[text], secs(0)).unwrap();
        }
        let rows = switch.rules(BR, "", secs(0)).unwrap();
        let texts: Vec<_> = rows.iter().map(|row| row.rule.to_string()).collect();
        let (fresh, _) = both(&texts);
        for key in &keys {
            prop_assert_eq!(decide(&switch, key), decide(&fresh, key));
        }
    }
}
