//! `./x bench all`: what xvswitch shall reach, beside its peers on the same rig and core.

mod rows;

use std::time::Duration;

use xvs_tests::{Error, Result, rig::Rig};

use crate::contender::{self, Contender, Switch};
use crate::harness::{self, Arm, Benchmark, Options};

/// Measures the rows of the table.
///
/// # Errors
/// Those of the harness.
pub fn run(options: &Options) -> Result<()> {
    let rows = vec![
        rows::one_flow(),
        rows::flows("flows-10k", 10_000, 0.9),
        rows::flows("flows-100k", 100_000, 0.8),
        rows::load(),
        rows::latency(),
        rows::tcp(),
        rows::tcp_offloads(),
        rows::idle_ports(),
        rows::slow_link(),
    ];
    let title = "xvswitch and its peers";
    harness::run(
        Benchmark { name: "all", title, rounds: 7, rows, figures: Vec::new(), notes: "" },
        options,
    )
}

/// The contender with this name.
fn named(name: &str) -> impl Iterator<Item = Contender> {
    contender::all().into_iter().filter(move |contender| contender.name == name)
}

/// An arm that measures a contender on a fresh pair of hosts, checksum offload off, once it forwards.
fn arm(
    contender: Contender,
    measure: impl Fn(&Rig, &Switch, Duration) -> Result<Vec<f64>> + 'static,
) -> Arm {
    let prepare = |rig: &Rig| each_host(rig, "ethtool -K e0 tx off");
    prepared_arm(contender, Rig::pair, prepare, measure)
}

/// An arm that measures a contender on a fresh rig that is prepared first, once it forwards.
fn prepared_arm(
    contender: Contender,
    rig: impl Fn() -> Result<Rig> + 'static,
    prepare: impl Fn(&Rig) -> Result<()> + 'static,
    measure: impl Fn(&Rig, &Switch, Duration) -> Result<Vec<f64>> + 'static,
) -> Arm {
    let (name, needs) = (contender.name.clone(), contender.needs);
    Arm::new(name, move |length| {
        let rig = rig()?;
        prepare(&rig)?;
        let run = || {
            let switch = contender.start(&rig)?;
            rig.wait_forwarding(Duration::from_secs(10))?;
            measure(&rig, &switch, length)
        };
        run().map_err(|error| Error::Check(format!("{error}\n{}", rig.scratch.logs(20))))
    })
    .needs(needs)
}

/// Runs a command line on both hosts.
fn each_host(rig: &Rig, line: &str) -> Result<()> {
    [&rig.c1, &rig.c2].into_iter().try_for_each(|host| host.run(line).map(drop))
}
