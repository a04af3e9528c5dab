//! The logger: lines on standard error, with a level that can be changed at run time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

use slog::{Drain, Logger, o};

use crate::ctl::Level;

/// The level in force; copies control the same logger.
#[derive(Clone, Debug)]
pub struct LogLevel(Arc<AtomicU8>);

impl LogLevel {
    /// Logs `level` and what is more severe.
    pub fn set(&self, level: Level) {
        self.0.store(level as u8, Relaxed);
    }

    /// The level in force.
    #[must_use]
    pub fn get(&self) -> Level {
        Level::ALL.get(usize::from(self.0.load(Relaxed))).copied().unwrap_or(Level::Info)
    }
}

/// A logger on standard error and the control of its level, at first `level`.
pub fn logger(level: Level) -> (Logger, LogLevel) {
    let control = LogLevel(Arc::new(AtomicU8::new(level as u8)));
    let in_force = control.clone();
    let decorator = slog_term::PlainSyncDecorator::new(std::io::stderr());
    let lines = slog_term::FullFormat::new(decorator).build();
    let drain = lines.filter(move |record| of(record.level()) <= in_force.get()).fuse();
    (Logger::root(drain, o!()), control)
}

/// What a log line's level is called outside.
fn of(level: slog::Level) -> Level {
    match level {
        slog::Level::Critical => Level::Emer,
        slog::Level::Error => Level::Err,
        slog::Level::Warning => Level::Warn,
        slog::Level::Info => Level::Info,
        slog::Level::Debug | slog::Level::Trace => Level::Dbg,
    }
}

/// What the configuration calls a level.
#[must_use]
pub fn level(level: xvs_config::LogLevel) -> Level {
    match level {
        xvs_config::LogLevel::Error => Level::Err,
        xvs_config::LogLevel::Warn => Level::Warn,
        xvs_config::LogLevel::Info => Level::Info,
        xvs_config::LogLevel::Debug => Level::Dbg,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_level_is_what_was_set() {
        let (_, control) = logger(Level::Info);
        for level in Level::ALL {
            control.set(level);
            assert_eq!(control.get(), level);
        }
    }
}
