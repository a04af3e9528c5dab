//! Interfaces that change under a running switch: what they are called, where they are, who else wants them.

use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::Value;
use xvs_tests::{
    Error, Result, check,
    daemon::{Daemon, Setup},
    ns::{self, Netns},
    ping::Ping,
    proc,
    rig::{C2, Rig},
    udp::{Flow, Receiver},
    wait_until,
};

use crate::{configuration::says, number, runner::on};

/// Waits until a port is in a state; what is said of it then.
fn wait_state(daemon: &Daemon, port: &str, state: &str) -> Result<Value> {
    wait_until(&format!("port {port} {state}"), Duration::from_secs(5), || {
        let port = daemon.port(port)?;
        Ok((port.pointer("/state") == Some(&state.into())).then_some(port))
    })
}

/// The reason that is shown for a port.
fn reason(port: &Value) -> String {
    port.pointer("/reason").and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// How many want an interface to be promiscuous.
fn promiscuity(ns: &Netns, interface: &str) -> Result<u64> {
    let text = ns.ip(&format!("-d -j link show {interface}"))?;
    let report: Value = serde_json::from_str(&text).unwrap_or_default();
    let count = report.pointer("/0/promiscuity").and_then(Value::as_u64);
    count.ok_or(Error::Output { what: "ip -d -j link".to_owned(), text })
}

/// Case 18, second part: an interface goes to another namespace and comes back.
pub(crate) fn an_interface_leaves_for_another_namespace_and_returns() -> Result<()> {
    on(Rig::pair, |rig| {
        let daemon = Daemon::start(rig, &Setup::new(rig))?;
        rig.wait_forwarding(Duration::from_secs(5))?;
        let before = daemon.port("v1")?;
        rig.dut.ip(&format!("link set v1 netns {}", rig.c2.name()))?;
        let port = wait_state(&daemon, "v1", "waiting")?;
        says(&reason(&port), &["v1"])?;
        rig.c2.ip(&format!("link set v1 netns {}", rig.dut.name()))?;
        rig.dut.ip("link set v1 up")?;
        wait_state(&daemon, "v1", "bound")?;
        rig.wait_forwarding(Duration::from_secs(3))?;
        let after = daemon.port("v1")?;
        check!(
            before.pointer("/program_id") != after.pointer("/program_id"),
            "the program did not go: {after}"
        );
        daemon.stop()
    })
}

/// A port keeps its interface when that gets another name, and takes no other for it.
pub(crate) fn a_renamed_interface_is_kept() -> Result<()> {
    on(Rig::pair, |rig| {
        let daemon = Daemon::start(rig, &Setup::new(rig))?;
        rig.wait_forwarding(Duration::from_secs(5))?;
        let receiver = Receiver::start(&rig.c2, 7000)?;
        let to = format!("{C2}:7000");
        let flow = Flow { to, size: 64, rate_pps: 1000, count: 2000 }.start(&rig.c1)?;
        std::thread::sleep(Duration::from_millis(300));
        rig.dut.ip("link set v1 name x1")?;
        wait_until("word of the other name", Duration::from_secs(3), || {
            Ok(reason(&daemon.port("v1")?).contains("called x1").then_some(()))
        })?;
        rig.dut.ip("link add v1 type veth peer name w1")?;
        rig.dut.ip("link set v1 up")?;
        let sent = ns::join(flow)?;
        let received = receiver.stop()?.numbers.len();
        check!(received == sent as usize, "{received} of {sent} packets");
        check!(daemon.port("v1")?.pointer("/state") == Some(&"bound".into()), "not bound");
        // When its interface goes, the one that has its name now is taken.
        rig.dut.ip("link del x1")?;
        wait_until("the other interface bound", Duration::from_secs(3), || {
            let port = daemon.port("v1")?;
            let bound = port.pointer("/state") == Some(&"bound".into());
            Ok((bound && reason(&port).is_empty()).then_some(()))
        })?;
        check!(promiscuity(&rig.dut, "v1")? == 1, "another interface was bound");
        daemon.stop()
    })
}

/// Promiscuous mode goes with the port, however it ends.
pub(crate) fn promiscuous_mode_is_set_and_restored() -> Result<()> {
    on(Rig::pair, |rig| {
        let counts =
            || Ok::<_, Error>((promiscuity(&rig.dut, "v1")?, promiscuity(&rig.dut, "v2")?));
        let becomes = |wanted| {
            wait_until(&format!("promiscuity {wanted:?}"), Duration::from_secs(2), || {
                Ok((counts()? == wanted).then_some(()))
            })
        };
        becomes((0, 0))?;
        let daemon = Daemon::start(rig, &Setup::new(rig))?;
        becomes((1, 1))?;
        daemon.ctl(&["port", "del", "v1"])?;
        becomes((0, 1))?;
        daemon.stop()?;
        becomes((0, 0))?;
        let mut daemon = Daemon::start(rig, &Setup::new(rig))?;
        becomes((1, 1))?;
        daemon.proc().signal(Signal::SIGKILL)?;
        daemon.proc().wait(Duration::from_secs(2))?;
        becomes((0, 0))
    })
}

/// An XDP program of somebody else, attached by netlink, which outlives the process.
fn attach_foreign(rig: &Rig, interface: &str) -> Result<()> {
    let source = rig.scratch.write(
        "foreign.c",
        "__attribute__((section(\"xdp\"), used)) int foreign(void *ctx) { return 2; }\n\
         char copying[] __attribute__((section(\"license\"), used)) = \"GPL\";\n",
    )?;
    let object = rig.scratch.path().join("foreign.o");
    let mut clang = Command::new("clang");
    proc::run(
        clang.args(["-O2", "-g", "-target", "bpf", "-c"]).arg(source).arg("-o").arg(&object),
    )?;
    let object = object.display();
    rig.dut.ip(&format!("link set dev {interface} xdpgeneric obj {object} sec xdp")).map(drop)
}

/// Case 19: a foreign program is named and left alone, unless it is to be replaced.
pub(crate) fn a_foreign_program_is_named_and_left_alone() -> Result<()> {
    on(Rig::pair, |rig| {
        let mut setup = Setup::new(rig);
        setup.ports.truncate(1);
        let daemon = Daemon::start(rig, &setup)?;
        attach_foreign(rig, "v2")?;
        let shown = || rig.dut.ip("-d link show v2");
        let before = shown()?;
        let id = before.split_once("prog/xdp id ").and_then(|(_, rest)| rest.split(' ').next());
        let id = id.ok_or_else(|| Error::Check(format!("no program: {before}")))?;
        let text = daemon.ctl_refused(&["port", "add", "v2"])?;
        says(&text, &[&format!("XDP program {id}"), "\"foreign\"", "force"])?;
        check!(shown()? == before, "the foreign program was touched: {}", shown()?);
        daemon.ctl(&["port", "add", "v2", "force=true"])?;
        rig.wait_forwarding(Duration::from_secs(3))?;
        let ours = shown()?;
        check!(!ours.contains(&format!("id {id} ")), "it was not replaced: {ours}");
        // Ours is held by a link, which nobody takes off by accident.
        check!(rig.dut.ip("link set dev v2 xdp off").is_err(), "our program was taken off");
        rig.wait_forwarding(Duration::from_secs(3))?;
        daemon.ctl(&["port", "del", "v2"])?;
        check!(!shown()?.contains("prog/xdp"), "something is left: {}", shown()?);
        daemon.stop()
    })
}

/// Case 20: neither the default route nor whoever is connected is cut off by accident.
pub(crate) fn a_port_that_would_cut_somebody_off_is_refused() -> Result<()> {
    on(Rig::pair, |rig| {
        let mut setup = Setup::new(rig);
        setup.ports.truncate(1);
        let daemon = Daemon::start(rig, &setup)?;
        rig.dut.ip("addr add 10.1.1.254/24 dev v2")?;
        rig.dut.ip("route add default dev v2")?;
        let text = daemon.ctl_refused(&["port", "add", "v2"])?;
        says(&text, &["v2 carries the default route", "force"])?;
        rig.dut.ip("route del default")?;
        let listener =
            rig.dut.enter(|| TcpListener::bind("10.1.1.254:2222").map_err(Error::io("listen")))?;
        let login =
            rig.c2.enter(|| TcpStream::connect("10.1.1.254:2222").map_err(Error::io("connect")))?;
        let (far, _) = listener.accept().map_err(Error::io("accept"))?;
        let text = daemon.ctl_refused(&["port", "add", "v2"])?;
        says(&text, &["v2 has a TCP connection from 10.1.1.2:", "force"])?;
        check!(promiscuity(&rig.dut, "v2")? == 0, "it was touched");
        drop((login, far));
        wait_until("the port without a connection", Duration::from_secs(3), || {
            Ok(daemon.ctl(&["port", "add", "v2"]).ok().map(drop))
        })?;
        daemon.ctl(&["port", "del", "v2"])?;
        rig.dut.ip("route add default dev v2")?;
        daemon.ctl(&["port", "add", "v2", "force=true"])?;
        rig.wait_forwarding(Duration::from_secs(3))?;
        daemon.stop()
    })
}

/// Case 21: a port that fails is tried again, with one line of log for each new failure, and the others notice
/// nothing.
pub(crate) fn a_failing_port_is_tried_again_and_disturbs_nobody() -> Result<()> {
    on(Rig::pair, |rig| {
        let four = "numrxqueues 4 numtxqueues 4";
        rig.dut.ip(&format!("link add v3 {four} type veth peer name w3 {four}"))?;
        let queues = |n| {
            rig.dut.run(&format!("ethtool -L w3 rx {n} tx {n}"))?;
            rig.dut.run(&format!("ethtool -L v3 rx {n} tx {n}")).map(drop)
        };
        queues(4)?;
        let mut daemon = Daemon::start(rig, &Setup::new(rig))?;
        rig.wait_forwarding(Duration::from_secs(5))?;
        daemon.ctl(&["port", "add", "v3", "n-rxq=4", "rx-ring=256"])?;
        let lines = |daemon: &mut Daemon, part: &str| {
            let log = daemon.proc().stdout() + &daemon.proc().stderr();
            log.lines().filter(|line| line.contains("v3") && line.contains(part)).count()
        };
        let receiver = Receiver::start(&rig.c2, 7000)?;
        let to = format!("{C2}:7000");
        let flow = Flow { to, size: 64, rate_pps: 1000, count: 4500 }.start(&rig.c1)?;
        rig.dut.ip("link del v3")?;
        wait_state(&daemon, "v3", "waiting")?;
        std::thread::sleep(Duration::from_secs(1));
        check!(
            lines(&mut daemon, "is waiting: there is no interface") <= 1,
            "more than a line of log"
        );
        // Made again with fewer queues: somebody has to do something about it.
        rig.dut.ip("link add v3 type veth peer name w3")?;
        let port = wait_state(&daemon, "v3", "failed")?;
        says(&reason(&port), &["v3 has 1 rx and 1 tx queues, too few for 4"])?;
        std::thread::sleep(Duration::from_millis(1500));
        let told = lines(&mut daemon, "too few for 4");
        check!(told == 1, "{told} lines of log for one failure");
        rig.dut.ip("link del v3")?;
        // Another comes to that name, with as many queues as wanted, of which one is in use.
        rig.dut.ip(&format!("link add x3 {four} type veth peer name w3 {four}"))?;
        rig.dut.run("ethtool -L x3 rx 1 tx 1")?;
        rig.dut.ip("link set x3 name v3")?;
        wait_state(&daemon, "v3", "failed")?;
        let since = Instant::now();
        queues(4)?;
        wait_state(&daemon, "v3", "bound")?;
        check!(since.elapsed() < Duration::from_secs(3), "more queues were noticed late");
        // A bound queue keeps its channel.
        check!(
            rig.dut.run("ethtool -L v3 rx 2 tx 2").is_err(),
            "the kernel took a bound queue away"
        );
        let sent = ns::join(flow)?;
        let received = receiver.stop()?.numbers.len();
        check!(received == sent as usize, "{received} of {sent} packets of others");
        daemon.stop()
    })
}

/// File descriptors and resident memory (KiB) of a process.
fn holds(pid: u32) -> Result<(usize, u64)> {
    let fds = std::fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count);
    let path = format!("/proc/{pid}/status");
    let text = std::fs::read_to_string(&path).map_err(Error::io(path))?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_ascii_whitespace().next()?.parse().ok());
    Ok((fds, kib.unwrap_or(0)))
}

