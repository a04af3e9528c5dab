//! Commands of the slow path: how cached flows are kept true.

mod purge;
mod show;
mod wait;

use crate::ctl::command::Command;

pub(super) const ALL: &[&Command] = &[&purge::COMMAND, &show::COMMAND, &wait::COMMAND];
