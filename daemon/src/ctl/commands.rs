//! One file for each command: its name, its usage, what it does, what it returns.

mod args;
mod builtin;
mod dpctl;
mod fdb;
mod netdev;
mod ofproto;
mod ports;
mod upcall;
mod xvs;

use super::command::Command;

/// Every command, in no order.
pub(super) fn all() -> impl Iterator<Item = &'static Command> {
    [builtin::ALL, dpctl::ALL, fdb::ALL, netdev::ALL, ofproto::ALL, upcall::ALL, xvs::ALL]
        .into_iter()
        .flatten()
        .copied()
}

#[cfg(test)]
mod tests;
