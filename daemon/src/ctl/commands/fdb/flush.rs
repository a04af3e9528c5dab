//! `fdb/flush`: forgets learned addresses.

use crate::ctl::command::{Command, Context, Outcome};
use crate::ctl::commands::args;
use crate::ctl::reply::Message;

pub(super) const COMMAND: Command = Command {
    name: "fdb/flush",
    usage: "[bridge]",
    about: "Forget the learned addresses of one bridge or of all; static entries stay.",
    min_args: 0,
    max_args: 1,
    run,
};

fn run(context: &mut Context<'_>, args: &[String]) -> Outcome {
    for bridge in args::bridges(context, args.first().map(String::as_str))? {
        context.control.fdb_flush(&bridge)?;
    }
    Ok(Box::new(Message { message: "table successfully flushed".to_owned() }))
}
