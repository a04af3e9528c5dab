//! `./x bench slow-link`: overload of a slow link, as ports of AF_XDP switches meet it (field cases 1 to 4),
//! beside Open vSwitch in the same run.
//!
//! In each round every contender gets a fresh rig: 400 Mbit/s of UDP into a link of 100 Mbit/s with a ping
//! beside, 5 s of silence and a ping, then TCP while both hosts forget each other's address every 2 s.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};
use xvs_tests::{
    Error, Result,
    iperf::Iperf,
    ns,
    ping::{Ping, Pings},
    rig::{C2, Rig},
    udp::{Flow, Receiver},
};

use crate::calls::Calls;
use crate::contender::{self, Contender, OPEN_VSWITCH, Switch, XVSWITCH};
use crate::harness::{Quantity, Target};
use crate::report::{self, Heading};

/// Options of the experiment.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// How often each contender is measured.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub rounds: u32,
    /// How long TCP runs, in seconds.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(4..=600))]
    pub seconds: u32,
    /// Write all samples to this file as JSON.
    #[arg(long)]
    pub json: Option<PathBuf>,
    /// Fail when a goal is missed.
    #[arg(long)]
    pub strict: bool,
}

/// One line of the table, and what xvswitch shall reach in every round.
struct Row {
    name: &'static str,
    unit: &'static str,
    goal: Option<Goal>,
}

enum Goal {
    AtMost(f64),
    AtLeast(f64),
}

const ROWS: [Row; 9] = [
    row("ping beside 400 Mbit/s, lost", "%", Some(Goal::AtMost(0.0))),
    row("ping beside 400 Mbit/s, median", "ms", Some(Goal::AtMost(15.0))),
    row("ping beside 400 Mbit/s, slowest", "ms", None),
    row("link used beside 400 Mbit/s", "%", Some(Goal::AtLeast(95.0))),
    row("sendto calls beside 400 Mbit/s", "1/s", Some(Goal::AtMost(20_000.0))),
    row("ping after the overload, lost", "%", Some(Goal::AtMost(0.0))),
    row("TCP, neighbours forgotten every 2 s", "Mbit/s", None),
    row("TCP, seconds that stood still", "s", Some(Goal::AtMost(0.0))),
    row("TCP, slowest second", "Mbit/s", None),
];

const fn row(name: &'static str, unit: &'static str, goal: Option<Goal>) -> Row {
    Row { name, unit, goal }
}

/// One sample for each of [`ROWS`].
pub(crate) type Sample = [f64; ROWS.len()];

/// Bytes that the link carries in a second.
const LINK: f64 = 100e6 / 8.0;

/// How long the overload lasts, in seconds, and when the ping beside it begins.
const OVERLOAD_S: u32 = 4;
const SETTLE: Duration = Duration::from_secs(1);
/// Silence after the overload.
const SILENCE: Duration = Duration::from_secs(5);

/// Measures one contender once.
fn measure(contender: &Contender, rig: &Rig, seconds: u32) -> Result<Sample> {
    let switch = contender.start(rig)?;
    rig.wait_forwarding(Duration::from_secs(10))?;
    sample(rig, &switch, seconds)
}

/// What the targets say of [`ROWS`].
pub(crate) fn quantities() -> Vec<Quantity> {
    let target = |goal: &Goal| match *goal {
        Goal::AtMost(limit) => Target::at_most(XVSWITCH, limit),
        Goal::AtLeast(limit) => Target::at_least(XVSWITCH, limit),
    };
    let quantity = |row: &Row| {
        Quantity::new(row.name, row.unit, row.goal.iter().map(target).collect::<Vec<_>>())
    };
    ROWS.iter().map(quantity).collect()
}

/// Measures a switch that runs.
pub(crate) fn sample(rig: &Rig, switch: &Switch, seconds: u32) -> Result<Sample> {
    let calls = switch.pid().map(Calls::of).transpose()?;
    let made = || calls.as_ref().map_or(Ok(0), Calls::count);
    let receiver = Receiver::start(&rig.c2, 7000)?;
    let bulk = Flow::bulk(&format!("{C2}:7000"), 400, OVERLOAD_S).start(&rig.c1)?;
    std::thread::sleep(SETTLE);
    let (calls_before, bytes_before) = (made()?, arrived_bytes(rig)?);
    let start = std::time::Instant::now();
    let beside = Ping::new(&rig.c1, C2).count(50).interval_s(0.04).run(&rig.scratch)?;
    let elapsed = start.elapsed().as_secs_f64();
    let bytes_per_second = float(arrived_bytes(rig)? - bytes_before) / elapsed;
    let calls_per_second = float(made()? - calls_before) / elapsed;
    ns::join(bulk)?;
    receiver.stop()?;
    std::thread::sleep(SILENCE);
    let after = Ping::new(&rig.c1, C2).count(10).run(&rig.scratch)?;
    // A switch that has stopped for good lets no connection through.
    let tcp = tcp(rig, seconds).unwrap_or_default();
    let still = f64::from(seconds) - float(tcp.iter().filter(|mbit| **mbit > 0.0).count() as u64);
    Ok([
        lost_percent(&beside),
        beside.median_ms(),
        beside.rtt_ms.iter().copied().fold(0.0, f64::max),
        bytes_per_second * 100.0 / LINK,
        calls_per_second,
        lost_percent(&after),
        tcp.iter().sum::<f64>() / f64::from(seconds),
        still.max(0.0),
        if still > 0.0 { 0.0 } else { tcp.iter().copied().fold(f64::INFINITY, f64::min) },
    ])
}

