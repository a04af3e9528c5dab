//! `./x bench scaling`: how throughput, start-up time and memory depend on the number of flows, subtables, rules,
//! ports and threads, and on the sizes of packets and batches.
//!
//! A row is a dimension, its arms the values, measured in turns; all else is as in `Case::default`.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use xvs_tests::{
    Error, Result,
    daemon::{self, Daemon},
    proc::Proc,
    rig::{C1, C2, PortSpec, Rig},
};

use crate::harness::{self, Arm, Benchmark, Options, Quantity, Row};
use crate::load::{HOSTS_CORE, Load};
use crate::{contender, sink::Sink};

/// How long 100,000 rules may take on a busy machine.
const START_LIMIT: Duration = Duration::from_secs(120);

/// New flows that a thread is given time to install, a second.
const NEW_FLOWS_PER_SECOND: u32 = 50_000;

/// Flows with a source port each for every source address; as `traffic.h` has it.
const PORTS_PER_ADDRESS: u32 = 60_000;

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Case {
    /// Flows of the source, in turns.
    flows: u32,
    /// Whether each of them is a megaflow; otherwise MAC learning needs one for all.
    is_megaflow_each: bool,
    /// Subtables among which the flows are spread, one flow each; 0: as the bridge makes them.
    subtables: u32,
    /// Rules of the bridge. The last is NORMAL, the others match one flow of the source each.
    rules: u32,
    /// Bytes of a frame.
    size: u16,
    /// Ports of the bridge; the two of the rig forward.
    ports: u32,
    /// PMD threads, on as many cores from 0.
    threads: u32,
    /// Whether packets come from both sides.
    is_both_ways: bool,
    /// Packets that a thread takes at once.
    batch: u32,
}

impl Default for Case {
    fn default() -> Self {
        Self {
            flows: 1,
            is_megaflow_each: false,
            subtables: 0,
            rules: 1,
            size: 64,
            ports: 2,
            threads: 1,
            is_both_ways: false,
            batch: 32,
        }
    }
}

/// Measures all dimensions.
///
/// # Errors
/// Those of the harness.
pub fn run(options: &Options) -> Result<()> {
    let title = "Scaling of xvswitch";
    let rows = rows();
    harness::run(
        Benchmark { name: "scaling", title, rounds: 3, rows, figures: Vec::new(), notes: "" },
        options,
    )
}

fn rows() -> Vec<Row> {
    let usual = Case::default();
    let flows = [1, 1000, 10_000, 100_000, 1_000_000];
    vec![
        row("flows", "flows that share a megaflow", &flows, move |flows| Case { flows, ..usual }),
        row("megaflows", "flows with a megaflow each", &flows, move |flows| Case {
            flows,
            is_megaflow_each: true,
            ..usual
        }),
        row(
            "subtables",
            "subtables, one flow each, exact-match cache off",
            &[1, 10, 50],
            move |n| Case { subtables: n, flows: n, ..usual },
        ),
        row("rules", "rules, 1000 flows", &[1, 1000, 100_000], move |rules| Case {
            rules,
            flows: 1000,
            ..usual
        }),
        row("size", "bytes of a frame", &[64, 512, 1514, 9000], move |size| Case {
            size: u16::try_from(size).unwrap_or(u16::MAX),
            ..usual
        }),
        row("ports", "ports, two of them with traffic", &[2, 8, 32], move |ports| Case {
            ports,
            ..usual
        }),
        row("threads", "PMD threads, packets from both sides", &[1, 2], move |threads| Case {
            threads,
            is_both_ways: true,
            ..usual
        }),
        settings(),
        row("batch", "packets of a batch", &[1, 4, 16, 32, 64, 128, 256], move |batch| Case {
            batch,
            ..usual
        }),
    ]
}

