//! Packets while flows come, go and change: what is done, and that each packet is counted once.

use super::*;

#[derive(Clone, Debug)]
enum Op {
    Run(Vec<Vec<u8>>),
    Rules(Vec<(Match, Vec<Action>)>),
    Add(u8, u32),
    Modify(u8, u32, bool),
    Delete(u8),
    DeleteSome(prop::sample::Index),
    Flush(usize),
    Sleep(u64),
    Configure(DatapathConfig),
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        6 => packets().prop_map(Op::Run),
        1 => rules().prop_map(Op::Rules),
        2 => (0u8..4, 1u32..6).prop_map(|(ip, port)| Op::Add(ip, port)),
        1 => (0u8..4, 1u32..6, any::<bool>()).prop_map(|(ip, port, clear)| Op::Modify(ip, port, clear)),
        1 => (0u8..4).prop_map(Op::Delete),
        1 => any::<prop::sample::Index>().prop_map(Op::DeleteSome),
        1 => (1usize..9).prop_map(Op::Flush),
        1 => (0u64..6).prop_map(Op::Sleep),
        1 => any_config().prop_map(Op::Configure),
    ];
    prop::collection::vec(op, 1..25)
}

/// The decisions of a table of rules, with manual flows before it.
#[derive(Debug, Default)]
struct Oracle {
    rules: RuleTable,
    manual: RefCell<Vec<(Match, Vec<Action>)>>,
    /// Packets and bytes that the rules decided on.
    decided: Cell<(u64, u64)>,
}

impl Upcall for Oracle {
    fn translate(&self, key: &FlowKey, purpose: Purpose, now: Nanos) -> Translation {
        let manual = self.manual.borrow();
        if let Some((_, actions)) = manual.iter().find(|(rule, _)| rule.matches(key)) {
            return Translation { mask: FlowMask::exact(), actions: actions.clone(), keep: true };
        }
        if let Purpose::Uncached { n_bytes } = purpose {
            let (packets, bytes) = self.decided.get();
            self.decided.set((packets + 1, bytes + n_bytes));
        }
        self.rules.translate(key, purpose, now)
    }

    fn version(&self) -> u64 {
        self.rules.version()
    }
}

fn flush(bench: &mut Bench, upcall: &RuleTable, places: usize) {
    let mut next = Some(DumpCursor::default());
    while let Some(from) = next {
        next = bench.datapath.flush(from, places, upcall, bench.now);
    }
}

proptest! {
    /// A datapath whose flows are added, changed, deleted, flushed, expired and checked in any order
    /// does what one without any flow does that asks for each packet, and its bridge hears of every
    /// packet exactly once.
    #[test]
    fn changes_lose_no_packet_and_no_count(config in any_config(), ops in ops()) {
        let (upcall, oracle) = (RuleTable::default(), Oracle::default());
        let mut bench = Bench::new(config);
        let mut fresh = Bench::new(DatapathConfig { flow_limit: 0, ..config });
        for op in ops {
            let now = bench.now;
            let mut manual = oracle.manual.borrow_mut();
            let at = |ip| manual.iter().position(|(rule, _)| *rule == to_ip(ip));
            match op {
                Op::Run(packets) => {
                    drop(manual);
                    let copies = usize::MAX / 2;
                    prop_assert_eq!(
                        bench.run(&upcall, &packets, copies),
                        fresh.run(&oracle, &packets, copies)
                    );
                }
                Op::Rules(rules) => {
                    upcall.set(&rules);
                    oracle.rules.set(&rules);
                    bench.settle(&upcall, 3);
                }
                Op::Add(ip, port) => match bench.datapath.add(to_ip(ip), output(port).into(), &upcall, now) {
                    Ok(_) => manual.push((to_ip(ip), output(port))),
                    Err(FlowError::Exists(_)) => prop_assert!(at(ip).is_some()),
                    Err(error) => {
                        let limit = bench.datapath.config().flow_limit;
                        prop_assert_eq!(error, FlowError::Full(limit));
                        prop_assert!(bench.datapath.table.len() >= limit);
                    }
                },
                Op::Modify(ip, port, clear) => {
                    let done = bench.datapath.modify(Ufid::of(&to_ip(ip)), output(port).into(), clear);
                    prop_assert_eq!(done.is_ok(), at(ip).is_some());
                    if let Some(at) = at(ip) {
                        manual[at].1 = output(port);
                    }
                }
                Op::Delete(ip) => {
                    let gone = bench.datapath.del(Ufid::of(&to_ip(ip)), &upcall, now);
                    prop_assert_eq!(gone.is_some(), at(ip).is_some());
                    manual.retain(|(rule, _)| *rule != to_ip(ip));
                }
                Op::DeleteSome(index) => {
                    let (flows, _) = bench.datapath.dump(DumpCursor::default(), 1000);
                    if !flows.is_empty() {
                        let flow = &flows[index.index(flows.len())];
                        let gone = bench.datapath.del(flow.ufid, &upcall, now);
                        prop_assert_eq!(gone.as_ref(), Some(flow));
                        manual.retain(|(rule, _)| *rule != flow.rule);
                    }
                }
                Op::Flush(places) => {
                    flush(&mut bench, &upcall, places);
                    manual.clear();
                    prop_assert_eq!(bench.datapath.stats().masks.get(), 0);
                }
                Op::Sleep(secs) => {
                    bench.now.0 += Nanos::from_secs(secs).0;
                    bench.settle(&upcall, 5);
                }
                Op::Configure(config) => bench.datapath.configure(config),
            }
        }
        flush(&mut bench, &upcall, 7);
        prop_assert_eq!(upcall.credited.get(), oracle.decided.get());
    }
}
