//! What hosts with default offloads get out of the switch, and that no checksum is changed on the way.

use std::net::Ipv4Addr;
use std::process::Command;
use std::time::Duration;

use xvs_tests::{
    Result, check,
    daemon::{Daemon, Setup},
    frame,
    iperf::Iperf,
    ns::Netns,
    ping::Ping,
    proc,
    raw::RawSocket,
    rig::{C1_MAC, C2, C2_MAC, C2_V6, Rig},
    wait_until,
};

use crate::runner::on;

/// Addresses of the hosts.
const A: Ipv4Addr = Ipv4Addr::new(10, 1, 1, 1);
const B: Ipv4Addr = Ipv4Addr::new(10, 1, 1, 2);

/// Packets with a wrong checksum that a host's stack has seen.
fn checksum_errors(ns: &Netns) -> Result<u64> {
    ["UdpInCsumErrors", "TcpInCsumErrors", "Udp6InCsumErrors", "IcmpInCsumErrors"]
        .iter()
        .map(|counter| Rig::nstat(ns, counter))
        .sum()
}

/// Neither host may have seen a wrong checksum.
pub(crate) fn check_checksums(rig: &Rig) -> Result<()> {
    for host in [&rig.c1, &rig.c2] {
        let errors = checksum_errors(host)?;
        check!(errors == 0, "{}: {errors} packets with a wrong checksum", host.name());
    }
    Ok(())
}

/// TCP both ways and UDP to an address of the second host.
fn tcp_and_udp(rig: &Rig, to: &str) -> Result<()> {
    for arguments in [&[][..], &["-R"]] {
        let tcp = Iperf::run(rig, to, 2, arguments)?;
        check!(tcp.mbit_s > 50.0, "TCP {arguments:?} to {to}: {} Mbit/s", tcp.mbit_s);
    }
    let udp = Iperf::run(rig, to, 2, &["-u", "-b", "50M"])?;
    check!(udp.loss_percent < 1.0, "UDP to {to}: {} % lost", udp.loss_percent);
    check_checksums(rig)
}

pub(crate) fn ping_tcp_udp_over_ipv4() -> Result<()> {
    on(Rig::pair, |rig| {
        let daemon = Daemon::start(rig, &Setup::new(rig))?;
        let ping = Ping::new(&rig.c1, C2).count(20).interval_s(0.02).run(&rig.scratch)?;
        check!(ping.lost() == 0, "{} pings lost", ping.lost());
        tcp_and_udp(rig, C2)?;
        daemon.stop()
    })
}

pub(crate) fn ping_tcp_udp_over_ipv6() -> Result<()> {
    on(Rig::pair, |rig| {
        let daemon = Daemon::start(rig, &Setup::new(rig))?;
        let ping = Ping::new(&rig.c1, C2_V6).count(20).interval_s(0.02).run(&rig.scratch)?;
        check!(ping.lost() == 0, "{} pings lost", ping.lost());
        tcp_and_udp(rig, C2_V6)?;
        daemon.stop()
    })
}

/// A VXLAN tunnel `vx0` between the hosts, 10.9.9.1 and 10.9.9.2, with more words of `ip`.
pub(crate) fn make_vxlan(rig: &Rig, words: &str) -> Result<()> {
    for (host, n, other) in [(&rig.c1, 1, 2), (&rig.c2, 2, 1)] {
        host.ip(&format!(
            "link add vx0 type vxlan id 42 local 10.1.1.{n} remote 10.1.1.{other} dstport 4789 dev e0 {words}"
        ))?;
        host.ip(&format!("addr add 10.9.9.{n}/24 dev vx0"))?;
        host.ip("link set vx0 up")?;
    }
    Ok(())
}

/// The inner checksum is the partial one here: the outer UDP header has none.
pub(crate) fn tcp_inside_vxlan() -> Result<()> {
    on(Rig::pair, |rig| {
        make_vxlan(rig, "noudpcsum")?;
        let daemon = Daemon::start(rig, &Setup::new(rig))?;
        tcp_and_udp(rig, "10.9.9.2")?;
        daemon.stop()
    })
}

/// The outer UDP header has a checksum that counts on the inner one, which is still partial.
pub(crate) fn tcp_inside_vxlan_with_an_outer_checksum() -> Result<()> {
    on(Rig::pair, |rig| {
        make_vxlan(rig, "udpcsum")?;
        let daemon = Daemon::start(rig, &Setup::new(rig))?;
        tcp_and_udp(rig, "10.9.9.2")?;
        daemon.stop()
    })
}

/// The same over IPv6, which does not go without an outer checksum.
pub(crate) fn tcp_inside_vxlan_over_ipv6() -> Result<()> {
    on(Rig::pair, |rig| {
        for (host, n, other) in [(&rig.c1, 1, 2), (&rig.c2, 2, 1)] {
            host.ip(&format!(
                "link add vx0 type vxlan id 42 local fd00::{n} remote fd00::{other} dstport 4789 dev e0"
            ))?;
            host.ip(&format!("addr add 10.9.9.{n}/24 dev vx0"))?;
            host.ip("link set vx0 up")?;
        }
        let daemon = Daemon::start(rig, &Setup::new(rig))?;
        tcp_and_udp(rig, "10.9.9.2")?;
        daemon.stop()
    })
}

