//! The flow table's figures: what a hit and a miss cost, what a flow occupies, how fast a table fills and how
//! long packets wait while it is dumped.
//!
//! Packets are in memory, without kernel, on one core. Instructions and bytes are valgrind's and the same
//! everywhere; times are the best of several runs.

mod load;

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use comfy_table::{CellAlignment, Table, presets::ASCII_MARKDOWN};
use xvs_datapath::{DatapathConfig, DumpCursor};
use xvs_tests::{Error, Result};

use crate::{instructions, valgrind};
use load::{FLOWS, Load, Udp, failed, random};

/// What to measure, and where to write it.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// Only the figures whose name contains this.
    #[arg(long, default_value = "")]
    pub only: String,
    /// Fail when a goal is missed.
    #[arg(long)]
    pub strict: bool,
    /// Put the table into this file, in place of what stands between its two marks.
    #[arg(long, value_name = "FILE")]
    pub markdown: Option<PathBuf>,
}

/// What is wanted of a figure.
#[derive(Clone, Copy, Debug)]
enum Goal {
    AtMost(f64),
    AtLeast(f64),
    /// It is shown for comparison.
    None,
}

impl Goal {
    fn text(self) -> String {
        match self {
            Self::AtMost(goal) => format!("≤ {}", thousands(goal)),
            Self::AtLeast(goal) => format!("≥ {}", thousands(goal)),
            Self::None => "-".to_owned(),
        }
    }

    fn verdict(self, value: f64) -> &'static str {
        match self {
            Self::None => "-",
            Self::AtMost(goal) if value <= goal => "met",
            Self::AtLeast(goal) if value >= goal => "met",
            Self::AtMost(_) | Self::AtLeast(_) => MISSED,
        }
    }
}

const MISSED: &str = "missed";

/// One line of the table.
#[derive(Debug)]
struct Figure {
    name: String,
    unit: &'static str,
    goal: Goal,
    value: f64,
    /// Nanoseconds of one packet or flow, where the value is something else.
    ns: Option<f64>,
}

/// A measurement: name, unit, goal, and how to take it.
type Row = (&'static str, &'static str, Goal, fn() -> Result<(f64, Option<f64>)>);

const ROWS: [Row; 14] = [
    ("translated misses, 1,000 rules in 3 tables", "1/s", Goal::AtLeast(300_000.0), || {
        misses_per_s(1_000)
    }),
    ("such a miss, 1,000 rules", "instructions", Goal::None, || counted(Part::Misses1000, 20_000)),
    ("translated misses, 100,000 rules in 3 tables", "1/s", Goal::None, || misses_per_s(100_000)),
    ("such a miss, 100,000 rules", "instructions", Goal::None, || {
        counted(Part::Misses100000, 20_000)
    }),
    ("memory of a megaflow", "bytes", Goal::AtMost(640.0), memory),
    ("200,000 flows inserted by packets", "ms", Goal::AtMost(1000.0), inserted_by_packets),
    ("200,000 flows inserted by commands", "ms", Goal::AtMost(1000.0), inserted_by_commands),
    ("longest wait while 200,000 flows are dumped", "µs", Goal::AtMost(1000.0), longest_wait),
    ("100,000 connections, 1 mask", "instructions", Goal::None, || counted(Part::Wide1, 200_000)),
    ("100,000 connections, 1 mask, signature cache", "instructions", Goal::None, || {
        counted(Part::Wide1Smc, 200_000)
    }),
    ("100,000 connections, 10 masks", "instructions", Goal::None, || {
        counted(Part::Wide10, 200_000)
    }),
    ("100,000 connections, 10 masks, signature cache", "instructions", Goal::None, || {
        counted(Part::Wide10Smc, 200_000)
    }),
    ("100,000 connections, 30 masks", "instructions", Goal::None, || {
        counted(Part::Wide30, 200_000)
    }),
    ("100,000 connections, 30 masks, signature cache", "instructions", Goal::None, || {
        counted(Part::Wide30Smc, 200_000)
    }),
];

/// Runs of which the best counts.
const RUNS: usize = 5;

