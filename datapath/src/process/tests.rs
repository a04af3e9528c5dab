//! The whole fast path over packets in memory, with a small table of rules as the slow path.

use core::cell::{Cell, RefCell};
use core::net::Ipv4Addr;

use proptest::prelude::*;

use super::*;
use crate::testing::{MemPacket, MemPool, PacketBuilder};
use crate::{DumpCursor, Field, FlowError, FlowMask, MacAddr, Translation, Ufid};

mod changes;
mod counters;

/// Rules, first match wins; looks at what the rules up to and including the match look at.
#[derive(Debug, Default)]
pub(crate) struct RuleTable {
    rules: RefCell<Vec<(Match, Vec<Action>)>>,
    version: Cell<u64>,
    /// Packets and bytes it was told of, and how often it was asked.
    pub(crate) credited: Cell<(u64, u64)>,
    pub(crate) asked: Cell<u64>,
    /// Flows that are checked must go.
    pub(crate) keep_none: Cell<bool>,
}

impl RuleTable {
    pub(crate) fn new(rules: &[(Match, Vec<Action>)]) -> Self {
        let table = Self::default();
        table.set(rules);
        table
    }

    /// Other rules, and another version.
    pub(crate) fn set(&self, rules: &[(Match, Vec<Action>)]) {
        *self.rules.borrow_mut() = rules.to_vec();
        self.version.set(self.version.get() + 1);
    }
}

impl Upcall for RuleTable {
    fn translate(&self, key: &FlowKey, purpose: Purpose, _now: Nanos) -> Translation {
        self.asked.set(self.asked.get() + 1);
        let mut keep = true;
        let (n_packets, n_bytes) = match purpose {
            Purpose::Packet => (0, 0),
            Purpose::Uncached { n_bytes } => (1, n_bytes),
            Purpose::Revalidate { n_packets, n_bytes } => {
                keep = !self.keep_none.get();
                (n_packets, n_bytes)
            }
        };
        let (packets, bytes) = self.credited.get();
        self.credited.set((packets + n_packets, bytes + n_bytes));
        let mut mask = FlowMask::default();
        for field in [&Field::IN_PORT, &Field::RECIRC_ID, &Field::ETH_TYPE] {
            mask.add(field);
        }
        for (rule, actions) in &*self.rules.borrow() {
            mask.union(&rule.mask);
            if rule.matches(key) {
                return Translation { mask, actions: actions.clone(), keep };
            }
        }
        Translation { mask, actions: Vec::new(), keep }
    }

    fn version(&self) -> u64 {
        self.version.get()
    }
}

/// A datapath with ports 1 to 4 and a pool.
pub(crate) struct Bench {
    pub(crate) datapath: Datapath,
    outputs: Outputs<MemPacket>,
    pub(crate) pool: MemPool,
    pub(crate) now: Nanos,
    sent: u64,
}

impl Bench {
    pub(crate) fn new(config: DatapathConfig) -> Self {
        let mut outputs = Outputs::new();
        for port in 1..=4 {
            outputs.open(PortNo(port));
        }
        let datapath = Datapath::new(config, 7);
        let now = Nanos::from_secs(1);
        Self { datapath, outputs, pool: MemPool::default(), now, sent: 0 }
    }

    /// One batch; returns what was sent to each port, and checks that nothing is lost.
    pub(crate) fn run(
        &mut self,
        upcall: &impl Upcall,
        packets: &[Vec<u8>],
        copies: usize,
    ) -> Vec<Vec<Vec<u8>>> {
        self.run_from(PortNo(1), upcall, packets, copies)
    }

    /// The same from any port.
    pub(crate) fn run_from(
        &mut self,
        in_port: PortNo,
        upcall: &impl Upcall,
        packets: &[Vec<u8>],
        copies: usize,
    ) -> Vec<Vec<Vec<u8>>> {
        let mut batch = PacketBatch::new(PacketBatch::<()>::MAX);
        for bytes in packets {
            batch.push(self.pool.packet(bytes).unwrap()).unwrap();
        }
        self.pool.set_limit(packets.len() + copies);
        let mut env = Env {
            now: self.now,
            outputs: &mut self.outputs,
            copies: &mut self.pool.clone(),
            upcall,
        };
        self.datapath.process(in_port, &mut batch, &mut env);
        self.pool.set_limit(usize::MAX);
        assert!(batch.is_empty());
        let mut out = vec![Vec::new(); 5];
        self.outputs.flush(|port, bin| {
            for packet in bin.drain(..) {
                out[port.index()].push(packet.bytes());
                self.pool.free(packet);
            }
        });
        self.outputs.dropped().drain(..).for_each(|packet| self.pool.free(packet));
        self.sent += out.iter().map(|bin| bin.len() as u64).sum::<u64>();
        self.balance();
        out
    }

