//! The configuration file: what is wrong is refused as a whole and explained; a reload changes only what
//! differs.

use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::Value;
use xvs_tests::{
    Result, check,
    daemon::{Daemon, Setup},
    ping::Ping,
    rig::{C2, PortSpec, Rig},
    udp::{Flow, Receiver},
    wait_until,
};

use crate::runner::on;

/// Checks that a text has all of these words.
pub(crate) fn says(text: &str, words: &[&str]) -> Result<()> {
    let missing = words.iter().find(|word| !text.contains(**word));
    check!(missing.is_none(), "{missing:?} is not in: {text}");
    Ok(())
}

/// Files with one mistake each, and what the message must name.
fn bad_files(rig: &Rig) -> Vec<(String, &'static [&'static str])> {
    let good = Setup::new(rig).toml();
    let port = "[[port]]\nname = \"v1\"\nbridge = \"br0\"\ntype = \"afxdp\"\n";
    let with = |from: &str, to: &str| good.replace(from, to);
    vec![
        (with("frames", "framse"), &["framse", "frames", "xvswitch.toml"]),
        (with("16384", "\"many\""), &["frames"]),
        (with("16384", "3"), &["frames", "1024"]),
        (with("\"0x1\"", "\"0x0\""), &["cpu-mask"]),
        (with("\"br0\"\ntype", "\"br7\"\ntype"), &["br7"]),
        (
            with("type =", "xdp-mode = \"native-with-zerocopy\"\nxmit-batch = 32\ntype ="),
            &["port \"v1\": xmit-batch is 32 while xdp-mode is \"native-with-zerocopy\""],
        ),
        (
            with("type =", "xdp-mode = \"generic\"\nbusy-poll-us = 20\ntype ="),
            &["port \"v2\": busy-poll-us is 20 while xdp-mode is \"generic\""],
        ),
        (with("type =", "busy-poll-budget = 70000\ntype ="), &["busy-poll-budget", "1 to 65535"]),
        (with("\"afxdp\"", "\"afxpd\""), &["afxpd", "afxdp"]),
        (with("name = \"v1\"", "name = \"nosuch0\""), &["no interface nosuch0"]),
        (format!("{good}{port}"), &["v1 is there twice", "xvswitch.toml:"]),
        (format!("{good}[[port]\n"), &["xvswitch.toml"]),
    ]
}

/// The daemon does not start with any of them, says why, and exits with a failure.
pub(crate) fn a_bad_file_is_refused_at_start() -> Result<()> {
    on(Rig::pair, |rig| {
        for (toml, words) in bad_files(rig) {
            let mut daemon = Daemon::launch(rig, "xvswitchd", &toml, &[])?;
            let status = daemon.proc().wait(Duration::from_secs(5))?;
            check!(status.code().is_some_and(|code| code != 0), "{status} for {toml}");
            says(&daemon.proc().stderr(), words)?;
        }
        Ok(())
    })
}

/// A reload of any of them leaves everything as it was, to the byte.
pub(crate) fn a_bad_file_on_reload_changes_nothing() -> Result<()> {
    on(Rig::pair, |rig| {
        let mut daemon = Daemon::start(rig, &Setup::new(rig))?;
        rig.wait_forwarding(Duration::from_secs(5))?;
        let before = daemon.ctl_text(&["config", "show"])?;
        let ports = programs(&daemon)?;
        for (toml, words) in bad_files(rig) {
            daemon.rewrite(&toml)?;
            says(&daemon.ctl_refused(&["config", "reload"])?, words)?;
            says(&daemon.ctl_refused(&["config", "check"])?, words)?;
            daemon.proc().signal(Signal::SIGHUP)?;
            let after = daemon.ctl_text(&["config", "show"])?;
            check!(after == before, "config show changed: {after}");
        }
        check!(programs(&daemon)? == ports, "ports changed");
        rig.wait_forwarding(Duration::from_secs(2))?;
        daemon.stop()
    })
}

/// Name and XDP program of every port.
fn programs(daemon: &Daemon) -> Result<Vec<(Value, Value)>> {
    let ports = daemon.ctl(&["port", "list"])?;
    let of = |port: &Value, name| port.get(name).cloned().unwrap_or_default();
    let ports = ports.as_array().into_iter().flatten();
    Ok(ports.map(|port| (of(port, "name"), of(port, "program_id"))).collect())
}

