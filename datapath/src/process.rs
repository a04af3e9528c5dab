//! The fast path of one thread: from a batch of packets to output bins.
//!
//! A batch is parsed first; then it is looked up, packet by packet, and cut into runs: consecutive packets
//! of one flow. Then each run is counted and its actions are run. So packets keep their order, also across flows,
//! and a batch of one flow, the common case, pays for its flow once. A hit allocates nothing, takes no
//! lock and reads no clock; a miss asks the [`Upcall`] at once, before the next packet is looked at.

use std::sync::Arc;

use crate::emc::Emc;
use crate::execute::{Effects, Passage, Sink, execute};
use crate::extract::{extract, extract_into};
use crate::flow::tcp_flags;
use crate::hash::short;
use crate::revalidate::Sweep;
use crate::smc::Smc;
use crate::table::FlowTable;
use crate::{
    Action, CopyPacket, DatapathStats, DropReason, Field, Flow, FlowKey, FlowStats, Match, Meters,
    Nanos, Origin, Outputs, Packet, PacketBatch, PortNo, Purpose, Upcall, UserspaceQueue,
};

/// What may be chosen, also while packets flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatapathConfig {
    /// One in so many packets that miss the exact-match cache is inserted; 0 switches the cache off.
    pub emc_insert_one_in: u32,
    /// Whether there is a signature cache.
    pub smc: bool,
    /// The most flows. Packets beyond are forwarded all the same, each by a translation of its own.
    /// Those in excess go as soon as no packet comes for 100 ms. At most [`DatapathConfig::MAX_FLOWS`];
    /// fewer while a thread cannot keep so many true, see [`Datapath::flow_limit`].
    pub flow_limit: usize,
    /// A flow of the bridge goes when no packet came for so long.
    pub max_idle: Nanos,
    /// The bridge hears at least this often of flows that had packets.
    pub refresh: Nanos,
}

impl DatapathConfig {
    /// The highest `flow_limit`; what is higher counts as this.
    pub const MAX_FLOWS: usize = 1 << 24;
}

impl Default for DatapathConfig {
    fn default() -> Self {
        Self {
            emc_insert_one_in: 100,
            smc: false,
            flow_limit: 200_000,
            max_idle: Nanos::from_secs(10),
            refresh: Nanos::from_millis(500),
        }
    }
}

/// What `process` is lent for one batch.
#[derive(Debug)]
pub struct Env<'a, P, C, U: ?Sized> {
    /// The time of this pass.
    pub now: Nanos,
    /// Where packets go.
    pub outputs: &'a mut Outputs<P>,
    /// Where copies come from.
    pub copies: &'a mut C,
    /// Who decides on packets that no flow matches.
    pub upcall: &'a U,
}

/// Where the actions of a packet are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    /// In the flow table.
    Flow(u32),
    /// In [`Datapath::uninstalled`].
    Uninstalled(usize),
    /// The packet has no key.
    Malformed,
}

/// What parsing says of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Parse {
    New,
    /// It has the key of the packet before.
    Repeat,
    Malformed,
}

/// A packet that is parsed and not yet looked up.
#[derive(Clone, Copy, Debug)]
struct Parsed {
    key: FlowKey,
    /// Of the key.
    hash: u32,
    is: Parse,
}

impl Parsed {
    #[inline]
    fn is_like(&self, key: &FlowKey) -> bool {
        self.is != Parse::Malformed && key.is(&self.key)
    }
}

/// Consecutive packets of one flow.
#[derive(Debug)]
struct Run {
    found: Found,
    n_packets: usize,
    n_bytes: u64,
    tcp_flags: u16,
}

/// The fast path of one thread, its flows and caches.
#[derive(Debug)]
pub struct Datapath {
    pub(crate) config: DatapathConfig,
    pub(crate) table: FlowTable,
    pub(crate) emc: Emc,
    pub(crate) smc: Smc,
    pub(crate) stats: Arc<DatapathStats>,
    pub(crate) sweep: Sweep,
    pub(crate) seed: u64,
    /// As many as the largest batch has.
    parsed: Box<[Parsed]>,
    runs: Vec<Run>,
    uninstalled: Vec<Box<[Action]>>,
    effects: Effects,
}

/// What was found how often in a batch.
#[derive(Debug, Default)]
struct Tally {
    bytes: u64,
    /// Packets with the key of the one before, which hit as that one did.
    repeats: u64,
    emc_hits: u64,
    smc_hits: u64,
    megaflow_hits: u64,
    visited: u64,
}

impl Datapath {
    /// A datapath without flows. `seed` is random, so that nobody can guess which keys collide.
    #[must_use]
    pub fn new(config: DatapathConfig, seed: u64) -> Self {
        let parsed = Parsed { key: FlowKey::default(), hash: 0, is: Parse::Malformed };
        let mut datapath = Self {
            config,
            table: FlowTable::new(seed),
            emc: Emc::new(seed),
            smc: Smc::default(),
            stats: Arc::default(),
            sweep: Sweep::default(),
            seed,
            parsed: vec![parsed; PacketBatch::<()>::MAX].into(),
            runs: Vec::with_capacity(PacketBatch::<()>::MAX),
            uninstalled: Vec::new(),
            effects: Effects::new(seed),
        };
        datapath.configure(config);
        datapath
    }

