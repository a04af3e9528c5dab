//! Rules as text: what is read, what is refused and why, and that what is written reads back.

use proptest::prelude::*;

use super::super::words::{Form, Protocol, SHORTHANDS, WORDS};
use super::{BR, switch};
use crate::{
    Action, BridgeError, Controller, Field, FlowKey, Match, N_WORDS, Nanos, PortNo, Purpose, Rule,
    RuleAction, RuleRow, Switch, Upcall, Userspace,
};

fn read(text: &str) -> Rule {
    switch().parse_rule(BR, text).unwrap()
}

/// What is wrong with a rule, without its text.
fn why(text: &str) -> String {
    let err = switch().parse_rule(BR, text).unwrap_err();
    let BridgeError::Rule { text: whole, why } = err else { panic!("{err}") };
    assert_eq!(whole, text);
    why.to_string()
}

#[test]
fn reads_properties_match_and_actions() {
    let rule = read(
        "table=3 cookie=0x2a,priority=7, idle_timeout=5,hard_timeout=60,in_port=v2,tcp,\
         nw_dst=10.1.2.3/16,tp_dst=80, actions=mod_vlan_vid:9,set_field:1/3->tp_src,output:3",
    );
    let matching = Match::default()
        .with(&Field::IN_PORT, 2)
        .with(&Field::ETH_TYPE, 0x0800)
        .with(&Field::IP_PROTO, 6)
        .with_masked(&Field::IPV4_DST, 0x0a01_0000, 0xffff_0000)
        .with(&Field::TP_DST, 80);
    let want = Rule {
        table: 3,
        priority: 7,
        matching,
        cookie: 42,
        idle_timeout: 5,
        hard_timeout: 60,
        actions: vec![
            RuleAction::SetVlan { value: 9, mask: 0x0fff },
            RuleAction::Set { field: &Field::TP_SRC, value: 1, mask: 3 },
            RuleAction::Output(PortNo(3)),
        ],
    };
    assert_eq!(rule, want);
    assert_eq!(read("actions=drop"), Rule::default());
}

#[test]
fn reads_every_action() {
    let text = "actions=output:1,2,v3,\"v1\",output:v2,IN_PORT,normal,FLOOD,all,strip_vlan,pop_vlan,\
                push_vlan:0x88a8,output(port=v2,max_len=64),meter:7,CONTROLLER,controller:128,\
                controller(id=3,max_len=90),resubmit(,4),goto_table:5";
    let output = |port| RuleAction::Output(PortNo(port));
    let want = [
        output(1),
        output(2),
        output(3),
        output(1),
        output(2),
        RuleAction::InPort,
        RuleAction::Normal,
        RuleAction::Flood,
        RuleAction::All,
        RuleAction::StripVlan,
        RuleAction::StripVlan,
        RuleAction::PushVlan { tpid: 0x88a8 },
        RuleAction::OutputPart { port: PortNo(2), max_len: 64 },
        RuleAction::Meter(7),
        RuleAction::Controller { max_len: u16::MAX, id: 0 },
        RuleAction::Controller { max_len: 128, id: 0 },
        RuleAction::Controller { max_len: 90, id: 3 },
        RuleAction::Resubmit(4),
        RuleAction::Goto(5),
    ];
    let rule = read(text);
    assert_eq!(rule.actions, want);
    assert_eq!(read(&rule.to_string()), rule);
    for bad in ["output(port=1)", "output(port=1,max_len=13)", "meter:0", "meter:x", "controller:x"]
    {
        let error = switch().parse_rule(BR, &format!("actions={bad}")).unwrap_err();
        assert!(error.to_string().contains(bad), "{error}");
    }
}

