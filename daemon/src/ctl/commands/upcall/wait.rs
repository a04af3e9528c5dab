//! `revalidator/wait`: returns when all flows have been checked.

use crate::ctl::command::{Command, Context, Outcome};
use crate::ctl::reply::Done;

pub(super) const COMMAND: Command = Command {
    name: "revalidator/wait",
    usage: "",
    about: "Wait until every cached flow agrees with the rules and those have counted every packet; \
            two seconds at most.",
    min_args: 0,
    max_args: 0,
    run,
};

fn run(context: &mut Context<'_>, _args: &[String]) -> Outcome {
    context.control.wait_for_checks()?;
    Ok(Box::new(Done {}))
}
