//! `dpctl/del-flows`: removes all flows.

use core::fmt;

use serde::Serialize;

use super::flow;
use crate::ctl::CtlError;
use crate::ctl::command::{Command, Context, Outcome};
use crate::ctl::commands::args::Args;
use crate::ctl::reply::Text;

pub(super) const COMMAND: Command = Command {
    name: "dpctl/del-flows",
    usage: "[dp]",
    about: "Remove all flows; the bridges' rules make new ones.",
    min_args: 0,
    max_args: 1,
    run,
};

#[derive(Serialize)]
struct Removed {
    removed: u64,
}

impl Text for Removed {
    fn text(&self, _out: &mut dyn fmt::Write) -> fmt::Result {
        Ok(())
    }
}

fn run(context: &mut Context<'_>, args: &[String]) -> Outcome {
    let ([], pmd) = flow::words(&COMMAND, Args::parse(args, &[], &[])?)?;
    if pmd.is_some() {
        return Err(CtlError::Refused("flows are removed from all PMD threads: omit pmd=".into()));
    }
    Ok(Box::new(Removed { removed: context.control.flush_flows()? }))
}
