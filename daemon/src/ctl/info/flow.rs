//! Cached flows, and what the PMD threads did.

use serde::Serialize;
use xvs_datapath::{Action, Match};

use crate::pmd::PerfView;

/// A receive queue that another thread polls now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RxqMove {
    /// The port.
    pub port: String,
    /// The queue of the device.
    pub queue: u32,
    /// The core of the thread that polled it.
    pub from: u32,
    /// The core of the one that does.
    pub to: u32,
}

/// Where a PMD thread would find the flow of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PmdProbe {
    /// The thread's core.
    pub core: u32,
    /// Where.
    pub probe: xvs_datapath::Probe,
}

/// A cached flow.
#[derive(Clone, Debug)]
pub struct FlowInfo {
    /// Identifier: a function of key and mask.
    pub ufid: u128,
    /// Its packets.
    pub rule: Match,
    /// What is done to them.
    pub actions: Vec<Action>,
    /// Packets.
    pub packets: u64,
    /// Bytes.
    pub bytes: u64,
    /// Milliseconds since the last packet; `None` before the first.
    pub used_ms: Option<u64>,
    /// All TCP flags seen, ored.
    pub tcp_flags: u16,
}

/// A packet that `userspace()` queued.
#[derive(Clone, Debug, Serialize)]
pub struct Upcall {
    /// The core of the PMD thread that had it.
    pub core: u32,
    /// Milliseconds since it was queued.
    pub age_ms: u64,
    /// The port on which it arrived.
    pub in_port: u32,
    /// As the action says.
    pub pid: u32,
    /// What the action says to a controller.
    pub controller: Option<ControllerInfo>,
    /// Its length in bytes.
    pub len: usize,
    /// Its first bytes, in hexadecimal.
    pub data: String,
}

/// What `controller()` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ControllerInfo {
    /// OpenFlow's reason: 0 no match, 1 an action.
    pub reason: u16,
    /// Where an interrupted translation would go on.
    pub recirc_id: u32,
    /// The cookie of the rule.
    pub rule_cookie: u64,
    /// Which controller.
    pub controller_id: u16,
}

/// What one PMD thread did since its statistics were cleared.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PmdStats {
    /// Its core.
    pub core: u32,
    /// The core's NUMA node.
    pub numa: u32,
    /// Milliseconds that are covered.
    pub duration_ms: u64,
    /// Passes over all queues.
    pub iterations: u64,
    /// Passes that moved a packet.
    pub busy_iterations: u64,
    /// Passes that ended in sleep.
    pub sleep_iterations: u64,
    /// Nanoseconds slept.
    pub sleep_ns: u64,
    /// Nanoseconds spent in busy passes.
    pub busy_ns: u64,
    /// Nanoseconds spent in idle passes.
    pub idle_ns: u64,
    /// Packets received.
    pub rx_packets: u64,
    /// Packets that went through the datapath again.
    pub recirculated: u64,
    /// Found in the exact-match cache.
    pub emc_hits: u64,
    /// Found in the signature cache.
    pub smc_hits: u64,
    /// Found in the classifier.
    pub megaflow_hits: u64,
    /// Subtables looked at for those.
    pub subtable_lookups: u64,
    /// Misses that the bridge decided on.
    pub upcalls: u64,
    /// Packets for `userspace()` that were not queued: no room, or too many lately.
    pub lost_upcalls: u64,
    /// Packets put into output queues.
    pub tx_packets: u64,
    /// Batches they were put in.
    pub tx_batches: u64,
    /// Flows cached now.
    pub flows: u64,
    /// Different masks among them.
    pub masks: u64,
    /// The most flows there were.
    pub flows_max: u64,
    /// How many there were lately.
    pub flows_avg: u64,
    /// How many there may be: less than configured while checking them takes too long.
    pub flow_limit: u64,
    /// Nanoseconds that the last round of checks over all flows took.
    pub round_ns: u64,
}

/// What a PMD thread measured of its passes.
#[derive(Clone, Debug, Serialize)]
pub struct PmdPerf {
    /// Its core.
    pub core: u32,
    /// Since it began, or since the statistics were cleared.
    #[serde(flatten)]
    pub perf: PerfView,
}

/// The most passes that are told of before and after a suspicious one.
pub const MAX_AROUND: usize = 400;

/// The receive queues of one PMD thread.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PmdRxqs {
    /// Its core.
    pub core: u32,
    /// The core's NUMA node.
    pub numa: u32,
    /// It takes only queues that are pinned to it.
    pub isolated: bool,
    /// Its queues.
    pub rxqs: Vec<RxqInfo>,
    /// Share of time for no queue in particular, per cent; `None` before it is known.
    pub overhead_percent: Option<u32>,
}

/// A receive queue as its PMD thread sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RxqInfo {
    /// Port.
    pub port: String,
    /// Queue of the device.
    pub queue: u32,
    /// It is polled.
    pub enabled: bool,
    /// Share of the thread's time, per cent; `None` before it is known.
    pub usage_percent: Option<u32>,
}
