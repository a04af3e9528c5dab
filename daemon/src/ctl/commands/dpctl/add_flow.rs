//! `dpctl/add-flow`: adds a flow to the cache of PMD threads.

use super::flow;
use crate::ctl::command::{Command, Context, Outcome};
use crate::ctl::commands::args::Args;
use crate::ctl::reply::Done;

pub(super) const COMMAND: Command = Command {
    name: "dpctl/add-flow",
    usage: "[dp] flow actions [pmd=core]",
    about: "Add a flow, to all PMD threads or to one; no rule of a bridge changes it.",
    min_args: 2,
    max_args: 4,
    run,
};

fn run(context: &mut Context<'_>, args: &[String]) -> Outcome {
    let ([flow, actions], pmd) = flow::words(&COMMAND, Args::parse(args, &[], &[])?)?;
    let spec = flow::parse(context, flow, Some(actions), pmd)?;
    context.control.add_flow(&spec)?;
    Ok(Box::new(Done {}))
}
