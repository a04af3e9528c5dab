//! `ofproto/trace`: what would happen to a packet, and why.

use core::fmt;

use serde::Serialize;
use xvs_datapath::text::{self, NumbersOnly, PortNames};
use xvs_datapath::{Field, FlowKey, Hit, Match, PortNo, Trace, TraceWhat, Ufid, extract_bytes};

use crate::ctl::command::{Command, Context, Outcome};
use crate::ctl::commands::args;
use crate::ctl::commands::ports::Ports;
use crate::ctl::reply::Text;
use crate::ctl::{CtlError, PmdProbe};

pub(super) const COMMAND: Command = Command {
    name: "ofproto/trace",
    usage: "{[dp] flow | bridge rule-match} [packet]",
    about: "Say what would happen to a packet, and why: from a flow as dpctl writes it, or a match as in rules; \
            with the bytes of a packet in hex, the flow tells only where it comes in. Nothing changes.",
    min_args: 1,
    max_args: 3,
    run,
};

/// The most bytes of a packet.
const MAX_PACKET: usize = 65_535;

/// One step, flat for JSON.
#[derive(Debug, Default, Serialize)]
struct Step {
    depth: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    table: Option<u8>,
    /// The rule's match, empty for all packets; `None` where no rule matched.
    #[serde(rename = "match", skip_serializing_if = "Option::is_none")]
    matching: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    priority: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cookie: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    action: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
}

/// What one thread would do.
#[derive(Debug, Serialize)]
struct Cache {
    core: u32,
    /// `emc`, `smc`, `megaflow` or `miss`.
    hit: &'static str,
    /// Subtables searched for a megaflow.
    #[serde(skip_serializing_if = "Option::is_none")]
    subtables: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ufid: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    actions: Option<String>,
}

#[derive(Debug, Serialize)]
struct Traced {
    flow: String,
    bridge: Option<String>,
    steps: Vec<Step>,
    megaflow: String,
    ufid: String,
    actions: String,
    /// The bound that was met, so that the packet is dropped.
    limit: Option<&'static str>,
    caches: Vec<Cache>,
}

impl Text for Step {
    fn text(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        let indent = 4 * self.depth;
        if let Some(table) = self.table {
            let Some(matching) = &self.matching else {
                return writeln!(out, "{:indent$}{table:>2}. No match: nothing is done.", "");
            };
            let blank = if matching.is_empty() { "" } else { ", " };
            write!(out, "{:indent$}{table:>2}. {matching}{blank}", "")?;
            write!(out, "priority {}", self.priority.unwrap_or(0))?;
            return match self.cookie {
                Some(cookie) if cookie != 0 => writeln!(out, ", cookie {cookie:#x}"),
                Some(_) | None => writeln!(out),
            };
        }
        if let Some(action) = &self.action {
            writeln!(out, "{:indent$}    {action}", "")?;
        }
        match &self.note {
            Some(note) => writeln!(out, "{:indent$}     -> {note}", ""),
            None => Ok(()),
        }
    }
}

impl Text for Cache {
    fn text(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        write!(out, "pmd on cpu core {}: ", self.core)?;
        match (self.hit, self.subtables) {
            ("miss", _) => return writeln!(out, "miss, the bridge would be asked"),
            ("emc", _) => write!(out, "hit in the exact-match cache")?,
            ("smc", _) => write!(out, "hit in the signature cache")?,
            (_, n) => write!(out, "hit in the classifier, subtables searched: {}", n.unwrap_or(0))?,
        }
        let (ufid, actions) = (self.ufid.as_deref(), self.actions.as_deref());
        writeln!(out, ", ufid:{}, actions:{}", ufid.unwrap_or("?"), actions.unwrap_or("?"))
    }
}

impl Text for Traced {
    fn text(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        writeln!(out, "Flow: {}\n", self.flow)?;
        match &self.bridge {
            Some(bridge) => {
                let title = format!("bridge(\"{bridge}\")");
                writeln!(out, "{title}\n{}", "-".repeat(title.len()))?;
            }
            None => writeln!(out, "The port is in no bridge: dropped.")?,
        }
        self.steps.iter().try_for_each(|step| step.text(out))?;
        if let Some(limit) = self.limit {
            writeln!(out, "\nDropped: {limit}.")?;
        }
        writeln!(out, "\nMegaflow: {}", self.megaflow)?;
        writeln!(out, "Datapath actions: {}\n", self.actions)?;
        self.caches.iter().try_for_each(|cache| cache.text(out))
    }
}

fn run(context: &mut Context<'_>, args: &[String]) -> Outcome {
    if args.iter().any(|arg| arg == "-generate" || arg == "--generate") {
        let text = "-generate is not supported: a trace changes nothing; send a packet instead";
        return Err(CtlError::Refused(text.to_owned()));
    }
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let bridges = context.control.bridges();
    let is_bridge = |name: &str| bridges.iter().any(|bridge| bridge == name);
    let (key, packet) = match words.as_slice() {
        [bridge, matching, rest @ ..] if is_bridge(bridge) => {
            (context.control.match_of_rule(bridge, matching)?, rest)
        }
        [flow, rest @ ..] if flow.contains('(') || flow.contains("ufid:") => {
            (flow_match(context, flow)?, rest)
        }
        [datapath, flow, rest @ ..] => {
            args::datapath(datapath)?;
            (flow_match(context, flow)?, rest)
        }
        [flow] => (flow_match(context, flow)?, &[][..]),
        [] => return Err(CtlError::TooFewArguments { command: COMMAND.name.to_owned(), min: 1 }),
    };
    let key = match packet {
        [] => key.key,
        [hex] => of_packet(&key.key, hex)?,
        _ => return Err(CtlError::TooManyArguments { command: COMMAND.name.to_owned(), max: 2 }),
    };
    if key.get(&Field::IN_PORT) == 0 {
        let text = "no in_port: say where the packet comes in, as in_port(1) or in_port=1";
        return Err(CtlError::Refused(text.to_owned()));
    }
    let (trace, probes) = context.control.trace(&key)?;
    Ok(Box::new(traced(&key, trace, &probes)))
}

