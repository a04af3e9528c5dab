//! The switches in user space that xvswitch is compared with, each in the `dut` namespace of a rig of its own.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use xvs_tests::{
    Error, Result,
    proc::{self, Proc},
    rig::{PortSpec, Rig},
    wait_until,
};

/// Open vSwitch's userspace datapath with a database of its own, in the scratch directory of a rig.
#[derive(Debug)]
pub struct OpenVswitch {
    switch: Proc,
    _database: Proc,
}

impl OpenVswitch {
    /// Starts it with the rig's ports as afxdp ports and one PMD thread on the cores of `cpu_mask`.
    ///
    /// # Errors
    /// When Open vSwitch is not installed or does not start.
    pub fn start(rig: &Rig, cpu_mask: &str) -> Result<Self> {
        Self::with_ports(rig, &rig.ports, "afxdp", cpu_mask)
    }

    /// Starts it with ports of a type: `afxdp`, or `system` for AF_PACKET sockets, which its main thread polls.
    /// Checksum offload of the hosts is switched off: it cannot forward their packets otherwise.
    ///
    /// # Errors
    /// When Open vSwitch is not installed or does not start.
    pub fn with_ports(
        rig: &Rig,
        ports: &[PortSpec],
        port_type: &str,
        cpu_mask: &str,
    ) -> Result<Self> {
        for host in [&rig.c1, &rig.c2] {
            host.run("ethtool -K e0 tx off")?;
        }
        let dir = rig.scratch.path();
        let file = dir.join("conf.db");
        proc::run(Command::new("ovsdb-tool").arg("create").arg(&file).arg(SCHEMA))?;
        let socket = dir.join("db.sock");
        let remote = format!("--remote=punix:{}", socket.display());
        let mut command = in_dir(rig, "ovsdb-server");
        let database = Proc::start(&rig.scratch, "ovsdb-server", command.arg(&file).arg(&remote))?;
        wait_until("ovsdb-server", Duration::from_secs(5), || Ok(socket.exists().then_some(())))?;
        let server = format!("unix:{}", socket.display());
        vsctl(rig, &server, &["--no-wait", "init"])?;
        let mask = format!("other_config:pmd-cpu-mask={cpu_mask}");
        vsctl(rig, &server, &["--no-wait", "set", "Open_vSwitch", ".", &mask])?;
        let mut command =
            in_dir(rig, if port_type == "system" { "taskset" } else { "ovs-vswitchd" });
        if port_type == "system" {
            command.args([cpu_mask, "ovs-vswitchd"]);
        }
        command.args([server.as_str(), "--disable-system"]);
        let switch = Proc::start(&rig.scratch, "ovs-vswitchd", &mut command)?;
        let bridge = ["add-br", "br0", "--", "set", "bridge", "br0", "datapath_type=netdev"];
        vsctl(rig, &server, &bridge)?;
        let port_type = format!("type={port_type}");
        for port in ports {
            let name = port.name.as_str();
            let add = ["add-port", "br0", name, "--", "set", "interface", name, &port_type];
            let mode: &[_] =
                if port.lines.contains("generic") { &["options:xdp-mode=generic"] } else { &[] };
            vsctl(rig, &server, &[&add, mode].concat())?;
        }
        Ok(Self { switch, _database: database })
    }

    /// The process that forwards.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.switch.pid()
    }
}

/// DPDK's `testpmd`, which moves packets between two AF_XDP ports and looks at none.
///
/// # Errors
/// When it does not start.
pub fn testpmd(rig: &Rig, cores: TestpmdCores) -> Result<Proc> {
    let mut command = rig.dut.command("dpdk-testpmd");
    let (main, forwarding) = (cores.main, cores.forwarding);
    command.args(["--lcores", &format!("0@{main},1@{forwarding}"), "--main-lcore", "0"]);
    command.args(["--no-huge", "-m", "256", "--no-pci", "--no-telemetry"]);
    command.args(["--file-prefix", rig.scratch.name()]);
    for (n, port) in rig.ports.iter().enumerate() {
        command.args(["--vdev", &format!("net_af_xdp{n},iface={}", port.name)]);
    }
    command.args(["--", "--forward-mode=io", "--nb-cores=1", "--total-num-mbufs=16384"]);
    // Without this it ends with its standard input.
    command.arg("--stats-period=3600");
    Proc::start(&rig.scratch, "testpmd", &mut command)
}

/// Numbers of the cores on which testpmd waits for commands and forwards.
#[derive(Clone, Copy, Debug)]
pub struct TestpmdCores {
    /// Where its main thread sleeps.
    pub main: u8,
    /// Where it forwards.
    pub forwarding: u8,
}

/// Where Debian keeps the database's schema.
const SCHEMA: &str = "/usr/share/openvswitch/vswitch.ovsschema";

/// A program of Open vSwitch in `dut` whose every file is in the scratch directory.
fn in_dir(rig: &Rig, program: &str) -> Command {
    let mut command = rig.dut.command(program);
    let dir: &Path = rig.scratch.path();
    command.env("OVS_RUNDIR", dir).env("OVS_LOGDIR", dir).env("OVS_DBDIR", dir);
    command.current_dir(dir);
    command
}

/// Runs `ovs-vsctl`; an error that it only mentions (a port that cannot be opened) is an error too.
fn vsctl(rig: &Rig, server: &str, words: &[&str]) -> Result<()> {
    let mut command = in_dir(rig, "ovs-vsctl");
    command.args(["--timeout=10", &format!("--db={server}")]).args(words);
    let output = command.output().map_err(Error::io("ovs-vsctl"))?;
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.success() && !text.contains("rror") {
        return Ok(());
    }
    Err(Error::Command { line: format!("ovs-vsctl {}", words.join(" ")), output: text })
}
