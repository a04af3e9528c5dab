//! `dpctl/mod-flow`: changes the actions of a flow.

use super::flow::{self, Reader};
use crate::ctl::command::{Command, Context, Outcome};
use crate::ctl::commands::args::Args;
use crate::ctl::reply::Done;

pub(super) const COMMAND: Command = Command {
    name: "dpctl/mod-flow",
    usage: "[--clear] [--may-create] [dp] flow actions [pmd=core]",
    about: "Change the actions of a flow; clear its counters, or add it if there is none.",
    min_args: 2,
    max_args: 6,
    run,
};

fn run(context: &mut Context<'_>, args: &[String]) -> Outcome {
    let args = Args::parse(args, &["--clear", "--may-create"], &[])?;
    let (clear, create) = (args.has("--clear"), args.has("--may-create"));
    let ([flow, actions], pmd) = flow::words(&COMMAND, args)?;
    let spec = Reader::new(context, pmd)?.flow(flow, actions)?;
    context.control.mod_flow(&spec, clear, create)?;
    Ok(Box::new(Done {}))
}