/// Measures, prints and writes.
///
/// # Errors
/// When valgrind is missing or fails, or the file cannot be written; with `strict`, when a goal is missed.
pub fn run(options: &Options) -> Result<()> {
    let wanted = |name: &str| name.contains(&options.only);
    let mut figures = Vec::new();
    for case in instructions::CASES.iter().filter(|case| !case.whole && wanted(case.name)) {
        let (value, ns) = (instructions::count(case)?, instructions::nanoseconds(case)?);
        let goal = case.goal.map_or(Goal::None, Goal::AtMost);
        figures.push(Figure::new(case.name, "instructions", goal, (value, Some(ns))));
    }
    for (name, unit, goal, measure) in ROWS.into_iter().filter(|row| wanted(row.0)) {
        figures.push(Figure::new(name, unit, goal, measure()?));
    }
    if let Some(path) = &options.markdown {
        write_between_marks(path, &section(&figures))?;
    }
    println!("{}", table(&figures));
    let n_missed = figures.iter().filter(|figure| figure.verdict() == MISSED).count();
    if options.strict && n_missed > 0 {
        return Err(Error::Check(format!("{n_missed} goals missed")));
    }
    Ok(())
}

impl Figure {
    /// Printed as soon as it is there, for all of them take minutes.
    fn new(name: &str, unit: &'static str, goal: Goal, (value, ns): (f64, Option<f64>)) -> Self {
        let figure = Self { name: name.to_owned(), unit, goal, value, ns };
        eprintln!("{name}: {} {unit}", thousands(value));
        figure
    }

    fn verdict(&self) -> &'static str {
        self.goal.verdict(self.value)
    }
}

fn table(figures: &[Figure]) -> Table {
    let mut table = Table::new();
    table.load_style(ASCII_MARKDOWN);
    table.set_header(["figure", "unit", "goal", "measured", "", "ns"]);
    for column in [2, 3, 5] {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    for figure in figures {
        table.add_row([
            figure.name.clone(),
            figure.unit.to_owned(),
            figure.goal.text(),
            thousands(figure.value),
            figure.verdict().to_owned(),
            figure.ns.map_or_else(|| "-".to_owned(), |ns| format!("{ns:.0}")),
        ]);
    }
    table
}

/// The number without its fraction, in groups of three digits.
fn thousands(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// The table, and on what it was measured.
fn section(figures: &[Figure]) -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let cpu = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let mut text = table(figures).to_string();
    let _ = write!(
        text,
        "\n\nOn {} with Linux {}; load of the machine before: {}.",
        cpu.map_or("an unknown processor", |(_, name)| name),
        kernel.trim(),
        load.split(' ').next().unwrap_or_default()
    );
    text
}

/// Between these lines of a page stand the figures.
const MARKS: [&str; 2] = ["<!-- figures -->\n", "<!-- end of figures -->\n"];

fn write_between_marks(path: &PathBuf, text: &str) -> Result<()> {
    let page = std::fs::read_to_string(path).map_err(Error::io(path.display().to_string()))?;
    let parts = page.split_once(MARKS[0]).and_then(|(head, rest)| {
        let (_, tail) = rest.split_once(MARKS[1])?;
        Some((head, tail))
    });
    let Some((head, tail)) = parts else {
        return Err(failed(format!("{} lacks the lines {MARKS:?}", path.display())));
    };
    let page = format!("{head}{}\n{text}\n\n{}{tail}", MARKS[0], MARKS[1]);
    std::fs::write(path, page).map_err(Error::io(path.display().to_string()))
}

/// What valgrind looks at.
#[derive(Clone, Debug, clap::Args)]
pub struct Run {
    /// Which part.
    #[arg(value_enum)]
    part: Part,
    /// How many packets or flows.
    n: u32,
}

/// A part that valgrind looks at.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Part {
    Misses1000,
    Misses100000,
    Wide1,
    Wide1Smc,
    Wide10,
    Wide10Smc,
    Wide30,
    Wide30Smc,
    Flows,
}

impl Run {
    /// Runs it.
    ///
    /// # Errors
    /// When it goes wrong.
    pub fn run(&self) -> Result<()> {
        let time = self.part.run(self.n)?;
        println!("{:.1} ns each", ns_each(time, self.n));
        Ok(())
    }
}

/// No limit that ends a measurement.
fn config(smc: bool) -> DatapathConfig {
    DatapathConfig { flow_limit: DatapathConfig::MAX_FLOWS, smc, ..DatapathConfig::default() }
}

impl Part {
    /// The time that the datapath had the packets.
    fn run(self, n: u32) -> Result<Duration> {
        match self {
            Self::Misses1000 => misses(1_000, n),
            Self::Misses100000 => misses(100_000, n),
            Self::Wide1 => wide(1, false, n),
            Self::Wide1Smc => wide(1, true, n),
            Self::Wide10 => wide(10, false, n),
            Self::Wide10Smc => wide(10, true, n),
            Self::Wide30 => wide(30, false, n),
            Self::Wide30Smc => wide(30, true, n),
            Self::Flows => {
                let mut load = Load::new(config(false), 0)?;
                let time = load.add_flows(n, 1)?;
                // They are to be there when the program ends.
                std::mem::forget(load);
                Ok(time)
            }
        }
    }
}