    /// The configuration in force.
    #[must_use]
    pub const fn config(&self) -> &DatapathConfig {
        &self.config
    }

    /// Changes the configuration.
    pub fn configure(&mut self, config: DatapathConfig) {
        self.emc.insert_one_in(config.emc_insert_one_in);
        self.smc.enable(config.smc);
        let flow_limit = config.flow_limit.min(DatapathConfig::MAX_FLOWS);
        self.config = DatapathConfig { flow_limit, ..config };
        self.stats.flow_limit.set(self.flow_limit() as u64);
    }

    /// The counters, to be read by anybody.
    #[must_use]
    pub const fn stats(&self) -> &Arc<DatapathStats> {
        &self.stats
    }

    /// Shares meters with other threads; before, it has its own.
    pub fn share_meters(&mut self, meters: Arc<Meters>) {
        self.effects.meters = meters;
    }

    /// The packets that `userspace()` puts aside.
    pub const fn userspace(&mut self) -> &mut UserspaceQueue {
        &mut self.effects.userspace
    }

    /// Takes all packets of `batch`, which came in on `in_port`, and puts each into an output bin or
    /// the drop bin.
    pub fn process<P: Packet, C: CopyPacket<P>, U: Upcall + ?Sized>(
        &mut self,
        in_port: PortNo,
        batch: &mut PacketBatch<P>,
        env: &mut Env<'_, P, C, U>,
    ) {
        let mut parsed = core::mem::take(&mut self.parsed);
        self.parse(in_port, batch.as_mut_slice(), &mut parsed);
        let mut tally = Tally::default();
        // What the packet before found in the table.
        let mut known = None;
        for (packet, Parsed { key, hash, is }) in batch.as_slice().iter().zip(&parsed) {
            let n_bytes = packet.len() as u64;
            tally.bytes += n_bytes;
            let found = match (*is, known) {
                (Parse::Malformed, _) => Found::Malformed,
                (Parse::Repeat, Some(found)) => {
                    tally.repeats += 1;
                    found
                }
                _ => {
                    known = self.find(key, *hash, &mut tally);
                    known.unwrap_or_else(|| self.miss(key, n_bytes, env.upcall, env.now))
                }
            };
            let flags = tcp_flags(key);
            match self.runs.last_mut() {
                Some(run) if run.found == found => {
                    run.n_packets += 1;
                    run.n_bytes += n_bytes;
                    run.tcp_flags |= flags;
                }
                _ => self.runs.push(Run { found, n_packets: 1, n_bytes, tcp_flags: flags }),
            }
        }
        self.parsed = parsed;
        self.stats.rx_packets.add(batch.len() as u64);
        self.stats.rx_bytes.add(tally.bytes);
        // Remembering the packet before is the smallest exact-match cache.
        self.stats.emc_hits.add(tally.emc_hits + tally.repeats);
        self.stats.smc_hits.add(tally.smc_hits);
        self.stats.megaflow_hits.add(tally.megaflow_hits);
        self.stats.masked_lookups.add(tally.visited);
        self.execute_runs(in_port, batch.drain(), Passage::default(), env);
        while let Some((packet, passage)) = env.outputs.next_again() {
            self.process_again(in_port, packet, passage, env);
        }
    }

    /// Parses the packets, and has the caches' places for their keys on the way before the first is looked
    /// up: each place is likely to be far away, and so they come together.
    #[inline]
    fn parse<P: Packet>(&mut self, in_port: PortNo, packets: &mut [P], parsed: &mut [Parsed]) {
        let mut before: Option<&Parsed> = None;
        for (packet, parsed) in packets.iter_mut().zip(&mut *parsed) {
            let is_good = extract_into(&mut parsed.key, packet, in_port).is_ok();
            let like = before.filter(|before| is_good && before.is_like(&parsed.key));
            (parsed.is, parsed.hash) = match like {
                _ if !is_good => (Parse::Malformed, 0),
                Some(before) => (Parse::Repeat, before.hash),
                None => {
                    let hash = short(parsed.key.hash(self.seed));
                    self.emc.prefetch(hash);
                    (Parse::New, hash)
                }
            };
            before = Some(parsed);
        }
        if self.config.smc {
            self.prefetch_flows(parsed.get(..packets.len()).unwrap_or_default());
        }
    }

    /// The same for the flows that the signature cache knows for them.
    #[inline(never)]
    fn prefetch_flows(&self, parsed: &[Parsed]) {
        for parsed in parsed.iter().filter(|parsed| parsed.is == Parse::New) {
            self.smc.prefetch(parsed.hash);
        }
        for parsed in parsed.iter().filter(|parsed| parsed.is == Parse::New) {
            if let Some(index) = self.smc.lookup(parsed.hash, |_| true) {
                self.table.prefetch(index);
            }
        }
    }

