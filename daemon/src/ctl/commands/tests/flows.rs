//! Flows of the datapath, byte for byte.

use serde_json::json;

use super::{done, refused};
use crate::ctl::testing::{json, switch};

pub(super) const FLOW: &str = "in_port(1),eth(src=02:00:00:00:00:01,dst=02:00:00:00:00:02),eth_type(0x0800),\
                    ipv4(frag=no)";
const SHOWN: &str = "in_port(1),packet_type(ns=0,id=0),\
                     eth(src=02:00:00:00:00:01,dst=02:00:00:00:00:02),eth_type(0x0800),ipv4(frag=no)";

#[test]
fn flows_come_and_go() {
    let mut switch = switch();
    assert_eq!(done(&mut switch, &["dpctl/dump-flows"]), "");
    assert_eq!(done(&mut switch, &["dpctl/add-flow", FLOW, "2"]), "");
    let head = "flow-dump from pmd on cpu core: 0\n";
    let fresh = format!("{head}{SHOWN}, packets:0, bytes:0, used:never, actions:2\n");
    assert_eq!(done(&mut switch, &["dpctl/dump-flows"]), fresh);
    let why = refused(&mut switch, &["dpctl/add-flow", FLOW, "2"]);
    assert_eq!(why, "xvswitchd: updating flow table (File exists)");

    let flow = &mut switch.flows[0];
    (flow.packets, flow.bytes, flow.used_ms, flow.tcp_flags) = (4, 512, Some(1061), 0x01b);
    let used = "packets:4, bytes:512, used:1.061s, flags:SFP., actions:2\n";
    assert_eq!(done(&mut switch, &["dpctl/dump-flows"]), format!("{head}{SHOWN}, {used}"));
    let more = done(&mut switch, &["dpctl/dump-flows", "-m"]);
    let line = more.lines().nth(1).unwrap();
    assert!(line.starts_with("ufid:") && line.contains(", in_port(v1),"), "{more}");
    assert!(line.ends_with("actions:v2"), "{more}");
    let ufid = line.split(',').next().unwrap();
    assert_eq!(done(&mut switch, &["dpctl/get-flow", ufid]).lines().next(), Some(line));
    let why = refused(&mut switch, &["dpctl/dump-flows", "pmd=1"]);
    assert_eq!(why, "xvswitchd: no PMD thread on core 1 (there are: 0)");
    let none = done(&mut switch, &["dpctl/dump-flows", "filter=in_port(2)"]);
    assert_eq!(none, "");
    let some = done(&mut switch, &["dpctl/dump-flows", "xvs-netdev", "filter=eth_type(0x0800)"]);
    assert_eq!(some, format!("{head}{SHOWN}, {used}"));

    done(&mut switch, &["dpctl/mod-flow", "--clear", FLOW, "drop"]);
    let changed = done(&mut switch, &["dpctl/dump-flows"]);
    assert!(changed.contains("packets:0, bytes:0,"), "{changed}");
    assert!(changed.ends_with("actions:drop\n"), "{changed}");
    assert_eq!(done(&mut switch, &["dpctl/del-flow", "netdev@ovs-netdev", FLOW]), "");
    let missing = "xvswitchd: updating flow table (No such file or directory)";
    let gone = "xvswitchd: deleting flow (No such file or directory)";
    assert_eq!(refused(&mut switch, &["dpctl/del-flow", FLOW]), gone);
    assert_eq!(refused(&mut switch, &["dpctl/mod-flow", FLOW, "2"]), missing);
    done(&mut switch, &["dpctl/mod-flow", "--may-create", FLOW, "2"]);
    done(&mut switch, &["dpctl/del-flow", line]);
    assert!(switch.flows.is_empty());
    done(&mut switch, &["dpctl/add-flow", FLOW, "v2"]);
    assert_eq!(json(&mut switch, &["dpctl/del-flows"]).unwrap()["removed"], 1);
}

#[test]
fn flows_are_chosen_by_a_filter() {
    let mut switch = switch();
    assert_eq!(json(&mut switch, &["dpctl/dump-flows"]).unwrap()["pmds"], json!([]));
    for port in [1, 2] {
        done(&mut switch, &["dpctl/add-flow", &format!("in_port({port})"), "drop"]);
    }
    let shown = json(&mut switch, &["dpctl/dump-flows", "-m"]).unwrap();
    assert_eq!(shown["pmds"][0]["core"], 0);
    let flows = shown["pmds"][0]["flows"].as_array().unwrap();
    let names: Vec<_> = flows.iter().map(|flow| flow["match"].as_str().unwrap()).collect();
    assert_eq!(
        names,
        ["in_port(v1)", "in_port(v2)"].map(|name| format!("{name},packet_type(ns=0,id=0)"))
    );
    let removed = json(&mut switch, &["dpctl/del-flows", "filter=in_port(v2)"]).unwrap();
    assert_eq!((&removed["removed"], switch.flows.len()), (&json!(1), 1));
    let removed = json(&mut switch, &["dpctl/del-flows", "pmd=0", "filter=in_port(2)"]).unwrap();
    assert_eq!((&removed["removed"], switch.flows.len()), (&json!(0), 1));
    assert_eq!(json(&mut switch, &["dpctl/del-flows", "pmd=0"]).unwrap()["removed"], 1);
    let why = refused(&mut switch, &["dpctl/del-flows", "pmd=3"]);
    assert_eq!(why, "xvswitchd: no PMD thread on core 3 (there are: 0)");
}

#[test]
fn bad_flows() {
    let mut switch = switch();
    let cases: &[(&[&str], &str)] = &[
        (
            &["dpctl/add-flow", "bogus", "2"],
            "xvswitchd: parsing flow key (syntax error at bogus: not known, position 0) (Invalid argument)",
        ),
        (
            &["dpctl/add-flow", FLOW, "bogus()"],
            "xvswitchd: parsing actions (syntax error at bogus: not known, position 0) (Invalid argument)",
        ),
        (&["dpctl/add-flow", FLOW], "\"dpctl/add-flow\" command requires at least 2 arguments"),
        (
            &["dpctl/add-flow", "dp9", FLOW, "2"],
            "xvswitchd: opening datapath dp9 failed (No such device)",
        ),
        (
            &["dpctl/del-flow", "ufid:12"],
            "xvswitchd: parsing flow key (\"12\" is not a flow identifier (want 32 hex digits, as a \
             UUID)) (Invalid argument)",
        ),
        (
            &["dpctl/add-flow", FLOW, "2", "pmd=x"],
            "xvswitchd: bad core \"x\" (want the number of a PMD thread's core)",
        ),
    ];
    for (words, why) in cases {
        assert_eq!(refused(&mut switch, words), *why);
    }
    for (flow, actions) in
        [(FLOW, "0"), (FLOW, "nosuch0"), (FLOW, "pop_vlan"), ("in_port(v9)", "2")]
    {
        let why = refused(&mut switch, &["dpctl/add-flow", flow, actions]);
        assert!(why.starts_with("xvswitchd: "), "{why}");
        assert!(why.ends_with("(Invalid argument)"), "{why}");
    }
    assert!(switch.flows.is_empty());
}
