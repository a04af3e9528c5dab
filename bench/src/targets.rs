//! `./x bench all`: what xvswitch shall reach, beside its peers on the same rig and core.

use std::time::Duration;

use xvs_tests::{Error, Result, rig::Rig};

use crate::contender::{self, Contender, FORWARDER, OPEN_VSWITCH, Switch, XVSWITCH};
use crate::harness::{self, Arm, Benchmark, Options, Quantity, Row, Target};
use crate::load::Load;

/// Measures the rows of the table.
///
/// # Errors
/// Those of the harness.
pub fn run(options: &Options) -> Result<()> {
    let rows = vec![one_flow()];
    let title = "xvswitch and its peers";
    harness::run(Benchmark { name: "all", title, rounds: 7, rows, figures: Vec::new() }, options)
}

/// The contenders with these names; all of them when there is none.
fn contenders(names: &[&str]) -> Vec<Contender> {
    let mut all = contender::all();
    all.retain(|contender| names.is_empty() || names.contains(&contender.name.as_str()));
    all
}

/// An arm that measures a contender on a fresh pair of hosts, checksum offload off, once it forwards.
fn arm(
    contender: Contender,
    measure: impl Fn(&Rig, &Switch, Duration) -> Result<Vec<f64>> + 'static,
) -> Arm {
    let (name, needs) = (contender.name.clone(), contender.needs);
    Arm::new(name, move |length| {
        let rig = Rig::pair()?;
        for host in [&rig.c1, &rig.c2] {
            host.run("ethtool -K e0 tx off")?;
        }
        let run = || {
            let switch = contender.start(&rig)?;
            rig.wait_forwarding(Duration::from_secs(10))?;
            measure(&rig, &switch, length)
        };
        run().map_err(|error| Error::Check(format!("{error}\n{}", rig.scratch.logs(20))))
    })
    .needs(needs)
}

/// Small packets of one flow, more than anybody can forward.
fn one_flow() -> Row {
    let measure = |rig: &Rig, switch: &Switch, length| {
        let rate = Load::default().saturate(rig, length)?;
        Ok(vec![rate / 1e3, switch.resident_mib()?.unwrap_or(0.0)])
    };
    let targets = [
        Target::at_least(XVSWITCH, 1.1).times(OPEN_VSWITCH),
        Target::at_least(XVSWITCH, 0.95).times(FORWARDER),
    ];
    Row {
        key: "one-flow".to_owned(),
        title: "64-byte packets, one flow, saturation".to_owned(),
        arms: contenders(&[]).into_iter().map(|contender| arm(contender, measure)).collect(),
        quantities: vec![
            Quantity::new("forwarded", "kpps", targets),
            Quantity::new("resident memory", "MiB", [Target::at_most(XVSWITCH, 100.0)]),
        ],
    }
}
