//! A trace says what the next packet gets, and changes nothing.

use proptest::prelude::*;

use super::cached::{flow_packet, packet};
use super::oracle::rules;
use super::{BR, frame, mac, secs, switch};
use crate::process::tests::{Bench, config};
use crate::{
    DatapathConfig, Field, Hit, MacAddr, Match, PortNo, Trace, TraceWhat, Ufid, Upcall, VlanId,
    extract_bytes,
};

fn notes(trace: &Trace) -> Vec<String> {
    let note = |what: &TraceWhat| match what {
        TraceWhat::Note(text) => Some(text.clone()),
        TraceWhat::Table { .. } | TraceWhat::Action(_) => None,
    };
    trace.steps.iter().filter_map(|step| note(&step.what)).collect()
}

#[test]
fn tells_of_tables_rules_and_why_nothing_is_sent() {
    let switch = switch();
    switch.fdb_add(BR, PortNo(2), VlanId(0), mac(2)).unwrap();
    let rules = [
        "table=0,priority=5,ip,actions=output:1,resubmit(,3),output:9,NORMAL",
        "table=3,priority=7,cookie=0x9,dl_src=02:00:00:00:00:01,actions=mod_dl_src:02:00:00:00:00:05",
    ];
    switch.add_rules(BR, &rules, secs(0)).unwrap();
    let trace = switch.trace(&frame(1, mac(1), mac(2)), secs(1));
    assert_eq!(trace.bridge.as_deref(), Some(BR));
    let tables: Vec<_> = trace
        .steps
        .iter()
        .filter_map(|step| match &step.what {
            TraceWhat::Table { table, rule } => {
                Some((step.depth, *table, rule.as_ref().map(|rule| rule.cookie)))
            }
            TraceWhat::Action(_) | TraceWhat::Note(_) => None,
        })
        .collect();
    assert_eq!(tables, [(0, 0, Some(0)), (1, 3, Some(9))]);
    assert_eq!(
        notes(&trace),
        [
            "skipped: the packet came from there",
            "skipped: the bridge has no port 9",
            "learns that 02:00:00:00:00:05 in VLAN 0 is behind port 1",
            "02:00:00:00:00:02 is behind port 2",
        ]
    );
    let missed = switch.trace(&super::tagged(frame(7, mac(1), mac(2)), 5), secs(1));
    assert_eq!((missed.bridge, missed.steps), (None, Vec::new()), "a port of no bridge");
    let stp: MacAddr = "01:80:c2:00:00:00".parse().unwrap();
    switch.add_rules(BR, &["table=0,priority=9,actions=NORMAL"], secs(1)).unwrap();
    let dropped = switch.trace(&frame(1, mac(1), stp), secs(1));
    assert_eq!(notes(&dropped), ["dropped: 01:80:c2:00:00:00 is for bridges themselves"]);
    switch.add_rules(BR, &["table=0,priority=10,actions=resubmit(,0)"], secs(1)).unwrap();
    let circle = switch.trace(&frame(1, mac(1), mac(2)), secs(1));
    assert!(circle.limit.is_some_and(|limit| limit.contains("in a circle")), "{circle:?}");
    assert_eq!(circle.translation.actions, []);
}

#[test]
fn a_trace_changes_nothing() {
    let switch = switch();
    switch.add_rules(BR, &["actions=NORMAL"], secs(0)).unwrap();
    let before = (switch.version(), switch.counters());
    for (src, dst) in [(1, 2), (2, 1), (3, 3)] {
        let trace = switch.trace(&frame(1, mac(src), mac(dst)), secs(5));
        assert_eq!(trace.limit, None);
    }
    assert_eq!((switch.version(), switch.counters()), before);
    assert_eq!(switch.fdb_rows(BR, secs(5)).unwrap(), []);
    let rows = switch.rules(BR, "", secs(5)).unwrap();
    assert_eq!((rows[0].n_packets, rows[0].idle), (0, secs(5)));
    // Nor does anybody wait for the address that was looked up in vain.
    let version = switch.version();
    super::send(&switch, &frame(2, mac(2), MacAddr::BROADCAST), secs(6));
    assert_eq!(switch.version(), version);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    /// For each of 1,000 random packets, each with rules of its own and after others: the trace is the
    /// flow that the packet then installs, and the probe is where the next one finds it.
    #[test]
    fn a_trace_is_the_flow_that_is_installed(
        texts in rules(),
        before in prop::collection::vec(flow_packet(), 0..6),
        last in flow_packet(),
        smc in any::<bool>(),
    ) {
        let switch = switch();
        let good: Vec<_> = texts.iter().filter(|text| switch.parse_rule(BR, text).is_ok()).collect();
        switch.add_rules(BR, &good, secs(0)).unwrap();
        let mut bench = Bench::new(DatapathConfig { smc, ..config() });
        for from in before {
            bench.run_from(PortNo(from.0), &switch, &[packet(from)], 1000);
            bench.settle(&switch, 10);
        }
        let (bytes, port) = (packet(last), PortNo(last.0));
        let key = extract_bytes(&bytes, port).unwrap();
        prop_assert_eq!(key.get(&Field::IN_PORT), u128::from(port.0));
        let trace = switch.trace(&key, bench.now);
        let probe = bench.datapath.probe(&key);
        prop_assert_eq!(probe.hit == Hit::Miss, probe.flow.is_none());
        let misses = bench.datapath.stats().misses.get();
        bench.run_from(port, &switch, std::slice::from_ref(&bytes), 1000);
        let missed = bench.datapath.stats().misses.get() > misses;
        prop_assert_eq!(missed, probe.hit == Hit::Miss, "the probe: {:?}", probe.hit);
        let rule = Match::new(&key, trace.translation.mask);
        let installed = bench.datapath.get(Ufid::of(&rule));
        let actions = installed.map(|flow| flow.actions);
        prop_assert_eq!(actions.as_deref(), Some(&*trace.translation.actions), "{:?}", trace);
        prop_assert!(bench.datapath.probe(&key).hit != Hit::Miss);
        bench.run_from(port, &switch, &[bytes], 1000);
        prop_assert_eq!(bench.datapath.probe(&key).hit, Hit::Emc);
    }
}
