//! Zero-copy on emulated network cards whose Linux drivers have it: these tests run inside the virtual machine of
//! `tests/vm/boot`, in which this program is run again. `./x nic` runs them alone, on any kernel.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::Value;
use xvs_tests::{
    Error, Result, check,
    daemon::{Daemon, Setup},
    numbered::{self, Station},
    proc,
    rig::{C1_MAC, C2_MAC, Rig},
    wait_until,
};

use crate::runner::on;

/// Sizes around what igb puts into half a page, and the largest at an MTU of 1500.
const SIZES: [usize; 4] = [64, 1024, 1025, 1514];
/// The longest sleep that can be configured.
const SLEEP_MAX: Duration = Duration::from_millis(10);
/// A card that was reset has its link back within this time.
const LINK_LIMIT: Duration = Duration::from_secs(20);

/// Runs the tests of the machine, all or those of these names.
fn boot(arguments: &[&str]) -> Result<()> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("vm/boot");
    let myself = std::env::current_exe().map_err(Error::io("find myself"))?;
    let mut command = proc::tethered(&script.to_string_lossy());
    command.args(["--limit", "3600"]).arg(myself).arg("--in-machine").args(arguments);
    let output = command.stdin(Stdio::null()).output().map_err(Error::io("start tests/vm/boot"))?;
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    match output.status.code() {
        Some(0) => {
            text.lines()
                .filter(|line| line.starts_with("ok"))
                .for_each(|line| println!("    {line}"));
            Ok(())
        }
        // CI takes this for a failure.
        Some(126) => Err(Error::Skipped(format!("no virtual machine: {}", text.trim()))),
        _ => Err(Error::Check(format!("in the machine:\n{}", text.trim()))),
    }
}

/// A few frames of each size.
pub(crate) fn on_emulated_cards() -> Result<()> {
    boot(&[])
}

/// As many frames as there should be.
pub(crate) fn on_emulated_cards_in_full() -> Result<()> {
    boot(&["--long"])
}

/// How many frames of each size.
fn count() -> u32 {
    if std::env::args().any(|word| word == "--long") { 100_000 } else { 4_000 }
}

/// The hosts of a rig.
fn stations<'a>(rig: &'a Rig, first: &'a str, second: &'a str) -> [Station<'a>; 2] {
    [
        Station { ns: &rig.c1, interface: first, mac: C1_MAC },
        Station { ns: &rig.c2, interface: second, mac: C2_MAC },
    ]
}

