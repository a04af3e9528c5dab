//! Runs the tests: those that measure time last and alone, the others a few at a time.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use xvs_tests::{Error, Result, clean, rig::Rig};

/// When a test runs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Beside others.
    Plain,
    /// It measures time: after the plain ones, alone.
    Timing,
    /// After the plain ones, alone and once.
    Alone,
    /// As alone, and only with `--long`.
    Long,
    /// Only inside the machine of `tests/vm/boot`, alone.
    InMachine,
}

/// One acceptance test.
#[derive(Clone, Copy)]
pub(crate) struct Test {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) run: fn() -> Result<()>,
}

/// Lists functions as tests of a kind, each by its own name.
macro_rules! tests {
    ($kind:ident: $($module:ident::$name:ident),+ $(,)?) => {
        [$($crate::runner::Test {
            name: concat!(stringify!($module), "::", stringify!($name)),
            kind: $crate::runner::Kind::$kind,
            run: $crate::$module::$name,
        }),+]
    };
}
pub(crate) use tests;

/// Runs a test's body on a rig; a failure comes with the logs of all its processes.
pub(crate) fn on(make: fn() -> Result<Rig>, body: impl FnOnce(&Rig) -> Result<()>) -> Result<()> {
    let rig = make()?;
    let outcome = catch_unwind(AssertUnwindSafe(|| body(&rig)))
        .unwrap_or_else(|_| Err(Error::Check("the test panicked, see above".to_owned())));
    outcome.map_err(|error| {
        let skipped = matches!(error, Error::Skipped(_));
        if skipped { error } else { Error::Check(format!("{error}\n{}", rig.scratch.logs(15))) }
    })
}

/// The command line.
#[derive(Default)]
struct Options {
    long: bool,
    in_machine: bool,
    list: bool,
    counts: Option<PathBuf>,
    filters: Vec<String>,
}

impl Options {
    fn parse() -> Self {
        let mut options = Self::default();
        let mut words = std::env::args().skip(1);
        while let Some(word) = words.next() {
            match word.as_str() {
                "--long" => options.long = true,
                "--in-machine" => options.in_machine = true,
                "--list" => options.list = true,
                "--counts" => options.counts = words.next().map(PathBuf::from),
                // What cargo hands to every test program.
                flag if flag.starts_with('-') => {}
                _ => options.filters.push(word),
            }
        }
        options
    }

    fn wants(&self, test: &Test) -> bool {
        (self.long || test.kind != Kind::Long)
            && self.in_machine == (test.kind == Kind::InMachine)
            && (self.filters.is_empty() || self.filters.iter().any(|part| test.name.contains(part)))
    }
}

/// How often `--long` runs each test that measures time.
const LONG_ROUNDS: usize = 5;

/// How a test ended.
struct Finished {
    name: &'static str,
    took: Duration,
    passed: bool,
}

/// Runs what the command line asks for; returns whether all passed.
pub(crate) fn main(tests: Vec<Test>) -> bool {
    let options = Options::parse();
    let wanted: VecDeque<Test> = tests.into_iter().filter(|test| options.wants(test)).collect();
    if options.list {
        wanted.iter().for_each(|test| println!("{}: test", test.name));
        return true;
    }
    if let Err(error) = clean::on_signal() {
        eprintln!("{error}");
        return false;
    }
    let _ = clean::leftovers();
    let (plain, alone): (VecDeque<_>, VecDeque<_>) =
        wanted.into_iter().partition(|test| test.kind == Kind::Plain);
    let threads = std::thread::available_parallelism().map_or(2, usize::from) + 1;
    let mut finished = run_all(plain, threads);
    // What measures time may fail seldom: long runs look for that.
    for round in 0..if options.long { LONG_ROUNDS } else { 1 } {
        let due = alone.iter().filter(|test| round == 0 || test.kind == Kind::Timing).copied();
        finished.extend(run_all(due.collect(), 1));
    }
    report(finished, options.counts)
}

/// Runs tests on a number of threads.
fn run_all(tests: VecDeque<Test>, threads: usize) -> Vec<Finished> {
    let queue = Mutex::new(tests);
    let next = || queue.lock().ok()?.pop_front();
    let work = || std::iter::from_fn(next).map(|test| run_one(&test)).collect::<Vec<_>>();
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        workers.into_iter().filter_map(|worker| worker.join().ok()).flatten().collect()
    })
}

fn run_one(test: &Test) -> Finished {
    let start = Instant::now();
    let outcome = catch_unwind(test.run)
        .unwrap_or_else(|_| Err(Error::Check("the test panicked, see above".to_owned())));
    let took = start.elapsed();
    let in_ci = std::env::var_os("CI").is_some();
    let (word, detail, passed) = match outcome {
        Ok(()) => ("ok", String::new(), true),
        Err(Error::Skipped(why)) if !in_ci => ("skipped", format!(": {why}"), true),
        Err(Error::Skipped(why)) => ("FAILED", format!(": skipped, as CI must not: {why}"), false),
        Err(error) => ("FAILED", format!(": {error}"), false),
    };
    println!("{word:7} {:40} {:5.1} s{detail}", test.name, took.as_secs_f64());
    Finished { name: test.name, took, passed }
}

/// Prints the slowest and the counts, which also go to a file if asked for.
fn report(mut finished: Vec<Finished>, counts: Option<PathBuf>) -> bool {
    finished.sort_by_key(|test| std::cmp::Reverse(test.took));
    println!("the slowest:");
    for test in finished.iter().take(10) {
        println!("  {:5.1} s {}", test.took.as_secs_f64(), test.name);
    }
    let failed: Vec<&str> =
        finished.iter().filter(|test| !test.passed).map(|test| test.name).collect();
    if !failed.is_empty() {
        println!("failed: {}", failed.join(" "));
    }
    let passed = finished.len() - failed.len();
    println!("acceptance: {passed} passed, {} failed", failed.len());
    let written = counts.map(|path| std::fs::write(path, format!("{passed} {}\n", failed.len())));
    failed.is_empty() && !matches!(written, Some(Err(_)))
}
