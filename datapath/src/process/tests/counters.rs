//! Statistics of flows are exact, whichever cache finds them and however packets are grouped; the oracle
//! counts packet by packet in a list.

use std::collections::BTreeMap;

use super::*;

/// What a list of flows would have counted.
#[derive(Default)]
struct Oracle {
    flows: Vec<(Match, Origin, FlowStats)>,
    limit: usize,
    upcall: RuleTable,
    malformed: u64,
    /// Packets and bytes that no flow was there to count.
    uninstalled: (u64, u64),
    /// Those of flows of the bridge that are gone.
    gone: (u64, u64),
}

impl Oracle {
    fn packet(&mut self, bytes: &[u8], now: Nanos) {
        let Ok(key) = extract(&mut MemPacket::new(bytes), PortNo(1)) else {
            self.malformed += 1;
            return;
        };
        let n_bytes = bytes.len() as u64;
        let seen = FlowStats { packets: 1, bytes: n_bytes, used: now, tcp_flags: tcp_flags(&key) };
        let best = [Origin::Manual, Origin::Bridge].into_iter().find_map(|wanted| {
            self.flows.iter().position(|(rule, origin, _)| *origin == wanted && rule.matches(&key))
        });
        if let Some(at) = best {
            self.flows[at].2.merge(&seen);
        } else if self.flows.len() < self.limit {
            let mask = self.upcall.translate(&key, Purpose::Packet, now).mask;
            self.flows.push((Match::new(&key, mask), Origin::Bridge, seen));
        } else {
            self.uninstalled.0 += 1;
            self.uninstalled.1 += n_bytes;
        }
    }

    fn remove(&mut self, ufid: Ufid) -> Option<FlowStats> {
        let at = self.flows.iter().position(|(rule, ..)| Ufid::of(rule) == ufid)?;
        let (_, origin, stats) = self.flows.swap_remove(at);
        if origin == Origin::Bridge {
            self.gone.0 += stats.packets;
            self.gone.1 += stats.bytes;
        }
        Some(stats)
    }

    fn all(&self) -> BTreeMap<Ufid, FlowStats> {
        self.flows.iter().map(|(rule, _, stats)| (Ufid::of(rule), *stats)).collect()
    }
}

#[derive(Clone, Debug)]
enum Step {
    /// Packets, so many milliseconds later.
    Batch(Vec<Vec<u8>>, u64),
    /// A manual flow for an address and a port; such flows never overlap.
    Add(u8, u16),
    /// Any flow goes, and its place is free for another.
    Del(usize),
    /// Masks are ranked, and the bridge hears of packets.
    Settle,
    /// Cache settings change while packets flow.
    Caches(u32, bool),
}

/// TCP with flags, UDP and malformed packets to few addresses and ports, of several sizes, in bursts.
fn traffic() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let packet = (0u8..6, 0u16..4, 0u16..0x200, 0usize..40, 0u8..8).prop_map(
        |(ip, port, flags, size, kind)| {
            let to = PacketBuilder::new().ipv4(Ipv4Addr::LOCALHOST, Ipv4Addr::new(10, 0, 0, ip));
            match kind {
                0 => vec![0; size % 14],
                1..=3 => to.udp(9, port).payload_len(size).build(),
                _ => to.tcp(flags & 7, port).flags(flags & 0xff).payload_len(size).build(),
            }
        },
    );
    let burst = (packet, 1usize..5).prop_map(|(packet, n)| vec![packet; n]);
    prop::collection::vec(burst, 0..40).prop_map(|bursts| bursts.concat())
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (traffic(), 0u64..600).prop_map(|(packets, ms)| Step::Batch(packets, ms)),
        1 => (0u8..6, 0u16..4).prop_map(|(ip, port)| Step::Add(ip, port)),
        2 => any::<usize>().prop_map(Step::Del),
        1 => Just(Step::Settle),
        1 => (0u32..3, any::<bool>()).prop_map(|(emc, smc)| Step::Caches(emc, smc)),
    ];
    prop::collection::vec(step, 1..14)
}

