//! A switch of three ports without a kernel, from receive ring to transmit ring, with both ledgers.

use core::cell::RefCell;
use std::sync::Arc;

use xvs_datapath::text::validate;
use xvs_datapath::{
    Action, Datapath, DatapathConfig, DropCounters, DropReason, DumpCursor, Env, FlowSnapshot,
    MAX_FRAMES, Match, Meters, Nanos, Outputs, PacketBatch, PortNo, RxQueue as _, Switch,
    TxQueue as _,
};
use xvs_netdev_afxdp::testing::{self, Wire};
use xvs_netdev_afxdp::{FrameCache, Umem, UmemConfig, XskPacket, XskRx, XskTx};

use crate::input::{Step, steps};

/// Entries of a ring.
const RING: u32 = 64;

/// Frames: three fill rings, three tx rings, and not enough for everything at once.
const FRAMES: u32 = 512;

const PORTS: u32 = 3;

const BRIDGE: &str = "br0";

thread_local! {
    /// Making one costs more than an input, so each input leaves it as if new.
    static RIG: RefCell<Option<Rig>> = const { RefCell::new(None) };
}

/// Does to the switch what `input` says.
///
/// # Panics
/// When a packet has no outcome or two, or a frame is nowhere or in two places.
pub fn forward(input: &[u8]) {
    RIG.with_borrow_mut(|rig| {
        let rig = rig.get_or_insert_with(Rig::new);
        for step in steps(input) {
            let mut starved = core::mem::take(&mut rig.starved);
            rig.step(step);
            rig.pass();
            rig.cache.free_all(&mut starved);
            rig.balance();
        }
        rig.reset();
    });
}

/// Both halves of a port and the kernel beyond.
struct Port {
    no: PortNo,
    rx: XskRx,
    tx: XskTx,
    wire: Wire,
}

struct Rig {
    umem: &'static Umem,
    cache: FrameCache,
    ports: Vec<Port>,
    datapath: Datapath,
    outputs: Outputs<XskPacket>,
    batch: PacketBatch<XskPacket>,
    switch: Switch,
    meters: Arc<Meters>,
    drops: DropCounters,
    /// What [`Step::Starve`] took.
    starved: Vec<XskPacket>,
    now: Nanos,
    /// Packets that the kernel delivered.
    arrived: u64,
    /// Frames without a byte, whose packets are refused and so not among those.
    bad_frames: u64,
    /// Packets that the datapath put into bins of ports.
    sent: u64,
    /// Every flow was checked before it was added.
    checked: bool,
    /// Packets that there was no room to push a tag before, while some flow was not checked.
    no_room: u64,
}

fn switch() -> Switch {
    let switch = Switch::new();
    assert_eq!(switch.add_bridge(BRIDGE), Ok(()));
    for no in 1..=PORTS {
        assert_eq!(switch.add_port(PortNo(no), &format!("p{no}"), BRIDGE), Ok(()));
    }
    switch
}

#[allow(clippy::expect_used, reason = "the machine is short of memory")]
impl Rig {
    fn new() -> Self {
        let umem = Umem::create(UmemConfig { frames: FRAMES, ..UmemConfig::default() })
            .expect("packet memory");
        let mut outputs = Outputs::new();
        let ports = (1..=PORTS).map(|no| {
            outputs.open(PortNo(no));
            let (rx, tx, wire) = testing::port(umem, RING).expect("a port");
            Port { no: PortNo(no), rx, tx, wire }
        });
        let ports = ports.collect();
        let mut rig = Self {
            umem,
            cache: FrameCache::new(umem, 0),
            ports,
            datapath: Datapath::new(DatapathConfig::default(), 7),
            outputs,
            batch: PacketBatch::new(32),
            switch: switch(),
            meters: Arc::default(),
            drops: DropCounters::default(),
            starved: Vec::new(),
            now: Nanos::from_secs(1),
            arrived: 0,
            bad_frames: 0,
            sent: 0,
            checked: true,
            no_room: 0,
        };
        rig.datapath.share_meters(Arc::clone(&rig.meters));
        rig.reset();
        rig
    }
}

