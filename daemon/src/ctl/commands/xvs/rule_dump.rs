//! `xvs/rule-dump`: the rules of bridges.

use core::fmt;

use serde::Serialize;

use crate::ctl::RuleInfo;
use crate::ctl::command::{Command, Context, Outcome};
use crate::ctl::commands::args;
use crate::ctl::reply::Text;

pub(super) const COMMAND: Command = Command {
    name: "xvs/rule-dump",
    usage: "[bridge]",
    about: "Show the rules of one bridge or of all, with their counters.",
    min_args: 0,
    max_args: 1,
    run,
};

#[derive(Serialize)]
struct Bridge {
    bridge: String,
    rules: Vec<RuleInfo>,
}

#[derive(Serialize)]
struct Rules {
    bridges: Vec<Bridge>,
}

impl Text for Rules {
    fn text(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        for Bridge { bridge, rules } in &self.bridges {
            if self.bridges.len() > 1 {
                writeln!(out, "bridge {bridge}:")?;
            }
            rules.iter().try_for_each(|rule| rule.text(out))?;
        }
        Ok(())
    }
}

impl Text for RuleInfo {
    fn text(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        let (seconds, millis) = (self.duration_ms / 1000, self.duration_ms % 1000);
        write!(out, " cookie={:#x}, duration={seconds}.{millis:03}s, ", self.cookie)?;
        write!(out, "table={}, n_packets={}, n_bytes={}, ", self.table, self.packets, self.bytes)?;
        if self.idle_timeout > 0 {
            write!(out, "idle_timeout={}, ", self.idle_timeout)?;
        }
        if self.hard_timeout > 0 {
            write!(out, "hard_timeout={}, ", self.hard_timeout)?;
        }
        let comma = if self.match_text.is_empty() { "" } else { "," };
        let Self { priority, match_text, actions, .. } = self;
        writeln!(out, "priority={priority}{comma}{match_text} actions={actions}")
    }
}

fn run(context: &mut Context<'_>, args: &[String]) -> Outcome {
    let mut bridges = Vec::new();
    for bridge in args::bridges(context, args.first().map(String::as_str))? {
        let rules = context.control.rules(&bridge)?;
        bridges.push(Bridge { bridge, rules });
    }
    Ok(Box::new(Rules { bridges }))
}
