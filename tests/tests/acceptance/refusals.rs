//! What cannot be done is refused at once, with the object's name and the remedy, and nothing is half done.

use std::process::Command;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use xvs_tests::{
    Error, Result, check,
    daemon::{self, Daemon, Setup},
    proc::{Proc, tethered},
    rig::Rig,
};

use crate::{configuration::says, runner::on};

/// Commands with one mistake each, and what the message must name.
const BAD_COMMANDS: &[(&[&str], &[&str])] = &[
    (&["port", "add", "nosuch0"], &["no interface nosuch0", "make it"]),
    (&["port", "add", "v1"], &["already a port named v1", "delete it first"]),
    (&["port", "add", "lo", "rx-ring=32768"], &["frames is 16384", "at least"]),
    (&["port", "add", "lo", "n-rxq=0"], &["n-rxq"]),
    (&["port", "add", "lo", "colour=red"], &["colour"]),
    (&["port", "del", "nosuch0"], &["nosuch0"]),
    (&["port", "show", "nosuch0"], &["nosuch0"]),
    (&["rule", "add", "br0", "dl_dst=02:00:00:00:00,actions=drop"], &["02:00:00:00:00"]),
    (&["rule", "add", "br0", "priority=70000,actions=drop"], &["70000"]),
    (&["rule", "add", "br0", "nw_dst=10.0.0.0/24"], &["actions"]),
    (&["rule", "add", "br0", "actions=output:nosuch0"], &["nosuch0"]),
    (&["rule", "add", "br7", "actions=drop"], &["br7"]),
    (&["flow", "add", "in_port(1),eth(),eth_type(0x800)", "colour(red)"], &["colour"]),
    (&["flow", "add", "in_port(1),eth_type(bogus)", "2"], &["bogus"]),
    (&["flow", "del", "in_port(1),eth(),eth_type(0x9999)"], &["No such file or directory"]),
    (&["bogus"], &["bogus"]),
];

/// The same for the real `ovs-appctl`.
const BAD_APPCTL: &[(&[&str], &[&str])] = &[
    (&["bogus"], &["\"bogus\" is not a valid command", "list-commands"]),
    (&["dpctl/add-if"], &["\"dpctl/add-if\" command requires at least"]),
    (&["version", "x"], &["\"version\" command takes at most 0 arguments"]),
    (&["dpctl/add-flow", "bogus", "2"], &["xvswitchd: ", "bogus"]),
    (&["dpctl/del-if", "netdev@xvs-netdev", "nosuch0"], &["nosuch0"]),
];

pub(crate) fn bad_commands_are_explained_and_change_nothing() -> Result<()> {
    on(Rig::pair, |rig| {
        let daemon = Daemon::start(rig, &Setup::new(rig))?;
        let state = || -> Result<String> {
            let names = daemon.ctl(&["port", "list"])?;
            let names = names.as_array().into_iter().flatten();
            let names: Vec<_> = names.map(|port| port.get("name").cloned()).collect();
            Ok(format!("{names:?}{}", daemon.ctl(&["rule", "dump", "br0"])?))
        };
        let before = state()?;
        for (words, expected) in BAD_COMMANDS {
            says(&daemon.ctl_refused(words)?, expected)?;
        }
        for (words, expected) in BAD_APPCTL {
            says(&daemon.appctl_refused(words)?, expected)?;
        }
        let after = state()?;
        check!(before == after, "a refused command left something behind: {before} {after}");
        daemon.stop()
    })
}

/// Case 22.
pub(crate) fn more_queues_than_the_device_has() -> Result<()> {
    on(Rig::pair, |rig| {
        let mut setup = Setup::new(rig);
        setup.ports.truncate(1);
        let daemon = Daemon::start(rig, &setup)?;
        rig.dut.ip("link add v3 numrxqueues 4 numtxqueues 1 type veth peer name v4")?;
        for (port, option, expected) in [
            ("v2", "n-rxq=4", "v2 has 1 rx and 1 tx queues, too few for 4 from queue 0 on"),
            ("v2", "start-queue=1", "v2 has 1 rx and 1 tx queues, too few for 1 from queue 1 on"),
            ("v3", "start-queue=1", "v3 has 4 rx and 1 tx queues, too few for 1 from queue 1 on"),
        ] {
            let text = daemon.ctl_refused(&["port", "add", port, option])?;
            says(&text, &[expected, "lower n-rxq or start-queue", "ethtool -L"])?;
        }
        daemon.stop()
    })
}

/// Case 22, second part: the queues belong to another daemon.
pub(crate) fn a_port_of_another_daemon() -> Result<()> {
    on(Rig::pair, |rig| {
        let daemon = Daemon::start(rig, &Setup::new(rig))?;
        let toml = Setup::new(rig).toml();
        let config = rig.scratch.write("second.toml", &toml)?;
        let run_dir = rig.scratch.path().join("second");
        let mut command = rig.dut.command(&daemon::program("xvswitchd")?.to_string_lossy());
        command.arg("--config").arg(config).arg("--run-dir").arg(run_dir);
        let mut second = Proc::start(&rig.scratch, "second", &mut command)?;
        xvs_tests::wait_until("a word about the other program", Duration::from_secs(5), || {
            let text = second.stdout() + &second.stderr();
            Ok(text.contains("v1 already has XDP program").then_some(()))
        })?;
        check!(!second.wait(Duration::from_secs(5))?.success(), "the second daemon took the port");
        rig.wait_forwarding(Duration::from_secs(2))?;
        daemon.stop()
    })
}