/// Every packet is missed, decided on and remembered.
fn misses(n_rules: u32, n: u32) -> Result<Duration> {
    let mut load = Load::new(config(false), n_rules)?;
    let time = load.run((0..n).map(Udp::connection))?;
    let stats = load.datapath.stats();
    match (stats.misses.get(), stats.flows.get()) {
        (misses, flows) if misses == u64::from(n) && flows == misses => Ok(time),
        counts => Err(failed(format!("{n} packets, misses and flows {counts:?}"))),
    }
}

/// Many more connections than the exact-match cache holds, in random order.
fn wide(n_masks: u32, smc: bool, n: u32) -> Result<Duration> {
    const CONNECTIONS: u32 = 100_000;
    let mut load = Load::new(config(smc), 0)?;
    load.add_flows(CONNECTIONS, n_masks)?;
    load.run((0..CONNECTIONS).map(Udp::connection))?;
    load.run(random(CONNECTIONS).take(n as usize).map(Udp::connection))
}

fn best(mut run: impl FnMut() -> Result<Duration>) -> Result<Duration> {
    let mut best = run()?;
    for _ in 1..RUNS {
        best = best.min(run()?);
    }
    Ok(best)
}

fn ns_each(time: Duration, n: u32) -> f64 {
    time.as_secs_f64() * 1e9 / f64::from(n)
}

fn misses_per_s(n_rules: u32) -> Result<(f64, Option<f64>)> {
    let ns = ns_each(best(|| misses(n_rules, FLOWS))?, FLOWS);
    Ok((1e9 / ns, Some(ns)))
}

/// Instructions of a packet, and nanoseconds.
fn counted(part: Part, n: u32) -> Result<(f64, Option<f64>)> {
    let name = clap::ValueEnum::to_possible_value(&part).ok_or_else(|| failed("no name"))?;
    let count =
        |n: u32| valgrind::instructions(&["flow-table-part", name.get_name(), &n.to_string()]);
    let more = count(2 * n)? - count(n)?;
    Ok((more / f64::from(n), Some(ns_each(best(|| part.run(n))?, n))))
}

/// All that the allocator gave for 200,000 flows: flows, actions, indexes.
fn memory() -> Result<(f64, Option<f64>)> {
    let heap = |n: u32| valgrind::peak_heap(&["flow-table-part", "flows", &n.to_string()]);
    Ok(((heap(FLOWS)? - heap(1)?) / f64::from(FLOWS - 1), None))
}

fn milliseconds(time: Duration) -> (f64, Option<f64>) {
    (time.as_secs_f64() * 1e3, Some(ns_each(time, FLOWS)))
}

fn inserted_by_packets() -> Result<(f64, Option<f64>)> {
    best(|| misses(1_000, FLOWS)).map(milliseconds)
}

fn inserted_by_commands() -> Result<(f64, Option<f64>)> {
    best(|| Load::new(config(false), 0)?.add_flows(FLOWS, 1)).map(milliseconds)
}

/// The longest time from one batch to the next with a slice of the dump between them. Whatever else runs on the
/// machine prolongs it, so of each slice the best of several dumps counts.
fn longest_wait() -> Result<(f64, Option<f64>)> {
    let mut load = Load::new(config(false), 0)?;
    load.add_flows(FLOWS, 1)?;
    let mut waits: Vec<Duration> = Vec::new();
    for _ in 0..RUNS {
        let mut packets = random(FLOWS).map(Udp::connection);
        let mut next = Some(DumpCursor::default());
        for slice in 0.. {
            let Some(from) = next else { break };
            let start = Instant::now();
            let (flows, rest) = load.datapath.dump(from, DumpCursor::MAX_PLACES);
            let sliced = start.elapsed();
            // The main thread drops them.
            drop(flows);
            let wait = sliced + load.run(packets.by_ref().take(32))?;
            match waits.get_mut(slice) {
                Some(best) => *best = wait.min(*best),
                None => waits.push(wait),
            }
            next = rest;
        }
    }
    let longest = waits.into_iter().max().unwrap_or_default();
    Ok((longest.as_secs_f64() * 1e6, None))
}
