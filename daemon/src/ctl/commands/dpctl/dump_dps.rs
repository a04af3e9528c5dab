//! `dpctl/dump-dps`: the datapaths; there is one.

use core::fmt;

use serde::Serialize;

use crate::ctl::command::{Command, Context, Outcome};
use crate::ctl::commands::args::DATAPATH;
use crate::ctl::reply::Text;

pub(super) const COMMAND: Command = Command {
    name: "dpctl/dump-dps",
    usage: "",
    about: "List the datapaths; there is always one.",
    min_args: 0,
    max_args: 0,
    run,
};

#[derive(Serialize)]
struct Datapaths {
    datapaths: [&'static str; 1],
}

impl Text for Datapaths {
    fn text(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        self.datapaths.iter().try_for_each(|name| writeln!(out, "{name}"))
    }
}

fn run(_context: &mut Context<'_>, _args: &[String]) -> Outcome {
    Ok(Box::new(Datapaths { datapaths: [DATAPATH] }))
}
