//! `xvs/upcall-read`: takes out the packets that `userspace()` queued.

use core::fmt;

use serde::Serialize;

use crate::ctl::Upcall;
use crate::ctl::command::{Command, Context, Outcome};
use crate::ctl::commands::args;
use crate::ctl::reply::Text;

pub(super) const COMMAND: Command = Command {
    name: "xvs/upcall-read",
    usage: "[max]",
    about: "Take out the packets that the action userspace() queued, oldest first of each thread; \
            each thread keeps 64 at most.",
    min_args: 0,
    max_args: 1,
    run,
};

#[derive(Serialize)]
struct Upcalls {
    upcalls: Vec<Upcall>,
}

impl Text for Upcalls {
    fn text(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        for upcall in &self.upcalls {
            let Upcall { core, age_ms, in_port, pid, len, data, .. } = upcall;
            write!(out, "core {core}: {age_ms} ms ago, in_port={in_port} pid={pid} ")?;
            if let Some(said) = upcall.controller {
                write!(out, "reason={} rule_cookie={:#x} ", said.reason, said.rule_cookie)?;
                write!(out, "controller_id={} ", said.controller_id)?;
            }
            writeln!(out, "len={len} {data}")?;
        }
        Ok(())
    }
}

fn run(context: &mut Context<'_>, args: &[String]) -> Outcome {
    let max =
        args.first().map(|text| args::number("number", text, "how many packets")).transpose()?;
    let upcalls = context.control.read_upcalls(max.unwrap_or(usize::MAX))?;
    Ok(Box::new(Upcalls { upcalls }))
}
