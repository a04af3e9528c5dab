//! What all benchmarks share: rows measured in turns, results that are kept row by row, verdicts on targets,
//! Markdown and SVG.
//!
//! A benchmark is a list of `Row`s. A row has `Arm`s, the things it compares, and `Quantity`s, the
//! figures that one measurement of an arm yields. `run` measures every arm once in each round, in the same
//! order (A B A B), and compares arms by the ratios *within* rounds, so that what disturbs the machine for
//! longer than a round disturbs both sides. After each row the results are written; a run that was cut short
//! goes on where it stopped. To add a benchmark, make a `Benchmark` and hand it to `run`: `targets.rs` shows how.

mod machine;
mod markdown;
mod plot;
mod progress;
mod results;
mod verdict;

use std::path::{Path, PathBuf};
use std::time::Duration;

use xvs_tests::{Error, Result};

pub(crate) use plot::Figure;
pub(crate) use verdict::Target;

use progress::Progress;
use results::{Results, RowResult};

use crate::samples::Samples;

/// Rounds below which no conclusion is drawn.
const ROUNDS_MIN: u32 = 7;

/// How to measure.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// How often each contender is measured; below 7 nothing is concluded.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub rounds: Option<u32>,
    /// How long each measurement takes, in seconds, without its preparations.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=600))]
    pub seconds: u32,
    /// Measure only this row, anew, and keep the others of the results.
    #[arg(long, value_name = "KEY")]
    pub row: Vec<String>,
    /// Leave this contender out; without this, one that is missing makes the run fail.
    #[arg(long, value_name = "NAME")]
    pub without: Vec<String>,
    /// Where results, table and plots go.
    #[arg(long, default_value = "docs/benchmarks", value_name = "DIR")]
    pub out: PathBuf,
    /// Measure everything anew, even what a run that was cut short has measured already.
    #[arg(long)]
    pub fresh: bool,
    /// Fail when a target is missed.
    #[arg(long)]
    pub strict: bool,
    /// Print the rows and their contenders, and measure nothing.
    #[arg(long)]
    pub list: bool,
}

/// Rows that belong together; the name is that of the command and of the files.
pub(crate) struct Benchmark {
    /// As in `./x bench NAME`.
    pub(crate) name: &'static str,
    /// Heading of the table.
    pub(crate) title: &'static str,
    /// Rounds unless an option says otherwise.
    pub(crate) rounds: u32,
    /// What is measured, in this order.
    pub(crate) rows: Vec<Row>,
    /// Plots over several rows, beside the one of each row.
    pub(crate) figures: Vec<Figure>,
    /// Markdown at the end of the page; may be empty.
    pub(crate) notes: &'static str,
}

/// Arms that are measured in turns.
pub(crate) struct Row {
    /// Unique in the benchmark; letters, digits and dashes, as it names files.
    pub(crate) key: String,
    /// What it is, for people.
    pub(crate) title: String,
    /// What is compared.
    pub(crate) arms: Vec<Arm>,
    /// What each measurement yields, in this order. The first is plotted.
    pub(crate) quantities: Vec<Quantity>,
}

/// A measurement: how long it may take goes in, one value for each quantity of the row comes out.
type Measure = dyn Fn(Duration) -> Result<Vec<f64>>;

/// One side of a comparison: a switch, or one setting of a switch.
pub(crate) struct Arm {
    /// Its name in tables, targets and `--without`.
    pub(crate) name: String,
    /// A program without which it cannot run.
    needs: Option<&'static str>,
    measure: Box<Measure>,
}

impl Arm {
    /// An arm; `measure` makes its own rig and leaves nothing behind.
    pub(crate) fn new(
        name: impl Into<String>,
        measure: impl Fn(Duration) -> Result<Vec<f64>> + 'static,
    ) -> Self {
        Self { name: name.into(), needs: None, measure: Box::new(measure) }
    }

    /// With a program that must be installed; asked for before anything is measured.
    pub(crate) fn needs(mut self, program: Option<&'static str>) -> Self {
        self.needs = program;
        self
    }

    /// Whether what it needs is there.
    fn is_installed(&self) -> bool {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let is_in =
            |program: &str| std::env::split_paths(&path).any(|dir| dir.join(program).is_file());
        self.needs.is_none_or(is_in)
    }
}

/// A figure that a measurement yields.
pub(crate) struct Quantity {
    /// What it is.
    pub(crate) name: String,
    /// Its unit.
    pub(crate) unit: &'static str,
    /// What it shall reach.
    pub(crate) targets: Vec<Target>,
}