/// Bytes that the second host has received.
fn arrived_bytes(rig: &Rig) -> Result<u64> {
    let text = rig.c2.run("ip -s -j link show e0")?;
    let report: Value = serde_json::from_str(&text).unwrap_or_default();
    let bytes = report.pointer("/0/stats64/rx/bytes").and_then(Value::as_u64);
    bytes.ok_or(Error::Output { what: "ip -s -j link".to_owned(), text })
}

/// The rate of each second.
fn tcp(rig: &Rig, seconds: u32) -> Result<Vec<f64>> {
    let running = Iperf::start(rig, C2, seconds, &[])?;
    for _ in 0..seconds / 2 {
        std::thread::sleep(Duration::from_secs(2));
        rig.c1.ip("neigh flush dev e0")?;
        rig.c2.ip("neigh flush dev e0")?;
    }
    Ok(running.finish()?.seconds_mbit_s)
}

fn lost_percent(pings: &Pings) -> f64 {
    f64::from(pings.lost()) * 100.0 / f64::from(pings.sent.max(1))
}

#[allow(clippy::cast_precision_loss, reason = "a figure for people")]
fn float(count: u64) -> f64 {
    count as f64
}

/// A contender and its samples for each of [`ROWS`].
type Column = report::Column<{ ROWS.len() }>;

/// Name and unit of each of [`ROWS`].
fn headings() -> [Heading; ROWS.len()] {
    ROWS.map(|row| (row.name, row.unit))
}

/// Measures, prints the table and writes the JSON file.
///
/// # Errors
/// When a contender does not start or forward; with `strict`, when a goal is missed.
pub fn run(options: &Options) -> Result<()> {
    let mut columns: Vec<_> = contender::all()
        .into_iter()
        .filter(|contender| [XVSWITCH, OPEN_VSWITCH].contains(&contender.name.as_str()))
        .map(Column::new)
        .collect();
    for round in 1..=options.rounds {
        for column in &mut columns {
            let name = &column.contender.name;
            println!("[{round}/{}] {name}", options.rounds);
            let rig = Rig::slow_link()?;
            let sample = measure(&column.contender, &rig, options.seconds)
                .inspect_err(|_| eprint!("{name}:\n{}", rig.scratch.logs(20)))?;
            for ((samples, value), row) in column.rows.iter_mut().zip(sample).zip(&ROWS) {
                println!("        {}: {value:.1} {}", row.name, row.unit);
                samples.push(value);
            }
        }
    }
    println!("\n{}\n", report::table(&headings(), &columns, 1));
    let missed = columns.iter().filter(|c| c.contender.name == XVSWITCH).map(judge).sum::<usize>();
    if let Some(path) = &options.json {
        let what = format!("write {}", path.display());
        let rows = report::json(&headings(), &columns);
        let report = json!({"rounds": options.rounds, "seconds": options.seconds, "rows": rows});
        std::fs::write(path, format!("{report:#}\n")).map_err(Error::io(what))?;
    }
    if options.strict && missed > 0 {
        return Err(Error::Check(format!("{missed} goals missed")));
    }
    Ok(())
}

/// Prints which goals are reached in every round; how many are missed.
fn judge(column: &Column) -> usize {
    let mut missed = 0;
    for (row, samples) in ROWS.iter().zip(&column.rows) {
        let (Some(goal), Some((least, most))) = (&row.goal, samples.spread()) else { continue };
        let (reached, text) = match goal {
            Goal::AtMost(limit) => (most <= *limit, format!("at most {limit}")),
            Goal::AtLeast(limit) => (least >= *limit, format!("at least {limit}")),
        };
        missed += usize::from(!reached);
        let word = if reached { "reached" } else { "missed" };
        println!("{word}: {}: {}, goal {text} {}", row.name, samples.text(1), row.unit);
    }
    missed
}
