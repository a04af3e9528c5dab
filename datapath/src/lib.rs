//! The packet-handling half of xvswitch: keys, flows, lookup, actions and the bridge.
//!
//! Nothing here makes a system call, starts a thread, reads a clock or logs: time and input/output are
//! passed in, so all of it runs in tests with nothing but memory.

mod action;
mod batch;
mod bridge;
mod classifier;
mod counter;
pub mod csum;
mod drops;
mod emc;
mod execute;
mod extract;
mod fair;
mod flow;
mod hash;
mod key;
mod manage;
mod meter;
mod packet;
mod port;
mod process;
mod revalidate;
mod segment;
mod set_field;
mod slab;
mod smc;
mod stats;
mod table;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod text;
mod types;
mod upcall;
mod userspace;
pub mod wire;

pub use action::{Action, Controller, HashOver, Userspace};
pub use batch::{Outputs, PacketBatch};
pub use bridge::{
    BridgeError, FdbConfig, FdbRow, FdbStats, Rule, RuleAction, RuleError, RuleFilter, RuleRow,
    Switch, SwitchCounters, Trace, TraceStep, TraceWhat,
};
pub use counter::Counter;
pub use drops::{DropCounters, DropReason};
pub use extract::{extract, extract_bytes};
pub use fair::FairQueue;
pub use flow::{BadUfid, Flow, FlowSnapshot, FlowStats, Origin, Ufid};
pub use key::{Field, FlowKey, FlowMask, Format, Match, N_WORDS};
pub use manage::{DumpCursor, FlowError, Hit, Probe};
pub use meter::{MeterConfig, MeterError, MeterRow, MeterStats, MeterUnit, Meters};
pub use packet::{CopyPacket, Layers, MAX_FRAMES, NoHeadroom, Packet};
pub use port::{RxQueue, TxQueue};
pub use process::{Datapath, DatapathConfig, Env};
pub use segment::Segments;
pub use stats::DatapathStats;
pub use types::{BadMac, CoreId, MacAddr, Nanos, PortNo, QueueId, VlanId};
pub use upcall::{Purpose, Translation, Upcall};
pub use userspace::{UserspacePacket, UserspaceQueue};
