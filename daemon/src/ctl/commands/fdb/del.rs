//! `fdb/del`: removes a static entry from a MAC table.

use crate::ctl::CtlError;
use crate::ctl::command::{Command, Context, Outcome};
use crate::ctl::commands::args;
use crate::ctl::reply::Done;

pub(super) const COMMAND: Command = Command {
    name: "fdb/del",
    usage: "bridge vlan mac",
    about: "Remove a static entry from a MAC table.",
    min_args: 3,
    max_args: 3,
    run,
};

fn run(context: &mut Context<'_>, args: &[String]) -> Outcome {
    let [bridge, vlan, mac] = args else {
        let (command, min) = (COMMAND.name.to_owned(), COMMAND.min_args);
        return Err(CtlError::TooFewArguments { command, min });
    };
    let bridge = args::the_bridge(context, Some(bridge))?;
    if context.control.fdb_del(&bridge, args::vlan(vlan)?, args::mac(mac)?)? {
        return Ok(Box::new(Done {}));
    }
    Err(CtlError::Refused("could not find static mac entry".to_owned()))
}