impl Quantity {
    /// A quantity with its targets, if any.
    pub(crate) fn new(
        name: impl Into<String>,
        unit: &'static str,
        targets: impl Into<Vec<Target>>,
    ) -> Self {
        Self { name: name.into(), unit, targets: targets.into() }
    }
}

/// Measures what is not measured yet, prints verdicts, and writes `NAME.json`, `NAME.md` and the plots.
///
/// # Errors
/// When an option names no row or contender, a contender is missing, a row could not be measured (the others
/// are, and kept), a file cannot be written; with `strict`, when a target is missed.
pub(crate) fn run(mut benchmark: Benchmark, options: &Options) -> Result<()> {
    select(&mut benchmark, options)?;
    if options.list {
        for row in &benchmark.rows {
            let arms: Vec<_> = row.arms.iter().map(|arm| arm.name.as_str()).collect();
            println!("{}: {} ({})", row.key, row.title, arms.join(", "));
        }
        return Ok(());
    }
    let rounds = options.rounds.unwrap_or(benchmark.rounds);
    std::fs::create_dir_all(&options.out).map_err(Error::io("make the directory of results"))?;
    let path = options.out.join(format!("{}.json", benchmark.name));
    let mut results = Results::open(&path, &benchmark, rounds, options)?;
    let rows: Vec<_> = benchmark.rows.iter().filter(|row| results.wants(row, options)).collect();
    let steps: usize = rows.iter().map(|row| row.arms.len()).sum();
    let progress = Progress::new(steps as u64 * u64::from(rounds));
    let mut failed = Vec::new();
    for row in rows {
        match measure(row, rounds, options, &progress) {
            Ok(samples) => {
                let command = command(benchmark.name, row, options);
                results.put(RowResult::new(row, command, (rounds, options.seconds), &samples));
                results.judge(&benchmark);
                results.write(&path)?;
                results.verdicts(&row.key).for_each(|text| progress.say(&text));
            }
            Err(error) => {
                progress.say(&format!("{}: {error}", row.key));
                failed.push(row.key.as_str());
            }
        }
    }
    progress.finish();
    results.finish(&benchmark, failed.is_empty());
    results.write(&path)?;
    publish(&benchmark, &results, &options.out)?;
    conclude(&results, &failed, options.strict)
}

/// Prints how it ended.
fn conclude(results: &Results, failed: &[&str], strict: bool) -> Result<()> {
    print!("{}", markdown::targets(results));
    if !failed.is_empty() {
        let rows = failed.join(", ");
        let text = format!("not measured: {rows}; the same command again measures only them");
        return Err(Error::Check(text));
    }
    let missed = results.missed();
    if strict && missed > 0 {
        return Err(Error::Check(format!("{missed} targets missed")));
    }
    Ok(())
}

/// Applies `--row` and `--without`, and looks whether all that is left is installed.
fn select(benchmark: &mut Benchmark, options: &Options) -> Result<()> {
    let unknown = |what: &str, name: &str, known: Vec<&str>| {
        Err(Error::Check(format!("no {what} {name}: want one of {}", known.join(", "))))
    };
    let mut arms: Vec<_> = benchmark.rows.iter().flat_map(|row| &row.arms).collect();
    arms.dedup_by_key(|arm| arm.name.as_str());
    if let Some(name) = options.without.iter().find(|n| arms.iter().all(|arm| arm.name != **n)) {
        return unknown("contender", name, arms.iter().map(|arm| arm.name.as_str()).collect());
    }
    let mut rows = benchmark.rows.iter();
    if let Some(key) = options.row.iter().find(|key| rows.clone().all(|row| row.key != **key)) {
        return unknown("row", key, rows.by_ref().map(|row| row.key.as_str()).collect());
    }
    for row in &mut benchmark.rows {
        row.arms.retain(|arm| !options.without.contains(&arm.name));
    }
    let mut arms = benchmark.rows.iter().flat_map(|row| &row.arms);
    arms.find(|arm| !arm.is_installed()).map_or(Ok(()), |arm| {
        let (name, program) = (&arm.name, arm.needs.unwrap_or_default());
        Err(Error::Check(format!(
            "{name} is missing (no program {program}): install it, or leave it out by --without \"{name}\""
        )))
    })
}

