//! The one error type of rigs and tests, the [`check!`](crate::check) macro, and waiting with a limit.

use std::fmt;
use std::time::{Duration, Instant};

/// What went wrong in a rig or a test.
#[derive(Debug)]
pub enum Error {
    /// An operating system call failed.
    Io {
        /// What was attempted.
        what: String,
        /// The cause.
        source: std::io::Error,
    },
    /// A command ended with a failure.
    Command {
        /// The command line.
        line: String,
        /// What it printed, both streams.
        output: String,
    },
    /// Something did not happen in time.
    Timeout {
        /// What was waited for.
        what: String,
        /// How long.
        limit: Duration,
    },
    /// Output that is not of the expected form.
    Output {
        /// What was read.
        what: String,
        /// The text.
        text: String,
    },
    /// An expectation does not hold.
    Check(String),
    /// The test cannot be done here, and why.
    Skipped(String),
}

/// Result with [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// For `map_err` on io results: `.map_err(Error::io(|| "open x"))`.
    pub fn io<E: Into<std::io::Error>>(what: impl Into<String>) -> impl FnOnce(E) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source: source.into() }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { what, source } => write!(f, "{what}: {source}"),
            Self::Command { line, output } => write!(f, "`{line}` failed: {}", output.trim()),
            Self::Timeout { what, limit } => write!(f, "{what}: not within {limit:?}"),
            Self::Output { what, text } => {
                write!(f, "{what} printed what is not understood: {text}")
            }
            Self::Check(text) | Self::Skipped(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for Error {}

/// Returns an [`Error::Check`] with the given message unless the condition holds.
#[macro_export]
macro_rules! check {
    ($condition:expr, $($message:tt)+) => {
        if !$condition {
            return Err($crate::Error::Check(format!($($message)+)));
        }
    };
}

/// Asks `probe` every 10 ms until it yields a value.
///
/// # Errors
/// The probe's error at once; a timeout after `limit`.
pub fn wait_until<T>(
    what: &str,
    limit: Duration,
    mut probe: impl FnMut() -> Result<Option<T>>,
) -> Result<T> {
    let start = Instant::now();
    loop {
        if let Some(value) = probe()? {
            return Ok(value);
        }
        if start.elapsed() >= limit {
            return Err(Error::Timeout { what: what.to_owned(), limit });
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}
