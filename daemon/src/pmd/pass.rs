//! The polling loop: receive, process, flush; nothing else happens to packets anywhere.
//!
//! One pass visits every receive queue of the thread, then empties every output bin into its transmit
//! queue and kicks each queue once. Between passes nothing is held but what the queues hold, so
//! ledgers taken there balance exactly.

use std::sync::Arc;
use std::time::Duration;

use xvs_datapath::{
    Counter, Datapath, DropCounters, Env, Nanos, Outputs, PacketBatch, PortNo, QueueId, RxQueue,
    Switch, TxQueue,
};
use xvs_netdev_afxdp::{FrameCache, XskPacket, XskRx};

use super::{Iteration, Perf, PmdStats, Sleeper, TxHandle};

/// Idle time after which a thread that may sleep does so.
const LINGER: Nanos = Nanos(50_000);

/// While full batches come, up to so many packets of a queue are taken in one pass: what has piled up
/// leaves in one call, for which the kernel's budget is 256 unless it was set, and other queues wait no
/// longer than for the largest batch.
const BACKLOG_PER_PASS: u64 = PacketBatch::<()>::MAX as u64;

/// The most packets that one pass takes from a receive queue.
#[must_use]
pub fn most_per_pass(batch_size: u64) -> u64 {
    let batch = batch_size.max(1);
    BACKLOG_PER_PASS / batch * batch
}

/// Flows checked in one pass: at least, for a pass without packets takes no time, and at most, which bounds
/// how long revalidation holds a packet back.
const CHECKS_PER_PASS: (usize, usize) = (64, 512);

/// What can be changed while the thread runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PmdConfig {
    /// Packets received from a queue at once.
    pub batch_size: usize,
    /// Longest sleep when idle; zero polls always.
    pub sleep_max: Duration,
    /// Measure every pass.
    pub perf_metrics: bool,
}

/// A receive queue that the thread polls.
#[derive(Debug)]
pub struct RxSlot {
    /// The datapath port.
    pub port: PortNo,
    /// Which queue of the device.
    pub queue: QueueId,
    /// The queue.
    pub rx: XskRx,
    /// The thread may sleep on its socket: nobody else sends on that, behind whose back a sleep would
    /// transmit, and swallow what the kernel says of a dropped packet.
    pub watched: bool,
    /// Nanoseconds spent on its packets.
    pub busy_ns: Arc<Counter>,
    /// Packets in the current pass.
    pub in_pass: u64,
}

/// A transmit queue into which the thread sends.
#[derive(Debug)]
pub struct TxSlot {
    /// The datapath port.
    pub port: PortNo,
    /// Which queue of the device.
    pub queue: QueueId,
    /// The queue.
    pub tx: TxHandle,
    /// What this thread drops on the way out of the port.
    pub drops: Arc<DropCounters>,
}

/// Everything that one PMD thread owns.
#[derive(Debug)]
pub struct Pmd {
    /// Batch size and sleep.
    pub config: PmdConfig,
    /// Flow table and caches.
    pub datapath: Datapath,
    /// Free frames at hand.
    pub cache: FrameCache,
    /// Receive queues, polled in this order.
    pub rxqs: Vec<RxSlot>,
    /// Transmit queues; flushed in this order.
    pub txqs: Vec<TxSlot>,
    /// Its own counters.
    pub stats: Arc<PmdStats>,
    outputs: Outputs<XskPacket>,
    batch: PacketBatch<XskPacket>,
    switch: Arc<Switch>,
    sleeper: Sleeper,
    /// Where each port's transmit queue stands in `txqs`.
    tx_index: Vec<Option<usize>>,
    idle_since: Nanos,
    last: Nanos,
    /// Batches of the current pass.
    batches: u64,
    /// Misses until now, for what a pass adds to them.
    misses: u64,
    perf: Option<Box<Perf>>,
}

impl Pmd {
    /// A thread's state without queues.
    #[must_use]
    pub fn new(
        config: PmdConfig,
        datapath: Datapath,
        cache: FrameCache,
        switch: Arc<Switch>,
        sleeper: Sleeper,
    ) -> Self {
        Self {
            config,
            datapath,
            cache,
            rxqs: Vec::new(),
            txqs: Vec::new(),
            stats: Arc::default(),
            outputs: Outputs::new(),
            batch: PacketBatch::new(config.batch_size),
            switch,
            sleeper,
            tx_index: vec![None; PortNo::MAX.index() + 1],
            idle_since: Nanos(0),
            last: Nanos(0),
            batches: 0,
            misses: 0,
            perf: config.perf_metrics.then(Box::default),
        }
    }

    /// The bridges, for commands that run on this thread.
    #[must_use]
    pub fn switch(&self) -> Arc<Switch> {
        Arc::clone(&self.switch)
    }

    /// Changes batch size and sleep; the batch is empty between passes.
    pub fn set_config(&mut self, config: PmdConfig) {
        self.batch = PacketBatch::new(config.batch_size);
        if config.perf_metrics != self.perf.is_some() {
            self.perf = config.perf_metrics.then(Box::default);
        }
        self.config = config;
    }

    /// What is measured of passes, if it is.
    pub fn perf(&mut self) -> Option<&mut Perf> {
        self.perf.as_deref_mut()
    }

    /// Adds a receive queue and gives it frames to receive into.
    pub fn add_rx(&mut self, mut slot: RxSlot) {
        slot.rx.refill(&mut self.cache);
        self.rxqs.push(slot);
    }

