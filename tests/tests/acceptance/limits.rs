//! More flows, addresses, rule changes, loops and moves than a network should have: what is bounded stays
//! bounded, and what was fine goes on.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use xvs_tests::{
    Result, check,
    daemon::{Daemon, Setup},
    frame, ns,
    ns::Netns,
    ping::Ping,
    raw::RawSocket,
    rig::{C1_MAC, C2, C2_MAC, PortSpec, Rig},
    wait_until,
};

use crate::runner::on;

/// Addresses of the hosts.
const A: Ipv4Addr = Ipv4Addr::new(10, 1, 1, 1);
const B: Ipv4Addr = Ipv4Addr::new(10, 1, 1, 2);

fn udp(from_mac: [u8; 6], to_mac: [u8; 6], ports: (u16, u16)) -> Vec<u8> {
    let packet = frame::ipv4(A, B, 17, &frame::udp((A, ports.0), (B, ports.1), b"many"));
    frame::ethernet(to_mac, from_mac, 0x0800, &packet)
}

/// What `upcall/show` says of flows: how many there are, and how many there may be.
fn flows(daemon: &Daemon) -> Result<(u64, u64)> {
    let shown = daemon.ctl(&["call", "upcall/show"])?;
    Ok((crate::number(&shown, "/current"), crate::number(&shown, "/limit")))
}

/// Case 27: the table takes as many flows as it may have and not one more, and forwards the rest.
pub(crate) fn two_hundred_thousand_flows_and_one_more() -> Result<()> {
    on(Rig::pair, |rig| {
        let daemon = Daemon::start(rig, &Setup::new(rig))?;
        rig.wait_forwarding(Duration::from_secs(5))?;
        // Both ports are looked at, so each pair of them is a flow of its own.
        daemon.ctl(&[
            "rule",
            "add",
            "br0",
            "priority=9,udp,tp_src=65535,tp_dst=65535,actions=drop",
            "priority=1,actions=NORMAL",
        ])?;
        let limit = 200_000;
        check!(flows(&daemon)?.1 == limit, "limit {:?}", flows(&daemon)?);
        let ping = Ping::new(&rig.c1, C2).count(100).interval_s(0.05).start(&rig.scratch)?;
        let socket = rig.c1.enter(|| RawSocket::open("e0"))?;
        let start = Instant::now();
        let mut n = 0_u32;
        // Until no more are taken; those that the ring of a busy machine could not hold come again.
        while flows(&daemon)?.0 < limit && start.elapsed() < Duration::from_secs(9) {
            for _ in 0..5_000 {
                let ports = ((n / 300 % 1000) as u16, (n % 300) as u16);
                socket.send(&udp(C1_MAC, C2_MAC, ports))?;
                n += 1;
                if n.is_multiple_of(250) {
                    std::thread::sleep(Duration::from_millis(2));
                }
            }
        }
        let (current, now_limit) = flows(&daemon)?;
        check!(current <= limit && now_limit <= limit, "{current} flows, limit {now_limit}");
        check!(
            current == limit,
            "only {current} flows in {:?}, limit {now_limit}",
            start.elapsed()
        );
        let receiver = rig.c2.enter(|| RawSocket::open("e0"))?;
        for port in 60_000..60_020 {
            let sent = udp(C1_MAC, C2_MAC, (port, 60_000));
            socket.send(&sent)?;
            let arrived = receiver.receive(Duration::from_secs(2), |frame| frame == sent)?;
            check!(arrived.is_some(), "a packet beyond the limit was not forwarded");
        }
        check!(flows(&daemon)?.0 <= limit, "{:?} flows", flows(&daemon)?);
        let pings = ping.finish(Duration::from_secs(10))?;
        check!(pings.lost() <= 1, "{} pings lost beside the flood", pings.lost());
        let text = daemon.appctl(&["upcall/show"])?;
        check!(text.contains("(limit 200000)"), "{text}");
        daemon.appctl(&["revalidator/purge"])?;
        check!(flows(&daemon)?.0 < 100, "{:?} flows after a purge", flows(&daemon)?);
        rig.wait_forwarding(Duration::from_secs(2))?;
        daemon.stop()
    })
}

