//! The control socket: the unixctl protocol of Open vSwitch, and the commands that it carries.
//!
//! Text arrives here and leaves here; the daemon behind [`Control`] sees and returns plain data only.

mod command;
mod commands;
mod conn;
mod coverage;
mod error;
mod info;
mod protocol;
mod reply;
mod server;
mod switchd;
mod table;
#[cfg(test)]
pub(crate) mod testing;

pub use command::{Command, Context, Outcome, execute, sorted};
pub use coverage::{Coverage, Event};
pub use error::CtlError;
pub use info::{
    BridgeInfo, ConfigView, ControllerInfo, Drops, FdbEntry, FdbStats, Feature, FlowInfo,
    FrameLedger, Kicks, Ledger, Level, LogLevel, MAX_AROUND, NoLevel, PacketLedger, PmdPerf,
    PmdProbe, PmdProgress, PmdRxqs, PmdStats, PortInfo, PortState, QueueInfo, RuleInfo, RxqInfo,
    RxqMove, Setting, Status, Traffic, Upcall, XskCounters,
};
pub use protocol::{
    BadRequest, Format, Problem, REQUEST_SIZE, Request, RequestReader, encode, encode_error,
};
pub use reply::{Changes, Done, MAX_REPLY, Message, Reply, Text, Written};
pub use server::{CtlServer, MAX_CLIENTS};
pub use switchd::{Control, FlowSpec, PortSpec, RuleMatch, VisitFlow};