/// Case 23: veth has no zero-copy.
pub(crate) fn zero_copy_where_there_is_none() -> Result<()> {
    on(Rig::pair, |rig| {
        let mut setup = Setup::new(rig);
        setup.ports.truncate(1);
        let daemon = Daemon::start(rig, &setup)?;
        let port = daemon.port("v1")?;
        check!(port.pointer("/xdp_mode_in_use") == Some(&"native".into()), "mode in use: {port}");
        check!(
            port.pointer("/stepped_down").is_some_and(|why| why.is_string()),
            "no reason: {port}"
        );
        let text = daemon.ctl_refused(&["port", "add", "v2", "xdp-mode=native-with-zerocopy"])?;
        says(&text, &["v2 has no zero-copy mode", "best-effort or native"])?;
        daemon.stop()
    })
}

/// Case 23, second part: macvlan has no native mode either.
pub(crate) fn native_mode_where_there_is_none() -> Result<()> {
    on(Rig::slow_link, |rig| {
        let mut setup = Setup::new(rig);
        setup.ports.truncate(1);
        let daemon = Daemon::start(rig, &setup)?;
        let text = daemon.ctl_refused(&["port", "add", "m2", "xdp-mode=native"])?;
        says(&text, &["m2 refuses an XDP program in native mode", "best-effort or generic"])?;
        daemon.ctl(&["port", "add", "m2", "xdp-mode=best-effort"])?;
        let port = daemon.port("m2")?;
        check!(port.pointer("/xdp_mode_in_use") == Some(&"generic".into()), "mode in use: {port}");
        rig.wait_forwarding(Duration::from_secs(5))?;
        daemon.stop()
    })
}

/// Starts the daemon through a command that takes something from it, and returns what it says.
fn deprived(rig: &Rig, through: &[&str]) -> Result<String> {
    let config = rig.scratch.write("xvswitch.toml", &Setup::new(rig).toml())?;
    let mut command = rig.dut.command("env");
    command.args(through).arg(daemon::program("xvswitchd")?);
    command.arg("--config").arg(config).arg("--run-dir").arg(rig.scratch.path().join("run"));
    let mut proc = Proc::start(&rig.scratch, "deprived", &mut command)?;
    let status = proc.wait(Duration::from_secs(5))?;
    check!(status.code().is_some_and(|code| code != 0), "{status} with {through:?}");
    Ok(proc.stderr())
}

/// Case 24.
pub(crate) fn too_little_locked_memory_or_a_missing_capability() -> Result<()> {
    on(Rig::pair, |rig| {
        let unlimited = "--bounding-set=-ipc_lock";
        let text = deprived(rig, &["setpriv", unlimited, "prlimit", "--memlock=65536:65536"])?;
        says(&text, &["LimitMEMLOCK", "ulimit -l", "64"])?;
        // CAP_SYS_ADMIN stands for the other two, but not for the socket.
        for (without, name) in [
            ("-net_raw", "CAP_NET_RAW"),
            ("-net_admin,-sys_admin", "CAP_NET_ADMIN"),
            ("-bpf,-sys_admin", "CAP_BPF"),
        ] {
            says(&deprived(rig, &["setpriv", &format!("--bounding-set={without}")])?, &[name])?;
        }
        Ok(())
    })
}

/// How this program is told to run another without AF_XDP sockets.
pub(crate) const WITHOUT_XDP: &str = "--without-xdp-sockets";

pub(crate) fn a_kernel_without_af_xdp_sockets() -> Result<()> {
    on(Rig::pair, |rig| {
        let this = std::env::current_exe().map_err(Error::io("find myself"))?;
        let text = deprived(rig, &[&this.to_string_lossy(), WITHOUT_XDP])?;
        says(&text, &["AF_XDP", "CONFIG_XDP_SOCKETS"])
    })
}

/// No daemon, no permission, a daemon that hangs: three messages, the last after 5 s.
pub(crate) fn xvsctl_says_why_it_has_no_answer() -> Result<()> {
    on(Rig::pair, |rig| {
        let xvsctl = daemon::program("xvsctl")?;
        let run_dir = rig.scratch.path().join("run");
        let ask = |command: &mut Command| {
            daemon::refused(command.arg(&xvsctl).arg("--run-dir").arg(&run_dir).arg("status"))
        };
        let absent = ask(&mut tethered("env"))?;
        let mut daemon = Daemon::start(rig, &Setup::new(rig))?;
        let nobody = ["--reuid=65534", "--regid=65534", "--clear-groups"];
        let forbidden = ask(tethered("setpriv").args(nobody))?;
        daemon.proc().signal(Signal::SIGSTOP)?;
        let start = Instant::now();
        let hung = ask(&mut tethered("env"));
        daemon.proc().signal(Signal::SIGCONT)?;
        let took = start.elapsed();
        check!(took.as_secs() >= 4 && took.as_secs() < 8, "gave up after {took:?}");
        let hung = hung?;
        check!(
            absent != forbidden && forbidden != hung && absent != hung,
            "{absent}{forbidden}{hung}"
        );
        says(&forbidden.to_lowercase(), &["permission"])?;
        daemon.stop()
    })
}
