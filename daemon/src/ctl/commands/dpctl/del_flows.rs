//! `dpctl/del-flows`: removes all flows, or those that a filter leaves.

use core::fmt;
use std::collections::BTreeMap;

use serde::Serialize;

use super::flow::{self, Filter, Ports};
use crate::ctl::command::{Command, Context, Outcome};
use crate::ctl::commands::args::Args;
use crate::ctl::reply::Text;

pub(super) const COMMAND: Command = Command {
    name: "dpctl/del-flows",
    usage: "[dp] [filter=flow] [pmd=core]",
    about: "Remove all flows, or those that dpctl/dump-flows shows with this filter; the bridges' rules make new \
            ones.",
    min_args: 0,
    max_args: 3,
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
    let mut args = Args::parse(args, &[], &[])?;
    let ports = Ports::of(context)?;
    let filter = Filter::take(context, &mut args, &ports)?;
    let ([], pmd) = flow::words(&COMMAND, args)?;
    if pmd.is_none() && filter.wants_all() {
        return Ok(Box::new(Removed { removed: context.control.flush_flows()? }));
    }
    let mut chosen: BTreeMap<u32, Vec<u128>> = BTreeMap::new();
    context.control.visit_flows(pmd, &mut |core, flow| {
        if filter.wants(&flow) {
            chosen.entry(core).or_default().push(flow.ufid);
        }
        Ok(())
    })?;
    let mut removed = 0;
    for (core, ufids) in chosen {
        removed += context.control.del_flows(core, &ufids)?;
    }
    Ok(Box::new(Removed { removed }))
}
