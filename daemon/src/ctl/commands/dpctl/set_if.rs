//! `dpctl/set-if`: changes options of ports.

use crate::ctl::command::{Command, Context, Outcome};
use crate::ctl::commands::args;
use crate::ctl::reply::Done;

pub(super) const COMMAND: Command = Command {
    name: "dpctl/set-if",
    usage: "dp iface,option=value[,option=value...]...",
    about: "Change options of ports, the others stay; what needs new sockets opens them anew.",
    min_args: 2,
    max_args: usize::MAX,
    run,
};

fn run(context: &mut Context<'_>, args: &[String]) -> Outcome {
    context.control.set_ports(&super::ports(&COMMAND, args, args::port_spec)?)?;
    Ok(Box::new(Done {}))
}
