//! PMD threads: each pinned to a core, polling its receive queues, owning its caches and flow table.

mod pass;
mod perf;
mod sleep;
mod stats;
mod thread;
mod txq;

pub use pass::{Pmd, PmdConfig, RxSlot, TxSlot, most_per_pass};
pub use perf::{
    HISTORY, Histogram, Iteration, Millisecond, N_BINS, Passes, Perf, PerfView, Quantity, Suspicion,
};
pub use sleep::{Sleeper, Waker};
pub use stats::PmdStats;
pub use thread::{PmdError, PmdHandle, thread_name};
pub use txq::TxHandle;
