//! What a PMD thread counts about itself; written by the thread, read by anybody.

use xvs_datapath::Counter;

/// Progress and use of time of one PMD thread.
#[derive(Debug, Default)]
pub struct PmdStats {
    /// Passes over all queues; stands still only when the thread hangs (or sleeps).
    pub passes: Counter,
    /// Passes that received at least one packet.
    pub busy_passes: Counter,
    /// Nanoseconds in passes that received packets.
    pub busy_ns: Counter,
    /// Nanoseconds in passes that received nothing, sleep excluded.
    pub idle_ns: Counter,
    /// Times the thread went to sleep.
    pub sleeps: Counter,
    /// Nanoseconds asleep.
    pub sleep_ns: Counter,
    /// Packets put into transmit queues.
    pub tx_packets: Counter,
    /// Batches (one port in one pass) they were put in.
    pub tx_batches: Counter,
    /// Commands run for the main thread.
    pub commands: Counter,
}
