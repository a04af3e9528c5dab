//! Commands of the datapath, as Open vSwitch's dpctl has them.

mod add_if;
mod del_if;
mod dump_dps;
mod show;

use crate::ctl::command::Command;

pub(super) const ALL: &[&Command] =
    &[&add_if::COMMAND, &del_if::COMMAND, &dump_dps::COMMAND, &show::COMMAND];