    /// Both equations of [`DatapathStats`], and no packet alive.
    fn balance(&self) {
        assert_eq!((self.pool.alive(), self.pool.leaked()), (0, 0));
        let stats = self.datapath.stats();
        let rx = stats.rx_packets.get();
        assert_eq!(rx + stats.copies.get(), self.sent + stats.drops.total());
        let looked_up = stats.emc_hits.get()
            + stats.smc_hits.get()
            + stats.megaflow_hits.get()
            + stats.misses.get();
        let looked_at = rx + stats.recirculated.get();
        assert_eq!(looked_at, looked_up + stats.drops.get(DropReason::Malformed));
        assert_eq!(stats.flows.get(), self.datapath.table.len() as u64);
    }

    /// Revalidates until nothing is left to do; returns in how many slices.
    pub(crate) fn settle(&mut self, upcall: &impl Upcall, budget: usize) -> usize {
        let mut slices = 1;
        while self.datapath.revalidate(upcall, self.now, budget) == self.now {
            slices += 1;
        }
        slices
    }
}

pub(crate) fn config() -> DatapathConfig {
    DatapathConfig { emc_insert_one_in: 1, ..DatapathConfig::default() }
}

pub(crate) fn udp(last: u8, dst_port: u16) -> Vec<u8> {
    let ip = |last| Ipv4Addr::new(10, 0, 0, last);
    PacketBuilder::new().ipv4(ip(1), ip(last)).udp(1000, dst_port).payload_len(18).build()
}

pub(crate) fn output(port: u32) -> Vec<Action> {
    vec![Action::Output(PortNo(port))]
}

pub(crate) fn to_ip(last: u8) -> Match {
    let ip = u32::from(Ipv4Addr::new(10, 0, 0, last));
    Match::default().with(&Field::ETH_TYPE, 0x0800).with(&Field::IPV4_DST, ip.into())
}

#[test]
fn one_flow_for_all_ports_until_a_rule_reads_them() {
    let upcall = RuleTable::new(&[(to_ip(2), output(2))]);
    let mut bench = Bench::new(config());
    let packets: Vec<_> = (0..=u16::MAX).cycle().take(100_000).map(|port| udp(2, port)).collect();
    for batch in packets.chunks(256) {
        assert_eq!(bench.run(&upcall, batch, 0)[2].len(), batch.len());
    }
    let stats = bench.datapath.stats().clone();
    assert_eq!((stats.flows.get(), stats.misses.get()), (1, 1));
    let port_80 = Match::default().with(&Field::IP_PROTO, 17).with(&Field::TP_DST, 80);
    upcall.set(&[(port_80, output(3)), (to_ip(2), output(2))]);
    bench.settle(&upcall, 64);
    assert_eq!(stats.flows.get(), 0, "the wide flow is wrong now");
    let out = bench.run(&upcall, &[udp(2, 79), udp(2, 80), udp(2, 81)], 0);
    assert_eq!((out[2].len(), out[3].len(), stats.flows.get()), (2, 1, 3));
}

#[test]
fn a_batch_of_one_flow_costs_one_lookup_each_and_counts_exactly() {
    let upcall = RuleTable::new(&[(to_ip(2), output(2))]);
    let mut bench = Bench::new(config());
    let packet = udp(2, 9);
    bench.run(&upcall, &vec![packet.clone(); 32], 0);
    bench.now = Nanos::from_secs(2);
    bench.run(&upcall, &vec![packet.clone(); 32], 0);
    let stats = bench.datapath.stats();
    assert_eq!((stats.misses.get(), stats.megaflow_hits.get(), stats.emc_hits.get()), (1, 1, 62));
    assert_eq!((stats.masks.get(), stats.masked_lookups.get()), (1, 1));
    assert_eq!(stats.rx_bytes.get(), 64 * packet.len() as u64);
    let (flows, next) = bench.datapath.dump(DumpCursor::default(), 10);
    assert_eq!((flows.len(), next), (1, None));
    let wanted =
        FlowStats { packets: 64, bytes: stats.rx_bytes.get(), used: bench.now, tcp_flags: 0 };
    assert_eq!(flows[0].stats, wanted);
    assert_eq!(bench.datapath.get(flows[0].ufid).as_ref(), Some(&flows[0]));
}

