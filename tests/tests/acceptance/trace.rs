//! A trace says what the daemon then does, and changes nothing.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::time::Duration;

use serde_json::Value;
use xvs_tests::{
    Result, check,
    daemon::{Daemon, Setup},
    frame,
    raw::RawSocket,
    rig::{C1_MAC, C2_MAC, Rig},
    tcpdump::Capture,
    wait_until,
};

use crate::{Random, configuration::says, runner::on};

const RULES: &[&str] = &[
    "table=0,priority=90,in_port=2,actions=NORMAL",
    "table=0,priority=50,tcp,tp_dst=0x50/0xfffc,actions=mod_nw_tos:8,resubmit(,1)",
    "table=0,priority=40,udp,nw_dst=10.1.1.0/28,actions=resubmit(,1),resubmit(,2)",
    "table=0,priority=30,dl_vlan=5,actions=strip_vlan,resubmit(,2)",
    "table=0,priority=20,arp,arp_op=1,actions=FLOOD",
    "table=0,priority=10,dl_dst=02:00:00:00:00:02,actions=NORMAL",
    "table=0,priority=0,actions=resubmit(,2)",
    "table=1,priority=7,nw_src=10.1.1.4/30,ip,actions=mod_nw_ttl:9,output:2",
    "table=1,priority=6,udp,tp_src=7,actions=drop",
    "table=1,priority=5,tcp,tcp_flags=+syn,actions=push_vlan:0x8100,mod_vlan_vid:7,output:2",
    "table=1,priority=1,actions=NORMAL",
    "table=2,priority=4,ipv6,actions=output:2",
    "table=2,priority=3,dl_src=02:00:00:00:01:00/ff:ff:ff:ff:ff:01,actions=mod_dl_dst:02:00:00:00:00:02,NORMAL",
];

