//! `dpctl/dump-flows`: the cached flows of the PMD threads.
//!
//! There may be hundreds of thousands: each is written as it comes, and no more than a reply may have.

use core::fmt::Write;

use xvs_datapath::text::{NumbersOnly, PortNames};

use super::flow::{self, Filter, Flow, Ports};
use crate::ctl::command::{Command, Context, Outcome};
use crate::ctl::commands::args::Args;
use crate::ctl::reply::{Text, Written};
use crate::ctl::{CtlError, Format, MAX_REPLY};

pub(super) const COMMAND: Command = Command {
    name: "dpctl/dump-flows",
    usage: "[-m] [--names | --no-names] [dp] [filter=flow] [pmd=core]",
    about: "Show the cached flows; -m with identifiers; a filter, written as a flow or as the match of a rule, \
            leaves those that share packets with it.",
    min_args: 0,
    max_args: 5,
    run,
};

fn run(context: &mut Context<'_>, args: &[String]) -> Outcome {
    const FLAGS: &[&str] = &["-m", "--more", "--names", "--no-names"];
    let mut args = Args::parse(args, FLAGS, &[])?;
    let more = args.has("-m") || args.has("--more");
    let names = args.has("--names") || more && !args.has("--no-names");
    let ports = Ports::of(context)?;
    let filter = Filter::take(context, &mut args, &ports)?;
    let ([], pmd) = flow::words(&COMMAND, args)?;
    let shown: &dyn PortNames = if names { &ports } else { &NumbersOnly };
    let mut dump = Dump::new(*context.format);
    context.control.visit_flows(pmd, &mut |core, flow| {
        if filter.wants(&flow) { dump.add(core, &Flow::new(&flow, shown, more)) } else { Ok(()) }
    })?;
    Ok(Box::new(dump.finish()))
}

/// Flows, as text or as `{"pmds":[{"core":0,"flows":[…]}]}`.
struct Dump {
    format: Format,
    written: String,
    /// The thread of the last flow.
    core: Option<u32>,
}

impl Dump {
    fn new(format: Format) -> Self {
        let written = if format == Format::Json { "{\"pmds\":[" } else { "" };
        Self { format, written: written.to_owned(), core: None }
    }

    fn add(&mut self, core: u32, flow: &Flow) -> Result<(), CtlError> {
        // Writing to a string does not fail, and a flow has nothing that JSON has not.
        match self.format {
            Format::Text => {
                if self.core != Some(core) {
                    let _ = writeln!(self.written, "flow-dump from pmd on cpu core: {core}");
                }
                let _ = flow.text(&mut self.written);
            }
            Format::Json => {
                let before = match self.core {
                    Some(last) if last == core => ",".to_owned(),
                    Some(_) => format!("]}},{{\"core\":{core},\"flows\":["),
                    None => format!("{{\"core\":{core},\"flows\":["),
                };
                self.written.push_str(&before);
                self.written.push_str(&serde_json::to_string(flow).unwrap_or_default());
            }
        }
        self.core = Some(core);
        match self.written.len() {
            size if size > MAX_REPLY => Err(CtlError::ReplyTooLong { size, limit: MAX_REPLY }),
            _ => Ok(()),
        }
    }

    fn finish(mut self) -> Written {
        if self.format == Format::Json {
            self.written.push_str(if self.core.is_some() { "]}]}" } else { "]}" });
        }
        Written(self.written)
    }
}
