//! One row for each action, and what is refused.

use std::collections::BTreeSet;

use serde_json::Value;
use xvs_tests::{Result, check, rig::Rig};

use super::{A4, B4, Bench, DST, IPV4, NEW, SRC, UDP, eth, udp};
use crate::runner::on;

/// The name of an action, and its test.
type Row = (&'static str, fn(&Bench<'_>) -> Result<()>);

/// The table.
pub(super) const ROWS: &[Row] = &[
    ("output", output),
    ("push_vlan", push_vlan),
    ("pop_vlan", pop_vlan),
    ("set", set),
    ("trunc", trunc),
    ("hash", hash),
    ("recirc", recirc),
    ("clone", clone),
    ("sample", sample),
    ("check_pkt_len", check_pkt_len),
    ("meter", meter),
    ("userspace", userspace),
];

pub(crate) fn every_action_does_what_it_says() -> Result<()> {
    on(Rig::pair, |rig| {
        let bench = Bench::new(rig)?;
        for (_, test) in ROWS {
            test(&bench)?;
        }
        bench.finish()
    })
}

fn drops(bench: &Bench<'_>, reason: &str) -> Result<u64> {
    Ok(bench.daemon.balanced()?.drops(reason))
}

fn output(bench: &Bench<'_>) -> Result<()> {
    let frame = udp(20).build();
    bench.add(IPV4, "1,2,2")?;
    bench.send(std::slice::from_ref(&frame))?;
    check!(bench.arrived(0, 1)? == [frame.clone()], "back to where it came from");
    check!(bench.arrived(1, 2)? == [frame.clone(), frame.clone()], "and twice to the other");
    bench.clear()?;
    let before = drops(bench, "action")?;
    bench.row(IPV4, "drop", std::slice::from_ref(&frame), &[])?;
    check!(drops(bench, "action")? == before + 1, "dropped and counted");
    Ok(())
}

fn push_vlan(bench: &Bench<'_>) -> Result<()> {
    let plain = || eth().ipv4(A4, B4).udp(1, 2).build();
    let tagged = || eth().vlan(0x6005).ipv4(A4, B4).udp(1, 2).build();
    let twice = eth().tag(0x88a8, 9).vlan(0x6005).ipv4(A4, B4).udp(1, 2).build();
    bench.row(IPV4, "push_vlan(vid=5,pcp=3),2", &[plain()], &[tagged()])?;
    let flow = "in_port(1),eth_type(0x8100),vlan(vid=5),encap(eth_type(0x0800))";
    bench.row(flow, "push_vlan(tpid=0x88a8,vid=9,pcp=0),2", &[tagged()], &[twice])
}

fn pop_vlan(bench: &Bench<'_>) -> Result<()> {
    let tagged = eth().vlan(0x6005).ipv4(A4, B4).udp(1, 2).build();
    let plain = eth().ipv4(A4, B4).udp(1, 2).build();
    let flow = "in_port(1),eth_type(0x8100),vlan(vid=5),encap(eth_type(0x0800))";
    bench.row(flow, "pop_vlan,2", std::slice::from_ref(&tagged), std::slice::from_ref(&plain))?;
    bench.row(
        flow,
        "pop_vlan,push_vlan(vid=5,pcp=3),2",
        std::slice::from_ref(&tagged),
        std::slice::from_ref(&tagged),
    )
}

/// Several headers at once; the single fields have a table of their own.
fn set(bench: &Bench<'_>) -> Result<()> {
    let before = eth().ipv4(A4, B4).udp(1, 2).payload(b"odd").build();
    let after = eth().ipv4(B4, A4).ttl(9).udp(2, 1).payload(b"odd").build();
    let list = "set(ipv4(src=10.9.9.2,dst=10.9.9.1,ttl=9)),set(udp(src=2,dst=1)),2";
    bench.row(UDP, list, &[before], &[after])
}

fn trunc(bench: &Bench<'_>) -> Result<()> {
    let frame = udp(500).build();
    let wanted = [frame.get(..100).unwrap_or_default().to_vec(), frame.clone()];
    bench.row(IPV4, "trunc(100),2,2", &[frame], &wanted)
}

