//! What rules do: to single packets, to cached flows, and as a set that is changed.

use core::net::Ipv4Addr;

use super::{BR, checked, frame, mac, ports, secs, send, switch, tagged};
use crate::process::tests::{Bench, config, udp};
use crate::testing::PacketBuilder;
use crate::{
    Action, BridgeError, DatapathConfig, Field, FlowKey, Nanos, PortNo, Purpose, Switch, Upcall,
};

fn with(rules: &[&str]) -> Switch {
    let switch = switch();
    switch.add_rules(BR, rules, secs(0)).unwrap();
    switch
}

/// A packet from port 1 to 10.0.0.2, and this UDP port.
fn packet(port: u16) -> FlowKey {
    let mut key = frame(1, mac(1), mac(2));
    key.set(&Field::IP_PROTO, 17);
    key.set(&Field::IPV4_DST, 0x0a00_0002);
    key.set(&Field::TP_DST, port.into());
    key
}

fn actions(switch: &Switch, key: &FlowKey) -> Vec<Action> {
    switch.translate(key, Purpose::Packet, secs(1)).actions
}

/// The rules as text, and how many packets each had.
fn dump(switch: &Switch) -> Vec<(String, u64)> {
    let rows = switch.rules(BR, "", secs(1)).unwrap();
    rows.iter().map(|row| (row.rule.to_string(), row.n_packets)).collect()
}

fn texts(switch: &Switch) -> Vec<String> {
    dump(switch).into_iter().map(|(text, _)| text).collect()
}

fn set(field: &'static Field, value: u128, mask: u128) -> Action {
    Action::Set { field, value, mask }
}

#[test]
fn the_highest_priority_wins() {
    let switch = with(&[
        "priority=10,udp,tp_dst=80,actions=3",
        "priority=9,ip,nw_dst=10.0.0.0/8,actions=2",
        "priority=11,udp,tp_dst=81,actions=drop",
        "priority=0,actions=IN_PORT",
    ]);
    let ports = |port| send(&switch, &packet(port), secs(1));
    assert_eq!((ports(80), ports(81), ports(82)), (vec![3], vec![], vec![2]));
    assert_eq!(send(&switch, &frame(2, mac(1), mac(2)), secs(1)), [2]);
}

#[test]
fn without_rules_it_is_normal_and_without_a_match_it_drops() {
    let switch = switch();
    assert_eq!(send(&switch, &packet(80), secs(1)), [2, 3]);
    switch.add_rules(BR, &["arp,actions=NORMAL"], secs(1)).unwrap();
    assert_eq!(send(&switch, &packet(80), secs(1)), [0; 0]);
    assert_eq!(switch.del_rules(BR, "", false), Ok(1));
    assert_eq!(send(&switch, &packet(80), secs(1)), [2, 3]);
}

#[test]
fn outputs_never_go_back_by_accident() {
    for (actions, want) in [
        ("1", vec![]),
        ("2,1,3,2", vec![2, 3, 2]),
        ("IN_PORT", vec![1]),
        ("FLOOD", vec![2, 3]),
        ("ALL,IN_PORT", vec![2, 3, 1]),
        ("9,3", vec![3]),
        ("drop", vec![]),
        ("NORMAL,2", vec![2, 3, 2]),
    ] {
        let switch = with(&[&format!("actions={actions}")]);
        assert_eq!(send(&switch, &packet(80), secs(1)), want, "{actions}");
    }
}

#[test]
fn tables_lead_on_and_resubmit_comes_back() {
    let switch = with(&[
        "actions=resubmit(,1),resubmit(,7),3,goto_table:2",
        "table=1,udp,tp_dst=80,actions=mod_tp_dst:8080,2",
        "table=2,udp,tp_dst=8080,actions=IN_PORT",
    ]);
    let rewrite = set(&Field::TP_DST, 8080, 0xffff);
    let output = |port| Action::Output(PortNo(port));
    assert_eq!(actions(&switch, &packet(80)), [rewrite, output(2), output(3), output(1)]);
    assert_eq!(actions(&switch, &packet(81)), [output(3)]);
    let own = with(&["actions=2", "table=1,actions=3"]);
    assert_eq!(send(&own, &packet(80), secs(1)), [2], "a table of its own is not looked at");
}

