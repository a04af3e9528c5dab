//! `xvs/rule-del`: removes rules from a bridge.

use core::fmt;

use serde::Serialize;

use crate::ctl::RuleMatch;
use crate::ctl::command::{Command, Context, Outcome};
use crate::ctl::commands::args::{self, Args};
use crate::ctl::reply::Text;

pub(super) const COMMAND: Command = Command {
    name: "xvs/rule-del",
    usage: "[--strict] bridge [match]",
    about: "Remove the rules that the match covers, or, strict, the one with this match and priority.",
    min_args: 1,
    max_args: 3,
    run,
};

#[derive(Serialize)]
struct Removed {
    removed: u64,
}

impl Text for Removed {
    fn text(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        writeln!(out, "{} rules removed", self.removed)
    }
}

fn run(context: &mut Context<'_>, args: &[String]) -> Outcome {
    let args = Args::parse(args, &["--strict"], &[])?;
    let bridge = args::the_bridge(context, args.rest.first().copied())?;
    let text = args.rest.get(1).copied().unwrap_or_default().to_owned();
    let which = RuleMatch { text, strict: args.has("--strict") };
    Ok(Box::new(Removed { removed: context.control.del_rules(&bridge, &which)? }))
}