#[test]
fn tcp_flags_add_up() {
    let upcall = RuleTable::default();
    let mut bench = Bench::new(config());
    let ip = Ipv4Addr::LOCALHOST;
    let tcp = |flags| PacketBuilder::new().ipv4(ip, ip).tcp(1, 2).flags(flags).build();
    bench.run(&upcall, &[tcp(2), tcp(0x10), tcp(0x18)], 0);
    let (flows, _) = bench.datapath.dump(DumpCursor::default(), 10);
    assert_eq!((flows[0].stats.packets, flows[0].stats.tcp_flags), (3, 0x1a));
}

#[test]
fn beyond_the_flow_limit_packets_are_forwarded_without_flows() {
    let all: Vec<_> = (0..50).map(|i| (to_ip(i), output(2))).collect();
    let upcall = RuleTable::new(&all);
    let mut bench = Bench::new(DatapathConfig { flow_limit: 10, ..config() });
    let packets: Vec<_> = (0..50).map(|i| udp(i, 9)).collect();
    for _ in 0..2 {
        assert_eq!(bench.run(&upcall, &packets, 0)[2], packets, "all, and in order");
    }
    let stats = bench.datapath.stats();
    assert_eq!((stats.flows.get(), stats.uninstalled.get()), (10, 80));
    assert_eq!(upcall.credited.get(), (80, 80 * 60), "no flow counts them, so it was told at once");
    let refused = bench.datapath.add(to_ip(200), Box::default(), &upcall, bench.now);
    assert_eq!(refused, Err(FlowError::Full(10)));
}

#[test]
fn short_packets_are_malformed() {
    let mut bench = Bench::new(config());
    bench.run(&RuleTable::default(), &[vec![], vec![0; 13], udp(1, 1), vec![0; 13]], 0);
    let drops = &bench.datapath.stats().drops;
    assert_eq!((drops.get(DropReason::Malformed), drops.get(DropReason::Action)), (3, 1));
}

/// Rules over few fields whose actions use everything, right or wrong for the packet.
fn rules() -> impl Strategy<Value = Vec<(Match, Vec<Action>)>> {
    let action = prop_oneof![
        6 => (1u32..6).prop_map(|port| Action::Output(PortNo(port))),
        1 => (0u16..0x2000).prop_map(|tci| Action::PushVlan { tpid: 0x8100, tci }),
        1 => Just(Action::PopVlan),
        1 => any::<u32>().prop_map(|ip| {
            Action::Set { field: &Field::IPV4_DST, value: ip.into(), mask: u32::MAX.into() }
        }),
        1 => any::<u16>().prop_map(|port| {
            Action::Set { field: &Field::TP_SRC, value: port.into(), mask: 0xff }
        }),
    ];
    let rule = (0u8..4, 0u32..33, 0u16..4, 0u32..3, any::<bool>()).prop_map(
        |(ip, prefix, port, bits, tagged)| {
            let ip = u128::from(u32::from(Ipv4Addr::new(10, 0, 0, ip)));
            let rule = Match::default()
                .with_masked(&Field::IPV4_DST, ip, u128::from(u32::MAX) << (32 - prefix))
                .with_masked(&Field::TP_DST, port.into(), (1 << bits) - 1);
            if tagged { rule.with_masked(&Field::VLAN_TCI, 0x1000, 0x1000) } else { rule }
        },
    );
    prop::collection::vec((rule, prop::collection::vec(action, 0..5)), 0..8)
}

fn packets() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let ordinary =
        (0u8..4, 0u16..4, any::<bool>(), any::<bool>()).prop_map(|(ip, port, tag, tcp)| {
            let eth = PacketBuilder::eth(MacAddr([2; 6]), MacAddr([4; 6]));
            let eth = if tag { eth.vlan(7) } else { eth };
            let ip = eth.ipv4(Ipv4Addr::LOCALHOST, Ipv4Addr::new(10, 0, 0, ip));
            if tcp { ip.tcp(9, port) } else { ip.udp(9, port) }.build()
        });
    let packet = prop_oneof![8 => ordinary, 1 => prop::collection::vec(any::<u8>(), 0..80)];
    prop::collection::vec(packet, 0..60)
}

fn any_config() -> impl Strategy<Value = DatapathConfig> {
    (0u32..3, any::<bool>(), 0usize..12).prop_map(|(emc_insert_one_in, smc, flow_limit)| {
        DatapathConfig { emc_insert_one_in, smc, flow_limit, ..DatapathConfig::default() }
    })
}