/// Case 27: invented addresses displace each other, not the hosts elsewhere.
pub(crate) fn a_million_source_addresses() -> Result<()> {
    on(Rig::pair, |rig| {
        let daemon = Daemon::start(rig, &Setup::new(rig))?;
        rig.wait_forwarding(Duration::from_secs(5))?;
        let ping = Ping::new(&rig.c2, "10.1.1.1").interval_s(0.05).start(&rig.scratch)?;
        let socket = rig.c1.enter(|| RawSocket::open("e0"))?;
        for n in 0..1_000_000_u32 {
            let [a, b, c, d] = n.to_be_bytes();
            socket.send(&udp([0x06, 1, a, b, c, d], C2_MAC, (1, 9)))?;
            if n.is_multiple_of(250) {
                std::thread::sleep(Duration::from_millis(2));
            }
        }
        let stats = daemon.ctl(&["call", "fdb/stats-show"])?;
        let stat = |name: &str| crate::number(&stats, &format!("/bridges/0/{name}"));
        check!(stat("entries") <= stat("max_entries"), "{stats}");
        check!(stat("evicted") > 100_000, "not many came through: {stats}");
        check!(flows(&daemon)?.0 <= 200_000, "{:?}", flows(&daemon)?);
        let pings = ping.stop()?;
        check!(pings.lost() <= 2, "{} pings of a known host lost", pings.lost());
        let table = daemon.ctl_text(&["fdb", "show"])?;
        check!(table.contains("02:00:00:00:00:02"), "the known host was forgotten: {table:.500}");
        rig.wait_forwarding(Duration::from_secs(2))?;
        daemon.stop()
    })
}

/// Case 28: two rules in two tables, changed together: a packet has the marks of both old or both new.
pub(crate) fn rules_are_replaced_under_traffic() -> Result<()> {
    const OLD: (u8, u8) = (0x04, 10);
    const NEW: (u8, u8) = (0x08, 20);
    let rules = |(tos, ttl): (u8, u8)| {
        [
            format!("table=0,priority=5,udp,tp_dst=9,actions=mod_nw_tos:{tos},resubmit(,1)"),
            format!("table=1,priority=5,udp,tp_dst=9,actions=mod_nw_ttl:{ttl},output:2"),
        ]
    };
    on(Rig::pair, |rig| {
        let daemon = Daemon::start(rig, &Setup::new(rig))?;
        let set = |marks| {
            let [first, second] = rules(marks);
            daemon.ctl(&["rule", "add", "br0", &first, &second]).map(drop)
        };
        set(OLD)?;
        let stop = Arc::new(AtomicBool::new(false));
        let sender = rig.c1.enter(|| RawSocket::open("e0"))?;
        let stopped = Arc::clone(&stop);
        let sending = std::thread::spawn(move || {
            let mut n = 0_u16;
            while !stopped.load(Relaxed) {
                // Ten flows, some of which no packet has been seen of for a while.
                sender.send(&udp(C1_MAC, C2_MAC, (n % 10, 9)))?;
                n = n.wrapping_add(1);
                std::thread::sleep(Duration::from_micros(100));
            }
            Ok(())
        });
        let receiver = rig.c2.enter(|| RawSocket::open("e0"))?;
        let marks = |wanted: (u8, u8), limit: Duration| -> Result<u32> {
            let (start, mut n, mut buffer) = (Instant::now(), 0, vec![0; 2048]);
            while start.elapsed() < limit {
                let Some(bytes) = receiver.next(&mut buffer)? else { continue };
                if let [tos, ttl] = [15, 22].map(|at| bytes.get(at).copied().unwrap_or(0))
                    && bytes.get(23) == Some(&17)
                    && bytes.get(36..38) == Some(&[0, 9])
                {
                    check!([OLD, NEW].contains(&(tos, ttl)), "marks {tos:#x} and {ttl} mixed");
                    check!(frame::sum(&bytes[14..34], 0) == 0xffff, "a wrong header checksum");
                    n += u32::from((tos, ttl) == wanted);
                }
            }
            Ok(n)
        };
        for turn in 0..20 {
            let (now, before) = if turn % 2 == 0 { (NEW, OLD) } else { (OLD, NEW) };
            set(now)?;
            check!(marks(now, Duration::from_millis(700))? > 100, "the new rules are not used");
            // The rest of the second is for what still lies in buffers.
            marks(now, Duration::from_millis(100))?;
            let late = marks(before, Duration::from_millis(200))?;
            check!(late == 0, "{late} packets by the old rules after 0.8 s");
        }
        stop.store(true, Relaxed);
        ns::join(sending)?;
        daemon.balanced()?;
        daemon.stop()
    })
}

