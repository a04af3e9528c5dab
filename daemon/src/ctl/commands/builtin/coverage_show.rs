//! `coverage/show`: how often and how fast things happened.

use core::fmt;
use core::hash::{Hash, Hasher};
use std::hash::DefaultHasher;
use std::time::Instant;

use serde::Serialize;

use crate::ctl::command::{Command, Context, Outcome};
use crate::ctl::coverage::Event;
use crate::ctl::reply::Text;

pub(super) const COMMAND: Command = Command {
    name: "coverage/show",
    usage: "",
    about: "Show how often every counted event happened, and its rates.",
    min_args: 0,
    max_args: 0,
    run,
};

#[derive(Serialize)]
struct Coverage {
    events: Vec<Event>,
    never: usize,
    /// Which events happened, in a number, to compare.
    hash: u32,
}

impl Text for Coverage {
    fn text(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        write!(out, "Event coverage, avg rate over last: 5 seconds, last minute, last hour,  ")?;
        writeln!(out, "hash={:08x}:", self.hash)?;
        for Event { name, rate_5s, rate_minute, rate_hour, total } in &self.events {
            write!(out, "{name:<24} {rate_5s:>5.1}/sec {rate_minute:>9.3}/sec ")?;
            writeln!(out, "{rate_hour:>13.4}/sec   total: {total}")?;
        }
        writeln!(out, "{} events never hit", self.never)
    }
}

fn run(context: &mut Context<'_>, _args: &[String]) -> Outcome {
    let (events, never) = context.coverage.events(context.control, Instant::now())?;
    let mut hasher = DefaultHasher::new();
    events.iter().for_each(|event| event.name.hash(&mut hasher));
    let hash = u32::try_from(hasher.finish() >> 32).unwrap_or_default();
    Ok(Box::new(Coverage { events, never, hash }))
}