/// A reload adds and removes a port; the others keep their program and lose no ping.
pub(crate) fn a_reload_touches_only_what_differs() -> Result<()> {
    on(Rig::pair, |rig| {
        rig.dut.ip("link add v3 type veth peer name v4")?;
        rig.dut.ip("link set v3 up")?;
        rig.dut.ip("link set v4 up")?;
        let two = Setup::new(rig);
        let mut three = two.clone();
        three.ports.push(PortSpec::new("v3", ""));
        let mut daemon = Daemon::start(rig, &two)?;
        rig.wait_forwarding(Duration::from_secs(5))?;
        let before = programs(&daemon)?;
        let ping = Ping::new(&rig.c1, C2).interval_s(0.01).start(&rig.scratch)?;
        daemon.rewrite(&three.toml())?;
        daemon.ctl(&["config", "reload"])?;
        daemon.wait_bound(3, Duration::from_secs(5))?;
        std::thread::sleep(Duration::from_millis(300));
        let during = programs(&daemon)?;
        daemon.rewrite(&two.toml())?;
        daemon.proc().signal(Signal::SIGHUP)?;
        wait_until("the third port gone after SIGHUP", Duration::from_secs(5), || {
            Ok((programs(&daemon)?.len() == 2).then_some(()))
        })?;
        let pings = ping.stop()?;
        // The last one may have been under way when ping was ended.
        check!(
            pings.sent > 10 && pings.lost() <= 1,
            "{} of {} pings lost",
            pings.lost(),
            pings.sent
        );
        check!(during.starts_with(&before), "other ports changed: {before:?}, {during:?}");
        check!(programs(&daemon)? == before, "other ports changed: {before:?}");
        daemon.stop()
    })
}

/// `config show` is a configuration: a daemon started with it shows the same.
pub(crate) fn what_it_shows_it_accepts() -> Result<()> {
    on(Rig::pair, |rig| {
        let daemon = Daemon::start(rig, &Setup::new(rig))?;
        let shown = daemon.ctl_text(&["config", "show"])?;
        daemon.rewrite(&shown)?;
        daemon.ctl(&["config", "reload"])?;
        let again = daemon.ctl_text(&["config", "show"])?;
        check!(again == shown, "config show of its own output differs: {shown}\n{again}");
        daemon.stop()
    })
}

/// Threads move to other cores also while a port waits for its interface, which comes back later.
pub(crate) fn threads_move_while_a_port_waits() -> Result<()> {
    on(Rig::pair, |rig| {
        let setup =
            |mask| Setup::new(rig).pmd(&format!("cpu-mask = \"{mask}\"\nsleep-max-us = 200"));
        let mut daemon = Daemon::start(rig, &setup("0x1"))?;
        rig.wait_forwarding(Duration::from_secs(5))?;
        rig.dut.ip("link del v1")?;
        wait_until("the port waiting", Duration::from_secs(3), || {
            Ok((daemon.port("v1")?.pointer("/state") != Some(&"bound".into())).then_some(()))
        })?;
        for (mask, threads) in [("0x3", 2), ("0x1", 1)] {
            daemon.rewrite(&setup(mask).toml())?;
            daemon.ctl(&["config", "reload"])?;
            let pmds = daemon.ctl(&["status"])?.pointer("/pmds").cloned().unwrap_or_default();
            check!(pmds.as_array().map(Vec::len) == Some(threads), "{mask}: {pmds}");
        }
        rig.wire(1, "")?;
        daemon.wait_bound(2, Duration::from_secs(10))?;
        rig.wait_forwarding(Duration::from_secs(3))?;
        daemon.stop()
    })
}

