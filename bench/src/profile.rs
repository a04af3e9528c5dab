//! `./x bench profile`: where the time of a packet goes: the kernel's receive path, user space, the kernel's
//! transmit path.
//!
//! `perf` samples both cores by the clock, which needs no hardware counters. A sample belongs to what is nearest
//! to it in its call chain. The receive path runs where the packet was sent, on the hosts' core and outside of
//! the daemon; and what the receiving host does runs inside of the daemon's calls. So the process alone would
//! not tell.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use xvs_tests::{
    Error, Result,
    daemon::{Daemon, Setup},
    proc::{self, Proc},
    rig::{C2, Rig},
};

use crate::harness::{self, Arm, Benchmark, Options, Quantity, Row};
use crate::load::{HOSTS_CORE, Load};
use crate::sink::Sink;

/// Samples per second and core.
const FREQUENCY: u32 = 1999;

/// Parts of the time, in the order of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// The daemon in user space.
    User,
    /// From the driver of a port to the rx ring.
    Rx,
    /// From the tx ring to the driver of the port.
    Tx,
    /// The daemon in other calls.
    Calls,
    /// What the receiving host does in the daemon's time.
    Receiver,
}

const PARTS: [(Part, &str); 5] = [
    (Part::User, "user"),
    (Part::Rx, "kernel receive"),
    (Part::Tx, "kernel transmit"),
    (Part::Calls, "kernel, other calls"),
    (Part::Receiver, "receiving host, on the thread's core"),
];

/// What is forwarded.
#[derive(Clone, Copy, Debug)]
enum Traffic {
    Udp(Load),
    Tcp,
}

/// Measures all configurations.
///
/// # Errors
/// When `perf` is missing, and those of the harness.
pub fn run(options: &Options) -> Result<()> {
    let traffic = [
        ("64 B, one flow", Traffic::Udp(Load::default())),
        ("64 B, 10k flows", Traffic::Udp(Load { flows: 10_000, ..Load::default() })),
        ("1514 B", Traffic::Udp(Load { size: 1514, ..Load::default() })),
        ("TCP", Traffic::Tcp),
    ];
    let row = |mode: &'static str| {
        let arm = |(name, traffic): (&str, Traffic)| {
            Arm::new(name, move |length| measure(mode, traffic, length)).needs(Some("perf"))
        };
        let part = |(_, name): (Part, &str)| Quantity::new(name, "ns/packet", []);
        let rate = Quantity::new("packets received by the switch", "kpps", []);
        Row {
            key: mode.to_owned(),
            title: format!("{mode} mode, one thread"),
            arms: traffic.map(arm).into(),
            quantities: PARTS.map(part).into_iter().chain([rate]).collect(),
        }
    };
    let (title, rows) = ("Where the time goes", vec![row("native"), row("generic")]);
    harness::run(
        Benchmark { name: "profile", title, rounds: 3, rows, figures: Vec::new(), notes: "" },
        options,
    )
}

/// Nanoseconds per packet for each of [`PARTS`], and the rate.
fn measure(mode: &str, traffic: Traffic, length: Duration) -> Result<Vec<f64>> {
    let rig = Rig::pair()?;
    for host in [&rig.c1, &rig.c2] {
        host.run("ethtool -K e0 tx off")?;
    }
    for port in &rig.ports {
        // Without a native program, a veth device takes the source's frames only so.
        rig.dut.run(&format!("ethtool -K {} gro on", port.name))?;
    }
    let setup = Setup::new(&rig).pmd("cpu-mask = \"0x1\"");
    let mut daemon = Daemon::start(&rig, &setup.each_port(&format!("xdp-mode = \"{mode}\"")))?;
    rig.wait_forwarding(Duration::from_secs(10))?;
    let _traffic = Running::start(&rig, traffic, length)?;
    std::thread::sleep(Duration::from_secs(1));
    let received = |daemon: &Daemon| Ok::<_, Error>(daemon.ledger()?.packets("rx"));
    let before = received(&daemon)?;
    let samples = record(rig.scratch.path(), length)?;
    let packets = received(&daemon)? - before;
    xvs_tests::check!(packets > 0, "no packet was received");
    split(&samples, daemon.proc().pid(), packets, length)
}

/// Traffic that goes on until it is dropped.
struct Running {
    _source: Proc,
    _sink: Option<Sink>,
}

impl Running {
    fn start(rig: &Rig, traffic: Traffic, length: Duration) -> Result<Self> {
        match traffic {
            Traffic::Udp(load) => {
                let sink = Some(rig.c2.enter(|| Sink::attach("e0"))?);
                Ok(Self { _source: load.start(rig, &[])?, _sink: sink })
            }
            Traffic::Tcp => {
                let mut server = rig.c2.command("iperf3");
                server.args(["-s", "-D", "-1", "-A", HOSTS_CORE]);
                proc::run(&mut server)?;
                let seconds = (length.as_secs() + 10).to_string();
                let mut client = rig.c1.command("iperf3");
                client.args(["-c", C2, "-t", &seconds, "-A", HOSTS_CORE]);
                let client = Proc::start(&rig.scratch, "iperf3", &mut client)?;
                Ok(Self { _source: client, _sink: None })
            }
        }
    }
}

/// The samples of all cores with their call chains, as text.
fn record(dir: &Path, length: Duration) -> Result<String> {
    let file = dir.join("perf.data");
    let mut record = Command::new("perf");
    record.args([
        "record",
        "-q",
        "-a",
        "-g",
        "-e",
        "cpu-clock",
        "-F",
        &FREQUENCY.to_string(),
        "-o",
    ]);
    proc::run(record.arg(&file).args(["--", "sleep", &length.as_secs().to_string()]))?;
    let mut script = Command::new("perf");
    proc::run(script.args(["script", "-F", "pid,cpu,ip,sym", "-i"]).arg(file))
}

