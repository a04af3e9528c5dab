//! `xvs/meter-del`: removes a meter.

use crate::ctl::command::{Command, Context, Outcome};
use crate::ctl::commands::args;
use crate::ctl::reply::Done;

pub(super) const COMMAND: Command = Command {
    name: "xvs/meter-del",
    usage: "meter",
    about: "Remove the meter with a number; refused while flows or rules name it.",
    min_args: 1,
    max_args: 1,
    run,
};

fn run(context: &mut Context<'_>, args: &[String]) -> Outcome {
    let (text, _) = COMMAND.first(args)?;
    let digits = text.strip_prefix("meter=").unwrap_or(text);
    context.control.del_meter(args::number("meter", digits, "the number of a meter")?)?;
    Ok(Box::new(Done {}))
}