#[test]
fn fields_are_set_once_and_only_for_an_output() {
    let switch = with(&[
        "udp,tp_dst=1,actions=mod_nw_dst:10.0.0.9,mod_nw_dst:10.0.0.8,2,3,mod_tp_dst:7",
        "priority=5,udp,tp_dst=2,actions=mod_tp_dst:2,2",
        "priority=5,udp,tp_dst=3,actions=set_field:1/3->tp_src,2",
    ]);
    let out = [Action::Output(PortNo(2)), Action::Output(PortNo(3))];
    let ip = set(&Field::IPV4_DST, 0x0a00_0008, 0xffff_ffff);
    assert_eq!(actions(&switch, &packet(1)), [ip, out[0].clone(), out[1].clone()]);
    assert_eq!(actions(&switch, &packet(2)), [out[0].clone()], "it is so already");
    let masked = switch.translate(&packet(3), Purpose::Packet, secs(1));
    assert_eq!(masked.actions, [set(&Field::TP_SRC, 1, 3), out[0].clone()]);
    assert_eq!(masked.mask.get(&Field::TP_SRC), 0, "the other bits are as unknown as before");
    let switch = with(&["udp,tp_dst=3,actions=mod_dl_dst:02:00:00:00:00:09,2"]);
    let made = switch.translate(&packet(3), Purpose::Packet, secs(1));
    assert_eq!(made.mask.get(&Field::ETH_DST), 0, "what is overwritten was not looked at");
    assert_eq!(made.actions[0], set(&Field::ETH_DST, 0x0200_0000_0009, (1 << 48) - 1));
}

#[test]
fn tags_are_pushed_written_and_popped() {
    let (push, out) = (|tpid, tci| Action::PushVlan { tpid, tci }, Action::Output(PortNo(2)));
    let bare = packet(1);
    let with_tag = tagged(packet(1), 5);
    let vid = |vid: u128| set(&Field::VLAN_TCI, vid, 0x0fff);
    for (text, key, want) in [
        ("strip_vlan,2", &bare, vec![out.clone()]),
        ("strip_vlan,2", &with_tag, vec![Action::PopVlan, out.clone()]),
        ("mod_vlan_vid:7,2", &bare, vec![push(0x8100, 7), out.clone()]),
        ("mod_vlan_vid:7,2", &with_tag, vec![vid(7), out.clone()]),
        ("mod_vlan_pcp:3,mod_vlan_vid:7,2", &bare, vec![push(0x8100, 0x6007), out.clone()]),
        ("push_vlan:0x88a8,mod_vlan_vid:9,2", &with_tag, vec![push(0x88a8, 9), out.clone()]),
        ("push_vlan:0x8100,strip_vlan,2", &with_tag, vec![out.clone()]),
        (
            "strip_vlan,mod_vlan_vid:7,2",
            &with_tag,
            vec![Action::PopVlan, push(0x8100, 7), out.clone()],
        ),
        (
            "push_vlan:0x8100,2,strip_vlan,2",
            &bare,
            vec![push(0x8100, 0), out.clone(), Action::PopVlan, out.clone()],
        ),
    ] {
        let switch = with(&[&format!("actions={text}")]);
        assert_eq!(actions(&switch, key), want, "{text}");
        assert_eq!(actions(&switch, key), want, "{text}");
    }
    let switch =
        with(&["dl_vlan=5,actions=strip_vlan,resubmit(,1)", "table=1,dl_vlan=0xffff,actions=2"]);
    assert_eq!(actions(&switch, &with_tag), [Action::PopVlan, out]);
    assert_eq!(actions(&switch, &tagged(packet(1), 6)), []);
}

#[test]
fn below_a_stripped_tag_is_the_second_one() {
    let mut key = tagged(packet(1), 5);
    key.set(&Field::INNER_TCI, 0x1006);
    let (pop, out) = (Action::PopVlan, Action::Output(PortNo(2)));
    let second = "table=1,dl_vlan=6,actions=strip_vlan,mod_vlan_vid:9,2";
    let switch = with(&["dl_vlan=5,actions=strip_vlan,resubmit(,1)", second]);
    let push = Action::PushVlan { tpid: 0x8100, tci: 9 };
    assert_eq!(actions(&switch, &key), [pop.clone(), pop.clone(), push, out.clone()]);
    let made = switch.translate(&key, Purpose::Packet, secs(1));
    let looked = |field| made.mask.get(field);
    assert_eq!((looked(&Field::VLAN_TCI), looked(&Field::INNER_TCI)), (0x1fff, 0x1fff));
    assert_eq!(actions(&switch, &tagged(packet(1), 5)), []);
    let switch = with(&["actions=strip_vlan,mod_vlan_vid:7,2"]);
    let vid = set(&Field::VLAN_TCI, 7, 0x0fff);
    assert_eq!(actions(&switch, &key), [pop, vid, out], "the second tag is written to");
    let switch = with(&["actions=strip_vlan,NORMAL"]);
    switch.translate(&key, Purpose::Packet, secs(1));
    assert_eq!(switch.fdb_rows(BR, secs(1)).unwrap()[0].vlan.0, 6);
}

