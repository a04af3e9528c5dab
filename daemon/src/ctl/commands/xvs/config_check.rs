//! `xvs/config-check`: what a reload would do.

use std::path::Path;

use crate::ctl::command::{Command, Context, Outcome};
use crate::ctl::reply::Changes;

pub(super) const COMMAND: Command = Command {
    name: "xvs/config-check",
    usage: "[file]",
    about: "Check a configuration file (the running one's by default) and show what it would change.",
    min_args: 0,
    max_args: 1,
    run,
};

fn run(context: &mut Context<'_>, args: &[String]) -> Outcome {
    let changes = context.control.config_check(args.first().map(Path::new))?;
    Ok(Box::new(Changes { changes }))
}
