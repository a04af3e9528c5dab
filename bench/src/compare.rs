//! `./x bench`: xvswitch beside its peers on the same rig and core, in turns, as ratios within one run.
//!
//! Absolute figures say more about the machine than about a switch. So every round measures every
//! contender, one after the other, each on a fresh rig, and what counts is the ratio of the medians.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};
use xvs_tests::{
    Error, Result, daemon,
    iperf::Iperf,
    proc::{self, Proc},
    rig::{C2, Rig},
};

use crate::contender::{self, Contender, FORWARDER, OPEN_VSWITCH, Switch, XVSWITCH};
use crate::report::{self, Heading};
use crate::{samples::Samples, sink::Sink};

/// Options of the comparison.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// How often each contender is measured.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub rounds: u32,
    /// How long each measurement takes, in seconds.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=600))]
    pub seconds: u32,
    /// Measure only these contenders.
    #[arg(long, value_name = "NAME")]
    pub only: Vec<String>,
    /// One more contender, `NAME=COMMAND`: the command forwards between the interfaces v1 and v2.
    #[arg(long, value_name = "NAME=COMMAND")]
    pub peer: Vec<String>,
    /// Write all samples to this file as JSON.
    #[arg(long)]
    pub json: Option<PathBuf>,
    /// Fail when a goal is missed.
    #[arg(long)]
    pub strict: bool,
}

/// The core of whoever makes and takes packets; the switch has the other.
const HOSTS_CORE: &str = "1";

/// One line of the table.
struct Row {
    name: &'static str,
    unit: &'static str,
    goals: &'static [Goal],
}

