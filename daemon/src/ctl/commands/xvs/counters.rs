//! `xvs/counters`: the whole registry.

use core::fmt;

use serde::Serialize;

use crate::ctl::command::{Command, Context, Outcome};
use crate::ctl::reply::Text;
use crate::registry::{self, Sample};

pub(super) const COMMAND: Command = Command {
    name: "xvs/counters",
    usage: "[pattern]",
    about: "Show every counter, or those whose name contains the pattern.",
    min_args: 0,
    max_args: 1,
    run,
};

#[derive(Serialize)]
struct Counters {
    counters: Vec<Sample>,
}

impl Text for Counters {
    fn text(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        for Sample { name, labels, value, unit, .. } in &self.counters {
            let labels: Vec<String> = labels.iter().map(|(k, v)| format!("{k}={v}")).collect();
            let labels = labels.join(",");
            writeln!(out, "{name:<28} {labels:<24} {value:>20} {unit}")?;
        }
        Ok(())
    }
}

fn run(context: &mut Context<'_>, args: &[String]) -> Outcome {
    let mut counters = registry::snapshot(context.control)?;
    counters.retain(|sample| args.iter().all(|pattern| sample.name.contains(pattern)));
    Ok(Box::new(Counters { counters }))
}
