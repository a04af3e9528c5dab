//! The registry of counters: each is named, described and read in one place, here.
//!
//! The command line, JSON and whatever else shows counters go through these tables, so none can lack
//! what another shows. Drop reasons are the datapath's own list
//! ([`DropReason`](xvs_datapath::DropReason)), read through [`Drops`]. To add a counter: put it into the
//! plain data that the daemon returns, and add its row here.

use std::collections::BTreeMap;

use serde::Serialize;

use xvs_datapath::SwitchCounters;

use crate::ctl::{Control, CtlError, Drops, FdbStats, Ledger, PmdStats, PortInfo, QueueInfo};

/// Whether a value only grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// It only grows, until its object goes or is cleared.
    Counter,
    /// It goes up and down.
    Gauge,
}

/// One counter of objects of type `T`.
#[derive(Debug)]
pub struct Metric<T> {
    /// Unique name.
    pub name: &'static str,
    /// Does it only grow?
    pub kind: Kind,
    /// What is counted.
    pub unit: &'static str,
    /// One sentence.
    pub doc: &'static str,
    /// Reads it.
    pub get: fn(&T) -> u64,
}

macro_rules! metrics {
    ($($(#[doc = $doc:literal])+ $table:ident: $type:ty {
        $($kind:ident $name:literal $unit:literal $get:expr, $about:literal;)+
    })+) => {
        $($(#[doc = $doc])+ pub const $table: &[Metric<$type>] = &[
            $(Metric { name: $name, kind: Kind::$kind, unit: $unit, doc: $about, get: $get },)+
        ];)+
    };
}