#[test]
fn what_is_measured_cut_or_queued_is_translated() {
    let switch = switch();
    let rule = "cookie=9,actions=meter:2,output(port=2,max_len=64),controller:100";
    switch.add_rules(BR, &[rule], Nanos(0)).unwrap();
    let mut key = FlowKey::from_words([0; N_WORDS]);
    key.set(&Field::IN_PORT, 1);
    let said = Controller { rule_cookie: 9, max_len: 100, ..Controller::default() };
    let userspace = Userspace { pid: 0, controller: Some(said) };
    let want = [
        Action::Meter(2),
        Action::Trunc(64),
        Action::Output(PortNo(2)),
        Action::Userspace(Box::new(userspace)),
    ];
    assert_eq!(switch.translate(&key, Purpose::Packet, Nanos(0)).actions, want);
    key.set(&Field::RECIRC_ID, 5);
    let again = switch.translate(&key, Purpose::Packet, Nanos(0)).actions;
    assert_eq!(again, [], "the bridge sends nothing round");
}

#[test]
fn numbers_go_before_names() {
    let switch = switch();
    switch.add_port(PortNo(9), "3", BR).unwrap();
    let rule = switch.parse_rule(BR, "in_port=\"3\",actions=3").unwrap();
    assert_eq!(rule.matching, Match::default().with(&Field::IN_PORT, 9));
    assert_eq!(rule.actions, [RuleAction::Output(PortNo(3))]);
    assert_eq!(switch.parse_rule(BR, &rule.to_string()), Ok(rule));
}

#[test]
fn vlan_words_say_that_there_is_a_tag() {
    let tci = |text: &str| {
        let rule = read(&format!("{text},actions=drop"));
        assert_eq!(read(&rule.to_string()), rule);
        let of = |bits: u128| u16::try_from(bits).unwrap();
        let (key, mask) = (rule.matching.key, rule.matching.mask);
        (of(key.get(&Field::VLAN_TCI)), of(mask.get(&Field::VLAN_TCI)))
    };
    assert_eq!(tci("dl_vlan=5"), (0x1005, 0x1fff));
    assert_eq!(tci("vlan_vid=0x1005"), (0x1005, 0x1fff));
    assert_eq!(tci("dl_vlan_pcp=3"), (0x7000, 0xf000));
    assert_eq!(tci("dl_vlan=5,dl_vlan_pcp=3"), (0x7005, 0xffff));
    assert_eq!(tci("dl_vlan=0xffff"), (0, 0x1000));
    assert_eq!(tci("vlan_tci=0"), (0, 0xffff));
    assert_eq!(tci("vlan_tci=0x1001/0x1003"), (0x1001, 0x1003));
}

#[test]
fn fragments_have_one_form() {
    let frag = |text: &str| {
        let rule = read(&format!("ip,{text},actions=drop"));
        assert_eq!(read(&rule.to_string()), rule, "{rule}");
        (rule.matching.key.get(&Field::IP_FRAG), rule.matching.mask.get(&Field::IP_FRAG))
    };
    assert_eq!(frag("nw_frag=no"), (0, 0xff));
    assert_eq!(frag("nw_frag=yes"), (1, 1));
    assert_eq!(frag("nw_frag=later"), (3, 0xff));
    assert_eq!(frag("nw_frag=not_later"), (0, 2));
    assert_eq!(frag("nw_frag=yes,nw_frag=not_later"), frag("nw_frag=first"));
}