/// Packets are spread by their hash, each flow always the same way.
fn hash(bench: &Bench<'_>) -> Result<()> {
    bench.add("recirc_id(0),in_port(1),eth_type(0x0800)", "hash(l4(1)),recirc(0x6)")?;
    let way = |bit: u8| format!("recirc_id(0x6),dp_hash({bit:#x}/0x1),in_port(1),eth_type(0x0800)");
    bench.add(&way(0), "2")?;
    bench.add(&way(1), "set(eth(src=02:aa:00:00:00:09)),2")?;
    let frame = |port| eth().ipv4(A4, B4).udp(port, 2).build();
    let frames: Vec<_> = (0..32).map(frame).collect();
    bench.send(&frames)?;
    let first = bench.arrived(1, 32)?;
    let moved = first.iter().filter(|frame| frame.get(6..12) == Some(&NEW.0)).count();
    check!((4..=28).contains(&moved), "{moved} of 32 went the other way");
    bench.send(&frames)?;
    let sets = [first, bench.arrived(1, 32)?].map(BTreeSet::from_iter);
    check!(sets[0] == sets[1] && sets[0].len() == 32, "each flow the same way again");
    bench.clear()
}

fn recirc(bench: &Bench<'_>) -> Result<()> {
    let frame = udp(20).build();
    let tagged = eth().vlan(8).ipv4(A4, B4).udp(1000, 2000).payload_len(20).build();
    bench.add("recirc_id(0),in_port(1),eth_type(0x0800)", "push_vlan(vid=7,pcp=0),recirc(0x5)")?;
    let again = "recirc_id(0x5),in_port(1),eth_type(0x8100),vlan(vid=7),encap(eth_type(0x0800))";
    bench.add(again, "set(vlan(vid=8)),2")?;
    bench.send(std::slice::from_ref(&frame))?;
    check!(bench.arrived(1, 1)? == [tagged], "changed on both rounds");
    bench.clear()?;
    let stats = bench.daemon.appctl(&["dpif-netdev/pmd-stats-show"])?;
    check!(!stats.contains("packet recirculations: 0\n"), "{stats}");
    // A number without a flow is dropped; one that leads to itself is, too.
    let (unknown, loops) = (drops(bench, "action")?, drops(bench, "recirc")?);
    bench.row(
        "recirc_id(0),in_port(1),eth_type(0x0800)",
        "recirc(0x77)",
        std::slice::from_ref(&frame),
        &[],
    )?;
    bench.row(IPV4, "recirc(0x1)", &[frame], &[])?;
    check!(
        drops(bench, "action")? == unknown + 1 && drops(bench, "recirc")? == loops + 1,
        "counted"
    );
    Ok(())
}

fn clone(bench: &Bench<'_>) -> Result<()> {
    let frame = udp(20).build();
    let other = xvs_datapath::testing::PacketBuilder::eth(SRC, NEW).ipv4(A4, B4).udp(1000, 2000);
    let wanted = [other.payload_len(20).build(), frame.clone()];
    bench.row(IPV4, "clone(set(eth(dst=02:aa:00:00:00:09)),2),2", &[frame], &wanted)
}

