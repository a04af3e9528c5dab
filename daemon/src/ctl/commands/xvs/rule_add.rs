//! `xvs/rule-add`: adds rules to a bridge.

use crate::ctl::command::{Command, Context, Outcome};
use crate::ctl::commands::args;
use crate::ctl::reply::Done;

pub(super) const COMMAND: Command = Command {
    name: "xvs/rule-add",
    usage: "bridge rule...",
    about: "Add rules in ovs-ofctl's syntax, replacing those with the same match and priority; \
            all or none.",
    min_args: 2,
    max_args: usize::MAX,
    run,
};

fn run(context: &mut Context<'_>, args: &[String]) -> Outcome {
    let (bridge, rules) = COMMAND.first(args)?;
    let bridge = args::the_bridge(context, Some(bridge))?;
    context.control.add_rules(&bridge, rules)?;
    Ok(Box::new(Done {}))
}