/// Texts, and what is wrong with them.
const REFUSALS: &[(&str, &str)] = &[
    ("", "no \"actions=\"; to drop, write actions=drop"),
    ("ip", "no \"actions=\"; to drop, write actions=drop"),
    ("actions=", "no \"actions=\"; to drop, write actions=drop"),
    ("priority=65536,actions=1", "bad value in \"priority=65536\": want 0 to 65535"),
    ("table=255,actions=1", "bad value in \"table=255\": want a table, 0 to 254"),
    ("cookie=x,actions=1", "bad value in \"cookie=x\": want 64 bits"),
    ("cookie=1/1,actions=1", "\"cookie=…/mask\" is for commands that look for rules only"),
    ("idle_timeout=-1,actions=1", "bad value in \"idle_timeout=-1\": want 0 to 65535 seconds"),
    ("in_port=0,actions=1", "bad value in \"0\": want a port number from 1 to 1023"),
    (
        "in_port=v9,actions=1",
        "no port \"v9\" in the bridge: want the name of one, or a number from 1 to 1023",
    ),
    (
        "dl_src=1:2,actions=1",
        "bad value in \"dl_src=1:2\": want an Ethernet address, with a mask after / if need be",
    ),
    (
        "ip,nw_dst=10.0.0.0/33,actions=1",
        "bad value in \"nw_dst=10.0.0.0/33\": want an IPv4 address, with a prefix length or mask \
             after / if need be",
    ),
    (
        "ip,nw_tos=5,actions=1",
        "bad value in \"nw_tos=5\": want a number from 0 to 252 in steps of 4",
    ),
    ("ip,nw_ttl=1/1,actions=1", "bad value in \"nw_ttl=1/1\": want a number from 0 to 255"),
    ("dl_vlan=4096,actions=1", "bad value in \"dl_vlan=4096\": want a number from 0 to 4095"),
    ("dl_vlan_pcp=8,actions=1", "bad value in \"dl_vlan_pcp=8\": want a number from 0 to 7"),
    (
        "udp,tp_dst=65536,actions=1",
        "bad value in \"tp_dst=65536\": want a number from 0 to 65535, with a mask after / if need be",
    ),
    (
        "tcp,tcp_flags=+sin,actions=1",
        "bad value in \"tcp_flags=+sin\": want flags as +syn-ack, or a number from 0 to 4095 and a mask \
                 after /",
    ),
    (
        "ip,nw_frag=maybe,actions=1",
        "bad value in \"nw_frag=maybe\": want no, yes, first, later or not_later",
    ),
    ("ip,arp,actions=1", "\"arp\" contradicts an earlier word"),
    (
        "dl_vlan=1,vlan_tci=0x1002/0x1fff,actions=1",
        "\"vlan_tci=0x1002/0x1fff\" contradicts an earlier word",
    ),
    (
        "nw_dst=1.1.1.1,actions=1",
        "\"nw_dst=1.1.1.1\" needs \"ip\" or \"arp\" or \"rarp\" in the match",
    ),
    ("ip,icmp_type=8,actions=1", "\"icmp_type=8\" needs \"icmp\" in the match"),
    ("actions=mod_nw_ttl:9,1", "\"mod_nw_ttl:9\" needs \"ip\" or \"ipv6\" in the match"),
    ("actions=drop,1", "\"drop\" must be the last action, drop the only one"),
    ("actions=1,drop", "\"drop\" must be the last action, drop the only one"),
    ("actions=goto_table:1,2", "\"goto_table:1\" must be the last action, drop the only one"),
    (
        "table=2,actions=goto_table:2",
        "goto_table:2 does not lead forward from table 2; use resubmit",
    ),
    ("actions=goto_table:255", "bad value in \"goto_table:255\": want a table, 0 to 254"),
    ("actions=resubmit:1", "bad value in \"resubmit:1\": want resubmit(,TABLE)"),
    ("actions=push_vlan:0x9100", "bad value in \"push_vlan:0x9100\": want 0x8100 or 0x88a8"),
    (
        "actions=mod_vlan_vid:4096",
        "bad value in \"mod_vlan_vid:4096\": want a number from 0 to 4095",
    ),
    ("actions=set_field:5", "bad value in \"set_field:5\": want set_field:VALUE->FIELD"),
    (
        "actions=set_field:5->vlan_tci",
        "bad value in \"set_field:5->vlan_tci\": want a tag, that is 0x1000 and more; strip_vlan \
             removes one",
    ),
    (
        "actions=output:v9",
        "no port \"v9\" in the bridge: want the name of one, or a number from 1 to 1023",
    ),
];

#[test]
fn refusals_name_the_word_and_what_is_allowed() {
    for &(text, want) in REFUSALS {
        assert_eq!(why(text), want, "{text}");
    }
    for (text, start, some) in [
        ("upd,actions=1", "unknown word \"upd\" in the match: want one of tcp, udp,", "dl_vlan, "),
        ("tp_port=1,actions=1", "unknown word \"tp_port\" in the match: want one", " tp_dst, "),
        (
            "actions=ouput:1",
            "unknown action \"ouput:1\": want drop, output:PORT,",
            "resubmit(,TABLE)",
        ),
        ("actions=mod_dl_type:1", "unknown action \"mod_dl_type\": want drop", "set_field:VALUE"),
        ("ip,actions=set_field:1->nw_proto", "\"nw_proto\" cannot be set: want dl_vlan", "nw_src"),
        ("actions=set_field:1->colour", "\"colour\" cannot be set: want dl_vlan", "nw_src"),
    ] {
        let why = why(text);
        assert!(why.starts_with(start) && why.contains(some), "{text}: {why}");
    }
    let too_many = format!("actions={}", "1,".repeat(257));
    assert_eq!(why(&too_many), "more than 256 actions");
    let whole = switch().parse_rule(BR, "priority=x,actions=1").unwrap_err();
    assert_eq!(
        whole.to_string(),
        "rule \"priority=x,actions=1\": bad value in \"priority=x\": want 0 to 65535"
    );
}

