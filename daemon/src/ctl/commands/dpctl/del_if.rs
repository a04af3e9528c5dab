//! `dpctl/del-if`: removes ports.

use crate::ctl::command::{Command, Context, Outcome};
use crate::ctl::commands::args;
use crate::ctl::reply::Done;

pub(super) const COMMAND: Command = Command {
    name: "dpctl/del-if",
    usage: "dp iface...",
    about: "Remove ports, by name or number; nothing is removed when one of them does not exist.",
    min_args: 2,
    max_args: usize::MAX,
    run,
};

fn run(context: &mut Context<'_>, args: &[String]) -> Outcome {
    let ports = super::ports(&COMMAND, args, |port| Ok(port.to_owned()))?;
    args::del_ports(context, &ports)?;
    Ok(Box::new(Done {}))
}
