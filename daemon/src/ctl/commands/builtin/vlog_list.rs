//! `vlog/list`: log levels.

use core::fmt;

use serde::Serialize;

use crate::ctl::LogLevel;
use crate::ctl::command::{Command, Context, Outcome};
use crate::ctl::reply::Text;

pub(super) const COMMAND: Command = Command {
    name: "vlog/list",
    usage: "",
    about: "Show the log level of every module; the daemon logs to standard error.",
    min_args: 0,
    max_args: 0,
    run,
};

#[derive(Serialize)]
struct Levels {
    modules: Vec<LogLevel>,
}

impl Text for Levels {
    fn text(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        writeln!(out, "                 console    syslog    file")?;
        writeln!(out, "                 -------    ------    ------")?;
        for LogLevel { module, level } in &self.modules {
            writeln!(
                out,
                "{module:<16}  {:>4}       {:>4}       {:>4}",
                level.name(),
                "OFF",
                "OFF"
            )?;
        }
        Ok(())
    }
}

fn run(context: &mut Context<'_>, _args: &[String]) -> Outcome {
    Ok(Box::new(Levels { modules: context.control.log_levels() }))
}
