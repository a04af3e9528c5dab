//! Results of a benchmark, kept row by row in one JSON file, so that a run that was cut short goes on.

use std::path::Path;

use serde::{Deserialize, Serialize};
use xvs_tests::{Error, Result};

use super::machine::{self, Machine};
use super::verdict::{self, Verdict};
use super::{Benchmark, Options, Row};
use crate::samples::Samples;

/// All rows that were measured, in the benchmark's order.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Results {
    /// Version of xvswitch.
    pub(super) version: String,
    /// What it was measured on.
    pub(super) machine: Machine,
    /// Whether the run came to its end with every row measured.
    is_finished: bool,
    /// The rows.
    pub(super) rows: Vec<RowResult>,
}

/// One row.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct RowResult {
    pub(super) key: String,
    pub(super) title: String,
    /// What measures it again.
    pub(super) command: String,
    /// Which build of the daemon.
    build: String,
    pub(super) rounds: u32,
    seconds: u32,
    pub(super) quantities: Vec<QuantityResult>,
}

/// One quantity of a row.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct QuantityResult {
    pub(super) name: String,
    pub(super) unit: String,
    pub(super) arms: Vec<ArmResult>,
    pub(super) verdicts: Vec<Verdict>,
}

/// The samples of one arm, in the order of the rounds.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ArmResult {
    pub(super) name: String,
    median: Option<f64>,
    pub(super) samples: Samples,
}

impl QuantityResult {
    /// Without verdicts yet.
    pub(super) fn new(
        name: &str,
        unit: &str,
        arms: impl IntoIterator<Item = (String, Samples)>,
    ) -> Self {
        let arm = |(name, samples): (String, Samples)| ArmResult {
            name,
            median: samples.median(),
            samples,
        };
        let arms = arms.into_iter().map(arm).collect();
        Self { name: name.to_owned(), unit: unit.to_owned(), arms, verdicts: Vec::new() }
    }

    /// The samples of the arm with this name.
    pub(super) fn arm(&self, name: &str) -> Option<&Samples> {
        self.arms.iter().find(|arm| arm.name == name).map(|arm| &arm.samples)
    }
}

impl RowResult {
    /// From the samples of each quantity, arm by arm, and from how many rounds of how many seconds.
    pub(super) fn new(
        row: &Row,
        command: String,
        (rounds, seconds): (u32, u32),
        samples: &[Vec<Samples>],
    ) -> Self {
        let quantities = row.quantities.iter().zip(samples).map(|(quantity, samples)| {
            let names = row.arms.iter().map(|arm| arm.name.clone());
            QuantityResult::new(&quantity.name, quantity.unit, names.zip(samples.iter().cloned()))
        });
        let quantities = quantities.collect();
        let (key, title) = (row.key.clone(), row.title.clone());
        let build = machine::build();
        Self { key, title, command, build, rounds, seconds, quantities }
    }
}

impl Results {
    /// Those of the file as far as they can be gone on with, else none.
    pub(super) fn open(
        path: &Path,
        benchmark: &Benchmark,
        rounds: u32,
        options: &Options,
    ) -> Result<Self> {
        let machine = Machine::this()?;
        let version = env!("CARGO_PKG_VERSION").to_owned();
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let old = serde_json::from_str::<Self>(&text).ok();
        let mut old = old.filter(|old| old.machine == machine && old.version == version);
        let keeps = !options.row.is_empty() || old.as_ref().is_some_and(|old| !old.is_finished);
        old = old.filter(|_| keeps && !options.fresh);
        let mut rows = old.map_or_else(Vec::new, |old| old.rows);
        rows.retain(|old| benchmark.rows.iter().any(|row| row.key == old.key));
        if options.row.is_empty() {
            let build = machine::build();
            rows.retain(|old| {
                old.build == build && (old.rounds, old.seconds) == (rounds, options.seconds)
            });
        }
        if !rows.is_empty() {
            println!("keeping {} rows of {}", rows.len(), path.display());
        }
        Ok(Self { version, machine, is_finished: false, rows })
    }

    /// Whether a row is to be measured.
    pub(super) fn wants(&self, row: &Row, options: &Options) -> bool {
        if options.row.is_empty() {
            return self.rows.iter().all(|old| old.key != row.key);
        }
        options.row.contains(&row.key)
    }

    /// Adds or replaces a row.
    pub(super) fn put(&mut self, row: RowResult) {
        self.rows.retain(|old| old.key != row.key);
        self.rows.push(row);
    }

    /// Judges all targets, and puts the rows in the benchmark's order.
    pub(super) fn judge(&mut self, benchmark: &Benchmark) {
        let place = |key: &str| benchmark.rows.iter().position(|row| row.key == key);
        self.rows.sort_by_key(|row| place(&row.key));
        // A row that cannot tell for itself is judged by the first that can.
        let general = self.rows.iter().find_map(verdict::is_disturbed).unwrap_or(false);
        for result in &mut self.rows {
            let is_disturbed = verdict::is_disturbed(result).unwrap_or(general);
            let Some(row) = benchmark.rows.iter().find(|row| row.key == result.key) else {
                continue;
            };
            for (quantity, measured) in row.quantities.iter().zip(&mut result.quantities) {
                let targets = quantity.targets.iter();
                let verdicts = targets.filter_map(|t| t.judge(measured, is_disturbed)).collect();
                measured.verdicts = verdicts;
            }
        }
    }

    /// The run is over; finished if every row is there.
    pub(super) fn finish(&mut self, benchmark: &Benchmark, is_complete: bool) {
        self.judge(benchmark);
        self.is_finished = is_complete && self.rows.len() == benchmark.rows.len();
    }

    /// What became of the targets of a row, line by line.
    pub(super) fn verdicts(&self, key: &str) -> impl Iterator<Item = String> {
        let row = self.rows.iter().find(|row| row.key == key);
        row.into_iter().flat_map(|row| &row.quantities).flat_map(|quantity| {
            quantity.verdicts.iter().map(|verdict| {
                let Verdict { measured, target, .. } = verdict;
                format!("  {}: {measured}, target {target}: {}", quantity.name, verdict.word())
            })
        })
    }

    /// How many targets are missed.
    pub(super) fn missed(&self) -> usize {
        let quantities = self.rows.iter().flat_map(|row| &row.quantities);
        quantities.flat_map(|quantity| &quantity.verdicts).filter(|verdict| !verdict.met).count()
    }

    /// Writes the file whole, so that a run killed meanwhile leaves the old one.
    pub(super) fn write(&self, path: &Path) -> Result<()> {
        let what = || Error::io(format!("write {}", path.display()));
        let text = serde_json::to_string_pretty(self)
            .map_err(|error| what()(std::io::Error::other(error)))?;
        let new = path.with_extension("json.new");
        std::fs::write(&new, text + "\n").map_err(what())?;
        std::fs::rename(new, path).map_err(what())
    }
}