metrics! {
    /// Of each port.
    PORT: PortInfo {
        Counter "port_rx_packets" "packets" |p| p.rx.packets, "Packets received on the port.";
        Counter "port_rx_bytes" "bytes" |p| p.rx.bytes, "Bytes received on the port.";
        Counter "port_tx_packets" "packets" |p| p.tx.packets, "Packets that the kernel took for sending.";
        Counter "port_tx_bytes" "bytes" |p| p.tx.bytes, "Bytes that the kernel took for sending.";
        Counter "port_kicks" "calls" |p| p.kicks.calls, "System calls that hand packets to the kernel.";
        Counter "port_kicked_packets" "packets" |p| p.kicks.packets, "Packets that those calls moved.";
        Counter "port_eagain" "calls" |p| p.kicks.eagain, "Sending calls that returned EAGAIN; nothing is lost.";
        Counter "port_ebusy" "calls" |p| p.kicks.ebusy, "Sending calls that returned EBUSY; one packet is lost each.";
        Counter "port_tx_errors" "calls" |p| p.kicks.errors, "Sending calls that returned any other error.";
        Counter "port_drops" "packets" |p| p.drops.total(), "Packets dropped on their way out of the port.";
        Counter "port_passed_to_stack" "packets" |p| p.passed_to_stack, "Packets of unbound queues, passed to the network stack.";
        Gauge "port_queued" "packets" |p| p.queued, "Packets waiting to be sent on the port.";
        Gauge "port_outstanding" "frames" |p| p.outstanding, "Frames that the kernel is sending.";
    }
    /// Of each queue of a port: what waits, and what the kernel counts for its socket.
    QUEUE: QueueInfo {
        Gauge "queue_queued" "packets" |q| q.queued, "Packets waiting to be sent on the queue.";
        Gauge "queue_outstanding" "frames" |q| q.outstanding, "Frames of the queue that the kernel is sending.";
        Gauge "queue_limit_bytes" "bytes" |q| q.limit_bytes, "Bytes that may be with the kernel before packets wait.";
        Counter "xsk_rx_dropped" "packets" |q| q.kernel.rx_dropped, "Received packets that the kernel dropped for other reasons than a full ring.";
        Counter "xsk_rx_invalid_descs" "descriptors" |q| q.kernel.rx_invalid_descs, "Fill descriptors that the kernel found invalid.";
        Counter "xsk_tx_invalid_descs" "descriptors" |q| q.kernel.tx_invalid_descs, "Transmit descriptors that the kernel found invalid.";
        Counter "xsk_rx_ring_full" "packets" |q| q.kernel.rx_ring_full, "Received packets that the kernel dropped because the rx ring was full.";
        Counter "xsk_rx_fill_ring_empty_descs" "times" |q| q.kernel.rx_fill_ring_empty_descs, "Times the kernel wanted a frame and the fill ring was empty.";
        Counter "xsk_tx_ring_empty_descs" "times" |q| q.kernel.tx_ring_empty_descs, "Times the kernel found the tx ring empty.";
    }
    /// Of each PMD thread.
    PMD: PmdStats {
        Counter "pmd_iterations" "passes" |t| t.iterations, "Passes over all receive queues.";
        Counter "pmd_busy_iterations" "passes" |t| t.busy_iterations, "Passes that moved a packet.";
        Counter "pmd_sleep_iterations" "passes" |t| t.sleep_iterations, "Passes that ended in sleep.";
        Counter "pmd_sleep_ns" "ns" |t| t.sleep_ns, "Time slept.";
        Counter "pmd_busy_ns" "ns" |t| t.busy_ns, "Time spent in busy passes.";
        Counter "pmd_idle_ns" "ns" |t| t.idle_ns, "Time spent in idle passes.";
        Counter "pmd_rx_packets" "packets" |t| t.rx_packets, "Packets received.";
        Counter "pmd_recirculated" "packets" |t| t.recirculated, "Packets that went through the datapath again.";
        Counter "pmd_emc_hits" "packets" |t| t.emc_hits, "Packets found in the exact-match cache.";
        Counter "pmd_smc_hits" "packets" |t| t.smc_hits, "Packets found in the signature cache.";
        Counter "pmd_megaflow_hits" "packets" |t| t.megaflow_hits, "Packets found in the classifier.";
        Counter "pmd_subtable_lookups" "lookups" |t| t.subtable_lookups, "Subtables looked at for packets found in the classifier.";
        Counter "pmd_upcalls" "packets" |t| t.upcalls, "Misses that the bridge decided on.";
        Counter "pmd_lost_upcalls" "packets" |t| t.lost_upcalls, "Packets for userspace() that found no room or came too fast.";
        Counter "pmd_tx_packets" "packets" |t| t.tx_packets, "Packets put into output queues.";
        Counter "pmd_tx_batches" "batches" |t| t.tx_batches, "Batches in which they were put there.";
        Gauge "pmd_flows" "flows" |t| t.flows, "Flows cached.";
        Gauge "pmd_masks" "masks" |t| t.masks, "Different masks among the cached flows.";
        Gauge "pmd_flows_max" "flows" |t| t.flows_max, "The most flows cached at a time.";
        Gauge "pmd_flows_avg" "flows" |t| t.flows_avg, "Flows cached lately.";
        Gauge "pmd_flow_limit" "flows" |t| t.flow_limit, "Flows that may be cached; less than configured while checking them takes too long.";
        Gauge "pmd_round_ns" "ns" |t| t.round_ns, "Time that the last check of all flows took.";
    }
    /// Of each bridge: its MAC table.
    FDB: FdbStats {
        Gauge "fdb_entries" "entries" |f| f.entries, "Entries of the MAC table.";
        Gauge "fdb_static_entries" "entries" |f| f.static_entries, "Static entries of the MAC table.";
        Counter "fdb_learned" "entries" |f| f.learned, "Addresses learned.";
        Counter "fdb_expired" "entries" |f| f.expired, "Addresses that aged out.";
        Counter "fdb_evicted" "entries" |f| f.evicted, "Addresses that made room for others.";
        Counter "fdb_moved" "entries" |f| f.moved, "Addresses that moved to another port.";
    }
    /// Of all bridges: what they decided.
    DECISIONS: SwitchCounters {
        Counter "bridge_misses" "packets" |d| d.misses, "Packets that no flow matched and the bridges decided on.";
        Counter "bridge_checks" "flows" |d| d.checks, "Cached flows that were checked against the rules.";
        Counter "bridge_no_bridge" "decisions" |d| d.no_bridge, "Decisions to drop because the port is in no bridge.";
        Counter "bridge_too_deep" "decisions" |d| d.too_deep, "Decisions to drop because tables led to tables more than 64 deep, most likely a loop.";
        Counter "bridge_too_many_lookups" "decisions" |d| d.too_many_lookups, "Decisions to drop because of more than 1024 lookups.";
        Counter "bridge_too_many_actions" "decisions" |d| d.too_many_actions, "Decisions to drop because of more than 4096 actions, or more than four tags pushed.";
    }
    /// Of the daemon: both ledgers.
    LEDGER: Ledger {
        Counter "packets_rx" "packets" |l| l.packets.rx, "Packets received from the kernel.";
        Counter "packets_copies" "packets" |l| l.packets.copies, "Packets made by copying.";
        Counter "packets_segments" "packets" |l| l.packets.segments, "Packets more than there were, by cutting those that a sender left to be cut.";
        Counter "packets_injected" "packets" |l| l.packets.injected, "Packets made by the daemon itself.";
        Counter "packets_tx" "packets" |l| l.packets.tx, "Packets that the kernel took.";
        Gauge "packets_queued" "packets" |l| l.packets.queued, "Packets waiting to be sent.";
        Gauge "packets_held" "packets" |l| l.packets.held, "Packets held on purpose.";
        Gauge "frames_total" "frames" |l| l.frames.total, "Frames of the packet memory.";
        Gauge "frames_pool" "frames" |l| l.frames.pool, "Free frames that all threads share.";
        Gauge "frames_caches" "frames" |l| l.frames.caches, "Free frames in the caches of threads.";
        Gauge "frames_batches" "frames" |l| l.frames.batches, "Frames in batches and bins.";
        Gauge "frames_queued" "frames" |l| l.frames.queued, "Frames of packets waiting to be sent.";
        Gauge "frames_filled" "frames" |l| l.frames.filled, "Frames lent to the kernel for receiving.";
        Gauge "frames_tx" "frames" |l| l.frames.tx, "Frames lent to the kernel for sending.";
        Gauge "frames_held" "frames" |l| l.frames.held, "Frames held on purpose.";
        Gauge "frames_quarantined" "frames" |l| l.frames.quarantined, "Frames of closed sockets that the kernel may still use.";
    }
}

