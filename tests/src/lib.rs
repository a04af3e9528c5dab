//! What the acceptance tests, the demo and the benchmarks stand on: network namespaces and rigs of
//! veth pairs in them, child processes that end with their owner, and the tools that make and measure
//! traffic. Everything made here is removed by Drop, by [`clean::on_signal`] when the process is told to
//! end, and by [`clean::leftovers`] when it was killed.
//!
//! Invariant: nothing here touches an interface of the namespace in which the process was started.

mod error;

pub mod booted;
pub mod clean;
pub mod daemon;
pub mod frame;
pub mod iperf;
pub mod ledger;
pub mod ns;
pub mod numbered;
pub mod ping;
pub mod proc;
pub mod raw;
pub mod rig;
pub mod scratch;
pub mod tcpdump;
pub mod udp;
pub mod without_xdp;

pub use error::{Error, Result, wait_until};
