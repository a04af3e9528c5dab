//! Ports and daemons that come and go, under traffic.

use std::fs;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use xvs_tests::{
    Result, check,
    daemon::{Daemon, Setup},
    ns,
    ping::Ping,
    rig::Rig,
    udp::{Flow, Receiver},
    wait_until,
};

use crate::runner::on;

/// Where the receivers listen.
const SINK: &str = "10.1.1.2:7000";

/// File descriptors of a process.
fn descriptors(pid: u32) -> usize {
    fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count)
}

/// Case 16 on plain veth.
pub(crate) fn a_port_comes_and_goes_a_hundred_times() -> Result<()> {
    on(Rig::pair, |rig| {
        let mut daemon = Daemon::start(rig, &Setup::new(rig))?;
        rig.wait_forwarding(Duration::from_secs(5))?;
        let receiver = Receiver::start(&rig.c2, 7000)?;
        let rate_pps = 2000;
        let flow = Flow { to: SINK.to_owned(), size: 64, rate_pps, count: rate_pps * 60 };
        let _sender = flow.start(&rig.c1)?;
        let mut slow = Vec::new();
        let mut before = 0;
        for round in 0..100 {
            daemon.ctl(&["port", "del", "v1"])?;
            daemon.ctl(&["port", "add", "v1", "bridge=br0"])?;
            let added = Instant::now();
            let start = received(&daemon)?;
            wait_until("forwarding again", Duration::from_secs(3), || {
                Ok((received(&daemon)? > start).then_some(()))
            })?;
            slow.extend(Some(added.elapsed().as_millis()).filter(|ms| *ms > 100));
            if round == 0 {
                before = descriptors(daemon.proc().pid());
            }
        }
        let after = descriptors(daemon.proc().pid());
        check!(slow.is_empty(), "not forwarding again in under 100 ms but in {slow:?} ms");
        check!(
            after <= before + 2,
            "{before} descriptors after the first round, {after} after all"
        );
        drop(receiver);
        daemon.stop()
    })
}

/// Packets that the port v1 received.
fn received(daemon: &Daemon) -> Result<u64> {
    Ok(crate::number(&daemon.port("v1")?, "/rx/packets"))
}

/// Case 16 on the slow link: the port drains, commands do not wait for it, and it binds by itself.
pub(crate) fn a_port_of_a_slow_link_drains_and_binds_again() -> Result<()> {
    on(Rig::slow_link, |rig| {
        // Of a faster link the kernel holds a few milliseconds only.
        rig.dut.run("tc qdisc replace dev v2 root tbf rate 1mbit burst 5k limit 4m")?;
        let mut daemon = Daemon::start(rig, &Setup::new(rig))?;
        rig.wait_forwarding(Duration::from_secs(15))?;
        let sender = Flow::bulk(SINK, 20, 4).start(&rig.c1)?;
        std::thread::sleep(Duration::from_secs(1));
        let mut draining = 0;
        for _ in 0..3 {
            for words in [&["port", "del", "m2"][..], &["port", "add", "m2", "xdp-mode=generic"]] {
                let start = Instant::now();
                daemon.ctl(words)?;
                check!(start.elapsed() < Duration::from_secs(1), "{words:?} blocked");
            }
            draining += u32::from(daemon.port("m2")?.pointer("/state") == Some(&"draining".into()));
        }
        check!(draining > 0, "the port was never draining: {}", daemon.port("m2")?);
        ns::join(sender)?;
        daemon.wait_bound(2, Duration::from_secs(15))?;
        rig.wait_forwarding(Duration::from_secs(15))?;
        daemon.stop()
    })
}

/// Case 8: links go down under full load and come up again.
pub(crate) fn links_go_down_under_load_and_come_back() -> Result<()> {
    on(Rig::pair, |rig| {
        let daemon = Daemon::start(rig, &Setup::new(rig))?;
        rig.wait_forwarding(Duration::from_secs(5))?;
        let sender = Flow::bulk(SINK, 300, 6).start(&rig.c1)?;
        for (host, link) in [(&rig.dut, "v2"), (&rig.c2, "e0"), (&rig.dut, "v1")] {
            host.ip(&format!("link set {link} down"))?;
            std::thread::sleep(Duration::from_millis(300));
            let start = Instant::now();
            daemon.ctl(&["status"])?;
            check!(start.elapsed() < Duration::from_secs(1), "a command hung with {link} down");
            host.ip(&format!("link set {link} up"))?;
            // IPv6 comes and goes with the link, IPv4 addresses stay.
            rig.wait_forwarding(Duration::from_secs(2))?;
        }
        ns::join(sender)?;
        daemon.stop()
    })
}