/// The samples of each quantity, arm by arm.
fn measure(
    row: &Row,
    rounds: u32,
    options: &Options,
    progress: &Progress,
) -> Result<Vec<Vec<Samples>>> {
    let length = Duration::from_secs(u64::from(options.seconds));
    let mut all = vec![vec![Samples::default(); row.arms.len()]; row.quantities.len()];
    for round in 1..=rounds {
        for (i, arm) in row.arms.iter().enumerate() {
            progress.step(&format!("{} {round}/{rounds}: {}", row.key, arm.name));
            let values = (arm.measure)(length)
                .map_err(|error| Error::Check(format!("{}: {error}", arm.name)))?;
            if values.len() != row.quantities.len() || values.iter().any(|v| !v.is_finite()) {
                return Err(Error::Check(format!("{}: measured {values:?}", arm.name)));
            }
            for (samples, value) in all.iter_mut().zip(values) {
                samples.get_mut(i).into_iter().for_each(|samples| samples.push(value));
            }
        }
    }
    Ok(all)
}

/// What measures a row again.
fn command(name: &str, row: &Row, options: &Options) -> String {
    let mut text = format!("./x bench {name} --row {}", row.key);
    for (option, value) in [("rounds", options.rounds), ("seconds", Some(options.seconds))] {
        value.into_iter().for_each(|value| text.push_str(&format!(" --{option} {value}")));
    }
    options.without.iter().for_each(|name| text.push_str(&format!(" --without \"{name}\"")));
    text
}

/// Writes the Markdown page and the plots.
fn publish(benchmark: &Benchmark, results: &Results, out: &Path) -> Result<()> {
    for row in &results.rows {
        plot::bars(row, &out.join(plot::row_file(benchmark.name, &row.key)))?;
    }
    for figure in &benchmark.figures {
        figure.draw(results, &out.join(plot::row_file(benchmark.name, figure.name)))?;
    }
    let path = out.join(format!("{}.md", benchmark.name));
    let what = format!("write {}", path.display());
    std::fs::write(path, markdown::page(benchmark, results)).map_err(Error::io(what))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;

    use super::*;

    /// Two rows of two arms; the second row fails while `is_broken`. Counts measurements.
    fn benchmark(count: &Rc<Cell<u32>>, is_broken: bool) -> Benchmark {
        let arm = |name: &str, value: f64, is_broken: bool| {
            let count = Rc::clone(count);
            Arm::new(name, move |_| {
                count.set(count.get() + 1);
                if is_broken { Err(Error::Check("broken".to_owned())) } else { Ok(vec![value]) }
            })
        };
        let row = |key: &str, is_broken| Row {
            key: key.to_owned(),
            title: key.to_owned(),
            arms: vec![arm("a", 3.0, is_broken), arm("b", 2.0, is_broken)],
            quantities: vec![Quantity::new(
                "rate",
                "kpps",
                [Target::at_least("a", 1.2).times("b")],
            )],
        };
        let rows = vec![row("first", false), row("second", is_broken)];
        Benchmark { name: "test", title: "Test", rounds: 7, rows, figures: Vec::new(), notes: "" }
    }

    #[test]
    fn a_run_goes_on_where_it_stopped() -> Result<()> {
        let out = std::env::temp_dir().join(format!("xvs-{}-harness", std::process::id()));
        let options = Options {
            rounds: None,
            seconds: 1,
            row: Vec::new(),
            without: Vec::new(),
            out: out.clone(),
            fresh: false,
            strict: true,
            list: false,
        };
        let count = Rc::new(Cell::new(0));
        let measured = |is_broken, options: &Options| {
            count.set(0);
            let outcome = run(benchmark(&count, is_broken), options);
            (outcome.is_ok(), count.get())
        };
        assert_eq!(measured(true, &options), (false, 15), "the second fails at once");
        assert_eq!(measured(false, &options), (true, 14), "only the second is left");
        assert_eq!(measured(false, &options), (true, 28), "a finished run begins anew");
        let one = Options { row: vec!["first".to_owned()], ..options.clone() };
        assert_eq!(measured(false, &one), (true, 14), "only the row that was asked for");
        let page = std::fs::read_to_string(out.join("test.md")).unwrap_or_default();
        assert!(page.contains("`./x bench test --row second --seconds 1`"), "{page}");
        assert!(page.contains("1.500 (1.500 to 1.500) × b"), "{page}");
        assert!(out.join("test-second.svg").is_file());
        let missing = Options { without: vec!["c".to_owned()], ..options };
        assert_eq!(measured(false, &missing), (false, 0), "no such contender");
        std::fs::remove_dir_all(&out).map_err(Error::io("remove the results"))
    }
}