proptest! {
    /// Random packets, rules and limits, and a copier that runs out: every packet has one outcome.
    #[test]
    fn no_packet_is_lost(
        config in any_config(),
        rules in rules(),
        batches in prop::collection::vec((packets(), 0usize..20), 1..6),
    ) {
        let upcall = RuleTable::new(&rules);
        let mut bench = Bench::new(config);
        for (packets, copies) in batches {
            bench.run(&upcall, &packets, copies); // Checks the balance.
        }
        let (flows, _) = bench.datapath.dump(DumpCursor::default(), 1000);
        let stats = bench.datapath.stats();
        let uncounted = stats.uninstalled.get() + stats.drops.get(DropReason::Malformed);
        let counted: u64 = flows.iter().map(|flow| flow.stats.packets).sum();
        prop_assert_eq!(counted + uncounted, stats.rx_packets.get());
    }

    /// A datapath with caches does with every packet, in order, what one does that translates each
    /// packet afresh, also after the rules have changed and the flows were checked.
    #[test]
    fn cached_decisions_are_fresh_decisions(
        config in any_config(),
        rounds in prop::collection::vec((rules(), prop::collection::vec(packets(), 1..4)), 1..4),
        budget in 1usize..20,
    ) {
        let upcall = RuleTable::default();
        let mut cached = Bench::new(DatapathConfig { flow_limit: 200, ..config });
        let mut fresh = Bench::new(DatapathConfig { flow_limit: 0, ..config });
        for (rules, batches) in rounds {
            upcall.set(&rules);
            cached.settle(&upcall, budget);
            for packets in batches {
                let copies = usize::MAX / 2;
                prop_assert_eq!(
                    cached.run(&upcall, &packets, copies),
                    fresh.run(&upcall, &packets, copies)
                );
            }
        }
        prop_assert_eq!(fresh.datapath.stats().flows.get(), 0);
    }
}

/// A rule for packets that come round with this number.
fn again(id: u32) -> Match {
    Match::default().with(&Field::RECIRC_ID, id.into())
}

#[test]
fn packets_come_round_with_their_number_and_hash() {
    let upcall = RuleTable::default();
    let mut bench = Bench::new(config());
    let mut add = |rule, actions: &[Action]| {
        bench.datapath.add(rule, actions.into(), &upcall, bench.now).unwrap();
    };
    let push = Action::PushVlan { tpid: 0x8100, tci: 5 };
    let hash = Action::Hash { over: crate::HashOver::L4, basis: 1 };
    add(again(0), &[Action::Output(PortNo(1)), push, hash, Action::Recirc(8)]);
    let tagged = again(8).with_masked(&Field::VLAN_TCI, 0x1005, 0x1fff);
    add(tagged.with_masked(&Field::DP_HASH, 0, 1), &[Action::Output(PortNo(2))]);
    add(tagged.with_masked(&Field::DP_HASH, 1, 1), &[Action::Output(PortNo(3))]);
    let packets: Vec<_> = (0..100).map(|i| udp(i, 9)).collect();
    let out = bench.run(&upcall, &packets, 200);
    assert_eq!(out[1].len(), 100);
    assert_eq!(out[2].len() + out[3].len(), 100);
    assert!(out[2].len() > 25 && out[3].len() > 25, "the hash splits them");
    let stats = bench.datapath.stats().clone();
    assert_eq!((stats.recirculated.get(), stats.misses.get()), (100, 0));
    let again = bench.run(&upcall, &packets, 200);
    assert_eq!(again, out, "the same packets go the same ways");
}

#[test]
fn a_packet_that_comes_round_without_a_flow_is_decided_on() {
    let upcall = RuleTable::new(&[(again(3), output(2)), (again(0), vec![Action::Recirc(3)])]);
    let mut bench = Bench::new(config());
    let out = bench.run(&upcall, &[udp(1, 9), udp(1, 9)], 0);
    assert_eq!((out[2].len(), bench.datapath.stats().misses.get()), (2, 2));
}

#[test]
fn rounds_are_bounded() {
    let upcall = RuleTable::default();
    let mut bench = Bench::new(config());
    let both: Vec<_> = vec![
        Action::Clone([Action::Recirc(1)].into()),
        Action::Output(PortNo(2)),
        Action::Recirc(1),
    ];
    bench.datapath.add(Match::default(), both.into(), &upcall, bench.now).unwrap();
    let out = bench.run(&upcall, &[udp(1, 9)], 1000);
    // Each lookup sends one packet; there are 2^n in the n-th of seven.
    assert_eq!(out[2].len(), 127);
    let stats = bench.datapath.stats().clone();
    assert_eq!((stats.recirculated.get(), stats.drops.get(DropReason::Recirc)), (126, 128));
    let packets = vec![udp(1, 9); 256];
    let out = bench.run(&upcall, &packets, 100_000);
    assert!(out[2].len() <= 256 + 6 * 1024, "{}", out[2].len());
    assert_eq!(bench.run(&upcall, &packets, 0)[2].len(), 0, "no frame for a copy");
    assert!(stats.drops.get(DropReason::NoFrame) > 0);
}
