//! The seam between the fast path and whoever decides on a packet that no flow matches.

use crate::{Action, FlowKey, FlowMask, Nanos};

/// A decision on all packets that agree with one in the bits of `mask`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Translation {
    /// Exactly what the decision looked at; always all of `in_port`, `recirc_id` and `eth_type`, and whether
    /// there are tags.
    pub mask: FlowMask,
    /// What to do; empty drops.
    pub actions: Vec<Action>,
    /// False when such packets must not be served from the cache: a flow that is checked is removed,
    /// so that the next packet comes up and is learned from. Always true where a packet waits.
    pub keep: bool,
}

/// Why the decision is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A packet waits: learn from it. It is counted like all others, by a later
    /// [`Revalidate`](Self::Revalidate).
    Packet,
    /// A packet waits and there is no room for a flow that would count it: learn from it and credit it.
    Uncached {
        /// Its bytes.
        n_bytes: u64,
    },
    /// A cached flow is checked. `n_packets` hit it since the last check: credit them, and refresh
    /// what they prove to be alive. A flow with packets is checked at least once a second, whatever
    /// its version, and once more before it goes.
    Revalidate {
        /// Packets since the last check, the first one included.
        n_packets: u64,
        /// Their bytes.
        n_bytes: u64,
    },
}

/// Decides on packets: the bridge, or a fixed table in tests. Shared by all threads.
pub trait Upcall {
    /// The decision for packets like `key`.
    fn translate(&self, key: &FlowKey, purpose: Purpose, now: Nanos) -> Translation;

    /// Changes with everything that could change a decision; read before translating and kept with the
    /// flow: a flow whose version differs is due to be checked. Cheap: one atomic load.
    fn version(&self) -> u64;
}
