//! `dpctl/get-flow`: one flow by its identifier.

use super::flow::{self, Flow, Ports};
use crate::ctl::CtlError;
use crate::ctl::command::{Command, Context, Outcome};
use crate::ctl::commands::args::Args;

pub(super) const COMMAND: Command = Command {
    name: "dpctl/get-flow",
    usage: "[dp] ufid:... [pmd=core]",
    about: "Show the flow with an identifier, as a PMD thread has it.",
    min_args: 1,
    max_args: 3,
    run,
};

fn run(context: &mut Context<'_>, args: &[String]) -> Outcome {
    let ([text], pmd) = flow::words(&COMMAND, Args::parse(args, &[], &[])?)?;
    let ufid = flow::ufid(text)?.ok_or_else(|| CtlError::BadArgument {
        what: "flow",
        text: text.to_owned(),
        want: "ufid:..., as dpctl/dump-flows -m shows it".to_owned(),
    })?;
    let found = context.control.flow(ufid.0, pmd)?.ok_or_else(|| CtlError::Datapath {
        what: "getting flow".to_owned(),
        why: "No such file or directory".to_owned(),
    })?;
    Ok(Box::new(Flow::new(&found, &Ports::of(context)?, true)))
}
