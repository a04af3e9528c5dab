//! `list-commands`: all commands with their arguments.

use core::fmt;

use serde::Serialize;

use crate::ctl::command::{self, Command, Context, Outcome};
use crate::ctl::reply::Text;

pub(super) const COMMAND: Command = Command {
    name: "list-commands",
    usage: "",
    about: "List all commands with their arguments.",
    min_args: 0,
    max_args: 0,
    run,
};

#[derive(Serialize)]
struct Commands {
    commands: Vec<&'static Command>,
}

impl Text for Commands {
    fn text(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        writeln!(out, "The available commands are:")?;
        for Command { name, usage, .. } in &self.commands {
            writeln!(out, "  {name:<23} {usage}")?;
        }
        Ok(())
    }
}

fn run(_context: &mut Context<'_>, _args: &[String]) -> Outcome {
    Ok(Box::new(Commands { commands: command::sorted() }))
}
