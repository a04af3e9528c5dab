//! What is shown of the switch: ports, threads, status. Reads counters; asks no thread.

use xvs_datapath::{Counter, Nanos};
use xvs_netdev_afxdp::{RxStats, TxStats};

use super::ports::{Port, Queue, State};
use super::threads::Baseline;
use super::{Switchd, values};
use crate::ctl::{
    BridgeInfo, Feature, Kicks, PmdProgress, PmdRxqs, PmdStats, PortInfo, PortState, QueueInfo,
    RxqInfo, Status, Traffic, XskCounters,
};
use crate::pmd::thread_name;

fn rx_traffic(stats: &RxStats) -> Traffic {
    Traffic { packets: stats.packets.get(), bytes: stats.bytes.get() }
}

fn tx_traffic(stats: &TxStats) -> Traffic {
    Traffic { packets: stats.packets.get(), bytes: stats.bytes.get() }
}

fn kicks(stats: &TxStats) -> Kicks {
    Kicks {
        calls: stats.kicks.get(),
        packets: stats.packets.get(),
        eagain: stats.eagain.get(),
        ebusy: stats.ebusy.get(),
        errors: stats.errors.get(),
    }
}

fn sum(a: &mut Traffic, b: Traffic) {
    a.packets += b.packets;
    a.bytes += b.bytes;
}

/// Adds up the queues and the drops of a port.
fn add_queues(info: &mut PortInfo, port: &Port) {
    for queue in port.queues() {
        let kicks = kicks(&queue.tx);
        sum(&mut info.rx, rx_traffic(&queue.rx));
        sum(&mut info.tx, tx_traffic(&queue.tx));
        info.kicks.calls += kicks.calls;
        info.kicks.packets += kicks.packets;
        info.kicks.eagain += kicks.eagain;
        info.kicks.ebusy += kicks.ebusy;
        info.kicks.errors += kicks.errors;
        info.queued += queue.tx.queued.get();
        info.outstanding += queue.tx.kernel_frames.get();
    }
    for drops in port.drops() {
        info.drops.add_all(drops);
    }
}

impl Switchd {
    fn queue_info(&self, queue: &Queue) -> QueueInfo {
        let core = |thread: usize| self.threads.get(thread).map(|thread| thread.core().0);
        // A socket whose device is gone has no counters any more.
        let kernel = queue.kernel.read().unwrap_or_default();
        QueueInfo {
            queue: queue.id.0,
            rx_core: queue.rx_thread.and_then(core),
            tx_cores: queue.tx_threads.iter().filter_map(|thread| core(*thread)).collect(),
            rx: rx_traffic(&queue.rx),
            tx: tx_traffic(&queue.tx),
            kicks: kicks(&queue.tx),
            queued: queue.tx.queued.get(),
            limit_bytes: queue.tx.limit_bytes.get(),
            outstanding: queue.tx.kernel_frames.get(),
            kernel: XskCounters {
                rx_dropped: kernel.rx_dropped,
                rx_invalid_descs: kernel.rx_invalid_descs,
                tx_invalid_descs: kernel.tx_invalid_descs,
                rx_ring_full: kernel.rx_ring_full,
                rx_fill_ring_empty_descs: kernel.rx_fill_ring_empty_descs,
                tx_ring_empty_descs: kernel.tx_ring_empty_descs,
            },
        }
    }

    fn port_info(&self, port: &Port) -> PortInfo {
        let settings = &port.settings;
        let mut info = PortInfo {
            name: settings.name.to_string(),
            port_no: settings.number().0,
            bridge: settings.bridge.to_string(),
            kind: settings.port_type.to_string(),
            xdp_mode: settings.xdp_mode.to_string(),
            n_rxq: settings.n_rxq,
            start_queue: settings.start_queue,
            rx_ring: settings.rx_ring,
            tx_ring: settings.tx_ring,
            ..PortInfo::default()
        };
        let in_force = port.queues().first().map(|queue| &queue.in_force);
        info.zero_copy = in_force.map(|in_force| in_force.zero_copy);
        values::show(&mut info, settings, in_force, self.running.pmd.batch_size);
        match &port.state {
            State::Waiting(waiting) => {
                info.state = waiting.state;
                info.reason = Some(waiting.reason.clone());
            }
            State::Bound(bound) => {
                let device = bound.netdev.device();
                info.state = PortState::Bound;
                let renamed = bound.renamed.as_ref();
                info.reason = renamed.map(|name| format!("its interface is called {name} now"));
                info.ifindex = Some(device.ifindex);
                info.mac = Some(device.mac);
                info.mtu = Some(bound.netdev.link().mtu());
                info.carrier = bound.netdev.link().carrier();
                info.program_id = Some(bound.netdev.program_id());
                info.xdp_mode_in_use = Some(bound.netdev.mode().to_string());
                info.hidden_tags = bound.netdev.hidden_tags();
                info.stepped_down = bound.netdev.stepped_down().map(str::to_owned);
                info.passed_to_stack = bound.netdev.unbound_packets().unwrap_or(0);
                info.queues = bound.queues.iter().map(|queue| self.queue_info(queue)).collect();
                add_queues(&mut info, port);
            }
        }
        info
    }

    /// All ports, by number.
    pub(super) fn port_infos(&self) -> Vec<PortInfo> {
        self.ports.values().map(|port| self.port_info(port)).collect()
    }