/// A frame of one of several kinds, with few values in each field.
#[allow(clippy::cast_possible_truncation, reason = "small numbers")]
fn random_frame(random: &mut Random) -> Vec<u8> {
    let source = [0x02, 0, 0, 0, 1, random.below(4) as u8];
    let target = [[0x02, 0, 0, 0, 0, 2], [0x02, 0, 0, 0, 0, 9], [0xff; 6]][random.below(3)];
    let address = |random: &mut Random| Ipv4Addr::new(10, 1, 1, random.below(24) as u8);
    let (a, b) = (address(random), address(random));
    let port = |random: &mut Random| [7, 9, 0x50, 0x51, 0x53, 443][random.below(6)];
    let (from, to) = ((a, port(random)), (b, port(random)));
    let (kind, payload) = match random.below(6) {
        0 | 1 => (0x0800, frame::ipv4(a, b, 17, &frame::udp(from, to, b"traced"))),
        2 | 3 => (0x0800, frame::ipv4(a, b, 6, &frame::tcp(from, to, b"traced"))),
        4 => {
            let operation = 1 + random.below(2) as u8;
            let head = [0, 1, 8, 0, 6, 4, 0, operation];
            (0x0806, [&head[..], &source, &a.octets(), &[0; 6], &b.octets()].concat())
        }
        _ => (
            0x86dd,
            [&[0x60, 0, 0, 0, 0, 8, 17, 64][..], &[0xfd; 32], &[0, 7, 0, 9, 0, 8, 0, 0]].concat(),
        ),
    };
    if random.below(3) == 0 {
        let tag = [0, [5, 6][random.below(2)], (kind >> 8) as u8, kind as u8];
        return frame::ethernet(target, source, 0x8100, &[&tag[..], &payload].concat());
    }
    frame::ethernet(target, source, kind, &payload)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn text(value: &Value, path: &str) -> String {
    value.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// The actions of the cached flows of port 1, by identifier.
fn flows(daemon: &Daemon) -> Result<BTreeMap<String, String>> {
    let dump = daemon.ctl(&["flow", "dump"])?;
    let flows = dump.pointer("/pmds/0/flows").and_then(Value::as_array).into_iter().flatten();
    let own = flows.filter(|flow| text(flow, "/match").contains("in_port(1)"));
    Ok(own.map(|flow| (text(flow, "/ufid"), text(flow, "/actions"))).collect())
}

/// 1,000 random packets: what was traced is what is installed, and then found.
pub(crate) fn a_trace_is_the_flow_that_the_packet_installs() -> Result<()> {
    on(Rig::pair, |rig| {
        let daemon = Daemon::start(rig, &Setup::new(rig))?;
        daemon.ctl(&[&["rule", "add", "br0"][..], RULES].concat())?;
        // Nothing is learned, so that what was traced first still holds when the last packet is sent.
        for vlan in ["0", "5", "6", "7"] {
            for n in 0..4 {
                daemon.appctl(&["fdb/add", "br0", "v1", vlan, &format!("02:00:00:00:01:0{n}")])?;
            }
            daemon.appctl(&["fdb/add", "br0", "v2", vlan, "02:00:00:00:00:02"])?;
        }
        let mut random = Random::new(20);
        let frames: Vec<_> = (0..1000).map(|_| random_frame(&mut random)).collect();
        let mut traced = BTreeMap::new();
        for bytes in &frames {
            let trace = daemon.ctl(&["trace", "--in-port", "v1", "--hex", &hex(bytes)])?;
            check!(trace.pointer("/bridge") == Some(&"br0".into()), "{trace}");
            let actions = text(&trace, "/actions");
            let before = traced.insert(text(&trace, "/ufid"), actions.clone());
            check!(before.is_none_or(|before| before == actions), "one flow, two traces: {trace}");
        }
        let known = flows(&daemon)?;
        check!(!traced.keys().any(|ufid| known.contains_key(ufid)), "a trace installed a flow");
        let rules = daemon.ctl(&["rule", "dump", "br0"])?;
        let counted = rules.to_string().matches("\"packets\":").count();
        let unused = rules.to_string().matches("\"packets\":0").count();
        // Hosts say a word or two of their own.
        check!(counted == RULES.len() && counted - unused <= 4, "traces were counted: {rules}");
        let socket = rig.c1.enter(|| RawSocket::open("e0"))?;
        wait_until("a flow for each trace", Duration::from_secs(5), || {
            for bytes in &frames {
                socket.send(bytes)?;
            }
            let installed = flows(&daemon)?;
            Ok(traced.keys().all(|ufid| installed.contains_key(ufid)).then_some(()))
        })?;
        let installed = flows(&daemon)?;
        for (ufid, actions) in &traced {
            check!(
                installed.get(ufid) == Some(actions),
                "{ufid}: {actions}: {:?}",
                installed.get(ufid)
            );
        }
        check!(traced.len() > 50, "only {} flows: too few kinds of packets", traced.len());
        for bytes in frames.iter().take(50) {
            let trace = daemon.ctl(&["trace", "--in-port", "1", "--hex", &hex(bytes)])?;
            let hit = text(&trace, "/caches/0/hit");
            check!(["emc", "megaflow"].contains(&hit.as_str()), "{hit}: {trace}");
            check!(text(&trace, "/caches/0/ufid") == text(&trace, "/ufid"), "{trace}");
        }
        daemon.stop()
    })
}

/// All ways to say which packet, by the real tools, and what is said of mistakes.
pub(crate) fn a_packet_is_traced_from_text_hex_and_capture() -> Result<()> {
    on(Rig::pair, |rig| {
        let daemon = Daemon::start(rig, &Setup::new(rig))?;
        rig.wait_forwarding(Duration::from_secs(5))?;
        let dp = "in_port(v1),eth(src=02:00:00:00:00:01,dst=02:00:00:00:00:02),eth_type(0x0806)";
        let normal = "02:00:00:00:00:02 is behind port 2";
        says(
            &daemon.appctl(&["ofproto/trace", dp])?,
            &["bridge(\"br0\")", normal, "Datapath actions: 2"],
        )?;
        says(&daemon.appctl(&["ofproto/trace", "netdev@xvs-netdev", dp])?, &[normal])?;
        daemon.ctl(&["rule", "add", "br0", RULES[1], RULES[9], "priority=0,actions=NORMAL"])?;
        let rule = "in_port=1,tcp,tp_dst=80,tcp_flags=+syn,dl_dst=02:00:00:00:00:02";
        let by_rule = daemon.appctl(&["ofproto/trace", "br0", rule])?;
        says(
            &by_rule,
            &[
                " 0. tcp,tp_dst=0x50/0xfffc, priority 50",
                "    mod_nw_tos:8",
                "     1. tcp,tcp_flags=+syn, priority 5",
                "output:2",
                "Megaflow: ",
                "Datapath actions: push_vlan(vid=7,pcp=0),set(ipv4(tos=0x8/0xfc)),2\n",
                "pmd on cpu core 0: miss",
            ],
        )?;
        says(&daemon.ctl_text(&["trace", "--bridge", "br0", rule])?, &["    mod_nw_tos:8"])?;
        let (a, b) = (Ipv4Addr::new(10, 1, 1, 1), Ipv4Addr::new(10, 1, 1, 2));
        let packet = frame::ipv4(a, b, 17, &frame::udp((a, 5), (b, 6), b"from a file"));
        let packet = frame::ethernet(C2_MAC, C1_MAC, 0x0800, &packet);
        let capture = Capture::start(&rig.scratch, &rig.c2, "e0")?;
        let socket = rig.c1.enter(|| RawSocket::open("e0"))?;
        let number = wait_until("a captured packet", Duration::from_secs(5), || {
            socket.send(&packet)?;
            Ok(capture.frames()?.iter().position(|bytes| *bytes == packet).map(|at| at + 1))
        })?;
        let file = capture.file().display().to_string();
        let words = ["trace", "--in-port", "v1", "--pcap", &file, "--packet", &number.to_string()];
        says(&daemon.ctl_text(&words)?, &["udp(src=5,dst=6)", normal, "hit in the"])?;
        let refused = [
            (vec!["trace", "in_port(v1),eth_typ(0x0800)"], "eth_typ"),
            (vec!["trace", "eth_type(0x0800)"], "in_port"),
            (vec!["trace", "--in-port", "v9", "--hex", "00"], "v9"),
            (vec!["trace", "--in-port", "v1", "--hex", "0102x"], "\"x\" at digit 5"),
            (vec!["trace", "--in-port", "v1", "--hex", "0102"], "at least 14"),
            (vec!["trace", "--bridge", "br0", "in_port=1,nw_dst=10.0.0.1"], "nw_dst"),
            (vec!["trace", "--in-port", "v1", "--pcap", "/no/such/file"], "/no/such/file"),
            (vec!["call", "ofproto/trace", "br0", "in_port=1", "-generate"], "-generate"),
        ];
        for (words, expected) in refused {
            says(&daemon.ctl_refused(&words)?, &[expected])?;
        }
        daemon.stop()
    })
}