#[test]
fn a_filter_has_priority_only_if_strict() {
    let switch = switch();
    assert!(switch.parse_filter(BR, "priority=5", true).is_ok());
    let refused = switch.parse_filter(BR, "priority=5", false).unwrap_err();
    assert!(refused.to_string().ends_with("\"priority\" is for strict commands only"));
}

/// A value that the word allows, from random bits; with a mask if it may have one.
fn value(form: Form, max: u128, maskable: bool, (bits, mask): (u128, u128)) -> String {
    let one = |bits: u128| super::super::values::print(form, bits & max, max, max);
    let names = ["no", "yes", "first", "later", "not_later"];
    match form {
        Form::Frag => names[usize::try_from(bits % 5).unwrap()].to_owned(),
        Form::TcpFlags if bits & 1 == 1 => "+syn-ack+ns".to_owned(),
        Form::Ipv4 if mask & 3 == 1 => format!("{}/{}", one(bits), mask % 33),
        Form::Ipv6 if mask & 3 == 1 => format!("{}/{}", one(bits), mask % 129),
        Form::Dec
        | Form::Hex(_)
        | Form::Mac
        | Form::Ipv4
        | Form::Ipv6
        | Form::TcpFlags
        | Form::Vid
        | Form::Pcp
        | Form::Tci => {
            let bits = if form == Form::Tci { bits | 0x1000 } else { bits };
            if maskable && mask & 4 == 4 {
                format!("{}/{}", one(bits), one(mask | if form == Form::Tci { 0x1000 } else { 0 }))
            } else {
                one(bits)
            }
        }
    }
}

/// Bits that fit a word with steps, and sometimes are all ones.
fn bits() -> impl Strategy<Value = (u128, u128)> {
    let any_bits = prop_oneof![any::<u128>(), Just(u128::MAX), 0u128..300];
    (any_bits, any::<u128>())
}

/// Names of words, the protocol that they need, and actions that set them.
fn text() -> impl Strategy<Value = String> {
    let word = || (0..WORDS.len(), bits());
    (
        (0..=SHORTHANDS.len(), prop::collection::vec(word(), 0..4)),
        prop::collection::vec((0..12usize, word()), 1..6),
        (any::<[u16; 3]>(), any::<u64>(), 0u8..=254),
    )
        .prop_map(|((protocol, words), actions, ([priority, idle, hard], cookie, table))| {
            let protocol = SHORTHANDS.get(protocol);
            let fits = |needs: &[Protocol]| needs.is_empty() || protocol.is_some_and(|p| needs.contains(p));
            let text = |index: usize, bits| {
                let word = &WORDS[index];
                let (bits, mask): (u128, u128) = bits;
                let steps = !((1 << (word.bits >> word.shift).trailing_zeros()) - 1);
                (word, value(word.form, word.max & steps, word.maskable, (bits, mask)))
            };
            let mut head = format!(
                "table={table},priority={priority},idle_timeout={idle},hard_timeout={hard},cookie={cookie}"
            );
            if let Some(protocol) = protocol {
                head += &format!(",{}", protocol.name);
            }
            for (index, bits) in words {
                let (word, value) = text(index, bits);
                if fits(word.needs) {
                    head += &format!(",{}={value}", word.name);
                }
            }
            let action = |(kind, (index, bits)): (usize, (usize, _))| match kind {
                0 => "output:2".to_owned(),
                1 => "NORMAL".to_owned(),
                2 => "FLOOD".to_owned(),
                3 => "ALL".to_owned(),
                4 => "IN_PORT".to_owned(),
                5 => "strip_vlan".to_owned(),
                6 => "push_vlan:0x88a8".to_owned(),
                7 => format!("resubmit(,{})", index % 255),
                _ => match text(index, bits) {
                    (word, value) if word.settable && fits(word.needs) => {
                        format!("set_field:{value}->{}", word.name)
                    }
                    _ => "strip_vlan".to_owned(),
                },
            };
            let actions: Vec<_> = actions.into_iter().map(action).collect();
            let goto = if table < 100 { ",goto_table:100" } else { "" };
            format!("{head},actions={}{goto}", actions.join(","))
        })
}