fn shown(bench: &Bench) -> BTreeMap<Ufid, FlowStats> {
    let (flows, next) = bench.datapath.dump(DumpCursor::default(), 10_000);
    assert_eq!(next, None);
    flows.iter().map(|flow| (flow.ufid, flow.stats)).collect()
}

proptest! {
    /// Packets, bytes, time of the last packet and TCP flags of every flow, after every batch; in the end
    /// what the bridge was told of.
    #[test]
    fn statistics_are_those_of_a_list(
        config in any_config(),
        limit in 1usize..40,
        rules in rules(),
        steps in steps(),
    ) {
        let upcall = RuleTable::new(&rules);
        let mut bench = Bench::new(DatapathConfig { flow_limit: limit, ..config });
        let mut oracle = Oracle { limit, upcall: RuleTable::new(&rules), ..Oracle::default() };
        for step in steps {
            match step {
                Step::Batch(packets, ms) => {
                    bench.now.0 += Nanos::from_millis(ms).0;
                    for packets in packets.chunks(PacketBatch::<()>::MAX) {
                        bench.run(&upcall, packets, usize::MAX / 2);
                        packets.iter().for_each(|packet| oracle.packet(packet, bench.now));
                    }
                }
                Step::Add(ip, port) => {
                    let rule = to_ip(ip).with(&Field::TP_DST, port.into());
                    let added = bench.datapath.add(rule, output(2).into(), &upcall, bench.now);
                    if let Ok(ufid) = added {
                        oracle.remove(ufid);
                        oracle.flows.push((rule, Origin::Manual, FlowStats::default()));
                    }
                }
                Step::Del(at) => {
                    let Some(ufid) = oracle.all().keys().nth(at % (limit + 1)).copied() else {
                        continue;
                    };
                    let gone = bench.datapath.del(ufid, &upcall, bench.now);
                    prop_assert_eq!(gone.map(|flow| flow.stats), oracle.remove(ufid));
                }
                Step::Settle => {
                    bench.settle(&upcall, 5);
                }
                Step::Caches(emc_insert_one_in, smc) => {
                    let config = *bench.datapath.config();
                    bench.datapath.configure(DatapathConfig { emc_insert_one_in, smc, ..config });
                }
            }
            prop_assert_eq!(shown(&bench), oracle.all());
        }
        let stats = bench.datapath.stats().clone();
        prop_assert_eq!(stats.drops.get(DropReason::Malformed), oracle.malformed);
        prop_assert_eq!(stats.uninstalled.get(), oracle.uninstalled.0);
        let _ = bench.datapath.flush(DumpCursor::default(), usize::MAX, &upcall, bench.now);
        for ufid in oracle.all().into_keys() {
            oracle.remove(ufid);
        }
        let told = (oracle.gone.0 + oracle.uninstalled.0, oracle.gone.1 + oracle.uninstalled.1);
        prop_assert_eq!(upcall.credited.get(), told);
    }
}

/// The signature cache takes over where the exact-match cache is off, and forgets nothing that it should not.
#[test]
fn the_signature_cache_hits_and_is_counted() {
    let all: Vec<_> = (0..100).map(|i| (to_ip(i), output(2))).collect();
    let upcall = RuleTable::new(&all);
    let config = DatapathConfig { emc_insert_one_in: 0, smc: true, ..DatapathConfig::default() };
    let mut bench = Bench::new(config);
    let packets: Vec<_> = (0..100).map(|i| udp(i, 9)).collect();
    for _ in 0..3 {
        assert_eq!(bench.run(&upcall, &packets, 0)[2].len(), 100);
    }
    let stats = bench.datapath.stats().clone();
    let counts = (stats.misses.get(), stats.megaflow_hits.get(), stats.smc_hits.get());
    assert_eq!(counts, (100, 100, 100), "missed, found and remembered, found again");
    let ufid = bench.datapath.add(to_ip(7), output(3).into(), &upcall, bench.now).unwrap();
    assert_eq!(bench.run(&upcall, &packets, 0)[3].len(), 1, "a manual flow goes before a memory");
    bench.datapath.del(ufid, &upcall, bench.now).unwrap();
    assert_eq!(bench.run(&upcall, &packets, 0)[2].len(), 100);
}
