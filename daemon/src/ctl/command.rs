//! The table of commands: to add one, write its file under `commands/` and name it in a list there.

use serde::Serialize;

use super::commands;
use super::coverage::Coverage;
use super::protocol::{Format, Request};
use super::{Control, CtlError, Reply};

/// What a command works with.
#[allow(missing_debug_implementations, reason = "a Control has no useful debug form")]
pub struct Context<'a> {
    /// The daemon.
    pub control: &'a mut dyn Control,
    /// How this connection wants replies.
    pub format: &'a mut Format,
    /// How fast things happened lately.
    pub coverage: &'a Coverage,
}

/// What a command returns.
pub type Outcome = Result<Box<dyn Reply>, CtlError>;

/// A command of the control socket.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Command {
    /// Name, as `dpctl/show`.
    pub name: &'static str,
    /// Arguments for people, as `[-s] [dp...]`.
    pub usage: &'static str,
    /// One sentence on what it does.
    pub about: &'static str,
    /// Least number of arguments.
    #[serde(skip)]
    pub min_args: usize,
    /// Greatest number of arguments.
    #[serde(skip)]
    pub max_args: usize,
    /// Does it; the number of arguments has been checked.
    #[serde(skip)]
    pub run: fn(&mut Context<'_>, &[String]) -> Outcome,
}

impl Command {
    /// The first argument and the others.
    pub(super) fn first<'a>(
        &self,
        args: &'a [String],
    ) -> Result<(&'a String, &'a [String]), CtlError> {
        args.split_first().ok_or_else(|| self.too_few())
    }

    fn too_few(&self) -> CtlError {
        CtlError::TooFewArguments { command: self.name.to_owned(), min: self.min_args }
    }
}

/// All commands, sorted by name.
#[must_use]
pub fn sorted() -> Vec<&'static Command> {
    let mut all: Vec<&Command> = commands::all().collect();
    all.sort_by_key(|command| command.name);
    all
}

/// Runs a request.
///
/// # Errors
/// The protocol's own errors (no such command, number and type of arguments), or the command's.
pub fn execute(context: &mut Context<'_>, request: &Request) -> Outcome {
    let name = &request.method;
    let found = commands::all().find(|command| command.name == name);
    let command = found.ok_or_else(|| CtlError::UnknownCommand(name.clone()))?;
    let n = request.params.len();
    if n < command.min_args {
        return Err(command.too_few());
    }
    if n > command.max_args {
        return Err(CtlError::TooManyArguments { command: name.clone(), max: command.max_args });
    }
    let strings = request.params.iter().map(|param| param.as_str().map(str::to_owned));
    let args: Option<Vec<String>> = strings.collect();
    let args = args.ok_or_else(|| CtlError::NonStringArgument { command: name.clone() })?;
    let outcome = (command.run)(context, &args);
    if name.starts_with("dpctl/") { outcome.map_err(CtlError::of_dpctl) } else { outcome }
}