    /// Takes a receive queue out, for another thread to poll; what it has received stays in its ring.
    pub fn take_rx(&mut self, port: PortNo, queue: QueueId) -> Option<RxSlot> {
        let at = self.rxqs.iter().position(|slot| slot.port == port && slot.queue == queue)?;
        Some(self.rxqs.remove(at))
    }

    /// Adds the transmit queue of a port and opens its output bin.
    pub fn add_tx(&mut self, slot: TxSlot) {
        self.outputs.open(slot.port);
        self.txqs.push(slot);
        self.index_txqs();
    }

    /// Takes all queues of `port` out; packets towards it are dropped from now on. They are for the caller to
    /// close: the kernel takes its time for that, and other ports need not wait.
    pub fn remove_port(&mut self, port: PortNo) -> (Vec<RxSlot>, Vec<TxSlot>) {
        let rxqs = self.rxqs.extract_if(.., |slot| slot.port == port).collect();
        let txqs = self.txqs.extract_if(.., |slot| slot.port == port).collect();
        // Empty between passes.
        self.cache.free_all(&mut self.outputs.close(port));
        self.index_txqs();
        (rxqs, txqs)
    }

    fn index_txqs(&mut self) {
        self.tx_index.fill(None);
        for (i, slot) in self.txqs.iter().enumerate() {
            if let Some(index) = self.tx_index.get_mut(slot.port.index()) {
                *index = Some(i);
            }
        }
    }

    /// True when another thread has called since the last time.
    #[inline]
    #[must_use]
    pub fn is_called(&self) -> bool {
        self.sleeper.is_called()
    }

    /// One pass over all queues. Returns how many packets were received.
    pub fn pass(&mut self, now: Nanos) -> u64 {
        let elapsed = self.account(now);
        let mut received = 0;
        self.batches = 0;
        let most = most_per_pass(self.config.batch_size as u64);
        for slot in &mut self.rxqs {
            slot.in_pass = 0;
            loop {
                let n = slot.rx.receive(&mut self.batch, &mut self.cache);
                if n == 0 {
                    break;
                }
                slot.in_pass += n as u64;
                self.batches += 1;
                let mut env = Env {
                    now,
                    outputs: &mut self.outputs,
                    copies: &mut self.cache,
                    upcall: &*self.switch,
                };
                self.datapath.process(slot.port, &mut self.batch, &mut env);
                if n < self.config.batch_size || slot.in_pass >= most {
                    break;
                }
            }
            received += slot.in_pass;
        }
        self.flush(now);
        let (least, most) = CHECKS_PER_PASS;
        let checks = self.datapath.checks_due(elapsed).clamp(least, most);
        self.datapath.revalidate(&*self.switch, now, checks);
        if received > 0 {
            self.idle_since = now;
        }
        received
    }

    /// Empties the bins into the transmit queues, frees the dropped, and kicks every queue.
    fn flush(&mut self, now: Nanos) {
        let Self { outputs, txqs, tx_index, cache, stats, .. } = self;
        outputs.flush(|port, bin| {
            stats.tx_packets.add(bin.len() as u64);
            stats.tx_batches.add(1);
            // Only ports with a transmit queue have a bin.
            if let Some(slot) = tx_index.get(port.index()).and_then(|i| txqs.get_mut((*i)?)) {
                slot.tx.enqueue(bin, cache, &slot.drops, now);
            }
        });
        cache.free_all(outputs.dropped());
        for slot in txqs {
            slot.tx.flush(cache, &slot.drops, now);
        }
    }

    /// Books the time since the last pass to what that pass did, and returns it.
    fn account(&mut self, now: Nanos) -> Nanos {
        let elapsed = now.since(self.last);
        let spent = elapsed.0;
        let first = self.last.0 == 0;
        self.last = now;
        let stats = &self.stats;
        stats.passes.add(1);
        if first {
            return Nanos(0);
        }
        let packets: u64 = self.rxqs.iter().map(|slot| slot.in_pass).sum();
        if let Some(perf) = &mut self.perf {
            let misses = self.datapath.stats().misses.get();
            let upcalls = misses - std::mem::replace(&mut self.misses, misses);
            let (batches, number) = (self.batches, 0);
            perf.record(Iteration { number, ns: spent, packets, batches, upcalls }, now);
        }
        if packets == 0 {
            stats.idle_ns.add(spent);
            return elapsed;
        }
        stats.busy_passes.add(1);
        stats.busy_ns.add(spent);
        for slot in &self.rxqs {
            slot.busy_ns.add(spent.saturating_mul(slot.in_pass) / packets);
        }
        elapsed
    }

    /// Sleeps if the configuration allows it and there is nothing to do; `clock` tells when it woke.
    pub fn rest(&mut self, now: Nanos, clock: crate::clock::Clock) {
        if self.config.sleep_max.is_zero() || now.since(self.idle_since) < LINGER {
            return;
        }
        let wake =
            self.txqs.iter_mut().filter_map(|slot| slot.tx.with(|tx| tx.next_wake(now))).min();
        if self.txqs.iter().any(|slot| slot.tx.queued() > 0) {
            // Sleeping on the sockets would transmit behind the back of the kick protocol.
            let nap = wake.map_or(Nanos(50_000), |at| at.since(now));
            std::thread::sleep(Duration::from_nanos(nap.0).min(self.config.sleep_max));
        } else {
            let watched = self.rxqs.iter().filter(|slot| slot.watched).map(|slot| &slot.rx);
            self.sleeper.sleep(watched, self.config.sleep_max);
        }
        let woke = clock.now();
        self.stats.sleeps.add(1);
        self.stats.sleep_ns.add(woke.since(now).0);
        self.last = woke;
    }
}
