//! `dpctl/add-if`: adds ports, all or none.

use crate::ctl::command::{Command, Context, Outcome};
use crate::ctl::commands::args;
use crate::ctl::reply::Done;

pub(super) const COMMAND: Command = Command {
    name: "dpctl/add-if",
    usage: "dp iface[,option=value...]...",
    about: "Add ports; options are the keys of [[port]] in the configuration, as xdp-mode=native.",
    min_args: 2,
    max_args: usize::MAX,
    run,
};

fn run(context: &mut Context<'_>, args: &[String]) -> Outcome {
    context.control.add_ports(&super::ports(&COMMAND, args, args::port_spec)?)?;
    Ok(Box::new(Done {}))
}
