//! `xvs/config-show`: the running configuration.

use core::fmt;

use crate::ctl::ConfigView;
use crate::ctl::command::{Command, Context, Outcome};
use crate::ctl::reply::Text;

pub(super) const COMMAND: Command = Command {
    name: "xvs/config-show",
    usage: "",
    about: "Show the running configuration as a configuration file.",
    min_args: 0,
    max_args: 0,
    run,
};

impl Text for ConfigView {
    fn text(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        out.write_str(&self.text)
    }
}

fn run(context: &mut Context<'_>, _args: &[String]) -> Outcome {
    Ok(Box::new(context.control.config_show()))
}
