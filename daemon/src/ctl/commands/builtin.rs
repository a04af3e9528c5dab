//! Commands that every unixctl server has.

mod coverage_show;
mod exit;
mod help;
mod list_commands;
mod memory_show;
mod set_options;
mod version;
mod vlog_list;
mod vlog_reopen;
mod vlog_set;

use crate::ctl::command::Command;

pub(super) const ALL: &[&Command] = &[
    &coverage_show::COMMAND,
    &exit::COMMAND,
    &help::COMMAND,
    &list_commands::COMMAND,
    &memory_show::COMMAND,
    &set_options::COMMAND,
    &version::COMMAND,
    &vlog_list::COMMAND,
    &vlog_reopen::COMMAND,
    &vlog_set::COMMAND,
];