/// Settings that change which memory a packet touches, and how many packets share a call.
fn settings() -> Row {
    let arm = |name: &str, umem: &'static str, pmd: &'static str, port: &'static str| {
        let switch = contender::xvswitch(name, move |_, mut setup| {
            if !umem.is_empty() {
                setup.umem = format!("{}\n{umem}", setup.umem);
            }
            let pmd = format!("cpu-mask = \"0x{}\"\n{pmd}", contender::SWITCH_MASK);
            Ok(setup.pmd(&pmd).each_port(port))
        });
        Arm::new(name, move |length| {
            let rig = Rig::pair()?;
            for host in [&rig.c1, &rig.c2] {
                host.run("ethtool -K e0 tx off")?;
            }
            let _switch = switch.start(&rig)?;
            rig.wait_forwarding(Duration::from_secs(10))?;
            Ok(vec![Load::default().saturate(&rig, length)? / 1e3])
        })
    };
    Row {
        key: "settings".to_owned(),
        title: "settings, 64-byte packets, one flow".to_owned(),
        arms: vec![
            arm("as shipped", "", "", ""),
            arm("rx-ring 512", "", "", "rx-ring = 512"),
            arm("rx-ring 256", "", "", "rx-ring = 256"),
            arm("frame-size 2048", "frame-size = 2048", "", ""),
            arm("batch-size 128", "", "batch-size = 128", ""),
            arm("tx-budget 32", "", "", "tx-budget = 32"),
            arm("sleep-max-us 200", "", "sleep-max-us = 200", ""),
        ],
        quantities: vec![Quantity::new("forwarded", "kpps", [])],
    }
}

/// A dimension with its values.
fn row(key: &str, title: &str, values: &[u32], case: impl Fn(u32) -> Case) -> Row {
    let arm = |&value: &u32| {
        let case = case(value);
        Arm::new(value.to_string(), move |length| {
            let rig = Rig::pair()?;
            let values = case.measure(&rig, length);
            values.map_err(|error| Error::Check(format!("{error}\n{}", rig.scratch.logs(20))))
        })
    };
    Row {
        key: key.to_owned(),
        title: title.to_owned(),
        arms: values.iter().map(arm).collect(),
        quantities: vec![
            Quantity::new("forwarded", "kpps", []),
            Quantity::new("start until all ports are bound", "ms", []),
            Quantity::new("resident memory", "MiB", []),
        ],
    }
}

impl Case {
    /// One value for each quantity.
    fn measure(&self, rig: &Rig, length: Duration) -> Result<Vec<f64>> {
        let ports = self.prepare(rig)?;
        let start = Instant::now();
        let mut daemon = Daemon::launch(rig, "xvswitchd", &self.toml(&ports), &[])?;
        daemon.wait_bound(ports.len(), START_LIMIT)?;
        let start = start.elapsed();
        rig.wait_forwarding(Duration::from_secs(10))?;
        for n in 0..self.subtables {
            daemon.appctl(&["dpctl/add-flow", &flow_of_subtable(n), "2"])?;
        }
        let rate = self.forwarded(rig, length)?;
        let resident = contender::resident_mib(daemon.proc().pid())?;
        Ok(vec![rate / 1e3, start.as_secs_f64() * 1e3, resident])
    }

    /// Brings the rig into shape; its ports.
    fn prepare(&self, rig: &Rig) -> Result<Vec<PortSpec>> {
        for (ns, names) in
            [(&rig.c1, ["e0"].as_slice()), (&rig.c2, &["e0"]), (&rig.dut, &["v1", "v2"])]
        {
            for name in names.iter().filter(|_| self.size > 1514) {
                ns.ip(&format!("link set {name} mtu {}", self.size))?;
            }
        }
        for host in [&rig.c1, &rig.c2] {
            host.run("ethtool -K e0 tx off")?;
        }
        let mut ports = rig.ports.clone();
        for n in 3..=self.ports {
            rig.dut.ip(&format!("link add v{n} type veth peer name x{n}"))?;
            rig.dut.ip(&format!("link set v{n} up"))?;
            rig.dut.ip(&format!("link set x{n} up"))?;
            ports.push(PortSpec::new(&format!("v{n}"), ""));
        }
        Ok(ports)
    }

    /// The daemon's configuration.
    fn toml(&self, ports: &[PortSpec]) -> String {
        // A receive ring of each port, a transmit ring for each of its threads, and what the threads keep.
        let frames = self.ports * 2048 * (1 + self.threads) + 2048 * self.threads + 4096;
        let (frames, mask) = (frames.max(16_384), (1 << self.threads) - 1);
        let emc = if self.subtables > 0 { "emc-insert-inv-prob = 0" } else { "" };
        let batch = self.batch;
        let mut text = format!(
            "[umem]\nframes = {frames}\n[pmd]\ncpu-mask = \"{mask:#x}\"\nbatch-size = {batch}\n{emc}\n\
             [datapath]\nflow-limit = 2000000\n[[bridge]]\nname = \"br0\"\nrules = [\n"
        );
        let mut rule = |rule: String| {
            let _ = writeln!(text, "  \"{rule}\",");
        };
        for n in 0..self.rules - 1 {
            let (address, port) = (1 + n / PORTS_PER_ADDRESS, 1024 + n % PORTS_PER_ADDRESS);
            rule(format!("priority=9,udp,nw_src=10.{address}.1.1,tp_src={port},actions=NORMAL"));
        }
        // Rules that no packet matches, for the sake of which its address and port are looked at.
        let addresses = if self.is_megaflow_each { 1 + self.flows / PORTS_PER_ADDRESS } else { 0 };
        for n in 1..=addresses {
            rule(format!("priority=9,udp,nw_src=10.{n}.1.1,tp_src=1,actions=drop"));
        }
        rule("priority=0,actions=NORMAL".to_owned());
        text.push_str("]\n");
        for PortSpec { name, lines } in ports {
            let _ = writeln!(
                text,
                "[[port]]\nname = \"{name}\"\nbridge = \"br0\"\ntype = \"afxdp\"\n{lines}"
            );
        }
        text
    }