impl Rig {
    fn step(&mut self, step: Step) {
        match step {
            Step::Receive { port, packets } => self.receive(port, &packets),
            Step::Add { rule, actions, checked } => self.add(*rule, actions, checked),
            Step::Modify { nth, actions } => {
                if let Some(flow) = self.flow(nth) {
                    self.checked &= self.is_valid(&flow.rule, &actions);
                    let done = self.datapath.modify(flow.ufid, actions.into(), nth % 2 == 0);
                    assert_eq!(done, Ok(()));
                }
            }
            Step::Delete { nth } => {
                if let Some(flow) = self.flow(nth) {
                    let gone = self.datapath.del(flow.ufid, &self.switch, self.now);
                    assert_eq!(gone.map(|gone| gone.ufid), Some(flow.ufid));
                }
            }
            Step::Flush => self.flush_flows(),
            // What the match does not allow is refused.
            Step::AddRule { text } => {
                let _ = self.switch.add_rules(BRIDGE, &[text], self.now);
            }
            Step::DelRules { text } => {
                let _ = self.switch.del_rules(BRIDGE, &text, false);
            }
            Step::Revalidate { budget } => {
                self.datapath.revalidate(&self.switch, self.now, budget.into());
            }
            Step::Wait { ms } => {
                self.now = Nanos(self.now.0 + Nanos::from_millis(ms.into()).0);
                self.switch.tick(self.now);
            }
            Step::Transmit { port } => {
                for port in self.ports.iter_mut().filter(|p| p.no == port) {
                    port.wire.transmit();
                }
            }
            Step::Starve { frames } => {
                let taken = (0..frames.min(512)).map_while(|_| self.cache.packet(&[0]));
                self.starved = taken.collect();
            }
            Step::Configure { config } => self.datapath.configure(config),
            Step::Meter { id, config: Some(config) } => {
                let _ = self.meters.set(id, config);
            }
            Step::Meter { id, config: None } => {
                let _ = self.meters.del(id);
            }
            Step::Forget => assert_eq!(self.switch.fdb_flush(BRIDGE), Ok(())),
            Step::Member { port, joins: true } => {
                let _ = self.switch.add_port(port, &format!("p{}", port.0), BRIDGE);
            }
            Step::Member { port, joins: false } => {
                let _ = self.switch.del_port(port);
            }
            Step::Read => drop(self.datapath.userspace().read(usize::MAX)),
        }
    }

    fn receive(&mut self, port: PortNo, packets: &[Vec<Vec<u8>>]) {
        for port in self.ports.iter_mut().filter(|p| p.no == port) {
            for frames in packets {
                let frames: Vec<&[u8]> = frames.iter().map(Vec::as_slice).collect();
                if port.wire.receive_frames(&frames) {
                    // No kernel does, and the thread does not believe it.
                    let empty = frames.iter().filter(|bytes| bytes.is_empty()).count();
                    if frames.len() <= MAX_FRAMES && empty > 0 {
                        self.bad_frames += empty as u64;
                    } else {
                        self.arrived += 1;
                    }
                }
            }
            port.wire.deliver();
        }
    }

    fn is_valid(&self, rule: &Match, actions: &[Action]) -> bool {
        validate(rule, actions, &|id| self.meters.has(id)).is_ok()
    }

    fn add(&mut self, rule: Match, actions: Vec<Action>, checked: bool) {
        let valid = self.is_valid(&rule, &actions);
        if checked && !valid {
            return;
        }
        self.checked &= valid;
        // There may be one, or no room.
        let _ = self.datapath.add(rule, actions.into(), &self.switch, self.now);
    }

    /// Of the first flows, one; a flow without a number when there is none.
    fn flow(&self, nth: u8) -> Option<FlowSnapshot> {
        let (flows, _) = self.datapath.dump(DumpCursor::default(), DumpCursor::MAX_PLACES);
        flows.into_iter().cycle().nth(nth.into())
    }

    fn flush_flows(&mut self) {
        let mut cursor = Some(DumpCursor::default());
        while let Some(from) = cursor {
            cursor = self.datapath.flush(from, DumpCursor::MAX_PLACES, &self.switch, self.now);
        }
    }