/// A core that does not exist is refused before any port is touched, with all that came with it.
pub(crate) fn a_core_that_does_not_exist_changes_nothing() -> Result<()> {
    on(Rig::pair, |rig| {
        let daemon = Daemon::start(rig, &Setup::new(rig))?;
        rig.wait_forwarding(Duration::from_secs(5))?;
        let (shown, ports) = (daemon.ctl_text(&["config", "show"])?, programs(&daemon)?);
        let ping = Ping::new(&rig.c1, C2).interval_s(0.01).start(&rig.scratch)?;
        let bad = Setup::new(rig).pmd("cpu-mask = \"0x8000000000000001\"\nsleep-max-us = 100");
        daemon.rewrite(&format!("{}[datapath]\nflow-limit = 77\n", bad.toml()))?;
        says(&daemon.ctl_refused(&["config", "reload"])?, &["pmd-c63", "cpu-mask"])?;
        std::thread::sleep(Duration::from_millis(600));
        let pings = ping.stop()?;
        check!(pings.sent > 10 && pings.lost() <= 1, "{} pings lost", pings.lost());
        check!(programs(&daemon)? == ports, "ports were opened again");
        let after = daemon.ctl_text(&["config", "show"])?;
        check!(after == shown, "config show changed: {after}");
        daemon.stop()
    })
}

/// A bridge whose rules drop everything forwards nothing, from its first moment on.
pub(crate) fn no_packet_passes_before_the_rules() -> Result<()> {
    on(Rig::pair, |rig| {
        rig.c1.ip("neigh replace 10.1.1.2 lladdr 02:00:00:00:00:02 dev e0 nud permanent")?;
        // Rules that match nothing here, to take the time that many take.
        let rules = (0..5000).map(|n| format!("\"priority={n},udp,tp_dst={n},actions=drop\","));
        let rules =
            format!("rules = [\"priority=0,actions=drop\",{}]\n", rules.collect::<String>());
        let toml = Setup::new(rig).toml().replacen("[[port]]", &format!("{rules}[[port]]"), 1);
        let receiver = Receiver::start(&rig.c2, 7000)?;
        let (to, rate_pps) = ("10.1.1.2:7000".to_owned(), 2000);
        let sender = Flow { to, size: 64, rate_pps, count: rate_pps * 4 }.start(&rig.c1)?;
        let mut daemon = Daemon::launch(rig, "xvswitchd", &toml, &[])?;
        daemon.wait_bound(2, Duration::from_secs(10))?;
        wait_until("packets at the first port", Duration::from_secs(3), || {
            Ok((crate::number(&daemon.port("v1")?, "/rx/packets") > 100).then_some(()))
        })?;
        xvs_tests::ns::join(sender)?;
        let passed = receiver.stop()?.numbers.len();
        check!(passed == 0, "{passed} packets passed before the rules were in force");
        daemon.stop()
    })
}

/// A reload that fails at its last step, when a port is opened, undoes all steps before it.
pub(crate) fn a_reload_that_fails_late_changes_nothing() -> Result<()> {
    on(Rig::pair, |rig| {
        rig.dut.ip("link add v3 type veth peer name v4")?;
        let setup = Setup::new(rig);
        let mut daemon = Daemon::start(rig, &setup)?;
        rig.wait_forwarding(Duration::from_secs(5))?;
        let before = daemon.ctl_text(&["config", "show"])?;
        let mut wanted = setup.each_port("rx-ring = 512");
        wanted.ports.push(PortSpec::new("v3", "xdp-mode = \"native-with-zerocopy\""));
        let rules = "rules = [\"actions=drop\"]\n[[bridge]]\nname = \"br1\"\n[[port]]";
        daemon.rewrite(&wanted.toml().replacen("[[port]]", rules, 1))?;
        says(&daemon.ctl_refused(&["config", "reload"])?, &["v3", "zero-copy"])?;
        let after = daemon.ctl_text(&["config", "show"])?;
        check!(after == before, "config show changed: {after}");
        let status = daemon.ctl(&["status"])?;
        let bridges = status.pointer("/bridges").and_then(Value::as_array);
        check!(bridges.map(Vec::len) == Some(1), "bridges: {status}");
        check!(crate::number(&status, "/bridges/0/rules") == 0, "rules stayed: {status}");
        daemon.wait_bound(2, Duration::from_secs(5))?;
        check!(programs(&daemon)?.len() == 2, "port v3 stayed");
        rig.wait_forwarding(Duration::from_secs(3))?;
        daemon.stop()
    })
}
