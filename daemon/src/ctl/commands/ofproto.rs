//! Commands of bridges as a whole.

mod show;
mod trace;

use crate::ctl::command::Command;

pub(super) const ALL: &[&Command] = &[&show::COMMAND, &trace::COMMAND];
