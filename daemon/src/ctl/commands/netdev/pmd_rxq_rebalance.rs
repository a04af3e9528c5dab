//! `dpif-netdev/pmd-rxq-rebalance`: spreads the receive queues by how busy they were.

use core::fmt;

use serde::Serialize;

use crate::ctl::RxqMove;
use crate::ctl::command::{Command, Context, Outcome};
use crate::ctl::commands::args;
use crate::ctl::reply::Text;

pub(super) const COMMAND: Command = Command {
    name: "dpif-netdev/pmd-rxq-rebalance",
    usage: "[dp]",
    about: "Spread the receive queues over the PMD threads by how busy they were in the last minute; packets go on.",
    min_args: 0,
    max_args: 1,
    run,
};

#[derive(Serialize)]
struct Moves {
    moves: Vec<RxqMove>,
}

impl Text for Moves {
    fn text(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        self.moves.iter().try_for_each(|RxqMove { port, queue, from, to }| {
            writeln!(out, "port {port} queue {queue}: from core {from} to core {to}")
        })
    }
}

fn run(context: &mut Context<'_>, args: &[String]) -> Outcome {
    args.iter().try_for_each(|name| args::datapath(name))?;
    Ok(Box::new(Moves { moves: context.control.rebalance()? }))
}
