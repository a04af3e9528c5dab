//! Commands of the datapath, as Open vSwitch's dpctl has them.

mod add_flow;
mod add_flows;
mod add_if;
mod del_flow;
mod del_flows;
mod del_if;
mod dump_dps;
mod dump_flows;
mod flow;
mod get_flow;
mod mod_flow;
mod set_if;
mod show;

use crate::ctl::CtlError;
use crate::ctl::command::Command;
use crate::ctl::commands::args;

pub(super) const ALL: &[&Command] = &[
    &add_flow::COMMAND,
    &add_flows::COMMAND,
    &add_if::COMMAND,
    &del_flow::COMMAND,
    &del_flows::COMMAND,
    &del_if::COMMAND,
    &dump_dps::COMMAND,
    &dump_flows::COMMAND,
    &get_flow::COMMAND,
    &mod_flow::COMMAND,
    &set_if::COMMAND,
    &show::COMMAND,
];

/// The ports that follow the datapath's name, each read by `read`.
fn ports<T>(
    command: &Command,
    args: &[String],
    read: impl Fn(&str) -> Result<T, CtlError>,
) -> Result<Vec<T>, CtlError> {
    let (datapath, ports) = command.first(args)?;
    args::datapath(datapath)?;
    ports.iter().map(|port| read(port)).collect()
}
