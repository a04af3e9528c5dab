//! `fdb/stats-show`: counters of a MAC table.

use core::fmt;

use serde::Serialize;

use crate::ctl::FdbStats;
use crate::ctl::command::{Command, Context, Outcome};
use crate::ctl::commands::args;
use crate::ctl::reply::Text;

pub(super) const COMMAND: Command = Command {
    name: "fdb/stats-show",
    usage: "[bridge]",
    about: "Show the counters of a MAC table.",
    min_args: 0,
    max_args: 1,
    run,
};

#[derive(Serialize)]
struct Table {
    bridge: String,
    #[serde(flatten)]
    stats: FdbStats,
}

#[derive(Serialize)]
struct Tables {
    bridges: Vec<Table>,
}

impl Text for Tables {
    fn text(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        self.bridges.iter().try_for_each(|table| table.text(out))
    }
}

impl Text for Table {
    fn text(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        let FdbStats { entries, max_entries, static_entries, .. } = self.stats;
        let FdbStats { learned, expired, evicted, moved, .. } = self.stats;
        writeln!(out, "Statistics for bridge \"{}\":", self.bridge)?;
        writeln!(out, "  Current/maximum MAC entries in the table: {entries}/{max_entries}")?;
        writeln!(out, "  Current static MAC entries in the table : {static_entries}")?;
        writeln!(out, "  Total number of learned MAC entries     : {learned}")?;
        writeln!(out, "  Total number of expired MAC entries     : {expired}")?;
        writeln!(out, "  Total number of evicted MAC entries     : {evicted}")?;
        writeln!(out, "  Total number of port moved MAC entries  : {moved}")
    }
}

fn run(context: &mut Context<'_>, args: &[String]) -> Outcome {
    let mut bridges = Vec::new();
    for bridge in args::bridges(context, args.first().map(String::as_str))? {
        let stats = context.control.fdb_stats(&bridge)?;
        bridges.push(Table { bridge, stats });
    }
    Ok(Box::new(Tables { bridges }))
}
