//! The control socket: the unixctl protocol of Open vSwitch, and the commands that it carries.
//!
//! Text arrives here and leaves here; the daemon behind [`Control`] sees and returns plain data only.

mod error;
mod info;
mod switchd;

pub use error::CtlError;
pub use info::{
    BridgeInfo, ConfigView, Drops, FdbEntry, FdbStats, Feature, FlowInfo, FrameLedger, Kicks,
    Ledger, Level, LogLevel, NoLevel, PacketLedger, PmdFlows, PmdProgress, PmdRxqs, PmdStats,
    PortInfo, PortState, QueueInfo, RuleInfo, RxqInfo, Setting, Status, Traffic, XskCounters,
};
pub use switchd::{Control, FlowSpec, PortSpec, RuleMatch};
