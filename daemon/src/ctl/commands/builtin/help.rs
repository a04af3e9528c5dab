//! `help`: what a command does.

use core::fmt;

use serde::Serialize;

use crate::ctl::CtlError;
use crate::ctl::command::{self, Command, Context, Outcome};
use crate::ctl::reply::Text;

pub(super) const COMMAND: Command = Command {
    name: "help",
    usage: "[command]",
    about: "Show what one command does, or all.",
    min_args: 0,
    max_args: 1,
    run,
};

#[derive(Serialize)]
struct Help {
    commands: Vec<&'static Command>,
}

impl Text for Help {
    fn text(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        for Command { name, usage, about, .. } in &self.commands {
            writeln!(out, "{}", format!("{name} {usage}").trim_end())?;
            writeln!(out, "    {about}")?;
        }
        Ok(())
    }
}

fn run(_context: &mut Context<'_>, args: &[String]) -> Outcome {
    let wanted = |command: &&Command| args.iter().all(|arg| arg == command.name);
    let commands: Vec<_> = command::sorted().into_iter().filter(wanted).collect();
    match args.first() {
        Some(name) if commands.is_empty() => Err(CtlError::UnknownCommand(name.clone())),
        _ => Ok(Box::new(Help { commands })),
    }
}
