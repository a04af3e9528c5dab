//! `xvs/port-add`: adds a port.

use core::fmt;

use serde::Serialize;

use crate::ctl::PortSpec;
use crate::ctl::command::{Command, Context, Outcome};
use crate::ctl::commands::args;
use crate::ctl::reply::Text;

pub(super) const COMMAND: Command = Command {
    name: "xvs/port-add",
    usage: "iface [option=value...]",
    about: "Add a port; options are the keys of [[port]] in the configuration, as xdp-mode=native.",
    min_args: 1,
    max_args: usize::MAX,
    run,
};

#[derive(Serialize)]
struct Added {
    port_no: u32,
    name: String,
}

impl Text for Added {
    fn text(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        writeln!(out, "port {}: {}", self.port_no, self.name)
    }
}

fn run(context: &mut Context<'_>, args: &[String]) -> Outcome {
    let (name, options) = COMMAND.first(args)?;
    let options = options.iter().map(|text| args::port_option(text)).collect::<Result<_, _>>()?;
    let name = name.clone();
    let added = context.control.add_ports(&[PortSpec { name: name.clone(), options }])?;
    let port_no = added.first().copied().unwrap_or(0);
    Ok(Box::new(Added { port_no, name }))
}
