//! `xvs/port-del`: removes ports.

use crate::ctl::command::{Command, Context, Outcome};
use crate::ctl::commands::args;
use crate::ctl::reply::Done;

pub(super) const COMMAND: Command = Command {
    name: "xvs/port-del",
    usage: "port...",
    about: "Remove ports, by name or number; nothing is removed when one of them does not exist.",
    min_args: 1,
    max_args: usize::MAX,
    run,
};

fn run(context: &mut Context<'_>, args: &[String]) -> Outcome {
    args::del_ports(context, args)?;
    Ok(Box::new(Done {}))
}
