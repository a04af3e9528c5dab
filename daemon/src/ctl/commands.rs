//! One file for each command: its name, its usage, what it does, what it returns.

mod list_commands;
mod set_options;
mod version;

use super::command::Command;

/// Every command, in any order.
pub(super) const ALL: &[&Command] =
    &[&list_commands::COMMAND, &set_options::COMMAND, &version::COMMAND];