    /// Packets per second that come out, on both sides.
    #[allow(clippy::cast_precision_loss, reason = "a rate")]
    fn forwarded(&self, rig: &Rig, length: Duration) -> Result<f64> {
        let load = Load { size: self.size, flows: self.flows };
        let mut sources = vec![load.start(rig, &[])?];
        let mut sinks = vec![rig.c2.enter(|| Sink::attach("e0"))?];
        if self.is_both_ways {
            sinks.push(rig.c1.enter(|| Sink::attach("e0"))?);
            sources.push(back(rig)?);
        }
        let new = if self.is_megaflow_each { self.flows } else { 0 };
        std::thread::sleep(Duration::from_secs(u64::from(1 + new / NEW_FLOWS_PER_SECOND)));
        let count =
            || sinks.iter().map(Sink::count).try_fold(0, |sum, count| Ok(sum + count?.packets));
        let (start, before) = (Instant::now(), count()?);
        std::thread::sleep(length);
        let packets: u64 = count()? - before;
        let rate = packets as f64 / start.elapsed().as_secs_f64();
        for source in &mut sources {
            if let Some(status) = source.ended()? {
                let line = format!("xvsbench source ({status})");
                return Err(Error::Command { line, output: source.stderr() });
            }
            source.signal(Signal::SIGTERM)?;
        }
        xvs_tests::check!(packets > 0, "no packet came out");
        Ok(rate)
    }
}

/// The source on the second host.
fn back(rig: &Rig) -> Result<Proc> {
    let mut command = rig.c2.command("taskset");
    command.args(["-c", HOSTS_CORE]).arg(daemon::program("xvsbench")?);
    command.args(["source", "-i", "e0", "--from", C2, "--to", C1]);
    command.args(["--from-mac", "02:00:00:00:00:02", "--to-mac", "02:00:00:00:00:01"]);
    Proc::start(&rig.scratch, "source-back", &mut command)
}

/// A flow that the source's flow of this number matches, with a mask of its own.
fn flow_of_subtable(n: u32) -> String {
    let mask = u32::MAX << (31 - n % 32);
    let address = u32::from(std::net::Ipv4Addr::new(10, 1, 1, 2)) & mask;
    let [address, mask] = [address, mask].map(std::net::Ipv4Addr::from);
    let (port, bits) = (1024 + n, (1 << (1 + n / 32)) - 1);
    format!(
        "in_port(1),eth(),eth_type(0x0800),ipv4(dst={address}/{mask},proto=17),\
         udp(src={port},dst={:#x}/{bits:#x})",
        9 & bits
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_subtable_has_a_mask_of_its_own() {
        let masks = (0..50).map(|n| {
            let flow = flow_of_subtable(n);
            flow.replace(&format!("src={}", 1024 + n), "")
        });
        let different: std::collections::HashSet<_> = masks.collect();
        assert_eq!(different.len(), 50);
    }

    #[test]
    fn every_configuration_is_valid() {
        for case in rows_cases() {
            let ports: Vec<_> =
                (1..=case.ports).map(|n| PortSpec::new(&format!("v{n}"), "")).collect();
            let text = case.toml(&ports);
            assert_eq!(text.matches("[[port]]").count(), case.ports as usize);
            assert!(text.matches("actions=").count() >= case.rules as usize);
            toml::from_str::<toml::Table>(&text).expect("TOML");
        }
    }

    fn rows_cases() -> Vec<Case> {
        let usual = Case::default();
        vec![
            usual,
            Case { rules: 1000, ..usual },
            Case { ports: 32, ..usual },
            Case { flows: 100_000, is_megaflow_each: true, ..usual },
            Case { subtables: 50, ..usual },
        ]
    }
}