/// What `perf script` says of one sample.
#[derive(Debug)]
struct Sample<'a> {
    pid: u32,
    core: u32,
    /// Address and symbol, from the innermost function out.
    chain: Vec<(u64, &'a str)>,
}

/// Counts the samples of each part, as nanoseconds per packet.
#[allow(clippy::cast_precision_loss, reason = "a share")]
fn split(text: &str, pid: u32, packets: u64, length: Duration) -> Result<Vec<f64>> {
    let hosts_core: u32 = HOSTS_CORE.parse().unwrap_or_default();
    let samples: Vec<_> = text.split("\n\n").filter_map(parse).collect();
    xvs_tests::check!(!samples.is_empty(), "perf has no samples: may this user see the kernel's?");
    let parts: Vec<_> =
        samples.iter().filter_map(|sample| part_of(sample, pid, hosts_core)).collect();
    let ns = |(part, _): (Part, &str)| {
        let n = parts.iter().filter(|other| **other == part).count();
        n as f64 * 1e9 / f64::from(FREQUENCY) / packets as f64
    };
    let rate = packets as f64 / length.as_secs_f64() / 1e3;
    Ok(PARTS.map(ns).into_iter().chain([rate]).collect())
}

/// `PID [CORE]`, then a line with address and symbol for each function.
fn parse(text: &str) -> Option<Sample<'_>> {
    let mut lines = text.lines().filter(|line| !line.trim().is_empty());
    let (pid, core) = lines.next()?.trim().split_once(' ')?;
    let core = core.trim().trim_start_matches('[').trim_end_matches(':').trim_end_matches(']');
    let function = |line: &'_ str| -> Option<(u64, usize)> {
        let line = line.trim_start();
        let end = line.find(' ').unwrap_or(line.len());
        Some((u64::from_str_radix(line.get(..end)?, 16).ok()?, end))
    };
    let chain = lines.filter_map(|line| {
        let (address, end) = function(line)?;
        Some((address, line.trim_start().get(end..)?.trim()))
    });
    let chain = chain.collect();
    Some(Sample { pid: pid.parse().ok()?, core: core.parse().ok()?, chain })
}

/// Functions that only packets come by which are for a socket of ours.
const RX: [&str; 5] =
    ["xsk_rcv", "xsk_generic_rcv", "xsk_map_redirect", "xsk_map_flush", "xsk_flush"];
/// Functions of the transmit path.
const TX: [&str; 3] = ["xsk_sendmsg", "xsk_generic_xmit", "sys_sendto"];

/// The part that a sample belongs to, if any.
fn part_of(sample: &Sample<'_>, pid: u32, hosts_core: u32) -> Option<Part> {
    let is_ours = sample.pid == pid;
    let (innermost, _) = sample.chain.first()?;
    if innermost >> 63 == 0 {
        return is_ours.then_some(Part::User);
    }
    for (_, symbol) in &sample.chain {
        let is = |names: &[&str]| names.iter().any(|name| symbol.contains(name));
        if is(&RX) {
            return Some(Part::Rx);
        } else if is(&["bpf_test_run_xdp_live", "xdp_test_run_batch"]) {
            return None;
        } else if is(&["net_rx_action"]) {
            // A veth device's packets are received on the core that sent them.
            return Some(if sample.core == hosts_core { Part::Rx } else { Part::Receiver });
        } else if is_ours && is(&TX) {
            return Some(Part::Tx);
        }
    }
    is_ours.then_some(Part::Calls)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(text: &str) -> Option<Part> {
        part_of(&parse(text)?, 70, 1)
    }

    #[test]
    fn the_nearest_function_decides() {
        let user = "     70 [000] \n\t            30b8 process\n\t            5000 main\n";
        assert_eq!(part(user), Some(Part::User));
        let sending =
            "70 [000]\n\tffffffff81000001 veth_xmit\n\tffffffff81000002 __xsk_generic_xmit\n";
        assert_eq!(part(sending), Some(Part::Tx));
        let receiver = "70 [000]\n\tffffffff81000001 veth_poll\n\tffffffff81000002 net_rx_action\n\
                        \tffffffff81000003 __xsk_generic_xmit\n";
        assert_eq!(part(receiver), Some(Part::Receiver));
        let rx = "80 [001]\n\tffffffff81000001 memcpy\n\tffffffff81000002 veth_poll\n\
                  \tffffffff81000003 net_rx_action\n\tffffffff81000004 bpf_test_run_xdp_live\n";
        assert_eq!(part(rx), Some(Part::Rx));
        let source = "80 [001]\n\tffffffff81000002 veth_xdp_xmit\n\tffffffff81000004 bpf_test_run_xdp_live\n";
        assert_eq!(part(source), None);
        let other = "80 [001]\n\t            30b8 gcc\n";
        assert_eq!(part(other), None);
    }

    #[test]
    fn samples_become_nanoseconds_of_a_packet() -> Result<()> {
        let text = "70 [000]\n\t30b8 process\n\n".repeat(1999);
        let split = split(&text, 70, 1_000_000, Duration::from_secs(1))?;
        assert_eq!(split.first().map(|ns| ns.round()), Some(1000.0));
        assert_eq!(split.last(), Some(&1000.0));
        Ok(())
    }
}