/// Pieces of rules, and what is no rule.
fn pieces() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        prop::sample::select(vec![
            "actions=",
            "action=",
            ",",
            "=",
            "/",
            ":",
            "->",
            "(",
            ")",
            "(,",
            " ",
            "+",
            "-",
            "\"",
            "0x",
            "0xffff",
            "65536",
            "-1",
            "99999999999999999999999999999999999999999999",
            "10.0.0.1",
            "::1",
            "02:00:00:00:00:01",
            "drop",
            "resubmit",
            "goto_table",
            "set_field",
            "mod_",
            "output",
            "push_vlan",
            "table",
            "priority",
            "cookie",
            "in_port",
            "é",
            "…",
            "\u{0}",
        ])
        .prop_map(str::to_owned),
        (0..WORDS.len()).prop_map(|i| WORDS[i].name.to_owned()),
        (0..SHORTHANDS.len()).prop_map(|i| SHORTHANDS[i].name.to_owned()),
    ];
    prop::collection::vec(piece, 0..20).prop_map(|pieces| pieces.concat())
}

/// Whatever can be read is written in a way that reads back the same, also as a line of a dump.
fn reads_back(switch: &Switch, text: &str) -> bool {
    let Ok(rule) = switch.parse_rule(BR, text) else { return false };
    let written = rule.to_string();
    assert_eq!(switch.parse_rule(BR, &written).as_ref(), Ok(&rule), "{text} -> {written}");
    let row = RuleRow {
        rule,
        n_packets: 5,
        n_bytes: 300,
        duration: super::secs(7),
        idle: super::secs(1),
    };
    let line = row.to_string();
    assert_eq!(switch.parse_rule(BR, &line), Ok(row.rule), "{line}");
    true
}

#[test]
fn every_word_reads_back() {
    let switch = switch();
    for word in WORDS {
        let protocols = if word.needs.is_empty() {
            vec!["ip"]
        } else {
            word.needs.iter().map(|p| p.name).collect()
        };
        for protocol in protocols {
            let zero = value(word.form, word.max, false, (0, 0));
            let text = format!("{protocol},{}={zero},actions=1", word.name);
            // The type of the packet is known already.
            let is_type = word.field == Field::ETH_TYPE;
            let is_told = is_type || word.field == Field::IP_PROTO && protocol.contains("cmp");
            assert!(is_told || reads_back(&switch, &text), "{text}");
            let set = format!(
                "{protocol},actions=set_field:{}->{},1",
                value(word.form, word.max, false, (0x1000, 0)),
                word.name
            );
            assert_eq!(reads_back(&switch, &set), word.settable, "{set}");
        }
    }
}

proptest! {
    #[test]
    fn what_is_written_reads_back(text in text()) {
        let switch = switch();
        let read = switch.parse_rule(BR, &text);
        // Words of the same bits may differ by chance; nothing else may be wrong with it.
        if let Err(why) = &read {
            prop_assert!(why.to_string().contains("contradicts"), "{}", why);
        }
        reads_back(&switch, &text);
    }

    #[test]
    fn any_text_is_read_or_refused(text in prop_oneof![pieces(), ".{0,80}"]) {
        let switch = switch();
        reads_back(&switch, &text);
        for strict in [false, true] {
            if let Err(BridgeError::Rule { text: whole, why }) = switch.parse_filter(BR, &text, strict) {
                prop_assert_eq!(whole, text.clone());
                prop_assert!(!why.to_string().is_empty());
            }
        }
    }
}