/// So many frames of each size, half of them each way, once there is a way.
fn both_ways(daemon: &Daemon, [a, b]: [Station<'_>; 2], count: u32) -> Result<()> {
    let pass = || {
        numbered::wait(a, b, LINK_LIMIT)?;
        numbered::wait(b, a, LINK_LIMIT)?;
        SIZES.iter().try_for_each(|&size| {
            numbered::pass(a, b, size, count / 2)?;
            numbered::pass(b, a, size, count / 2)
        })
    };
    pass().map_err(|error| {
        let ports = daemon.ctl_text(&["port", "show"]).unwrap_or_default();
        Error::Check(format!("{error}\n{ports}"))
    })
}

/// A member of what the daemon shows of a port, as text.
fn shown(daemon: &Daemon, port: &str, member: &str) -> Result<String> {
    let shown = daemon.port(port)?;
    Ok(shown.get(member).and_then(Value::as_str).unwrap_or_default().to_owned())
}

/// A port is bound in this mode, by the kernel's word where it is zero-copy.
fn check_mode(daemon: &Daemon, port: &str, mode: &str) -> Result<()> {
    let in_use = shown(daemon, port, "xdp_mode_in_use")?;
    check!(in_use == mode, "{port} is in mode {in_use}, not {mode}: {}", daemon.port(port)?);
    let zero_copy = daemon.port(port)?.pointer("/zero_copy").and_then(Value::as_bool);
    check!(
        zero_copy == Some(mode == "native-with-zerocopy"),
        "XDP_OPTIONS of {port}: {}",
        daemon.port(port)?
    );
    Ok(())
}

/// Stops a daemon after it has taken back all frames of closed sockets.
fn stop(daemon: Daemon) -> Result<()> {
    wait_until("no frame in quarantine", LINK_LIMIT, || {
        Ok((daemon.ledger()?.frames("quarantined") == 0).then_some(()))
    })?;
    daemon.stop()
}

/// One port copies, the other does not: two registrations of the same memory, whichever comes first.
pub(crate) fn a_zero_copy_and_a_copy_port_forward_to_each_other() -> Result<()> {
    for order in [["igb0", "v2"], ["v2", "igb0"]] {
        on(
            || Rig::cards("igb", "veth"),
            |rig| {
                let mut setup = Setup::new(rig);
                setup.ports.retain(|port| port.name == order[0]);
                let daemon = Daemon::start(rig, &setup)?;
                daemon.ctl(&["port", "add", order[1], "bridge=br0"])?;
                check_mode(&daemon, "igb0", "native-with-zerocopy")?;
                check_mode(&daemon, "v2", "native")?;
                both_ways(&daemon, stations(rig, "igb1", "e0"), count())?;
                stop(daemon)
            },
        )?;
    }
    Ok(())
}

/// Two drivers in one registration.
pub(crate) fn two_zero_copy_ports_forward_to_each_other() -> Result<()> {
    on(
        || Rig::cards("igb", "virtio"),
        |rig| {
            let daemon = Daemon::start(rig, &Setup::new(rig))?;
            check_mode(&daemon, "igb0", "native-with-zerocopy")?;
            check_mode(&daemon, "virtio0", "native-with-zerocopy")?;
            both_ways(&daemon, stations(rig, "igb1", "virtio1"), count())?;
            stop(daemon)
        },
    )
}

/// Zero-copy, native, generic: each step down has its reason.
pub(crate) fn without_zero_copy_it_steps_down_and_says_why() -> Result<()> {
    on(
        || Rig::cards("vmxnet3", "e1000e"),
        |rig| {
            let daemon = Daemon::start(rig, &Setup::new(rig))?;
            check_mode(&daemon, "vmxnet30", "native")?;
            check_mode(&daemon, "e1000e0", "generic")?;
            let why = shown(&daemon, "vmxnet30", "stepped_down")?;
            check!(why.contains("no zero-copy mode"), "vmxnet3: {why}");
            let why = shown(&daemon, "e1000e0", "stepped_down")?;
            check!(
                why.contains("no zero-copy mode") && why.contains("in native mode"),
                "e1000e: {why}"
            );
            both_ways(&daemon, stations(rig, "vmxnet31", "e1000e1"), count() / 10)?;
            for (port, mode, words) in [
                ("vmxnet30", "native-with-zerocopy", "no zero-copy mode"),
                ("e1000e0", "native", "in native mode"),
            ] {
                daemon.ctl(&["port", "del", port])?;
                let said =
                    daemon.ctl_refused(&["port", "add", port, &format!("xdp-mode={mode}")])?;
                check!(said.contains(words), "{port} in mode {mode}: {said}");
            }
            stop(daemon)
        },
    )
}

/// igb receives whole KiB only: frames of half a page would lose what is beyond 1024 bytes without a word.
pub(crate) fn frames_that_do_not_fit_are_not_cut() -> Result<()> {
    on(
        || Rig::cards("igb", "virtio"),
        |rig| {
            let mut setup = Setup::new(rig);
            setup.umem.push_str("\nframe-size = 2048");
            let daemon = Daemon::start(rig, &setup)?;
            check_mode(&daemon, "igb0", "native")?;
            let why = shown(&daemon, "igb0", "stepped_down")?;
            check!(why.contains("lower it to 1006") && why.contains("frame-size"), "igb: {why}");
            both_ways(&daemon, stations(rig, "igb1", "virtio1"), count())?;
            stop(daemon)
        },
    )?;
    on(
        || Rig::cards("igb", "virtio"),
        |rig| {
            rig.dut.ip("link set igb0 mtu 9000")?;
            let daemon = Daemon::start(rig, &Setup::new(rig))?;
            let why = shown(&daemon, "igb0", "stepped_down")?;
            check!(why.contains("MTU of 9000") && why.contains("3054"), "{}", daemon.port("igb0")?);
            daemon.ctl(&["port", "del", "igb0"])?;
            let said =
                daemon.ctl_refused(&["port", "add", "igb0", "xdp-mode=native-with-zerocopy"])?;
            check!(said.contains("lower it to 3054"), "{said}");
            stop(daemon)
        },
    )
}

/// Attaching resets igb's link; frames that the card had come back, and nothing is lost count of.
pub(crate) fn a_zero_copy_port_comes_and_goes() -> Result<()> {
    on(
        || Rig::cards("igb", "virtio"),
        |rig| {
            let daemon = Daemon::start(rig, &Setup::new(rig))?;
            let [a, b] = stations(rig, "igb1", "virtio1");
            let before = daemon.ledger()?.frames("filled");
            for port in ["igb0", "virtio0", "igb0"] {
                numbered::wait(a, b, LINK_LIMIT)?;
                daemon.ctl(&["port", "del", port])?;
                daemon.ctl(&["port", "add", port, "bridge=br0"])?;
                wait_until("a bound port", LINK_LIMIT, || {
                    Ok((shown(&daemon, port, "state")? == "bound").then_some(()))
                })?;
                check_mode(&daemon, port, "native-with-zerocopy")?;
            }
            // The carrier of the switch's own port goes and comes.
            rig.dut.ip("link set igb0 down")?;
            std::thread::sleep(Duration::from_millis(300));
            rig.dut.ip("link set igb0 up")?;
            both_ways(&daemon, [a, b], 500)?;
            let after = daemon.balanced()?.frames("filled");
            check!(before == after, "{before} frames to receive into before, {after} after");
            stop(daemon)
        },
    )
}

/// Whatever a killed daemon had, the next one binds in the same mode.
pub(crate) fn killed_it_starts_again() -> Result<()> {
    on(
        || Rig::cards("igb", "virtio"),
        |rig| {
            for _ in 0..3 {
                let mut daemon = Daemon::start(rig, &Setup::new(rig))?;
                numbered::wait(
                    stations(rig, "igb1", "virtio1")[0],
                    stations(rig, "igb1", "virtio1")[1],
                    LINK_LIMIT,
                )?;
                daemon.proc().signal(Signal::SIGKILL)?;
                daemon.proc().wait(Duration::from_secs(5))?;
            }
            let daemon = Daemon::start(rig, &Setup::new(rig))?;
            check_mode(&daemon, "igb0", "native-with-zerocopy")?;
            check_mode(&daemon, "virtio0", "native-with-zerocopy")?;
            both_ways(&daemon, stations(rig, "igb1", "virtio1"), 500)?;
            stop(daemon)
        },
    )
}

/// A packet ends the sleep: with one frame under way at a time, none waits for the longest sleep.
pub(crate) fn asleep_it_forwards_within_the_bound() -> Result<()> {
    on(
        || Rig::cards("igb", "virtio"),
        |rig| {
            let setup = Setup::new(rig).pmd("cpu-mask = \"0x1\"\nsleep-max-us = 10000");
            let daemon = Daemon::start(rig, &setup)?;
            let [a, b] = stations(rig, "igb1", "virtio1");
            numbered::wait(a, b, LINK_LIMIT)?;
            let took = numbered::delays(a, b, Duration::from_millis(30), 50)?;
            let median = took.get(took.len() / 2).copied().unwrap_or_default();
            println!("asleep: {median:?} for a frame, at most {:?}", took.last());
            check!(median < SLEEP_MAX / 2, "frames wait for the end of a sleep: {took:?}");
            stop(daemon)
        },
    )
}
