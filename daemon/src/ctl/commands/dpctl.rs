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

use crate::ctl::command::Command;

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
