//! `xvs/config-reload`: applies the configuration file again.

use crate::ctl::command::{Command, Context, Outcome};
use crate::ctl::reply::Changes;

pub(super) const COMMAND: Command = Command {
    name: "xvs/config-reload",
    usage: "",
    about: "Read the configuration file again and apply what changed; on any error nothing changes.",
    min_args: 0,
    max_args: 0,
    run,
};

fn run(context: &mut Context<'_>, _args: &[String]) -> Outcome {
    Ok(Box::new(Changes { changes: context.control.config_reload()? }))
}
