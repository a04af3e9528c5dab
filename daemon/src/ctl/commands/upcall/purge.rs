//! `revalidator/purge`: removes all flows.

use crate::ctl::command::{Command, Context, Outcome};
use crate::ctl::reply::Done;

pub(super) const COMMAND: Command = Command {
    name: "revalidator/purge",
    usage: "",
    about: "Remove all cached flows; the bridges' rules make new ones. Rules hear of the last packets.",
    min_args: 0,
    max_args: 0,
    run,
};

fn run(context: &mut Context<'_>, _args: &[String]) -> Outcome {
    context.control.flush_flows()?;
    Ok(Box::new(Done {}))
}
