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
            pings.sent > 20 && pings.lost() <= 1,
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
