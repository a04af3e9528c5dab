//! The configuration of xvswitch: one TOML file, read, checked, compared and written as plain data.
//!
//! [`parse`] makes a validated [`Topology`] of a text or says everything that is wrong with it;
//! [`diff()`] says what has to change between two topologies; the daemon applies that. The table of
//! settings (`settings.rs`) is the only place that knows the keys: their types, limits, defaults and
//! documentation. The reader, the printer, the options of `xvsctl port add` and the commented example
//! file are all made from it. Nothing here touches the system, but [`load`], which reads one file.

mod conflicts;
mod diff;
mod error;
mod example;
mod kinds;
mod names;
mod port_spec;
mod print;
mod settings;
mod text;
mod topology;
mod value;

pub use diff::{Change, diff};
pub use error::{Error, Errors, Place, Problem, Subject};
pub use example::example;
pub use kinds::{Auto, CpuMask, FileMode, LogLevel, PortType, Rule, RunDir, RxqAssign, XdpMode};
pub use names::{BridgeName, GroupName, IfName};
pub use port_spec::PortSpec;
pub use settings::{
    Bridge, Control, Datapath, General, Key, Log, OnChange, Pmd, Port, Section, Umem,
};
pub use text::{load, parse};
pub use topology::{Fault, Topology};
pub use value::{Limit, Raw, Value};
