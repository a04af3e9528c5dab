//! Cached answers against fresh ones: two switches live through the same packets and changes, and one of
//! them has no cache.

use std::net::Ipv4Addr;

use proptest::prelude::*;

use super::oracle::rules;
use super::{BR, checked, mac, switch};
use crate::process::tests::{Bench, config};
use crate::testing::PacketBuilder;
use crate::{DatapathConfig, DumpCursor, Match, Nanos, PortNo, Switch, Upcall, VlanId};

#[derive(Clone, Debug)]
enum Op {
    /// From a port, source and destination host, and what tells packets of them apart.
    Send(Vec<(u32, u64, u64, u8)>),
    /// Other rules, from these texts; none is NORMAL.
    Rules(Vec<String>),
    Forget(u64),
    Flush,
    Pin(u64, u32),
    Remove(u32),
    Add(u32),
    Wait(u64),
}

/// From a port, source and destination host, and what tells packets of them apart.
pub(super) fn flow_packet() -> impl Strategy<Value = (u32, u64, u64, u8)> {
    (1u32..4, 0u64..5, 0u64..5, 0u8..16)
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        8 => prop::collection::vec(flow_packet(), 1..12).prop_map(Op::Send),
        1 => rules().prop_map(Op::Rules),
        1 => Just(Op::Rules(Vec::new())),
        1 => (0u64..5).prop_map(Op::Forget),
        1 => Just(Op::Flush),
        1 => (0u64..5, 1u32..4).prop_map(|(host, port)| Op::Pin(host, port)),
        1 => (1u32..4).prop_map(Op::Remove),
        2 => (1u32..4).prop_map(Op::Add),
        2 => prop::sample::select(vec![1, 5, 11, 200, 301]).prop_map(Op::Wait),
    ];
    prop::collection::vec(op, 2..30)
}

pub(super) fn packet((_, src, dst, kind): (u32, u64, u64, u8)) -> Vec<u8> {
    let (a, b) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2 + (kind & 1)));
    let builder = PacketBuilder::eth(mac(src), mac(dst));
    let builder = if kind & 2 == 0 { builder } else { builder.vlan(0x1005) };
    match kind >> 2 {
        0 => builder.ipv4(a, b).udp(80, 80),
        1 => builder.ipv4(a, b).tcp(80, 81).flags(0x12),
        2 => builder.ipv6(a.to_ipv6_mapped(), b.to_ipv6_mapped(), 1).udp(80, 80),
        _ => builder.arp(1, (mac(src), a), (mac(dst), b)),
    }
    .build()
}

/// A switch with a datapath before it.
struct World {
    switch: Switch,
    bench: Bench,
}

impl World {
    fn new(config: DatapathConfig) -> Self {
        Self { switch: switch(), bench: Bench::new(config) }
    }

    /// Does it, and has all flows checked; what was sent from each batch.
    fn act(&mut self, op: &Op) -> Vec<Vec<Vec<Vec<u8>>>> {
        let Self { switch, bench } = self;
        let mut sent = Vec::new();
        match op {
            Op::Send(packets) => {
                for &from in packets {
                    let port = PortNo(from.0);
                    sent.push(bench.run_from(port, switch, &[packet(from)], 1000));
                    // The next packet comes when all flows are true again, so that both worlds learn in
                    // the same order; and not so soon that moves of hosts have to wait for their turn.
                    bench.now.0 += Nanos::from_millis(100).0;
                    switch.tick(bench.now);
                    bench.settle(switch, 3);
                }
            }
            Op::Rules(texts) => {
                switch.del_rules(BR, "", false).unwrap();
                let good = texts.iter().filter(|text| switch.parse_rule(BR, text).is_ok());
                let good: Vec<_> = good.collect();
                switch.add_rules(BR, &good, bench.now).unwrap();
            }
            Op::Forget(host) => _ = switch.fdb_del(BR, VlanId(0), mac(*host)),
            Op::Flush => switch.fdb_flush(BR).unwrap(),
            Op::Pin(host, port) => _ = switch.fdb_add(BR, PortNo(*port), VlanId(5), mac(*host)),
            Op::Remove(port) => _ = switch.del_port(PortNo(*port)),
            Op::Add(port) => _ = switch.add_port(PortNo(*port), &format!("v{port}"), BR),
            Op::Wait(secs) => {
                bench.now.0 += Nanos::from_secs(*secs).0;
                switch.tick(bench.now);
            }
        }
        bench.datapath.recheck();
        bench.settle(switch, 3);
        sent
    }

    /// Every flow says what its first packet would be told now.
    fn check_flows(&self) {
        let (flows, _) = self.bench.datapath.dump(DumpCursor::default(), 10_000);
        for flow in flows {
            let fresh = self.switch.translate(&flow.rule.key, checked(0), self.bench.now);
            assert!(fresh.keep, "{flow:?}");
            assert_eq!(Match::new(&flow.rule.key, fresh.mask), flow.rule);
            assert_eq!(*fresh.actions, *flow.actions, "{:?}", flow.rule);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// After any history of packets, rule changes, moves of hosts, ageing and ports that come and go, every
    /// packet gets from the cache what it would get without one.
    #[test]
    fn a_cached_answer_is_the_fresh_one(ops in ops()) {
        let mut cached = World::new(config());
        let mut fresh = World::new(DatapathConfig { flow_limit: 0, ..config() });
        for op in &ops {
            prop_assert_eq!(cached.act(op), fresh.act(op), "{:?}", op);
            cached.check_flows();
            let (rows, want) = (&cached.switch, &fresh.switch);
            let ports = |switch: &Switch, now| -> Vec<_> {
                let rows = switch.fdb_rows(BR, now).unwrap();
                rows.iter().map(|row| (row.port, row.vlan, row.mac)).collect()
            };
            prop_assert_eq!(ports(rows, cached.bench.now), ports(want, fresh.bench.now));
        }
    }
}