/// 200 reloads under traffic, each of which opens a port anew: nothing is leaked.
pub(crate) fn two_hundred_reloads_leak_nothing() -> Result<()> {
    on(Rig::pair, |rig| {
        let setup = Setup::new(rig);
        let mut daemon = Daemon::start(rig, &setup)?;
        rig.wait_forwarding(Duration::from_secs(5))?;
        let pid = daemon.proc().pid();
        let flow = Flow { to: format!("{C2}:7000"), size: 64, rate_pps: 2000, count: 200_000 };
        let _sender = flow.start(&rig.c1)?;
        let mut early = (0, 0);
        for round in 0..200 {
            let mut changed = setup.clone();
            let lines = ["", "rx-ring = 1024", "tx-budget = 64", "sndbuf = 500000"];
            for port in &mut changed.ports {
                port.lines = lines.get(round % lines.len()).copied().unwrap_or_default().to_owned();
            }
            daemon.rewrite(&changed.toml())?;
            daemon.ctl(&["config", "reload"])?;
            if round == 20 {
                early = holds(pid)?;
            }
        }
        daemon.rewrite(&setup.toml())?;
        daemon.ctl(&["config", "reload"])?;
        daemon.wait_bound(2, Duration::from_secs(5))?;
        let late = holds(pid)?;
        check!(late.0 <= early.0 + 2, "{early:?} descriptors and KiB early, {late:?} late");
        check!(late.1 <= early.1 + 5 * 1024, "{early:?} descriptors and KiB early, {late:?} late");
        let ping = Ping::new(&rig.c1, C2).count(5).run(&rig.scratch)?;
        check!(ping.lost() == 0, "{} of 5 pings lost", ping.lost());
        check!(number(&daemon.port("v1")?, "/rx/packets") > 0, "no traffic");
        daemon.proc().signal(Signal::SIGTERM)?;
        daemon.proc().finish(Duration::from_secs(5)).map(drop)
    })
}
