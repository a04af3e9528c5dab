//! The switches that are compared: how each is started on a rig, and what it costs the machine.

use std::any::Any;
use std::fmt;

use xvs_tests::{
    Error, Result,
    daemon::{self, Daemon, Setup},
    proc::Proc,
    rig::{PortSpec, Rig},
};

use crate::kernel_peers;
use crate::peers::{self, OpenVswitch, TestpmdCores};

/// The core on which every switch forwards.
pub(crate) const SWITCH_MASK: &str = "1";

/// Names by which the goals refer to contenders.
pub(crate) const XVSWITCH: &str = "xvswitch";
/// With `sleep-max-us`.
pub(crate) const SLEEPING: &str = "xvswitch, sleeping";
pub(crate) const OPEN_VSWITCH: &str = "Open vSwitch";
pub(crate) const OPEN_VSWITCH_PACKET: &str = "Open vSwitch, AF_PACKET";
pub(crate) const TESTPMD: &str = "testpmd";
pub(crate) const FORWARDER: &str = "bare forwarder";

/// A switch that can be started in the `dut` namespace of a rig.
pub(crate) struct Contender {
    pub(crate) name: String,
    /// The program that it is, when that is not ours or the kernel.
    pub(crate) needs: Option<&'static str>,
    start: Box<Start>,
}

type Start = dyn Fn(&Rig) -> Result<Switch>;

impl Contender {
    fn new(name: &str, start: impl Fn(&Rig) -> Result<Switch> + 'static) -> Self {
        Self { name: name.to_owned(), needs: None, start: Box::new(start) }
    }

    fn needs(self, program: &'static str) -> Self {
        Self { needs: Some(program), ..self }
    }

    /// Starts it; whether it forwards yet, a ping will tell.
    pub(crate) fn start(&self, rig: &Rig) -> Result<Switch> {
        (self.start)(rig)
    }
}

/// All that are built in.
pub(crate) fn all() -> Vec<Contender> {
    vec![
        xvswitch(XVSWITCH, |_, setup| Ok(setup)),
        Contender::new(OPEN_VSWITCH, |rig| {
            let switch = OpenVswitch::start(rig, SWITCH_MASK)?;
            Ok(Switch { pid: Some(switch.pid()), _running: Box::new(switch) })
        })
        .needs("ovs-vswitchd"),
        Contender::new(FORWARDER, |rig| {
            let program = daemon::program("xvsbench")?;
            process(rig, &[&program.to_string_lossy(), "forward", "-a", "v1", "-b", "v2"])
        }),
        Contender::new(TESTPMD, |rig| {
            let cores = TestpmdCores { main: 1, forwarding: 0 };
            let process = peers::testpmd(rig, cores)?;
            Ok(Switch { pid: Some(process.pid()), _running: Box::new(process) })
        })
        .needs("dpdk-testpmd"),
        Contender::new(OPEN_VSWITCH_PACKET, |rig| {
            let ports = kernel_peers::steer(rig, SWITCH_MASK)?;
            let switch = OpenVswitch::with_ports(rig, &ports, "system", SWITCH_MASK)?;
            Ok(Switch { pid: Some(switch.pid()), _running: Box::new(switch) })
        })
        .needs("ovs-vswitchd"),
        in_kernel("Linux bridge", kernel_peers::linux_bridge),
        in_kernel("XDP redirect", kernel_peers::xdp_redirect),
        in_kernel("tc redirect", kernel_peers::tc_redirect),
    ]
}

/// xvswitch under a name, with its default settings but for what `change` does to them and to the rig.
pub(crate) fn xvswitch(
    name: &str,
    change: impl Fn(&Rig, Setup) -> Result<Setup> + 'static,
) -> Contender {
    Contender::new(name, move |rig| {
        let setup = Setup::new(rig).pmd(&format!("cpu-mask = \"0x{SWITCH_MASK}\""));
        let mut daemon = Daemon::start(rig, &change(rig, setup)?)?;
        Ok(Switch { pid: Some(daemon.proc().pid()), _running: Box::new(daemon) })
    })
}

/// A peer that is the kernel, on the switch's core, for as long as what `start` returns.
fn in_kernel<T: 'static>(name: &str, start: fn(&Rig, &[PortSpec]) -> Result<T>) -> Contender {
    Contender::new(name, move |rig| {
        let ports = kernel_peers::steer(rig, SWITCH_MASK)?;
        Ok(Switch { pid: None, _running: Box::new(start(rig, &ports)?) })
    })
}

/// A forwarder of somebody else, `NAME=COMMAND`: the command forwards between `v1` and `v2` of the
/// namespace it is started in.
pub(crate) fn external(text: &str) -> Option<Contender> {
    let (name, command) = text.split_once('=')?;
    let words: Vec<String> = command.split_ascii_whitespace().map(str::to_owned).collect();
    let named = !name.is_empty() && !words.is_empty();
    named.then(|| {
        Contender::new(name, move |rig| {
            process(rig, &words.iter().map(String::as_str).collect::<Vec<_>>())
        })
    })
}

/// A program that is the whole switch, on the switch's core.
fn process(rig: &Rig, words: &[&str]) -> Result<Switch> {
    let mut command = rig.dut.command("taskset");
    let process = Proc::start(&rig.scratch, "forwarder", command.arg(SWITCH_MASK).args(words))?;
    Ok(Switch { pid: Some(process.pid()), _running: Box::new(process) })
}

/// A switch that runs; it ends when dropped.
pub(crate) struct Switch {
    pid: Option<u32>,
    _running: Box<dyn Any>,
}

impl fmt::Debug for Switch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Switch").field("pid", &self.pid).finish_non_exhaustive()
    }
}

impl Switch {
    /// The process, if it is one.
    pub(crate) fn pid(&self) -> Option<u32> {
        self.pid
    }

    /// Resident memory in MiB, packet memory included; `None` when it is no process.
    pub(crate) fn resident_mib(&self) -> Result<Option<f64>> {
        let Some(pid) = self.pid else { return Ok(None) };
        resident_mib(pid).map(Some)
    }
    /// Nanoseconds that its threads have run so far; `None` when it is no process.
    pub(crate) fn cpu_ns(&self) -> Result<Option<f64>> {
        let Some(pid) = self.pid else { return Ok(None) };
        let tasks = format!("/proc/{pid}/task");
        let mut sum = 0.0;
        for task in std::fs::read_dir(&tasks).map_err(Error::io(tasks))?.flatten() {
            // A thread may end between the two looks; one that forwards does not.
            let text = std::fs::read_to_string(task.path().join("schedstat")).unwrap_or_default();
            let ran = text.split(' ').next().and_then(|ran| ran.parse::<f64>().ok());
            sum += ran.unwrap_or(0.0);
        }
        Ok(Some(sum))
    }
}

/// Resident memory of a process in MiB, packet memory included.
pub(crate) fn resident_mib(pid: u32) -> Result<f64> {
    let path = format!("/proc/{pid}/status");
    let text = std::fs::read_to_string(&path).map_err(Error::io(path.clone()))?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_ascii_whitespace().next()?.parse::<f64>().ok());
    kib.map(|kib| kib / 1024.0).ok_or(Error::Output { what: path, text })
}
