//! Commands of the MAC tables.

mod add;
mod del;
mod flush;
mod show;
mod stats_show;

use crate::ctl::command::Command;

pub(super) const ALL: &[&Command] =
    &[&add::COMMAND, &del::COMMAND, &flush::COMMAND, &show::COMMAND, &stats_show::COMMAND];