    /// What each thread did since its statistics were cleared.
    pub(super) fn thread_stats(&self) -> Vec<PmdStats> {
        let now = self.clock.now();
        let stats = self.threads.iter().map(|thread| {
            let (base, pmd, path) = (&thread.baseline, thread.handle.stats(), &*thread.datapath);
            let since = |counter: &Counter, base: u64| counter.get().wrapping_sub(base);
            PmdStats {
                core: thread.core().0,
                numa: thread.numa,
                duration_ms: now.since(base.at).0 / 1_000_000,
                iterations: since(&pmd.passes, base.passes),
                busy_iterations: since(&pmd.busy_passes, base.busy_passes),
                sleep_iterations: since(&pmd.sleeps, base.sleeps),
                sleep_ns: since(&pmd.sleep_ns, base.sleep_ns),
                busy_ns: since(&pmd.busy_ns, base.busy_ns),
                idle_ns: since(&pmd.idle_ns, base.idle_ns),
                rx_packets: since(&path.rx_packets, base.rx_packets),
                recirculated: since(&path.recirculated, base.recirculated),
                emc_hits: since(&path.emc_hits, base.emc_hits),
                smc_hits: since(&path.smc_hits, base.smc_hits),
                megaflow_hits: since(&path.megaflow_hits, base.megaflow_hits),
                subtable_lookups: since(&path.masked_lookups, base.masked_lookups),
                upcalls: since(&path.misses, base.misses),
                lost_upcalls: since(&path.lost_upcalls, base.lost_upcalls),
                tx_packets: since(&pmd.tx_packets, base.tx_packets),
                tx_batches: since(&pmd.tx_batches, base.tx_batches),
                flows: path.flows.get(),
                masks: path.masks.get(),
                flows_max: path.flows_max.get().max(path.flows.get()),
                flows_avg: path.flows_avg.get(),
                flow_limit: path.flow_limit.get(),
                round_ns: path.round_ns.get(),
            }
        });
        stats.collect()
    }

    /// Lets the statistics of the threads (or one) start again.
    pub(super) fn clear_thread_stats(&mut self, core: Option<u32>) {
        let now = self.clock.now();
        for thread in &mut self.threads {
            if core.is_none_or(|core| core == thread.core().0) {
                thread.baseline = Baseline::take(&thread.handle, &thread.datapath, now);
                // One that does not answer measures nothing either.
                let _ = thread.handle.post(|pmd| {
                    if let Some(perf) = pmd.perf() {
                        perf.clear();
                    }
                });
            }
        }
    }

    /// Which queues each thread polls, and their share of its time in the last `secs` seconds.
    pub(super) fn thread_rxqs(&self, secs: u32) -> Vec<PmdRxqs> {
        let now = self.clock.now();
        let rxqs = |index: usize| {
            let all = self.ports.values().flat_map(|p| p.queues().iter().map(move |q| (p, q)));
            all.filter(move |(_, queue)| queue.rx_thread == Some(index))
        };
        let usage = |queue: &Queue| queue.usage.percent(secs, now, queue.busy_ns.get());
        let threads = self.threads.iter().enumerate().map(|(index, thread)| {
            let busy = thread.usage.percent(secs, now, thread.handle.stats().busy_ns.get());
            let of_rxqs: u32 = rxqs(index).filter_map(|(_, queue)| usage(queue)).sum();
            PmdRxqs {
                core: thread.core().0,
                numa: thread.numa,
                isolated: false,
                rxqs: rxqs(index)
                    .map(|(port, queue)| RxqInfo {
                        port: port.settings.name.to_string(),
                        queue: queue.id.0,
                        enabled: true,
                        usage_percent: usage(queue),
                    })
                    .collect(),
                overhead_percent: busy.map(|busy| busy.saturating_sub(of_rxqs)),
            }
        });
        threads.collect()
    }

    /// Notes how busy threads and queues were until now.
    pub(super) fn sample_usage(&mut self, now: Nanos) {
        for thread in &mut self.threads {
            thread.usage.sample(now, thread.handle.stats().busy_ns.get());
        }
        for queue in self.ports.values_mut().flat_map(Port::queues_mut) {
            queue.usage.sample(now, queue.busy_ns.get());
        }
    }

    /// The daemon in brief.
    pub(super) fn status_report(&self) -> Status {
        let bridge = |bridge: &xvs_config::Bridge| {
            let name = bridge.name.as_str();
            BridgeInfo {
                name: name.to_owned(),
                ports: self.switch.ports(name).map_or(0, |ports| ports.len() as u64),
                rules: self.switch.n_rules(name).map_or(0, |n| n as u64),
                fdb_entries: self.switch.fdb_stats(name).map_or(0, |stats| stats.n_entries as u64),
            }
        };
        Status {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            uptime_s: self.clock.now().0 / 1_000_000_000 - 1,
            run_dir: self.run_dir.display().to_string(),
            config_file: self.file.as_ref().map(|file| file.display().to_string()),
            config_generation: self.generation,
            last_reload_error: self.last_reload_error.clone(),
            bridges: self.running.bridges.iter().map(bridge).collect(),
            pmds: self
                .threads
                .iter()
                .map(|thread| PmdProgress {
                    thread: thread_name(thread.core()),
                    core: thread.core().0,
                    passes: thread.handle.stats().passes.get(),
                    alive: !thread.handle.is_hung() && thread.handle.call(|_| ()).is_ok(),
                })
                .collect(),
            features: self.features(),
        }
    }

    /// Kernel features that are in use where there is a socket.
    fn features(&self) -> Vec<Feature> {
        let Some(queue) = self.ports.values().flat_map(Port::queues).next() else {
            return Vec::new();
        };
        let state = |on: bool| if on { "in use" } else { "not in this kernel" }.to_owned();
        vec![
            Feature { name: "tx-budget".to_owned(), state: state(queue.in_force.budget_supported) },
            Feature { name: "tx-metadata".to_owned(), state: state(queue.in_force.tx_metadata) },
        ]
    }
}