/// Name of the counter that has one sample for each drop reason.
pub const DROPS: &str = "drops";

/// A value with its name and what it belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Sample {
    /// The metric's name.
    pub name: &'static str,
    /// Does it only grow?
    pub kind: Kind,
    /// What is counted.
    pub unit: &'static str,
    /// One sentence.
    pub doc: &'static str,
    /// What it belongs to, as `port=v1`.
    pub labels: BTreeMap<&'static str, String>,
    /// The value.
    pub value: u64,
}

/// Every counter of the daemon.
///
/// # Errors
/// When a thread does not answer.
pub fn snapshot(control: &mut dyn Control) -> Result<Vec<Sample>, CtlError> {
    let mut samples = Vec::new();
    for port in control.ports()? {
        let name = ("port", port.name.clone());
        read(PORT, &port, std::slice::from_ref(&name), &mut samples);
        for queue in &port.queues {
            let labels = [name.clone(), ("queue", queue.queue.to_string())];
            read(QUEUE, queue, &labels, &mut samples);
        }
    }
    for stats in control.pmd_stats()? {
        read(PMD, &stats, &[("core", stats.core.to_string())], &mut samples);
    }
    for bridge in control.bridges() {
        let stats = control.fdb_stats(&bridge)?;
        read(FDB, &stats, &[("bridge", bridge)], &mut samples);
    }
    read(DECISIONS, &control.decisions(), &[], &mut samples);
    let ledger = control.ledger()?;
    read(LEDGER, &ledger, &[], &mut samples);
    samples.extend(drops(&ledger.packets.drops));
    Ok(samples)
}

