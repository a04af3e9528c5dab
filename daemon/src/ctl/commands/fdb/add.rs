//! `fdb/add`: adds a static entry to a MAC table.

use crate::ctl::CtlError;
use crate::ctl::command::{Command, Context, Outcome};
use crate::ctl::commands::args;
use crate::ctl::reply::Done;

pub(super) const COMMAND: Command = Command {
    name: "fdb/add",
    usage: "bridge port vlan mac",
    about: "Add a static entry to a MAC table; it does not age and is not learned anew.",
    min_args: 4,
    max_args: 4,
    run,
};

fn run(context: &mut Context<'_>, args: &[String]) -> Outcome {
    let [bridge, port, vlan, mac] = args else {
        let (command, min) = (COMMAND.name.to_owned(), COMMAND.min_args);
        return Err(CtlError::TooFewArguments { command, min });
    };
    let bridge = args::the_bridge(context, Some(bridge))?;
    let port = args::port_name(context, port)?;
    context.control.fdb_add(&bridge, &port, args::vlan(vlan)?, args::mac(mac)?)?;
    Ok(Box::new(Done {}))
}
