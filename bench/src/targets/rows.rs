//! The rows of the table of targets.

use std::time::Duration;

use xvs_tests::{
    Result,
    iperf::Iperf,
    rig::{C2, PortSpec, Rig},
};

use super::{arm, each_host, named, prepared_arm};
use crate::contender::{
    self, Contender, FORWARDER, OPEN_VSWITCH, SLEEPING, Switch, TESTPMD, XVSWITCH, xvswitch,
};
use crate::harness::{Quantity, Row, Target};
use crate::load::Load;
use crate::probe::Probing;
use crate::slow_link;

/// Small packets of one flow, more than anybody can forward, through every contender.
pub(super) fn one_flow() -> Row {
    let measure = |rig: &Rig, switch: &Switch, length| {
        let rate = Load::default().saturate(rig, length)?;
        Ok(vec![rate / 1e3, switch.resident_mib()?.unwrap_or(0.0)])
    };
    let targets = [
        Target::at_least(XVSWITCH, 1.1).times(OPEN_VSWITCH),
        Target::at_least(XVSWITCH, 1.0).times(TESTPMD),
        Target::at_least(XVSWITCH, 0.95).times(FORWARDER),
    ];
    Row {
        key: "one-flow".to_owned(),
        title: "64-byte packets, one flow, saturation".to_owned(),
        arms: contender::all().into_iter().map(|contender| arm(contender, measure)).collect(),
        quantities: vec![
            Quantity::new("forwarded", "kpps", targets),
            Quantity::new("resident memory", "MiB", [Target::at_most(XVSWITCH, 100.0)]),
        ],
    }
}

/// As many flows that take turns packet by packet, beside one flow and beside Open vSwitch.
pub(super) fn flows(key: &str, flows: u32, of_one_flow: f64) -> Row {
    const ONE: &str = "xvswitch, one flow";
    let measure = |flows| {
        move |rig: &Rig, _: &Switch, length| {
            Ok(vec![Load { flows, ..Load::default() }.saturate(rig, length)? / 1e3])
        }
    };
    let many = [XVSWITCH, OPEN_VSWITCH].into_iter().flat_map(named);
    let one = xvswitch(ONE, |_, setup| Ok(setup));
    let targets = [
        Target::at_least(XVSWITCH, of_one_flow).times(ONE),
        Target::at_least(XVSWITCH, 1.2).times(OPEN_VSWITCH),
    ];
    Row {
        key: key.to_owned(),
        title: format!("64-byte packets, {flows} flows, saturation"),
        arms: many.map(|c| arm(c, measure(flows))).chain([arm(one, measure(1))]).collect(),
        quantities: vec![Quantity::new("forwarded", "kpps", targets)],
    }
}

/// At most what Open vSwitch takes.
fn no_slower() -> [Target; 1] {
    [Target::at_most(XVSWITCH, 1.0).times(OPEN_VSWITCH)]
}

/// Loss and request/response latency while half and nine tenths of what the contender can forward pass.
pub(super) fn load() -> Row {
    let measure = |rig: &Rig, _: &Switch, length| {
        let capacity = Load::default().saturate(rig, length)?;
        let mut values = vec![capacity / 1e3];
        for share in [0.5, 0.9] {
            let (lost, probes) = Load::default().probe(rig, capacity * share, length)?;
            values.push(lost);
            values.extend([500, 990, 999].map(|permille| probes.permille_us(permille)));
        }
        Ok(values)
    };
    let quantity = Quantity::new;
    Row {
        key: "load".to_owned(),
        title: "Request and response beside 64-byte packets".to_owned(),
        arms: [XVSWITCH, OPEN_VSWITCH]
            .into_iter()
            .flat_map(named)
            .map(|c| arm(c, measure))
            .collect(),
        quantities: vec![
            quantity("capacity", "kpps", vec![]),
            quantity("lost at 50 %", "%", vec![Target::at_most(XVSWITCH, 0.0)]),
            quantity("p50 at 50 %", "µs", no_slower().into()),
            quantity("p99 at 50 %", "µs", no_slower().into()),
            quantity("p99.9 at 50 %", "µs", vec![]),
            quantity("lost at 90 %", "%", vec![]),
            quantity("p50 at 90 %", "µs", vec![]),
            quantity("p99 at 90 %", "µs", vec![]),
            quantity("p99.9 at 90 %", "µs", vec![]),
        ],
    }
}

/// Request and response with nothing else to forward.
pub(super) fn latency() -> Row {
    let measure = |rig: &Rig, _: &Switch, length| {
        let probes = Probing::start(rig, length)?.finish()?;
        Ok([500, 990, 999].map(|permille| probes.permille_us(permille)).to_vec())
    };
    let names = [XVSWITCH, OPEN_VSWITCH, SLEEPING];
    Row {
        key: "latency".to_owned(),
        title: "Request and response, idle".to_owned(),
        arms: names.into_iter().flat_map(with_sleeping).map(|c| arm(c, measure)).collect(),
        quantities: vec![
            Quantity::new("p50", "µs", no_slower()),
            Quantity::new("p99", "µs", no_slower()),
            Quantity::new("p99.9", "µs", []),
        ],
    }
}

/// The contender with this name, or xvswitch that sleeps when there is nothing to do.
fn with_sleeping(name: &str) -> Vec<Contender> {
    if name != SLEEPING {
        return named(name).collect();
    }
    vec![xvswitch(SLEEPING, |_, mut setup| {
        setup.pmd.push_str("\nsleep-max-us = 200");
        Ok(setup)
    })]
}

