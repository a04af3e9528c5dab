//! The flow table: how few flows the rules need, and that a change of the rules reaches them.

use std::net::Ipv4Addr;
use std::time::Duration;

use xvs_tests::{
    Result, check,
    daemon::{Daemon, Setup},
    frame,
    raw::RawSocket,
    rig::{C1_MAC, C2_MAC, Rig},
    wait_until,
};

use crate::runner::on;

/// Addresses of the hosts.
const A: Ipv4Addr = Ipv4Addr::new(10, 1, 1, 1);
const B: Ipv4Addr = Ipv4Addr::new(10, 1, 1, 2);

/// Cached flows of UDP from the first host.
fn udp_flows(daemon: &Daemon) -> Result<Vec<String>> {
    let text = daemon.appctl(&["dpctl/dump-flows"])?;
    let udp = |line: &&str| line.contains("in_port(1)") && line.contains("eth_type(0x0800)");
    Ok(text.lines().filter(udp).map(str::to_owned).collect())
}

/// Sends one UDP frame for each pair of ports, without outrunning the receive ring.
fn send(socket: &RawSocket, ports: impl Iterator<Item = (u16, u16)>) -> Result<()> {
    for (n, (from, to)) in ports.enumerate() {
        let packet = frame::ipv4(A, B, 17, &frame::udp((A, from), (B, to), b"flow"));
        socket.send(&frame::ethernet(C2_MAC, C1_MAC, 0x0800, &packet))?;
        if n % 500 == 0 {
            std::thread::sleep(Duration::from_millis(2));
        }
    }
    Ok(())
}

pub(crate) fn one_flow_for_a_hundred_thousand_source_ports() -> Result<()> {
    on(Rig::pair, |rig| {
        let daemon = Daemon::start(rig, &Setup::new(rig))?;
        rig.wait_forwarding(Duration::from_secs(5))?;
        daemon.ctl(&["rule", "add", "br0", "priority=10,ip,nw_dst=10.1.1.2,actions=output:2"])?;
        let socket = rig.c1.enter(|| RawSocket::open("e0"))?;
        let mut random = crate::Random::new(1);
        let ports = (0..100_000).map(|_| (random.u16(), 9));
        send(&socket, ports)?;
        let flows = udp_flows(&daemon)?;
        check!(flows.len() == 1, "{} flows: {:?}", flows.len(), flows.get(..2));
        // A rule above it that reads the destination port splits by that, and by nothing else.
        daemon.ctl(&["rule", "add", "br0", "priority=20,udp,tp_dst=53,actions=drop"])?;
        wait_until("cached flows following the rules", Duration::from_secs(3), || {
            send(&socket, (0..1000).map(|n| (n, 9 + n % 2 * 44)))?;
            let flows = udp_flows(&daemon)?;
            let drops =
                flows.iter().any(|flow| flow.contains("udp(dst=53)") && flow.contains("drop"));
            let source = flows.iter().any(|flow| flow.contains("udp(src"));
            Ok((drops && !source && flows.len() == 2).then_some(()))
        })?;
        daemon.ctl(&["rule", "del", "br0"])?;
        rig.wait_forwarding(Duration::from_secs(2))?;
        daemon.stop()
    })
}

/// Most packets of a steady flow must find it in the table.
pub(crate) fn a_steady_flow_hits_the_table() -> Result<()> {
    on(Rig::pair, |rig| {
        let daemon = Daemon::start(rig, &Setup::new(rig))?;
        rig.wait_forwarding(Duration::from_secs(5))?;
        let socket = rig.c1.enter(|| RawSocket::open("e0"))?;
        send(&socket, (0..10_000).map(|_| (1, 9)))?;
        daemon.balanced()?;
        let stats = daemon.ctl(&["pmd", "stats"])?;
        let sum = |name: &str| -> u64 {
            stats.as_array().into_iter().flatten().map(|pmd| crate::number(pmd, name)).sum()
        };
        let hits = sum("/emc_hits") + sum("/smc_hits") + sum("/megaflow_hits");
        // What the receive ring could not hold on a busy machine never came to the table.
        check!(hits + sum("/upcalls") == sum("/rx_packets"), "{hits} hits: {stats}");
        check!(hits > 1000, "{hits} hits: {stats}");
        check!(sum("/upcalls") < 100, "{} misses: {stats}", sum("/upcalls"));
        daemon.stop()
    })
}

/// With the exact-match cache off, packets of flows in turns are found by their signatures, and shown so.
pub(crate) fn the_signature_cache_is_used_when_enabled() -> Result<()> {
    on(Rig::pair, |rig| {
        let pmd = "emc-insert-inv-prob = 0\nsmc-enable = true";
        let daemon = Daemon::start(rig, &Setup::new(rig).pmd(pmd))?;
        rig.wait_forwarding(Duration::from_secs(5))?;
        let socket = rig.c1.enter(|| RawSocket::open("e0"))?;
        send(&socket, (0..10_000).map(|n| (1 + n % 50, 9)))?;
        daemon.balanced()?;
        let stats = daemon.ctl(&["pmd", "stats"])?;
        let sum = |name: &str| -> u64 {
            stats.as_array().into_iter().flatten().map(|pmd| crate::number(pmd, name)).sum()
        };
        let smc_hits = sum("/smc_hits");
        check!(smc_hits > 1000 && smc_hits * 10 > sum("/rx_packets") * 9, "{stats}");
        let hits = smc_hits + sum("/emc_hits") + sum("/megaflow_hits");
        check!(hits + sum("/upcalls") == sum("/rx_packets"), "{hits} hits: {stats}");
        for command in ["dpif-netdev/pmd-stats-show", "dpif-netdev/pmd-perf-show"] {
            let text = daemon.appctl(&[command])?;
            let shown = text.lines().find(|line| line.to_lowercase().contains("smc hits:"));
            check!(
                shown.is_some_and(|line| line
                    .split_whitespace()
                    .any(|word| word.parse() == Ok(smc_hits))),
                "{smc_hits} hits: {text}"
            );
        }
        daemon.stop()
    })
}