/// What xvswitch shall reach.
enum Goal {
    /// So many times what the named contender reaches.
    Ratio(&'static str, f64),
    /// Less than this.
    Below(f64),
}

const ROWS: [Row; 6] = [
    Row { name: "64-byte packets, one flow, offered", unit: "kpps", goals: &[] },
    Row {
        name: "64-byte packets, one flow, forwarded",
        unit: "kpps",
        goals: &[Goal::Ratio(OPEN_VSWITCH, 1.0), Goal::Ratio(FORWARDER, 0.9)],
    },
    Row { name: "64-byte packets, one flow, CPU time per packet", unit: "ns", goals: &[] },
    Row { name: "TCP c1 to c2, offloads off", unit: "Mbit/s", goals: TCP_GOALS },
    Row { name: "TCP c2 to c1, offloads off", unit: "Mbit/s", goals: TCP_GOALS },
    Row { name: "resident memory, two ports", unit: "MiB", goals: &[Goal::Below(100.0)] },
];

const TCP_GOALS: &[Goal] = &[Goal::Ratio(OPEN_VSWITCH, 1.0), Goal::Ratio(FORWARDER, 0.95)];

/// One sample for each of [`ROWS`].
type Sample = [Option<f64>; ROWS.len()];

/// Measures one contender once, on a rig of its own. Checksum offload is off for all, as one needs it.
fn measure(contender: &Contender, rig: &Rig, seconds: u32) -> Result<Sample> {
    for host in [&rig.c1, &rig.c2] {
        host.run("ethtool -K e0 tx off")?;
    }
    let switch = contender.start(rig)?;
    rig.wait_forwarding(Duration::from_secs(10))?;
    let [offered, forwarded, cpu_ns] = packets(rig, &switch, seconds)?;
    let pinned = ["-A", "1,1"];
    let there = Iperf::run(rig, C2, seconds, &pinned)?;
    let back = Iperf::run(rig, C2, seconds, &[&pinned[..], &["-R"]].concat())?;
    let tcp = |iperf: Iperf| Some(iperf.mbit_s);
    Ok([offered, forwarded, cpu_ns, tcp(there), tcp(back), switch.resident_mib()?])
}

/// Thousands of packets per second that are offered and that come out, when more are offered than any
/// contender can forward; and nanoseconds that each which comes out kept the switch's threads busy,
/// which is meaningful even when something else disturbs the machine.
fn packets(rig: &Rig, switch: &Switch, seconds: u32) -> Result<[Option<f64>; 3]> {
    let sink = rig.c2.enter(|| Sink::attach("e0"))?;
    let mut command = rig.c1.command("taskset");
    command.args(["-c", HOSTS_CORE]).arg(daemon::program("xvsbench")?);
    command.args(["source", "-i", "e0", "--size", "64"]);
    let mut source = Proc::start(&rig.scratch, "source", &mut command)?;
    std::thread::sleep(Duration::from_secs(1));
    let cpu_before = switch.cpu_ns()?;
    let rate = sink.rate(Duration::from_secs(u64::from(seconds)))?;
    let cpu = switch.cpu_ns()?.zip(cpu_before).map(|(after, before)| after - before);
    if let Some(status) = source.ended()? {
        let line = format!("xvsbench source ({status})");
        return Err(Error::Command { line, output: source.stderr() });
    }
    let mut offered = Samples::default();
    let lines = source.stdout();
    let rates = lines.lines().filter_map(|line| line.split(' ').next()?.parse::<f64>().ok());
    rates.for_each(|packets| offered.push(packets / 1e3));
    let cpu_ns = cpu.map(|cpu| cpu / f64::from(seconds) / rate);
    Ok([offered.median(), Some(rate / 1e3), cpu_ns])
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
    let mut columns = columns(options)?;
    for round in 1..=options.rounds {
        for column in &mut columns {
            let name = &column.contender.name;
            println!("[{round}/{}] {name}", options.rounds);
            let rig = Rig::pair()?;
            let sample = measure(&column.contender, &rig, options.seconds)
                .inspect_err(|_| eprint!("{name}:\n{}", rig.scratch.logs(20)))?;
            for ((samples, value), row) in column.rows.iter_mut().zip(sample).zip(&ROWS) {
                let Some(value) = value else { continue };
                println!("        {}: {value:.0} {}", row.name, row.unit);
                samples.push(value);
            }
        }
    }
    let goals = goals(&columns);
    println!("\n{}\n", report::table(&headings(), &columns, 0));
    goals.iter().for_each(|goal| println!("{}", goal.text));
    if let Some(path) = &options.json {
        let report = json(options, &columns, &goals)?;
        let what = format!("write {}", path.display());
        std::fs::write(path, format!("{report:#}\n")).map_err(Error::io(what))?;
    }
    let missed = goals.iter().filter(|goal| !goal.reached).count();
    if options.strict && missed > 0 {
        return Err(Error::Check(format!("{missed} of {} goals missed", goals.len())));
    }
    Ok(())
}

/// Those that are wanted, without samples yet.
fn columns(options: &Options) -> Result<Vec<Column>> {
    let mut contenders = contender::all();
    for text in &options.peer {
        let peer = contender::external(text);
        let wrong = || Error::Check(format!("--peer {text}: want NAME=COMMAND"));
        contenders.push(peer.ok_or_else(wrong)?);
    }
    let names: Vec<_> = contenders.iter().map(|contender| contender.name.clone()).collect();
    if let Some(unknown) = options.only.iter().find(|name| !names.contains(name)) {
        let names = names.join(", ");
        return Err(Error::Check(format!("no contender {unknown}: want one of {names}")));
    }
    contenders.retain(|c| options.only.is_empty() || options.only.contains(&c.name));
    Ok(contenders.into_iter().map(Column::new).collect())
}

/// A goal and what became of it.
struct Verdict {
    text: String,
    reached: bool,
    json: Value,
}

/// All goals for which both sides were measured.
fn goals(columns: &[Column]) -> Vec<Verdict> {
    let of = |name: &str, row: usize| {
        let column = columns.iter().find(|column| column.contender.name == name)?;
        column.rows.get(row)
    };
    let rows = ROWS.iter().enumerate();
    let goals = rows.flat_map(|(i, row)| row.goals.iter().map(move |goal| (i, row, goal)));
    let verdict = |(i, row, goal): (usize, &Row, &Goal)| {
        let ours = of(XVSWITCH, i)?;
        let median = ours.median()?;
        Some(match *goal {
            Goal::Ratio(peer, least) => {
                let theirs = of(peer, i)?;
                let ratio = median / theirs.median()?;
                let rounds = ours.over(theirs);
                let spread = rounds.spread()?;
                let reached = ratio >= least;
                let text = format!(
                    "{}: {}: {ratio:.2} × {peer} (rounds {:.2} to {:.2}), goal {least}",
                    word(reached),
                    row.name,
                    spread.0,
                    spread.1
                );
                let json = json!({
                    "row": row.name, "to": peer, "ratio": ratio, "rounds": rounds.json(),
                    "goal": least, "reached": reached,
                });
                Verdict { text, reached, json }
            }
            Goal::Below(limit) => {
                let reached = median < limit;
                let (word, name, unit) = (word(reached), row.name, row.unit);
                let text = format!("{word}: {name}: {median:.0} {unit}, goal below {limit}");
                let json = json!({
                    "row": name, "value": median, "below": limit, "reached": reached,
                });
                Verdict { text, reached, json }
            }
        })
    };
    goals.filter_map(verdict).collect()
}

fn word(reached: bool) -> &'static str {
    if reached { "reached" } else { "missed" }
}