/// Every drop reason with its count.
pub fn drops(drops: &Drops) -> impl Iterator<Item = Sample> + '_ {
    drops.iter().map(|(reason, value)| Sample {
        name: DROPS,
        kind: Kind::Counter,
        unit: "packets",
        doc: reason.describe(),
        labels: BTreeMap::from([("reason", reason.name().to_owned())]),
        value,
    })
}

fn read<T>(
    table: &'static [Metric<T>],
    object: &T,
    labels: &[(&'static str, String)],
    samples: &mut Vec<Sample>,
) {
    samples.extend(table.iter().map(|metric| Sample {
        name: metric.name,
        kind: metric.kind,
        unit: metric.unit,
        doc: metric.doc,
        labels: labels.iter().cloned().collect(),
        value: (metric.get)(object),
    }));
}

#[cfg(test)]
mod tests {
    //! Every counter has a name of its own and a sentence.

    use super::*;
    use std::collections::BTreeSet;

    fn rows() -> Vec<(&'static str, &'static str, &'static str)> {
        fn of<T>(
            table: &'static [Metric<T>],
        ) -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
            table.iter().map(|m| (m.name, m.unit, m.doc))
        }
        let all = of(PORT)
            .chain(of(QUEUE))
            .chain(of(PMD))
            .chain(of(FDB))
            .chain(of(LEDGER))
            .chain(of(DECISIONS));
        let reasons = xvs_datapath::DropReason::ALL.iter();
        all.chain(reasons.map(|reason| (reason.name(), "packets", reason.describe()))).collect()
    }

    #[test]
    fn names_are_unique_and_documented() {
        let rows = rows();
        let names: BTreeSet<_> = rows.iter().map(|row| row.0).collect();
        assert_eq!(names.len(), rows.len());
        assert!(!names.contains(DROPS));
        for (name, unit, doc) in rows {
            assert!(name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'), "{name}");
            assert!(!unit.is_empty(), "{name}");
            assert!(
                doc.ends_with('.') && doc.starts_with(|c: char| c.is_ascii_uppercase()),
                "{name}: {doc}"
            );
        }
    }

    /// A counter that is in the data but in no row would be invisible in metrics: each field of the
    /// structs that hold nothing but counters is read by exactly one row.
    #[test]
    fn every_field_has_a_row() {
        // core, numa, duration_ms name and describe the thread; max_entries is a setting.
        assert_eq!(count(&PmdStats::default()) - 3, PMD.len());
        assert_eq!(count(&FdbStats::default()) - 1, FDB.len());
        // Not to be serialized: named here, each with a value of its own.
        let decisions = SwitchCounters {
            misses: 1,
            checks: 2,
            no_bridge: 3,
            too_deep: 4,
            too_many_lookups: 5,
            too_many_actions: 6,
        };
        let read: Vec<_> = DECISIONS.iter().map(|metric| (metric.get)(&decisions)).collect();
        assert_eq!(read, [1, 2, 3, 4, 5, 6]);
        // The queue's number names it.
        let queue = QueueInfo::default();
        assert_eq!(count(&queue) - 1 + count(&queue.kernel), QUEUE.len());
        let ledger = Ledger::default();
        assert_eq!(count(&ledger.packets) + count(&ledger.frames), LEDGER.len());
    }

    fn count<T: Serialize>(value: &T) -> usize {
        let value = serde_json::to_value(value).unwrap();
        value.as_object().unwrap().values().filter(|v| v.is_u64()).count()
    }
}
