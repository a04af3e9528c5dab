//! Commands that only this switch has.

mod config_check;
mod config_reload;
mod config_show;
mod counters;
mod ledger;
mod meter_add;
mod meter_del;
mod meter_list;
mod pmd_stats;
mod port_add;
mod port_del;
mod port_list;
mod port_show;
mod rule_add;
mod rule_del;
mod rule_dump;
mod status;
mod upcall_read;

use crate::ctl::command::Command;

pub(super) const ALL: &[&Command] = &[
    &config_check::COMMAND,
    &config_reload::COMMAND,
    &config_show::COMMAND,
    &counters::COMMAND,
    &ledger::COMMAND,
    &meter_add::COMMAND,
    &meter_del::COMMAND,
    &meter_list::COMMAND,
    &pmd_stats::COMMAND,
    &port_add::COMMAND,
    &port_del::COMMAND,
    &port_list::COMMAND,
    &port_show::COMMAND,
    &rule_add::COMMAND,
    &rule_del::COMMAND,
    &rule_dump::COMMAND,
    &status::COMMAND,
    &upcall_read::COMMAND,
];
