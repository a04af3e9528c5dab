//! `memory/show`: what takes memory, and how much the process has.

use core::fmt;
use std::collections::BTreeMap;
use std::fs;

use serde::Serialize;

use crate::ctl::command::{Command, Context, Outcome};
use crate::ctl::reply::Text;

pub(super) const COMMAND: Command = Command {
    name: "memory/show",
    usage: "",
    about: "Show what takes memory, and how much the process has.",
    min_args: 0,
    max_args: 0,
    run,
};

/// Numbers of things, by name; kilobytes where the name says so.
#[derive(Serialize)]
struct Memory(BTreeMap<&'static str, u64>);

impl Text for Memory {
    fn text(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        let words: Vec<String> = self.0.iter().map(|(k, v)| format!("{k}:{v}")).collect();
        writeln!(out, "{}", words.join(" "))
    }
}

fn run(context: &mut Context<'_>, _args: &[String]) -> Outcome {
    let mut memory = BTreeMap::from([("ports", count(context.control.ports()?.len()))]);
    let pmds = context.control.pmd_stats()?;
    memory.insert("pmds", count(pmds.len()));
    memory.insert("flows", pmds.iter().map(|pmd| pmd.flows).sum());
    memory.insert("masks", pmds.iter().map(|pmd| pmd.masks).sum());
    memory.insert("frames", context.control.ledger()?.frames.total);
    let bridges = context.control.status().bridges;
    memory.insert("bridges", count(bridges.len()));
    memory.insert("rules", bridges.iter().map(|bridge| bridge.rules).sum());
    memory.insert("macs", bridges.iter().map(|bridge| bridge.fdb_entries).sum());
    let process = fs::read_to_string("/proc/self/status").unwrap_or_default();
    for (name, row) in [("rss-kb", "VmRSS:"), ("peak-rss-kb", "VmHWM:"), ("locked-kb", "VmLck:")] {
        if let Some(kilobytes) = kilobytes(&process, row) {
            memory.insert(name, kilobytes);
        }
    }
    Ok(Box::new(Memory(memory)))
}

fn count(n: usize) -> u64 {
    u64::try_from(n).unwrap_or(u64::MAX)
}

/// The number in a row of /proc/PID/status.
fn kilobytes(status: &str, row: &str) -> Option<u64> {
    let rest = status.lines().find_map(|line| line.strip_prefix(row))?;
    rest.split_ascii_whitespace().next()?.parse().ok()
}