/// A program for a sender's egress that leaves a tag of VLAN 42 to the device, as a VLAN interface does.
const TAGGER: &str = "
static int (*vlan_push)(void *skb, unsigned short proto, unsigned short tci) = (void *)18;
__attribute__((section(\"tc\"), used)) int tagger(void *skb) { vlan_push(skb, 0x0081, 42); return 0; }
char copying[] __attribute__((section(\"license\"), used)) = \"GPL\";
";

/// Case 13: a tag that lies beside the frame is seen, or the port says how to get it into the frame.
pub(crate) fn a_tag_beside_the_frame_is_seen_or_told_of() -> Result<()> {
    on(Rig::pair, |rig| {
        let source = rig.scratch.write("tagger.c", TAGGER)?;
        let object = rig.scratch.path().join("tagger.o");
        let mut clang = Command::new("clang");
        clang.args(["-O2", "-g", "-target", "bpf", "-c"]).arg(source).arg("-o").arg(&object);
        proc::run(&mut clang)?;
        rig.c1.run("tc qdisc add dev e0 clsact")?;
        let object = object.display();
        rig.c1.run(&format!("tc filter add dev e0 egress bpf da obj {object} sec tc"))?;
        let sender = rig.c1.enter(|| RawSocket::open("e0"))?;
        let udp =
            frame::ipv4(A, B, 17, &frame::udp((A, 5000), (B, 5001), b"tagged beside the frame"));
        let plain = frame::ethernet(C2_MAC, C1_MAC, 0x0800, &udp);
        for (mode, seen) in [("native", true), ("generic", false)] {
            let setup = Setup::new(rig).each_port(&format!("xdp-mode = \"{mode}\""));
            let daemon = Daemon::start(rig, &setup)?;
            check!(sender.send(&plain)?, "not sent");
            let flows = wait_until("a flow", Duration::from_secs(2), || {
                let flows = daemon.ctl_text(&["flow", "dump"])?;
                Ok(flows.contains("eth_type(0x0800)").then_some(flows))
            })?;
            check!(flows.contains("vlan(vid=42") == seen, "{mode}: {flows}");
            let port = daemon.port("v1")?;
            let told = port.pointer("/hidden_tags").and_then(serde_json::Value::as_str);
            check!(told.is_some_and(|text| text.contains("txvlan off")) != seen, "{mode}: {port}");
            daemon.stop()?;
        }
        Ok(())
    })
}

/// Frames that must arrive as they were sent: checksums right, wrong, absent, and one that is not the
/// Internet checksum at all.
fn frames_to_keep() -> Vec<(&'static str, Vec<u8>)> {
    let (from, to) = ((A, 5000), (B, 5001));
    let wrap = |protocol, segment: &[u8]| {
        frame::ethernet(C2_MAC, C1_MAC, 0x0800, &frame::ipv4(A, B, protocol, segment))
    };
    let spoilt = |mut segment: Vec<u8>, at| {
        frame::put(&mut segment, at, 0xdead);
        segment
    };
    let udp = frame::udp(from, to, b"forty-two bytes of payload, more or less");
    let tcp = frame::tcp(from, to, b"payload");
    let mut unsummed = udp.clone();
    frame::put(&mut unsummed, 6, 0);
    let ipv6 = [&[0x60, 0, 0, 0, 0, 12, 17, 64][..], &[0xfd; 32], &[1; 12]].concat();
    vec![
        ("UDP", wrap(17, &udp)),
        ("UDP with a wrong checksum", wrap(17, &spoilt(udp, 6))),
        ("UDP without checksum", wrap(17, &unsummed)),
        ("TCP", wrap(6, &tcp)),
        ("TCP with a wrong checksum", wrap(6, &spoilt(tcp, 16))),
        ("IPv6 UDP with a wrong checksum", frame::ethernet(C2_MAC, C1_MAC, 0x86dd, &ipv6)),
        ("SCTP", wrap(132, &frame::sctp(5000, 5001, b"a chunk of data!"))),
    ]
}

pub(crate) fn checksums_stay_as_they_are() -> Result<()> {
    on(Rig::pair, |rig| {
        let daemon = Daemon::start(rig, &Setup::new(rig))?;
        rig.wait_forwarding(Duration::from_secs(2))?;
        let sender = rig.c1.enter(|| RawSocket::open("e0"))?;
        let receiver = rig.c2.enter(|| RawSocket::open("e0"))?;
        for (name, sent) in frames_to_keep() {
            check!(sender.send(&sent)?, "{name}: not sent");
            let arrived = receiver.receive(Duration::from_secs(2), |frame| frame == sent)?;
            check!(arrived.is_some(), "{name}: did not arrive as it was sent: {sent:02x?}");
        }
        daemon.stop()
    })
}