/// A TCP stream from `c1` to `c2`; hosts and switch share the machine as they like.
fn stream(rig: &Rig, _: &Switch, length: Duration) -> Result<Vec<f64>> {
    let seconds = u32::try_from(length.as_secs()).unwrap_or(u32::MAX);
    Ok(vec![Iperf::run(rig, C2, seconds, &[])?.mbit_s])
}

/// Switches a host's offloads off, as Open vSwitch needs them.
const OFFLOADS_OFF: &str = "ethtool -K e0 tx off rx off gso off tso off gro off";

/// TCP with the hosts' offloads off.
pub(super) fn tcp() -> Row {
    let names = [XVSWITCH, OPEN_VSWITCH, FORWARDER, TESTPMD, SLEEPING];
    let contenders = names.into_iter().flat_map(with_sleeping);
    let off = |rig: &Rig| each_host(rig, OFFLOADS_OFF);
    let targets = [XVSWITCH, SLEEPING].into_iter().flat_map(|name| {
        [
            Target::at_least(name, 1.1).times(OPEN_VSWITCH),
            Target::at_least(name, 1.0).times(FORWARDER),
        ]
    });
    Row {
        key: "tcp".to_owned(),
        title: "TCP, offloads off".to_owned(),
        arms: contenders.map(|c| prepared_arm(c, Rig::pair, off, stream)).collect(),
        quantities: vec![Quantity::new("rate", "Mbit/s", targets.collect::<Vec<_>>())],
    }
}

/// TCP through xvswitch as the hosts come, and with large packets, beside offloads off.
pub(super) fn tcp_offloads() -> Row {
    const OFF: &str = "xvswitch, offloads off";
    const ON: &str = "xvswitch, default offloads";
    const JUMBO: &str = "xvswitch, MTU 9000";
    let ours = |name| xvswitch(name, |_, setup| Ok(setup));
    let off = |rig: &Rig| each_host(rig, OFFLOADS_OFF);
    let jumbo = |rig: &Rig| {
        each_host(rig, "ip link set e0 mtu 9000")?;
        let mut ports = rig.ports.iter();
        ports.try_for_each(|p| rig.dut.ip(&format!("link set {} mtu 9000", p.name)).map(drop))
    };
    let targets = [ON, JUMBO].map(|name| Target::at_least(name, 1.0).times(OFF));
    Row {
        key: "tcp-offloads".to_owned(),
        title: "TCP, default offloads and MTU 9000".to_owned(),
        arms: vec![
            prepared_arm(ours(OFF), Rig::pair, off, stream),
            prepared_arm(ours(ON), Rig::pair, |_| Ok(()), stream),
            prepared_arm(ours(JUMBO), Rig::pair, jumbo, stream),
        ],
        quantities: vec![Quantity::new("rate", "Mbit/s", targets)],
    }
}

/// One flow between two ports, with more ports on which nothing happens.
pub(super) fn idle_ports() -> Row {
    const NONE: &str = "xvswitch, 2 ports";
    const FEW: &str = "xvswitch, 8 idle ports more";
    const MANY: &str = "xvswitch, 32 idle ports more";
    let ours = |name, count| {
        xvswitch(name, move |rig, mut setup| {
            setup.umem = "frames = 32768".to_owned();
            for n in 0..count {
                let (port, peer) = (format!("i{n}"), format!("i{n}-peer"));
                rig.dut.ip(&format!("link add {port} type veth peer name {peer}"))?;
                for end in [&port, &peer] {
                    // No address, so that nothing is sent.
                    rig.dut.ip(&format!("link set {end} addrgenmode none"))?;
                    rig.dut.ip(&format!("link set {end} up"))?;
                }
                let lines = "rx-ring = 256\ntx-ring = 256";
                setup.ports.push(PortSpec::new(&port, lines));
            }
            Ok(setup)
        })
    };
    let measure =
        |rig: &Rig, _: &Switch, length| Ok(vec![Load::default().saturate(rig, length)? / 1e3]);
    let arms = [(NONE, 0), (FEW, 8), (MANY, 32)];
    let targets =
        [Target::at_least(FEW, 0.97).times(NONE), Target::at_least(MANY, 0.9).times(NONE)];
    Row {
        key: "idle-ports".to_owned(),
        title: "64-byte packets, one flow, beside idle ports".to_owned(),
        arms: arms.into_iter().map(|(name, count)| arm(ours(name, count), measure)).collect(),
        quantities: vec![Quantity::new("forwarded", "kpps", targets)],
    }
}

/// Overload of a slow link (field cases 1 to 4).
pub(super) fn slow_link() -> Row {
    // A stream long enough for neighbours to be forgotten more than once.
    let measure = |rig: &Rig, switch: &Switch, length: Duration| {
        let seconds = u32::try_from(length.as_secs()).unwrap_or(1) * 4;
        slow_link::sample(rig, switch, seconds).map(|sample| sample.to_vec())
    };
    let contenders = [XVSWITCH, OPEN_VSWITCH].into_iter().flat_map(named);
    Row {
        key: "slow-link".to_owned(),
        title: "400 Mbit/s into a link of 100 Mbit/s".to_owned(),
        arms: contenders.map(|c| prepared_arm(c, Rig::slow_link, |_| Ok(()), measure)).collect(),
        quantities: slow_link::quantities(),
    }
}
