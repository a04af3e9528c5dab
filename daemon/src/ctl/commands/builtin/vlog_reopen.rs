//! `vlog/reopen`: nothing to reopen.

use crate::ctl::command::{Command, Context, Outcome};
use crate::ctl::reply::Message;

pub(super) const COMMAND: Command = Command {
    name: "vlog/reopen",
    usage: "",
    about: "Do nothing: the log goes to standard error, and whoever reads that keeps the file.",
    min_args: 0,
    max_args: 0,
    run,
};

fn run(_context: &mut Context<'_>, _args: &[String]) -> Outcome {
    let message = "the log goes to standard error, there is no file to reopen".to_owned();
    Ok(Box::new(Message { message }))
}
