//! Tells the service manager how far the daemon is. Without one, nothing happens.

use sd_notify::NotifyState;
use slog::{Logger, warn};

fn notify(log: &Logger, states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        warn!(log, "the service manager cannot be told: {error}");
    }
}

/// Ports are bound or waiting, commands are answered.
pub fn ready(log: &Logger) {
    notify(log, &[NotifyState::Ready]);
}

/// A reload has begun; [`ready`] follows.
pub fn reloading(log: &Logger) {
    notify(log, &[NotifyState::Reloading]);
}

/// The end has begun.
pub fn stopping(log: &Logger) {
    notify(log, &[NotifyState::Stopping]);
}
