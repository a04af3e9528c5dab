//! `xvs/meter-add`: makes a meter, or changes its rate.

use xvs_datapath::text;

use crate::ctl::CtlError;
use crate::ctl::command::{Command, Context, Outcome};
use crate::ctl::reply::Done;

pub(super) const COMMAND: Command = Command {
    name: "xvs/meter-add",
    usage: "meter=N,{kbps|pktps},band=type=drop,rate=N[,burst_size=N]",
    about: "Add a meter for the action meter(N), in ovs-ofctl's syntax, or change its rate; \
            burst_size is a second's worth by default.",
    min_args: 1,
    max_args: 1,
    run,
};

fn run(context: &mut Context<'_>, args: &[String]) -> Outcome {
    let (text, _) = COMMAND.first(args)?;
    let (id, config) = text::parse_meter(text)
        .map_err(|error| CtlError::Parse { what: "meter", detail: error.to_string() })?;
    context.control.set_meter(id, config)?;
    Ok(Box::new(Done {}))
}