    /// Takes in what arrived until nothing is left, as a thread does.
    fn pass(&mut self) {
        loop {
            let mut received = 0;
            for port in &mut self.ports {
                received += port.rx.receive(&mut self.batch, &mut self.cache);
                let mut env = Env {
                    now: self.now,
                    outputs: &mut self.outputs,
                    copies: &mut self.cache,
                    upcall: &self.switch,
                };
                self.datapath.process(port.no, &mut self.batch, &mut env);
                assert!(self.batch.is_empty(), "packets were left in the batch");
            }
            self.transmit();
            if received == 0 {
                break;
            }
        }
    }

    /// Empties all bins into the transmit halves.
    fn transmit(&mut self) {
        let (ports, cache) = (&mut self.ports, &mut self.cache);
        self.outputs.flush(|no, bin| {
            self.sent += bin.len() as u64;
            for port in ports.iter_mut().filter(|port| port.no == no) {
                port.tx.enqueue(bin, cache, &self.drops, self.now);
            }
        });
        cache.free_all(self.outputs.dropped());
        self.now = Nanos(self.now.0 + 20_000);
        for port in ports {
            port.tx.flush(cache, &self.drops, self.now);
        }
    }

    /// Every packet has one outcome, every frame is in one place; flows that were checked have room for the
    /// tags that they push.
    fn balance(&mut self) {
        let no_room = self.datapath.stats().drops.get(DropReason::NoHeadroom);
        if !self.checked {
            self.no_room = no_room;
        }
        assert_eq!(no_room, self.no_room, "no room before a packet");
        let rx = |f: fn(&XskRx) -> u64| self.ports.iter().map(|p| f(&p.rx)).sum();
        let packets: u64 = rx(|rx| rx.stats().packets.get());
        let too_many: u64 = rx(|rx| rx.stats().too_many_frames.get());
        let stats = self.datapath.stats();
        let received = stats.rx_packets.get();
        let bad: u64 = rx(|rx| rx.stats().bad_descriptors.get());
        assert_eq!(self.bad_frames, bad, "frames without a byte");
        assert_eq!(self.arrived, packets, "packets from the kernel");
        assert_eq!(packets, received + too_many, "packets to the datapath");
        let outcomes = self.sent + stats.drops.total();
        assert_eq!(received + stats.copies.get(), outcomes, "packets of the datapath");
        let hits = stats.emc_hits.get() + stats.smc_hits.get() + stats.megaflow_hits.get();
        let looked_up = hits + stats.misses.get() + stats.drops.get(DropReason::Malformed);
        assert_eq!(received + stats.recirculated.get(), looked_up, "lookups");
        let (mut from_bins, mut outcomes) = (self.sent, self.drops.total());
        for port in &self.ports {
            let stats = port.tx.stats();
            from_bins += stats.segments.get();
            outcomes += stats.packets.get() + port.tx.queued() as u64;
            assert_eq!(stats.bad_completions.get(), 0, "completions");
        }
        assert_eq!(from_bins, outcomes, "packets of the transmit halves");
        let ledger = self.umem.ledger();
        let frames = ledger.at_rest() + self.starved.len() as u64;
        assert_eq!(frames, ledger.frames, "frames: {ledger:?}");
    }

    /// Sends all that waits and starts afresh, but for counters and the dice of `sample()`.
    fn reset(&mut self) {
        self.cache.free_all(&mut self.starved);
        self.pass();
        for _ in 0..1000 {
            for port in &mut self.ports {
                port.wire.transmit();
            }
            self.now = Nanos(self.now.0 + Nanos::from_millis(1).0);
            self.transmit();
            if self.ports.iter().all(|port| port.tx.queued() == 0) {
                break;
            }
        }
        for port in &mut self.ports {
            port.wire.transmit();
        }
        self.now = Nanos(self.now.0 + Nanos::from_millis(1).0);
        self.transmit();
        self.balance();
        let ledger = self.umem.ledger();
        assert_eq!((ledger.queued, ledger.tx), (0, 0), "the kernel gave everything back");
        self.flush_flows();
        assert_eq!(self.datapath.stats().flows.get(), 0);
        drop(self.datapath.userspace().read(usize::MAX));
        self.switch = switch();
        self.datapath.recheck();
        self.datapath.configure(DatapathConfig::default());
        for id in 1..=3 {
            let _ = self.meters.del(id);
        }
        self.checked = true;
    }
}