fn sample(bench: &Bench<'_>) -> Result<()> {
    let frame = udp(20).build();
    let one = std::slice::from_ref(&frame);
    bench.row(IPV4, "sample(sample=100.0%,actions(2)),2", one, &[frame.clone(), frame.clone()])?;
    bench.row(IPV4, "sample(sample=0.0%,actions(2)),2", one, one)?;
    // Half of 400: between 120 and 280 but once in more than 10^14 times.
    bench.add(IPV4, "sample(sample=50.0%,actions(2))")?;
    let before = drops(bench, "action")?;
    for _ in 0..20 {
        bench.send(&vec![frame.clone(); 20])?;
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    let missed = usize::try_from(drops(bench, "action")? - before).unwrap_or(0);
    check!((120..=280).contains(&missed), "{missed} of 400");
    bench.arrived(1, 400 - missed)?;
    bench.clear()
}

fn check_pkt_len(bench: &Bench<'_>) -> Result<()> {
    let (short, long) = (udp(58).build(), udp(59).build());
    let tagged = eth().vlan(5).ipv4(A4, B4).udp(1000, 2000).payload_len(59).build();
    let list = "check_pkt_len(size=100,gt(push_vlan(vid=5,pcp=0),2),le(2))";
    bench.row(IPV4, list, &[short.clone(), long], &[short, tagged])
}

fn meter(bench: &Bench<'_>) -> Result<()> {
    let frame = udp(20).build();
    let spec = "meter=7,pktps,band=type=drop,rate=1,burst_size=3";
    bench.daemon.appctl(&["xvs/meter-add", spec])?;
    let before = drops(bench, "meter")?;
    bench.add(IPV4, "meter(7),2")?;
    bench.send(&vec![frame.clone(); 10])?;
    check!(bench.arrived(1, 3)? == vec![frame; 3], "the burst");
    check!(drops(bench, "meter")? == before + 7, "the rest is counted");
    let list = bench.daemon.appctl(&["xvs/meter-list"])?;
    check!(
        list.contains("packet_in_count:10 ") && list.contains("dropped packet_count:7 "),
        "{list}"
    );
    let refused = bench.daemon.appctl_refused(&["xvs/meter-del", "7"])?;
    check!(refused.contains("meter 7 is in use by 1 flows and 0 rules"), "{refused}");
    bench.clear()?;
    bench.daemon.ctl(&["meter", "del", "7"])?;
    let list = bench.daemon.ctl(&["meter", "list"])?;
    check!(list.pointer("/meters") == Some(&Value::Array(Vec::new())), "{list}");
    Ok(())
}

fn userspace(bench: &Bench<'_>) -> Result<()> {
    let frame = udp(20).build();
    let list = "userspace(pid=3,controller(reason=1,dont_send=0,continuation=0,recirc_id=0,\
                rule_cookie=0x1f,controller_id=2,max_len=40)),2";
    bench.row(IPV4, list, std::slice::from_ref(&frame), std::slice::from_ref(&frame))?;
    let read = bench.daemon.ctl(&["upcalls"])?;
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let get = |path: &str| read.pointer(&format!("/upcalls/0/{path}")).cloned().unwrap_or_default();
    check!(get("data") == hex(frame.get(..40).unwrap_or_default()).as_str(), "{read}");
    check!(get("len") == frame.len() && get("in_port") == 1 && get("pid") == 3, "{read}");
    check!(get("controller/rule_cookie") == 31 && get("controller/controller_id") == 2, "{read}");
    // More than the queue holds: the rest is counted, and nothing else suffers.
    let frames = vec![frame; 80];
    bench.row(IPV4, "userspace(pid=0),2", &frames, &frames)?;
    let text = bench.daemon.appctl(&["xvs/upcall-read"])?;
    let n = text.lines().count();
    check!((1..=64).contains(&n), "{n} packets: {text}");
    check!(text.contains(&hex(&DST.0)), "{text}");
    let stats = bench.daemon.ctl(&["pmd", "stats"])?;
    let lost = usize::try_from(crate::number(&stats, "/0/lost_upcalls")).unwrap_or(0);
    check!(lost + n == 80, "{lost} lost and {n} read of 80");
    check!(bench.daemon.appctl(&["xvs/upcall-read"])?.is_empty(), "they are taken out");
    Ok(())
}

/// The same from rules of a bridge.
pub(crate) fn rules_measure_cut_and_queue() -> Result<()> {
    on(Rig::pair, |rig| {
        let bench = Bench::new(rig)?;
        let frame = udp(100).build();
        let rule = "cookie=9,priority=40000,ip,nw_src=10.9.9.1,\
                    actions=meter:5,output(port=2,max_len=64),CONTROLLER:30";
        let refused = bench.daemon.ctl_refused(&["rule", "add", "br0", rule])?;
        check!(refused.contains("meter 5 does not exist"), "{refused}");
        let meter = "meter=5,pktps,band=type=drop,rate=1,burst_size=2";
        bench.daemon.ctl(&["meter", "add", meter])?;
        bench.daemon.ctl(&["rule", "add", "br0", rule, "actions=NORMAL"])?;
        bench.clear()?;
        bench.send(&vec![frame.clone(); 5])?;
        let cut = frame.get(..64).unwrap_or_default().to_vec();
        let came = bench.arrived(1, 2)?;
        check!(came == [cut.clone(), cut], "not two of five, cut: {came:02x?}");
        check!(drops(&bench, "meter")? == 3, "the rest is counted");
        let read = bench.daemon.ctl(&["upcalls"])?;
        let upcalls = read.pointer("/upcalls").and_then(Value::as_array).map_or(0, Vec::len);
        check!(
            upcalls == 2 && read.pointer("/upcalls/1/controller/rule_cookie") == Some(&9.into()),
            "{read}"
        );
        let refused = bench.daemon.ctl_refused(&["meter", "del", "5"])?;
        check!(refused.contains("1 rules"), "{refused}");
        bench.daemon.ctl(&["rule", "del", "br0"])?;
        bench.clear()?;
        bench.daemon.ctl(&["meter", "del", "5"])?;
        bench.finish()
    })
}

/// A match, actions that do not fit it, and the words by which they are refused.
const REFUSED: &[(&str, &str, &str)] = &[
    (IPV4, "set(tcp(dst=80)),2", "tcp"),
    (IPV4, "set(ipv6(hlimit=1)),2", "ipv6"),
    (IPV4, "set(vlan(vid=1)),2", "setting vlan_tci needs"),
    (IPV4, "set(ipv4(proto=6)),2", "proto: cannot be rewritten"),
    (IPV4, "set(in_port(2)),2", "in_port: cannot be rewritten"),
    (IPV4, "pop_vlan,2", "pop_vlan needs"),
    (IPV4, "clone(push_vlan(vid=1,pcp=0),2),pop_vlan,2", "pop_vlan needs"),
    (IPV4, "push_vlan(tpid=0x9100,vid=1,pcp=0),2", "0x9100"),
    (IPV4, "trunc(13),2", "trunc(13)"),
    (IPV4, "2,trunc(64)", "trunc(64)"),
    (IPV4, "recirc(0)", "recirc(0)"),
    (IPV4, "recirc(1),2", "output comes after recirc()"),
    (IPV4, "meter(9),2", "meter(9) does not exist"),
    (IPV4, "meter(0),2", "meter(0) does not exist"),
    (IPV4, "sample(sample=101%,actions(2))", "101%"),
    (IPV4, "check_pkt_len(size=65536,gt(2),le(2))", "65536"),
    (IPV4, "hash(l7(0)),recirc(1)", "l7"),
    (IPV4, "userspace(pid=1,slow_path(cfm))", "slow_path"),
    (IPV4, "drop,2", "drop"),
    (IPV4, "nobody", "nobody: no such port"),
    (IPV4, "dec_ttl,2", "dec_ttl: not supported"),
    (
        IPV4,
        "clone(clone(clone(clone(clone(clone(clone(clone(clone(2)))))))))",
        "at most 8 lists within each other",
    ),
];

pub(crate) fn what_cannot_work_is_refused() -> Result<()> {
    on(Rig::pair, |rig| {
        let bench = Bench::new(rig)?;
        for (flow, actions, words) in REFUSED {
            let refused = bench.daemon.appctl_refused(&["dpctl/add-flow", flow, actions])?;
            check!(refused.contains(words), "{actions}: {refused}");
            let dumped = bench.daemon.appctl(&["dpctl/dump-flows"])?;
            check!(!dumped.contains(&format!("actions:{actions}\n")), "{dumped}");
        }
        for (spec, words) in [
            ("meter=0,pktps,band=type=drop,rate=5", "1 to 1024"),
            ("meter=1,pktps,band=type=drop,rate=0", "1 to 200000000"),
            ("meter=1,pktps,band=type=dscp_remark,rate=5", "dscp_remark"),
            ("meter=1,pktps,band=type=drop,rate=5,burst_size=0", "burst_size"),
        ] {
            let refused = bench.daemon.appctl_refused(&["xvs/meter-add", spec])?;
            check!(refused.contains(words), "{spec}: {refused}");
        }
        bench.finish()
    })
}