    /// Looks a packet up once more, after `recirc()`; in the classifier only, so that the caches are the
    /// packets' own that come from ports, and their code is in one place.
    #[cold]
    fn process_again<P: Packet, C: CopyPacket<P>, U: Upcall + ?Sized>(
        &mut self,
        in_port: PortNo,
        mut packet: P,
        passage: Passage,
        env: &mut Env<'_, P, C, U>,
    ) {
        self.stats.recirculated.add(1);
        let n_bytes = packet.len() as u64;
        let (found, tcp_flags) = match extract(&mut packet, in_port) {
            Ok(mut key) => {
                key.set(&Field::RECIRC_ID, passage.recirc_id.into());
                key.set(&Field::DP_HASH, passage.dp_hash.into());
                key.set(&Field::SKB_MARK, passage.mark.into());
                key.set(&Field::SKB_PRIORITY, passage.priority.into());
                let (flow, visited) = self.table.lookup(&key);
                self.stats.masked_lookups.add(visited);
                self.stats.megaflow_hits.add(u64::from(flow.is_some()));
                let miss = || self.miss(&key, n_bytes, env.upcall, env.now);
                (flow.map_or_else(miss, |flow| Found::Flow(flow.index)), tcp_flags(&key))
            }
            Err(_) => (Found::Malformed, 0),
        };
        self.runs.push(Run { found, n_packets: 1, n_bytes, tcp_flags });
        self.execute_runs(in_port, core::iter::once(packet), passage, env);
    }

    #[inline]
    fn find(&mut self, key: &FlowKey, hash: u32, tally: &mut Tally) -> Option<Found> {
        if let Some(flow) = self.emc.lookup(hash, key)
            && self.table.is_live(flow)
        {
            tally.emc_hits += 1;
            return Some(Found::Flow(flow.index));
        }
        let is_it = |index| self.table.confirm(index, key, &mut tally.visited);
        let flow = if let Some(index) = self.smc.lookup(hash, is_it) {
            tally.smc_hits += 1;
            self.table.reference(index)?
        } else {
            let (found, visited) = self.table.lookup(key);
            tally.visited += visited;
            let flow = found?;
            tally.megaflow_hits += 1;
            self.smc.insert(hash, flow.index);
            flow
        };
        self.emc.offer(hash, key, flow, |flow| self.table.is_live(flow));
        Some(Found::Flow(flow.index))
    }

    /// Translates a packet, and installs the flow if there is room.
    #[inline(never)]
    fn miss<U: Upcall + ?Sized>(
        &mut self,
        key: &FlowKey,
        n_bytes: u64,
        upcall: &U,
        now: Nanos,
    ) -> Found {
        self.stats.misses.add(1);
        let version = upcall.version();
        let room = self.table.len() < self.flow_limit();
        let purpose = if room { Purpose::Packet } else { Purpose::Uncached { n_bytes } };
        let translation = upcall.translate(key, purpose, now);
        let mut flow = Flow::new(
            Match::new(key, translation.mask),
            translation.actions.into(),
            Origin::Bridge,
            now,
        );
        // A flow of the same identifier that did not match is a collision of hashes.
        if room && self.table.find(flow.ufid).is_none() {
            flow.version = version;
            let flow = self.table.insert(flow);
            self.count_flows();
            return Found::Flow(flow.index);
        }
        self.stats.uninstalled.add(1);
        self.uninstalled.push(flow.actions);
        Found::Uninstalled(self.uninstalled.len() - 1)
    }

    /// Sets the gauges after flows were added or removed.
    pub(crate) fn count_flows(&self) {
        self.stats.flows.set(self.table.len() as u64);
        self.stats.masks.set(self.table.n_masks() as u64);
    }

    #[inline]
    fn execute_runs<P: Packet, C: CopyPacket<P>, U: ?Sized>(
        &mut self,
        in_port: PortNo,
        mut packets: impl Iterator<Item = P>,
        passage: Passage,
        env: &mut Env<'_, P, C, U>,
    ) {
        let mut sink = Sink {
            outputs: &mut *env.outputs,
            copies: &mut *env.copies,
            stats: &self.stats,
            effects: &mut self.effects,
            in_port,
            now: env.now,
        };
        for run in self.runs.drain(..) {
            let packets = packets.by_ref().take(run.n_packets);
            let actions: &[Action] = match run.found {
                Found::Flow(index) => self.table.get_mut(index).map_or(&[], |flow| {
                    flow.stats.merge(&FlowStats {
                        packets: run.n_packets as u64,
                        bytes: run.n_bytes,
                        used: env.now,
                        tcp_flags: run.tcp_flags,
                    });
                    &flow.actions
                }),
                Found::Uninstalled(at) => self.uninstalled.get(at).map_or(&[], |actions| actions),
                Found::Malformed => {
                    sink.discard_all(packets, DropReason::Malformed);
                    continue;
                }
            };
            execute(actions, packets, passage, &mut sink);
        }
        self.uninstalled.clear();
    }
}

#[cfg(test)]
pub(crate) mod tests;
