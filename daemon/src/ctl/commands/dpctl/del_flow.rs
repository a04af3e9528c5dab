//! `dpctl/del-flow`: removes a flow.

use super::flow::{self, Reader};
use crate::ctl::command::{Command, Context, Outcome};
use crate::ctl::commands::args::Args;
use crate::ctl::reply::Done;

pub(super) const COMMAND: Command = Command {
    name: "dpctl/del-flow",
    usage: "[dp] flow [pmd=core]",
    about: "Remove a flow, by its match or as ufid:...",
    min_args: 1,
    max_args: 3,
    run,
};

fn run(context: &mut Context<'_>, args: &[String]) -> Outcome {
    let ([flow], pmd) = flow::words(&COMMAND, Args::parse(args, &[], &[])?)?;
    if let Some(ufid) = flow::ufid(flow)? {
        context.control.del_flow_by_ufid(ufid.0)?;
    } else {
        let spec = Reader::new(context, pmd)?.key(flow)?;
        context.control.del_flow(&spec)?;
    }
    Ok(Box::new(Done {}))
}
