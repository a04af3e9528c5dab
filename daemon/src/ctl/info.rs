//! Plain data that the daemon returns to commands.

mod bridge;
mod daemon;
mod flow;
mod ledger;
mod port;

use core::fmt;

use serde::Serializer;

pub use bridge::{FdbEntry, FdbStats, RuleInfo};
pub use daemon::{BridgeInfo, ConfigView, Feature, Level, LogLevel, NoLevel, PmdProgress, Status};
pub use flow::{
    ControllerInfo, FlowInfo, MAX_AROUND, PmdPerf, PmdProbe, PmdRxqs, PmdStats, RxqInfo, RxqMove,
    Upcall,
};
pub use ledger::{Drops, FrameLedger, Ledger, PacketLedger};
pub use port::{Kicks, PortInfo, PortState, QueueInfo, Setting, Traffic, XskCounters};

/// Serialises by `Display`.
fn display<T: fmt::Display, S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

/// Serialises by `Display`, or as null.
fn display_option<T: fmt::Display, S: Serializer>(
    value: &Option<T>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match value {
        Some(value) => serializer.collect_str(value),
        None => serializer.serialize_none(),
    }
}
