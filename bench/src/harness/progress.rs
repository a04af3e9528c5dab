//! A progress bar with the time that is left; plain lines where there is no terminal.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// How far the run is.
pub(super) struct Progress(ProgressBar);

impl Progress {
    /// Of so many measurements.
    pub(super) fn new(steps: u64) -> Self {
        let bar = ProgressBar::new(steps);
        let template = "[{elapsed_precise}] {bar:30} {pos}/{len} (left {eta}) {msg}";
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        if !bar.is_hidden() {
            bar.enable_steady_tick(Duration::from_secs(1));
        }
        Self(bar)
    }

    /// The next measurement begins.
    pub(super) fn step(&self, what: &str) {
        if self.0.is_hidden() {
            println!("[{}/{}] {what}", self.0.position() + 1, self.0.length().unwrap_or(0));
        }
        self.0.set_message(what.to_owned());
        self.0.inc(1);
    }

    /// A line that stays.
    pub(super) fn say(&self, line: &str) {
        if self.0.is_hidden() { println!("{line}") } else { self.0.println(line) }
    }

    /// All is measured.
    pub(super) fn finish(&self) {
        self.0.finish_and_clear();
    }
}