/// Case 17: nothing is left of a daemon that was killed.
pub(crate) fn killed_under_load_it_leaves_nothing_behind() -> Result<()> {
    on(Rig::pair, |rig| {
        rig.dut.ip("addr add 10.1.1.254/24 dev v1")?;
        let mut daemon = Daemon::start(rig, &Setup::new(rig))?;
        rig.wait_forwarding(Duration::from_secs(5))?;
        let attached = rig.dut.ip("link show dev v1")?;
        check!(attached.contains("prog/xdp"), "no XDP program while it runs: {attached}");
        let sender = Flow::bulk(SINK, 300, 2).start(&rig.c1)?;
        std::thread::sleep(Duration::from_millis(500));
        daemon.proc().signal(Signal::SIGKILL)?;
        daemon.proc().wait(Duration::from_secs(2))?;
        for port in ["v1", "v2"] {
            wait_until("end of the XDP program", Duration::from_secs(2), || {
                let link = rig.dut.ip(&format!("link show dev {port}"))?;
                Ok((!link.contains("prog/xdp")).then_some(()))
            })?;
        }
        let ping = Ping::new(&rig.c1, "10.1.1.254").count(5).run(&rig.scratch)?;
        check!(ping.lost() == 0, "the namespace's own address does not answer");
        ns::join(sender)?;
        let daemon = Daemon::start(rig, &Setup::new(rig))?;
        rig.wait_forwarding(Duration::from_secs(2))?;
        daemon.stop()
    })
}

/// Case 17 on the slow link: the next start binds as soon as the kernel lets go.
pub(crate) fn killed_on_a_slow_link_the_next_start_binds() -> Result<()> {
    on(Rig::slow_link, |rig| {
        let mut daemon = Daemon::start(rig, &Setup::new(rig))?;
        rig.wait_forwarding(Duration::from_secs(5))?;
        let sender = Flow::bulk(SINK, 400, 2).start(&rig.c1)?;
        std::thread::sleep(Duration::from_secs(1));
        daemon.proc().signal(Signal::SIGKILL)?;
        daemon.proc().wait(Duration::from_secs(2))?;
        let daemon = Daemon::start(rig, &Setup::new(rig))?;
        ns::join(sender)?;
        rig.wait_forwarding(Duration::from_secs(5))?;
        daemon.stop()
    })
}

/// Case 18: a port is a name; its interface may go and come back.
pub(crate) fn an_interface_made_again_is_bound_again() -> Result<()> {
    on(Rig::pair, |rig| {
        let mut daemon = Daemon::start(rig, &Setup::new(rig))?;
        rig.wait_forwarding(Duration::from_secs(5))?;
        rig.dut.ip("link del v1")?;
        wait_until("the port waiting", Duration::from_secs(3), || {
            Ok((daemon.port("v1")?.pointer("/state") != Some(&"bound".into())).then_some(()))
        })?;
        rig.wire(1, "")?;
        daemon.wait_bound(2, Duration::from_secs(10))?;
        rig.wait_forwarding(Duration::from_secs(3))?;
        daemon.stop()
    })
}

/// The send buffer follows the MTU, so that a full transmit ring fits again.
pub(crate) fn a_raised_mtu_is_followed() -> Result<()> {
    on(Rig::pair, |rig| {
        let daemon = Daemon::start(rig, &Setup::new(rig))?;
        rig.wait_forwarding(Duration::from_secs(5))?;
        let buffer = |port| Ok::<_, xvs_tests::Error>(crate::number(&port, "/sndbuf/in_force"));
        let before = buffer(daemon.port("v1")?)?;
        rig.dut.ip("link set v1 mtu 3000")?;
        wait_until("the port bound with its MTU", Duration::from_secs(3), || {
            Ok((crate::number(&daemon.port("v1")?, "/mtu") == 3000).then_some(()))
        })?;
        let after = buffer(daemon.port("v1")?)?;
        check!(after > before, "a send buffer of {before} before and {after} after");
        rig.wait_forwarding(Duration::from_secs(3))?;
        daemon.stop()
    })
}

/// Case 25: sockets leave the map before they close, and the end comes within a second.
pub(crate) fn it_exits_within_a_second_under_load() -> Result<()> {
    on(Rig::pair, |rig| {
        for signal in [Signal::SIGTERM, Signal::SIGINT] {
            let mut daemon = Daemon::start(rig, &Setup::new(rig))?;
            rig.wait_forwarding(Duration::from_secs(5))?;
            let sender = Flow::bulk(SINK, 300, 2).start(&rig.c1)?;
            std::thread::sleep(Duration::from_millis(500));
            let start = Instant::now();
            daemon.proc().signal(signal)?;
            daemon.proc().finish(Duration::from_secs(5))?;
            let took = start.elapsed();
            check!(took < Duration::from_secs(1), "{signal}: exit took {took:?}");
            check!(!daemon.socket().exists(), "the control socket is left behind");
            ns::join(sender)?;
        }
        Ok(())
    })
}