#[test]
fn normal_uses_the_vlan_that_rules_made() {
    let switch =
        with(&["in_port=1,actions=mod_vlan_vid:5,NORMAL", "in_port=2,actions=strip_vlan,NORMAL"]);
    switch.translate(&packet(1), Purpose::Packet, secs(1));
    let rows = switch.fdb_rows(BR, secs(1)).unwrap();
    assert_eq!((rows[0].vlan.0, rows[0].mac), (5, mac(1)));
    let back = tagged(frame(2, mac(2), mac(1)), 5);
    let made = switch.translate(&back, Purpose::Packet, secs(1));
    let flood = [Action::PopVlan, Action::Output(PortNo(1)), Action::Output(PortNo(3))];
    assert_eq!(made.actions, flood, "in VLAN 0 the host is unknown");
}

#[test]
fn walks_are_bounded() {
    let loops = with(&["actions=2,resubmit(,0)"]);
    assert_eq!(send(&loops, &packet(1), secs(1)), [0; 0], "not half of the outputs");
    assert_eq!(loops.counters().too_deep, 1);
    let wide: Vec<_> = (0..3)
        .map(|table| {
            let next = format!("resubmit(,{})", table + 1);
            format!("table={table},actions=2{}", format!(",{next}").repeat(20))
        })
        .collect();
    let wide = with(&wide.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(send(&wide, &packet(1), secs(1)), [0; 0]);
    assert_eq!((wide.counters().too_many_lookups, wide.counters().too_deep), (1, 0));
    let many = format!("actions={}resubmit(,1)", "resubmit(,1),".repeat(17));
    let many = with(&[&many, &format!("table=1,actions={}", "2,3,".repeat(120))]);
    assert_eq!(send(&many, &packet(1), secs(1)), [0; 0]);
    assert_eq!(many.counters().too_many_actions, 1);
    let tags = with(&[&format!("actions={}2", "push_vlan:0x8100,".repeat(5))]);
    assert_eq!(send(&tags, &packet(1), secs(1)), [0; 0]);
    assert_eq!(tags.counters().too_many_actions, 1);
}

#[test]
fn only_what_tells_rules_apart_is_looked_at() {
    let looked = |rules: &[&str], key: &FlowKey, field: &Field| {
        with(rules).translate(key, Purpose::Packet, secs(1)).mask.get(field)
    };
    let (udp, tcp) = ("priority=2,udp,tp_dst=80,actions=2", "priority=2,tcp,tp_dst=80,actions=2");
    let rest = "priority=1,actions=3";
    assert_eq!(looked(&[udp, rest], &packet(9), &Field::TP_DST), 0xffff);
    assert_eq!(looked(&[tcp, rest], &packet(9), &Field::TP_DST), 0, "it is no TCP packet");
    assert_eq!(looked(&["priority=3,ip,actions=3", udp], &packet(9), &Field::TP_DST), 0, "lower");
    assert_eq!(looked(&[udp, rest], &packet(9), &Field::ETH_SRC), 0);
    let prefix = ["priority=2,ip,nw_dst=192.168.1.0/24,actions=2", rest];
    assert_eq!(looked(&prefix, &packet(9), &Field::IPV4_DST), 0x8000_0000, "10 is not 192");
    let near = ["priority=2,ip,nw_dst=10.0.1.0/24,actions=2", rest];
    assert_eq!(looked(&near, &packet(9), &Field::IPV4_DST), 0xffff_ff00);
    let written = ["udp,actions=mod_tp_dst:5,resubmit(,1)", "table=1,udp,tp_dst=5,actions=2"];
    assert_eq!(looked(&written, &packet(9), &Field::TP_DST), 0, "it is ours");
}

#[test]
fn adding_is_all_or_none_and_replaces_the_same() {
    let switch = with(&["priority=5,ip,actions=2"]);
    switch.translate(&packet(1), checked(7), secs(1));
    assert_eq!(dump(&switch), [("table=0, priority=5,ip actions=output:2".to_owned(), 7)]);
    let before = switch.version();
    let bad = switch.add_rules(BR, &["priority=6,actions=3", "priority=6,upd,actions=3"], secs(1));
    assert!(matches!(bad, Err(BridgeError::Rule { text, .. }) if text.contains("upd")));
    assert!(switch.replace_rules(BR, &["actions=1", "actions="], secs(1)).is_err());
    assert_eq!((switch.n_rules(BR), switch.version()), (Ok(1), before), "nothing has changed");
    switch.add_rules(BR, &["priority=5,ip,actions=3", "priority=4,ip,actions=2"], secs(1)).unwrap();
    let want =
        ["table=0, priority=5,ip actions=output:3", "table=0, priority=4,ip actions=output:2"];
    assert_eq!(dump(&switch), want.map(|text| (text.to_owned(), 0)), "statistics start again");
    assert!(switch.version() > before);
    switch.replace_rules(BR, &["arp,actions=NORMAL"], secs(1)).unwrap();
    assert_eq!(texts(&switch), ["table=0, arp actions=NORMAL"]);
    switch.replace_rules(BR, &[""; 0], secs(1)).unwrap();
    assert_eq!(switch.n_rules(BR), Ok(0));
    assert_eq!(switch.n_rules("br9"), Err(BridgeError::NoBridge("br9".to_owned())));
}

#[test]
fn rules_are_bounded() {
    let rule = |n: u32| format!("ip,nw_dst={},actions=2", Ipv4Addr::from_bits(n));
    let texts: Vec<_> = (0..100_000).map(rule).collect();
    let switch = switch();
    switch.add_rules(BR, &texts, secs(0)).unwrap();
    assert_eq!(
        switch.add_rules(BR, &[rule(100_000)], secs(0)),
        Err(BridgeError::TooManyRules { max: 100_000 })
    );
    switch.add_rules(BR, &[rule(99_999)], secs(0)).unwrap();
    assert_eq!(switch.n_rules(BR), Ok(100_000));
}

#[test]
fn deleting_is_strict_or_not() {
    let all = [
        "priority=1,actions=1",
        "priority=2,ip,actions=1",
        "priority=3,ip,nw_dst=10.0.0.0/8,actions=1",
        "priority=4,ip,nw_dst=10.1.0.0/16,actions=1",
        "priority=5,udp,nw_dst=10.1.1.1,actions=1",
        "table=1,priority=2,ip,actions=1",
        "cookie=0x15,priority=9,arp,actions=1",
    ];
    for (text, strict, n_deleted) in [
        ("", false, 7),
        ("ip", false, 5),
        ("table=0,ip", false, 4),
        ("ip,nw_dst=10.0.0.0/8", false, 3),
        ("udp", false, 1),
        ("ip,nw_dst=10.0.0.0/24", false, 0),
        ("cookie=0x15", false, 1),
        ("cookie=0x5/0xf", false, 1),
        ("cookie=0x5", false, 0),
        ("priority=2,ip", true, 2),
        ("table=1,priority=2,ip", true, 1),
        ("priority=3,ip", true, 0),
        ("ip", true, 0),
        ("priority=1", true, 1),
    ] {
        let switch = with(&all);
        if !strict {
            assert_eq!(switch.rules(BR, text, secs(0)).unwrap().len(), n_deleted, "{text}");
        }
        assert_eq!(switch.del_rules(BR, text, strict), Ok(n_deleted), "{text} {strict}");
        assert_eq!(switch.n_rules(BR), Ok(7 - n_deleted));
    }
}

#[test]
fn timeouts_end_rules() {
    let switch = with(&[
        "priority=1,idle_timeout=5,actions=2",
        "priority=2,hard_timeout=8,actions=3",
        "arp,actions=1",
    ]);
    let before = switch.version();
    switch.translate(&packet(1), checked(1), secs(4));
    switch.tick(secs(4));
    assert_eq!((switch.n_rules(BR), switch.version()), (Ok(3), before));
    switch.tick(secs(5));
    let row = |now| switch.rules(BR, "", now).unwrap();
    assert_eq!(row(secs(5)).len(), 2, "the hidden rule was idle");
    assert_eq!((row(secs(6))[1].idle, row(secs(6))[1].duration), (secs(2), secs(6)));
    assert!(switch.version() > before, "flows are to be checked");
    switch.tick(Nanos(secs(8).0 - 1));
    assert_eq!(switch.n_rules(BR), Ok(2));
    switch.tick(secs(8));
    assert_eq!(texts(&switch), ["table=0, arp actions=output:1"]);
}

#[test]
fn a_used_rule_outlives_its_idle_timeout() {
    let switch = with(&["idle_timeout=5,actions=2"]);
    for s in 1..20 {
        switch.translate(&packet(1), checked(1), secs(s));
        switch.tick(secs(s));
    }
    switch.translate(&packet(1), checked(0), secs(22));
    switch.tick(secs(23));
    assert_eq!(switch.n_rules(BR), Ok(1));
    switch.tick(secs(24));
    assert_eq!(switch.n_rules(BR), Ok(0), "a check without packets is no use");
}

/// UDP from `src` to 10.0.0.2:`dst`.
fn from(src: u16, dst: u16) -> Vec<u8> {
    let ip = |last| Ipv4Addr::new(10, 0, 0, last);
    PacketBuilder::new().ipv4(ip(1), ip(2)).udp(src, dst).payload_len(18).build()
}

#[test]
fn one_megaflow_for_all_source_ports_until_a_rule_reads_ports() {
    let switch = with(&["ip,nw_dst=10.0.0.2,actions=2"]);
    let mut bench = Bench::new(config());
    let mut random = 1u32;
    let packets: Vec<_> = (0..100_000)
        .map(|_| {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            from(u16::try_from(random >> 16).unwrap(), 53)
        })
        .collect();
    for batch in packets.chunks(256) {
        assert_eq!(bench.run(&switch, batch, 0)[2].len(), batch.len());
    }
    let stats = bench.datapath.stats().clone();
    assert_eq!((stats.flows.get(), stats.misses.get(), switch.counters().misses), (1, 1, 1));
    switch.add_rules(BR, &["priority=40000,udp,tp_dst=80,actions=3"], bench.now).unwrap();
    bench.settle(&switch, 64);
    assert_eq!((stats.flows.get(), stats.flows_corrected.get()), (0, 1), "too wide now");
    assert_eq!(dump(&switch)[1].1, 100_000, "and what it had is counted");
    let out = bench.run(&switch, &[from(1, 53), from(2, 53), from(3, 80), from(4, 80)], 0);
    assert_eq!((out[2].len(), out[3].len()), (2, 2));
    assert_eq!(stats.flows.get(), 2, "one per destination port, none per source port");
}

#[test]
fn a_change_corrects_cached_flows_in_place() {
    let switch = with(&["ip,nw_dst=10.0.0.2,actions=2"]);
    let mut bench = Bench::new(config());
    assert_eq!(bench.run(&switch, &[udp(2, 9)], 0)[2].len(), 1);
    switch.add_rules(BR, &["ip,nw_dst=10.0.0.2,actions=3"], bench.now).unwrap();
    bench.settle(&switch, 64);
    let out = bench.run(&switch, &[udp(2, 9)], 0);
    assert_eq!((out[2].len(), out[3].len(), bench.datapath.stats().misses.get()), (0, 1, 1));
    switch.del_rules(BR, "", false).unwrap();
    bench.settle(&switch, 64);
    let out = bench.run(&switch, &[udp(2, 9)], 10);
    assert_eq!((out[2].len(), out[3].len()), (1, 1), "NORMAL floods");
}

#[test]
fn statistics_survive_flows() {
    let switch = with(&["priority=2,ip,nw_dst=10.0.0.2,actions=goto_table:1", "table=1,actions=2"]);
    let mut bench = Bench::new(config());
    let n_bytes = 60;
    for round in 1..=3 {
        bench.run(&switch, &vec![udp(2, 9); 10], 0);
        // The flow has packets of which the bridge has not heard when it expires.
        bench.now = Nanos(bench.now.0 + secs(60).0);
        bench.settle(&switch, 64);
        assert_eq!(bench.datapath.stats().flows.get(), 0);
        for row in switch.rules(BR, "", bench.now).unwrap() {
            assert_eq!((row.n_packets, row.n_bytes), (10 * round, 10 * round * n_bytes));
        }
    }
    bench.run(&switch, &[udp(3, 9)], 0);
    bench.now = Nanos(bench.now.0 + secs(1).0);
    bench.settle(&switch, 64);
    assert_eq!(dump(&switch)[0].1, 30, "it is no packet of this rule");
    assert_eq!(ports(&switch.translate(&packet(1), checked(0), bench.now)), [2]);
    assert_eq!(dump(&switch)[0].1, 30, "a check without packets counts nothing");
    bench.datapath.configure(DatapathConfig { flow_limit: 0, ..config() });
    bench.run(&switch, &vec![udp(2, 10); 5], 0);
    assert_eq!(bench.datapath.stats().uninstalled.get(), 5);
    let rows = switch.rules(BR, "", bench.now).unwrap();
    assert!(rows.iter().all(|row| (row.n_packets, row.n_bytes) == (35, 35 * n_bytes)), "no flow");
}