/// Case 29: rules that lead in a circle, and rules that fan out: bounded, counted, told of once.
pub(crate) fn rules_in_a_circle_are_bounded_and_told_of_once() -> Result<()> {
    on(Rig::pair, |rig| {
        let mut daemon = Daemon::start(rig, &Setup::new(rig))?;
        rig.wait_forwarding(Duration::from_secs(5))?;
        let counter = |name: &str| -> Result<u64> {
            let all = daemon.ctl(&["call", "xvs/counters"])?;
            let found = all.pointer("/counters").and_then(serde_json::Value::as_array);
            let row =
                found.into_iter().flatten().find(|row| row.pointer("/name") == Some(&name.into()));
            Ok(row.map_or(0, |row| crate::number(row, "/value")))
        };
        let sender = rig.c1.enter(|| RawSocket::open("e0"))?;
        let circles = [
            ("bridge_too_deep", "udp,actions=resubmit(,0)"),
            ("bridge_too_deep", "udp,actions=output:2,resubmit(,7)"),
            ("bridge_too_many_lookups", "udp,actions=resubmit(,10)"),
        ];
        daemon.ctl(&[
            "rule",
            "add",
            "br0",
            "priority=0,actions=NORMAL",
            "table=7,actions=resubmit(,0)",
        ])?;
        // Each table asks the next one twice.
        let fan =
            |table: u8| format!("table={table},actions=resubmit(,{0}),resubmit(,{0})", table + 1);
        let fans: Vec<_> = (10..40).map(fan).collect();
        daemon.ctl(
            &[&["rule", "add", "br0"][..], &fans.iter().map(String::as_str).collect::<Vec<_>>()]
                .concat(),
        )?;
        for (name, rule) in circles {
            daemon.ctl(&["rule", "add", "br0", rule])?;
            let before = counter(name)?;
            wait_until("a decision that met its bound", Duration::from_secs(3), || {
                for port in 0..20 {
                    sender.send(&udp(C1_MAC, C2_MAC, (port, 9)))?;
                }
                Ok((counter(name)? > before).then_some(()))
            })?;
            let ping = Ping::new(&rig.c1, C2).count(5).interval_s(0.02).run(&rig.scratch)?;
            check!(
                ping.lost() == 0,
                "{rule}: {} pings lost, which no such rule matches",
                ping.lost()
            );
        }
        wait_until("a warning", Duration::from_secs(3), || {
            Ok(daemon.proc().stderr().contains("most likely in a circle").then_some(()))
        })?;
        std::thread::sleep(Duration::from_secs(2));
        let told = daemon.proc().stderr().matches("most likely in a circle").count();
        check!(told == 1, "told {told} times");
        daemon.ctl(&["rule", "del", "br0"])?;
        rig.wait_forwarding(Duration::from_secs(2))?;
        daemon.balanced()?;
        daemon.stop()
    })
}

/// Case 30: a host moves between two ports while a third host sends to it.
pub(crate) fn a_moving_host_is_found_with_its_first_packet() -> Result<()> {
    const ROAMER: [u8; 6] = [0x02, 0, 0, 0, 0, 0x77];
    on(Rig::pair, |rig| {
        let third = Netns::new(&rig.scratch, "c3")?;
        rig.dut.ip(&format!("link add v3 type veth peer name e0 netns {}", third.name()))?;
        third.ip("link set e0 up")?;
        rig.dut.ip("link set v3 up")?;
        let mut setup = Setup::new(rig);
        setup.ports.push(PortSpec::new("v3", ""));
        let daemon = Daemon::start(rig, &setup)?;
        rig.wait_forwarding(Duration::from_secs(5))?;
        let sender = rig.c1.enter(|| RawSocket::open("e0"))?;
        let places =
            [rig.c2.enter(|| RawSocket::open("e0"))?, third.enter(|| RawSocket::open("e0"))?];
        let to_roamer = |n: u16| udp(C1_MAC, ROAMER, (n, 9));
        let hello = udp(ROAMER, [0xff; 6], (7, 7));
        for n in 0..40_u16 {
            // Back and forth, and each time some packets from both sides before it moves on.
            let (here, elsewhere) = if n % 2 == 0 { (0, 1) } else { (1, 0) };
            places[here].send(&hello)?;
            let seen = sender.receive(Duration::from_secs(2), |bytes| bytes == hello)?;
            check!(seen.is_some(), "move {n}: the host's own packet was lost");
            let moved = Instant::now();
            let sent = to_roamer(n);
            wait_until(
                &format!("move {n}: a packet at the new place"),
                Duration::from_secs(1),
                || {
                    sender.send(&sent)?;
                    let found =
                        places[here].receive(Duration::from_millis(50), |bytes| bytes == sent)?;
                    Ok(found.map(drop))
                },
            )?;
            check!(moved.elapsed() < Duration::from_millis(500), "move {n}: {:?}", moved.elapsed());
            // From now on, nowhere else.
            while places[elsewhere]
                .receive(Duration::from_millis(20), |bytes| bytes == sent)?
                .is_some()
            {}
            for _ in 0..5 {
                sender.send(&sent)?;
            }
            let stray =
                places[elsewhere].receive(Duration::from_millis(60), |bytes| bytes == sent)?;
            check!(stray.is_none(), "move {n}: a packet at the old place");
            for _ in 0..3 {
                places[here].send(&udp(ROAMER, C1_MAC, (7, 8)))?;
            }
            // Ports are polled in turns: what comes at the same time from two has no order. And all flows
            // are checked for the sake of moving hosts ten times a second, once 16 moves are used up.
            std::thread::sleep(Duration::from_millis(80));
        }
        let stats = daemon.ctl(&["call", "fdb/stats-show"])?;
        check!(crate::number(&stats, "/bridges/0/moved") >= 39, "{stats}");
        daemon.balanced()?;
        daemon.stop()
    })
}
