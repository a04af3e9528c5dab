//! The packaged files, as an administrator uses them: under a real systemd.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use xvs_tests::{Error, Result, booted::Booted, check, daemon, scratch::Scratch, wait_until};

use crate::configuration::says;

/// What the administrator writes: small rings, as the machine's memory is shared with other tests.
const CONFIG: &str = "[umem]\nframes = 2048\n[pmd]\nsleep-max-us = 1000\n[[bridge]]\nname = \"br0\"\n\
    [[port]]\nname = \"v1\"\nbridge = \"br0\"\nrx-ring = 64\ntx-ring = 64\n\
    [[port]]\nname = \"v2\"\nbridge = \"br0\"\nrx-ring = 64\ntx-ring = 64\n";

/// Two hosts behind the interfaces that the configuration names.
const HOSTS: &str = "for n in 1 2; do
    ip netns add h$n && ip link add v$n type veth peer name e0 netns h$n && ip link set v$n up &&
    ip -n h$n addr add 10.7.0.$n/24 dev e0 && ip -n h$n link set e0 up || exit
done";

/// What `./x install --root DIR` would put there, but for the build that is tested.
fn files(scratch: &Scratch) -> Result<PathBuf> {
    let packaging = Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging");
    let root = scratch.path().join("files");
    for (from, to) in [
        (daemon::program("xvswitchd")?, "usr/sbin/xvswitchd"),
        (daemon::program("xvsctl")?, "usr/bin/xvsctl"),
        (packaging.join("xvswitch.service"), "usr/lib/systemd/system/xvswitch.service"),
        (packaging.join("xvswitch.sysusers"), "usr/lib/sysusers.d/xvswitch.conf"),
        (scratch.write("xvswitch.toml", CONFIG)?, "etc/xvswitch/xvswitch.toml"),
    ] {
        let to = root.join(to);
        let what = format!("install {}", to.display());
        fs::create_dir_all(to.parent().unwrap_or(&root)).map_err(Error::io(what.clone()))?;
        fs::copy(from, to).map_err(Error::io(what))?;
    }
    Ok(root)
}

/// The line of `/proc/PID/status` of the service's process that begins with `name`.
fn status(systemd: &Booted, name: &str) -> Result<String> {
    let pid = "$(systemctl show -P MainPID xvswitch)";
    systemd.run(&format!("sed -n 's/^{name}:[[:space:]]*//p' /proc/{pid}/status"))
}

fn forwards(systemd: &Booted) -> Result<()> {
    wait_until("a ping through the service", Duration::from_secs(5), || {
        Ok(systemd.run("ip netns exec h1 ping -c 1 -W 1 10.7.0.2").ok().map(drop))
    })
}

pub(crate) fn the_unit_runs_under_systemd() -> Result<()> {
    let scratch = Scratch::new()?;
    let systemd = Booted::start(&scratch, &files(&scratch)?)?;
    let outcome = use_the_unit(&systemd);
    outcome.map_err(|error| {
        let journal = systemd.run("journalctl -u xvswitch --no-pager | tail -n 20");
        Error::Check(format!("{error}\n{}", journal.unwrap_or_default()))
    })
}

fn use_the_unit(systemd: &Booted) -> Result<()> {
    systemd.run(HOSTS)?;
    systemd.run("systemd-sysusers && systemctl daemon-reload")?;
    // Type=notify: this returns when the daemon has said that it is ready, and then it answers.
    systemd.run("systemctl start xvswitch")?;
    says(&systemd.run("xvsctl status")?, &["xvswitchd"])?;
    forwards(systemd)?;
    // CAP_NET_ADMIN (12), CAP_NET_RAW (13) and CAP_BPF (39), as a user of its own.
    let capabilities = status(systemd, "CapEff")?;
    check!(capabilities.trim() == "0000008000003000", "capabilities {capabilities}");
    let user = systemd.run("stat -c %U /proc/$(systemctl show -P MainPID xvswitch)")?;
    check!(user.trim() == "xvswitch", "it runs as {user}");

    systemd
        .run("sed -i 's/= 1000/= 100/' /etc/xvswitch/xvswitch.toml && systemctl reload xvswitch")?;
    wait_until("the reloaded configuration", Duration::from_secs(5), || {
        Ok(systemd.run("xvsctl config show")?.contains("sleep-max-us = 100\n").then_some(()))
    })?;
    let first = systemd.run("systemctl show -P MainPID xvswitch")?;
    systemd.run("systemctl kill -s KILL xvswitch")?;
    wait_until("a new daemon after the kill", Duration::from_secs(10), || {
        let active = systemd.run("systemctl is-active -q xvswitch").is_ok();
        let pid = systemd.run("systemctl show -P MainPID xvswitch")?;
        Ok((active && pid != first && pid.trim() != "0").then_some(()))
    })?;
    forwards(systemd)?;
    let start = Instant::now();
    systemd.run("systemctl stop xvswitch")?;
    check!(start.elapsed() < Duration::from_secs(2), "the stop took {:?}", start.elapsed());
    says(&systemd.run("systemctl show -P Result xvswitch")?, &["success"])?;
    let links = systemd.run("ip link show v1")?;
    check!(!links.contains("prog/xdp"), "an XDP program is left: {links}");
    Ok(())
}