/// Everything, with what it was measured on.
fn json(options: &Options, columns: &[Column], goals: &[Verdict]) -> Result<Value> {
    let kernel = proc::run(Command::new("uname").arg("-r"))?;
    Ok(json!({
        "rounds": options.rounds,
        "seconds": options.seconds,
        "machine": {
            "kernel": kernel.trim(),
            "cores": std::thread::available_parallelism().map_or(0, usize::from),
        },
        "rows": report::json(&headings(), columns),
        "goals": goals.iter().map(|goal| &goal.json).collect::<Vec<_>>(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The columns of xvswitch, Open vSwitch and the forwarder, each with one sample for every row.
    fn measured(samples: [f64; 3]) -> Result<Vec<Column>> {
        let only = [XVSWITCH, OPEN_VSWITCH, FORWARDER].map(str::to_owned).to_vec();
        let (rounds, seconds) = (1, 1);
        let options =
            Options { rounds, seconds, only, peer: Vec::new(), json: None, strict: false };
        let mut columns = columns(&options)?;
        for (column, sample) in columns.iter_mut().zip(samples) {
            column.rows.iter_mut().for_each(|row| row.push(sample));
        }
        Ok(columns)
    }

    #[test]
    fn each_goal_is_judged_by_its_own_limit() -> Result<()> {
        let reached = |samples| -> Result<Vec<bool>> {
            Ok(goals(&measured(samples)?).iter().map(|goal| goal.reached).collect())
        };
        assert_eq!(reached([95.0, 95.0, 100.0])?, [true; 7]);
        assert_eq!(reached([94.0, 94.0, 100.0])?, [true, true, true, false, true, false, true]);
        assert_eq!(reached([100.0, 101.0, 90.0])?, [false, true, false, true, false, true, false]);
        Ok(())
    }

    #[test]
    fn without_a_peer_there_is_no_verdict_on_it() -> Result<()> {
        let mut columns = measured([95.0, 95.0, 100.0])?;
        columns.retain(|column| column.contender.name == XVSWITCH);
        let texts: Vec<_> = goals(&columns).into_iter().map(|goal| goal.text).collect();
        assert_eq!(texts, ["reached: resident memory, two ports: 95 MiB, goal below 100"]);
        Ok(())
    }

    #[test]
    fn a_peer_needs_a_name_and_a_command() {
        assert!(contender::external("mine=prog -a v1").is_some());
        assert!(
            ["prog", "=prog", "mine=", "mine= "].iter().all(|t| contender::external(t).is_none())
        );
    }
}
