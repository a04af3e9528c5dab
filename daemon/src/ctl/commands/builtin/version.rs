//! `version`: who this is.

use core::fmt;

use serde::Serialize;

use crate::ctl::command::{Command, Context, Outcome};
use crate::ctl::reply::Text;

pub(super) const COMMAND: Command = Command {
    name: "version",
    usage: "",
    about: "Show the program's name and version.",
    min_args: 0,
    max_args: 0,
    run,
};

#[derive(Serialize)]
struct Version {
    program: &'static str,
    product: &'static str,
    version: &'static str,
}

impl Text for Version {
    fn text(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        writeln!(out, "{} ({}) {}", self.program, self.product, self.version)
    }
}

fn run(_context: &mut Context<'_>, _args: &[String]) -> Outcome {
    let version = env!("CARGO_PKG_VERSION");
    Ok(Box::new(Version { program: "xvswitchd", product: "xvswitch", version }))
}
