//! `xvs/ledger`: where every packet ended and where every frame is.

use core::fmt::{self, Display};

use serde::Serialize;

use crate::ctl::command::{Command, Context, Outcome};
use crate::ctl::reply::Text;
use crate::ctl::{FrameLedger, Ledger, PacketLedger};

pub(super) const COMMAND: Command = Command {
    name: "xvs/ledger",
    usage: "",
    about: "Show where every packet ended and where every frame is; both balances must be 0.",
    min_args: 0,
    max_args: 0,
    run,
};

#[derive(Serialize)]
struct Balanced<T> {
    #[serde(flatten)]
    account: T,
    balance: i128,
}

#[derive(Serialize)]
struct Ledgers {
    packets: Balanced<PacketLedger>,
    frames: Balanced<FrameLedger>,
    balanced: bool,
}

impl From<Ledger> for Ledgers {
    fn from(Ledger { packets, frames }: Ledger) -> Self {
        let packets = Balanced { balance: packets.balance(), account: packets };
        let frames = Balanced { balance: frames.balance(), account: frames };
        let balanced = packets.balance == 0 && frames.balance == 0;
        Self { packets, frames, balanced }
    }
}

impl Text for Ledgers {
    fn text(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        let Balanced { account, balance } = &self.packets;
        writeln!(out, "packets: rx + copies + segments + injected = tx + drops + queued + held")?;
        row(out, "rx", account.rx)?;
        row(out, "copies", account.copies)?;
        row(out, "segments", account.segments)?;
        row(out, "injected", account.injected)?;
        row(out, "tx", account.tx)?;
        row(out, "drops", account.drops.total())?;
        for (reason, n) in account.drops.iter().filter(|&(_, n)| n > 0) {
            writeln!(out, "    {:<16} {n:>18}", reason.name())?;
        }
        row(out, "queued", account.queued)?;
        row(out, "held", account.held)?;
        row(out, "balance", balance)?;
        let Balanced { account, balance } = &self.frames;
        writeln!(out, "frames: total = the sum of the places")?;
        row(out, "total", account.total)?;
        row(out, "pool", account.pool)?;
        row(out, "caches", account.caches)?;
        row(out, "batches", account.batches)?;
        row(out, "queued", account.queued)?;
        row(out, "filled", account.filled)?;
        row(out, "tx", account.tx)?;
        row(out, "held", account.held)?;
        row(out, "quarantined", account.quarantined)?;
        row(out, "balance", balance)
    }
}

fn row(out: &mut dyn fmt::Write, name: &str, value: impl Display) -> fmt::Result {
    writeln!(out, "  {name:<18} {value:>18}")
}

fn run(context: &mut Context<'_>, _args: &[String]) -> Outcome {
    Ok(Box::new(Ledgers::from(context.control.ledger()?)))
}
