//! `fdb/show`: which address is behind which port.

use core::fmt;

use serde::Serialize;

use crate::ctl::FdbEntry;
use crate::ctl::command::{Command, Context, Outcome};
use crate::ctl::commands::args;
use crate::ctl::reply::Text;

pub(super) const COMMAND: Command = Command {
    name: "fdb/show",
    usage: "[bridge]",
    about: "Show which address was learned on which port, and how many seconds ago it was seen.",
    min_args: 0,
    max_args: 1,
    run,
};

#[derive(Serialize)]
struct Table {
    bridge: String,
    entries: Vec<FdbEntry>,
}

#[derive(Serialize)]
struct Tables {
    bridges: Vec<Table>,
}

impl Text for Tables {
    fn text(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        for Table { bridge, entries } in &self.bridges {
            if self.bridges.len() > 1 {
                writeln!(out, "bridge {bridge}:")?;
            }
            writeln!(out, " port  VLAN  MAC                Age")?;
            for FdbEntry { port_no, vlan, mac, age, .. } in entries {
                let age = age.map_or_else(|| "static".to_owned(), |age| format!("{age:>3}"));
                writeln!(out, "{port_no:>5}  {vlan:>4}  {mac}  {age}")?;
            }
        }
        Ok(())
    }
}

fn run(context: &mut Context<'_>, args: &[String]) -> Outcome {
    let mut bridges = Vec::new();
    for bridge in args::bridges(context, args.first().map(String::as_str))? {
        let entries = context.control.fdb(&bridge)?;
        bridges.push(Table { bridge, entries });
    }
    Ok(Box::new(Tables { bridges }))
}