fn flow_match(context: &mut Context<'_>, flow: &str) -> Result<Match, CtlError> {
    let ports = Ports::of(context)?;
    text::parse_match(flow, &ports)
        .map_err(|error| CtlError::Parse { what: "flow key", detail: error.to_string() })
}

/// The key of a packet that comes in, and brings from earlier lookups, what `flow` says.
fn of_packet(flow: &FlowKey, hex: &str) -> Result<FlowKey, CtlError> {
    let bad = |detail: String| CtlError::Parse { what: "packet", detail };
    let digits: String = hex.chars().filter(|c| !c.is_whitespace() && *c != ':').collect();
    let wrong = digits.char_indices().find(|(_, c)| !c.is_ascii_hexdigit());
    if let Some((at, c)) = wrong {
        return Err(bad(format!("\"{c}\" at digit {} is not a hex digit", at + 1)));
    }
    if !digits.len().is_multiple_of(2) || digits.len() > 2 * MAX_PACKET {
        let n = digits.len();
        return Err(bad(format!("{n} hex digits (want two for each of 14 to {MAX_PACKET} bytes)")));
    }
    let byte = |pair: &[u8]| {
        core::str::from_utf8(pair).ok().and_then(|pair| u8::from_str_radix(pair, 16).ok())
    };
    let bytes: Option<Vec<u8>> = digits.as_bytes().chunks(2).map(byte).collect();
    let bytes = bytes.unwrap_or_default();
    let in_port = PortNo(u32::try_from(flow.get(&Field::IN_PORT)).unwrap_or(0));
    let mut key = extract_bytes(&bytes, in_port).map_err(|_| {
        bad(format!("{} bytes (want at least 14, an Ethernet header)", bytes.len()))
    })?;
    for field in [&Field::RECIRC_ID, &Field::DP_HASH, &Field::SKB_MARK, &Field::SKB_PRIORITY] {
        key.set(field, flow.get(field));
    }
    Ok(key)
}

fn traced(key: &FlowKey, trace: Trace, probes: &[PmdProbe]) -> Traced {
    let ports: &dyn PortNames = &NumbersOnly;
    let megaflow = Match::new(key, trace.translation.mask);
    let print =
        |rule: &Match, actions: &[xvs_datapath::Action]| text::print_actions(actions, rule, ports);
    let caches = probes.iter().map(|PmdProbe { core, probe }| Cache {
        core: *core,
        hit: match probe.hit {
            Hit::Emc => "emc",
            Hit::Smc => "smc",
            Hit::Megaflow { .. } => "megaflow",
            Hit::Miss => "miss",
        },
        subtables: match probe.hit {
            Hit::Megaflow { n_subtables } => Some(n_subtables),
            Hit::Emc | Hit::Smc | Hit::Miss => None,
        },
        ufid: probe.flow.as_ref().map(|flow| flow.ufid.to_string()),
        actions: probe.flow.as_ref().map(|flow| print(&flow.rule, &flow.actions)),
    });
    Traced {
        flow: text::print_key(key, ports),
        bridge: trace.bridge,
        steps: trace.steps.into_iter().map(|step| flat(step.depth, step.what)).collect(),
        actions: print(&megaflow, &trace.translation.actions),
        ufid: Ufid::of(&megaflow).to_string(),
        megaflow: text::print_match(&megaflow, ports),
        limit: trace.limit,
        caches: caches.collect(),
    }
}

fn flat(depth: usize, what: TraceWhat) -> Step {
    let step = Step { depth, ..Step::default() };
    match what {
        TraceWhat::Table { table, rule: None } => Step { table: Some(table), ..step },
        TraceWhat::Table { table, rule: Some(rule) } => Step {
            table: Some(table),
            matching: Some(rule.match_text()),
            priority: Some(rule.priority),
            cookie: Some(rule.cookie),
            ..step
        },
        TraceWhat::Action(action) => Step { action: Some(action), ..step },
        TraceWhat::Note(note) => Step { note: Some(note), ..step },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_keeps_what_no_header_has() {
        let text = "in_port(1),recirc_id(2),dp_hash(3),skb_mark(4),skb_priority(5)";
        let flow = text::parse_match(text, &NumbersOnly).unwrap().key;
        let key = of_packet(&flow, "02000000000202000000000108060000").unwrap();
        for (field, value) in [
            (&Field::IN_PORT, 1),
            (&Field::RECIRC_ID, 2),
            (&Field::DP_HASH, 3),
            (&Field::SKB_MARK, 4),
            (&Field::SKB_PRIORITY, 5),
            (&Field::ETH_TYPE, 0x0806),
        ] {
            assert_eq!(key.get(field), value, "{}", field.name);
        }
    }
}
