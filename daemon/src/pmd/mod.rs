//! PMD threads: each pinned to a core, polling its receive queues, owning its caches and flow table.

mod pass;
mod sleep;
mod stats;
mod thread;
mod txq;

pub use pass::{Pmd, PmdConfig, RxSlot, TxSlot, most_per_pass};
pub use sleep::{Sleeper, Waker};
pub use stats::PmdStats;
pub use thread::{PmdError, PmdHandle, thread_name};
pub use txq::TxHandle;
