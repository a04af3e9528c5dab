//! `dpctl/dump-flows`: the cached flows of the PMD threads.

use core::fmt;

use serde::Serialize;
use xvs_datapath::Match;
use xvs_datapath::text::{NumbersOnly, PortNames};

use super::flow::{self, Flow, Ports};
use crate::ctl::CtlError;
use crate::ctl::command::{Command, Context, Outcome};
use crate::ctl::commands::args::Args;
use crate::ctl::reply::Text;

pub(super) const COMMAND: Command = Command {
    name: "dpctl/dump-flows",
    usage: "[-m] [--names | --no-names] [dp] [filter=flow] [pmd=core]",
    about: "Show the cached flows; -m with identifiers; a filter, written as a flow or as the match of a rule, \
            leaves those that share packets with it.",
    min_args: 0,
    max_args: 5,
    run,
};

#[derive(Serialize)]
struct Pmd {
    core: u32,
    flows: Vec<Flow>,
}

#[derive(Serialize)]
struct Dump {
    pmds: Vec<Pmd>,
}

impl Text for Dump {
    fn text(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        for Pmd { core, flows } in self.pmds.iter().filter(|pmd| !pmd.flows.is_empty()) {
            writeln!(out, "flow-dump from pmd on cpu core: {core}")?;
            flows.iter().try_for_each(|flow| flow.text(out))?;
        }
        Ok(())
    }
}

fn run(context: &mut Context<'_>, args: &[String]) -> Outcome {
    const FLAGS: &[&str] = &["-m", "--more", "--names", "--no-names"];
    let mut args = Args::parse(args, FLAGS, &[])?;
    let more = args.has("-m") || args.has("--more");
    let names = args.has("--names") || more && !args.has("--no-names");
    let ports = Ports::of(context)?;
    let filter = args.take_assigned("filter");
    let filter = filter.map(|text| read_filter(context, &ports, text)).transpose()?;
    let ([], pmd) = flow::words(&COMMAND, args)?;
    let shown: &dyn PortNames = if names { &ports } else { &NumbersOnly };
    let pmds = context.control.flows(pmd)?.into_iter().map(|pmd| {
        let wanted = |rule: &Match| filter.as_ref().is_none_or(|filter| overlap(filter, rule));
        let flows = pmd.flows.iter().filter(|flow| wanted(&flow.rule));
        Pmd { core: pmd.core, flows: flows.map(|flow| Flow::new(flow, shown, more)).collect() }
    });
    Ok(Box::new(Dump { pmds: pmds.collect() }))
}

/// A filter in the syntax of flows, or in that of rules, as Open vSwitch has it.
fn read_filter(context: &mut Context<'_>, ports: &Ports, text: &str) -> Result<Match, CtlError> {
    match context.control.bridges().first() {
        Some(bridge) if !text.contains('(') => context.control.match_of_rule(bridge, text),
        Some(_) | None => flow::parse_filter(ports, text),
    }
}

/// True when there can be a packet that both match.
fn overlap(a: &Match, b: &Match) -> bool {
    let masks = a.mask.words().iter().zip(b.mask.words());
    let keys = a.key.words().iter().zip(b.key.words());
    masks.zip(keys).all(|((m, n), (k, l))| (k ^ l) & m & n == 0)
}
