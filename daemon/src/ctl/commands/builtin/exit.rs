//! `exit`: ends the daemon.

use crate::ctl::command::{Command, Context, Outcome};
use crate::ctl::commands::args::Args;
use crate::ctl::reply::Done;

pub(super) const COMMAND: Command = Command {
    name: "exit",
    usage: "[--cleanup]",
    about: "End the daemon; its ports are released in any case.",
    min_args: 0,
    max_args: 1,
    run,
};

fn run(context: &mut Context<'_>, args: &[String]) -> Outcome {
    let cleanup = Args::parse(args, &["--cleanup"], &[])?.has("--cleanup");
    context.control.request_exit(cleanup);
    Ok(Box::new(Done {}))
}
