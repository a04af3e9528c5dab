//! How fast things happened lately: samples of the registry's counters, taken from time to time.
//!
//! Two bounded histories, one of 5-second samples over a minute and one of minutes over an hour. A rate
//! is the growth over a window divided by the window, as Open vSwitch computes its averages, so that it
//! is too low until the window has passed once.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use super::{Control, CtlError};
use crate::registry;

const SHORT: Duration = Duration::from_secs(5);
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);

/// Totals of all counters at some time.
#[derive(Clone, Debug)]
struct Totals {
    at: Instant,
    values: Vec<(String, u64)>,
}

/// One event and how often it happened.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Event {
    /// The counter, or `drops_` with the reason.
    pub name: String,
    /// Per second over the last 5 seconds.
    pub rate_5s: f64,
    /// Per second over the last minute.
    pub rate_minute: f64,
    /// Per second over the last hour.
    pub rate_hour: f64,
    /// In all.
    pub total: u64,
}

/// The histories.
#[derive(Debug, Default)]
pub struct Coverage {
    short: VecDeque<Totals>,
    long: VecDeque<Totals>,
}

impl Coverage {
    /// True when the next sample is due.
    #[must_use]
    pub fn is_due(&self, now: Instant) -> bool {
        self.short.back().is_none_or(|last| now.duration_since(last.at) >= SHORT)
    }

    /// Takes a sample.
    ///
    /// # Errors
    /// When a thread does not answer; the sample is left out.
    pub fn sample(&mut self, control: &mut dyn Control, now: Instant) -> Result<(), CtlError> {
        let totals = Totals { at: now, values: totals(control)? };
        if self.long.back().is_none_or(|last| now.duration_since(last.at) >= MINUTE) {
            push(&mut self.long, totals.clone(), HOUR);
        }
        push(&mut self.short, totals, MINUTE);
        Ok(())
    }

    /// All events that ever happened, and how many never did.
    ///
    /// # Errors
    /// When a thread does not answer.
    pub fn events(
        &self,
        control: &mut dyn Control,
        now: Instant,
    ) -> Result<(Vec<Event>, usize), CtlError> {
        let values = totals(control)?;
        let n = values.len();
        let happened = values.into_iter().filter(|(_, total)| *total > 0);
        let events: Vec<Event> = happened
            .map(|(name, total)| Event {
                rate_5s: rate(&self.short, &name, total, SHORT, now),
                rate_minute: rate(&self.short, &name, total, MINUTE, now),
                rate_hour: rate(&self.long, &name, total, HOUR, now),
                name,
                total,
            })
            .collect();
        let never = n - events.len();
        Ok((events, never))
    }
}

fn push(history: &mut VecDeque<Totals>, totals: Totals, window: Duration) {
    // One sample older than the window is kept, to measure the whole of it.
    while history.get(1).is_some_and(|second| totals.at.duration_since(second.at) >= window) {
        history.pop_front();
    }
    history.push_back(totals);
}

#[allow(clippy::cast_precision_loss, reason = "a rate for people")]
fn rate(history: &VecDeque<Totals>, name: &str, total: u64, window: Duration, now: Instant) -> f64 {
    // The youngest sample that is at least a window old, else the oldest.
    let old = |totals: &&Totals| now.duration_since(totals.at) >= window;
    let from = history.iter().rev().find(old).or_else(|| history.front());
    let before = from.and_then(|totals| totals.values.iter().find(|(n, _)| *n == name));
    let before = before.map_or(0, |(_, value)| *value);
    total.saturating_sub(before) as f64 / window.as_secs_f64()
}

/// The counters of ports, queues, threads and bridges, each summed over all of them.
fn totals(control: &mut dyn Control) -> Result<Vec<(String, u64)>, CtlError> {
    let mut totals = BTreeMap::new();
    for sample in registry::snapshot(control)? {
        if sample.kind == registry::Kind::Counter {
            let name = match sample.labels.get("reason") {
                Some(reason) => format!("{}_{reason}", sample.name),
                None => sample.name.to_owned(),
            };
            let total: &mut u64 = totals.entry(name).or_default();
            *total = total.saturating_add(sample.value);
        }
    }
    Ok(totals.into_iter().collect())
}
