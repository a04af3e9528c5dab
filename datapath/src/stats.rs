//! What one thread's datapath counts: written by the thread, read by anybody.

use crate::{Counter, DropCounters};

/// Counters of one datapath.
///
/// Every packet has one outcome: `rx_packets + copies` is what went to the output bins plus the sum
/// of `drops`. A lookup has one result: `rx_packets + recirculated` is `emc_hits + smc_hits + megaflow_hits +
/// misses` plus the drops as malformed.
#[derive(Debug, Default)]
pub struct DatapathStats {
    /// Packets given to `process`.
    pub rx_packets: Counter,
    /// Their bytes.
    pub rx_bytes: Counter,
    /// Copies wanted for further outputs, clones and lookups. One for which no frame was free counts here
    /// and as a drop for that reason: a packet that should have been sent was not. The same holds for
    /// what ends in a meter after an output.
    pub copies: Counter,
    /// Packets that `recirc()` had looked up once more.
    pub recirculated: Counter,
    /// Packets for `userspace()` that were not queued: no room, or too many lately. Not drops, as only a
    /// copy is queued.
    pub lost_upcalls: Counter,
    /// Found in the exact-match cache.
    pub emc_hits: Counter,
    /// Found in the signature cache.
    pub smc_hits: Counter,
    /// Found by the classifier.
    pub megaflow_hits: Counter,
    /// Found nowhere and translated.
    pub misses: Counter,
    /// Of the misses: forwarded without a flow being installed, because the table is full.
    pub uninstalled: Counter,
    /// Subtables searched, over all packets that the caches did not have.
    pub masked_lookups: Counter,
    /// Flows now.
    pub flows: Counter,
    /// Distinct masks now.
    pub masks: Counter,
    /// The most flows there were at the end of a round of checks.
    pub flows_max: Counter,
    /// How many there are at the end of rounds, later rounds counting more.
    pub flows_avg: Counter,
    /// How many there may be now.
    pub flow_limit: Counter,
    /// Nanoseconds that the last round of checks took, from the change that began it.
    pub round_ns: Counter,
    /// Flows removed because no packet came for long.
    pub flows_expired: Counter,
    /// Flows changed or removed because the rules or the learned addresses said so.
    pub flows_corrected: Counter,
    /// Packets dropped, by reason.
    pub drops: DropCounters,
}
