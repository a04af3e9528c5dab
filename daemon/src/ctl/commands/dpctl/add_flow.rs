//! `dpctl/add-flow`: adds a flow to the cache of PMD threads.

use super::flow::{self, Reader};
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
    let spec = Reader::new(context, pmd)?.flow(flow, actions)?;
    context.control.add_flows(&[spec]).map_err(|(_, error)| error)?;
    Ok(Box::new(Done {}))
}
