//! The flow table of one thread: the flows, how they are found, and the seam for executors.

use core::hint::black_box;

use crate::classifier::Classifier;
use crate::hash::{HashIndex, hash_words, short};
use crate::slab::{FlowRef, Slab};
use crate::{Action, Flow, FlowKey, FlowStats, Origin, Ufid};

/// Somebody who forwards packets by the flows of a table: the thread's own lookup, later the kernel.
///
/// A flow that is removed is withdrawn from every executor first, so that nobody forwards by a flow
/// of which the caller was told that it is gone, and no packet is missing in its last statistics.
pub(crate) trait Executor {
    /// Starts to forward the packets of `flow`, which lies at `index` of the table.
    fn install(&mut self, flow: &Flow, index: u32);

    /// Stops to forward the packets of `flow`; returns when none is under way any more, with what was
    /// counted and is not in the flow's own statistics yet.
    fn withdraw(&mut self, flow: &Flow, index: u32) -> FlowStats;
}

/// The executor that is the thread itself: what a packet that missed the exact-match cache goes
/// through. Manual flows go before those of the bridge.
#[derive(Debug)]
struct Lookup {
    manual: Classifier,
    bridge: Classifier,
}

impl Lookup {
    const fn of(&mut self, origin: Origin) -> &mut Classifier {
        match origin {
            Origin::Manual => &mut self.manual,
            Origin::Bridge => &mut self.bridge,
        }
    }
}

impl Executor for Lookup {
    fn install(&mut self, flow: &Flow, index: u32) {
        self.of(flow.origin).insert(&flow.rule, index);
    }

    /// No packet is under way, as removal happens between batches, and what was counted is in the flow.
    fn withdraw(&mut self, flow: &Flow, index: u32) -> FlowStats {
        self.of(flow.origin).remove(&flow.rule, index);
        FlowStats::default()
    }
}

/// All flows of one thread, by identifier and by lookup.
#[derive(Debug)]
pub(crate) struct FlowTable {
    flows: Slab,
    by_ufid: HashIndex,
    lookup: Lookup,
    seed: u64,
}

impl FlowTable {
    /// An empty table; `seed` is what hashes start from.
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            flows: Slab::default(),
            by_ufid: HashIndex::default(),
            lookup: Lookup { manual: Classifier::new(seed), bridge: Classifier::new(seed) },
            seed,
        }
    }

    /// The flow that matches, and how many subtables were searched.
    #[inline]
    pub(crate) fn lookup(&mut self, key: &FlowKey) -> (Option<FlowRef>, u64) {
        let mut visited = 0;
        let Lookup { manual, bridge } = &mut self.lookup;
        let found = manual
            .lookup(key, &self.flows, &mut visited)
            .or_else(|| bridge.lookup(key, &self.flows, &mut visited));
        (found.and_then(|index| self.flows.reference(index)), visited)
    }

    /// What [`lookup`](Self::lookup) would find, and how many subtables it would search.
    pub(crate) fn peek(&self, key: &FlowKey) -> (Option<u32>, usize) {
        let (found, n) = self.lookup.manual.peek(key, &self.flows);
        if found.is_some() {
            return (found, n);
        }
        let (found, more) = self.lookup.bridge.peek(key, &self.flows);
        (found, n + more)
    }

    /// True when [`lookup`](Self::lookup) of the key may find the flow at `index`: it matches, and none goes
    /// before it.
    #[inline]
    pub(crate) fn confirm(&mut self, index: u32, key: &FlowKey, visited: &mut u64) -> bool {
        let Some(flow) = self.flows.get(index) else { return false };
        let manual = &mut self.lookup.manual;
        flow.rule.matches(key)
            && (flow.origin == Origin::Manual || manual.lookup(key, &self.flows, visited).is_none())
    }

    /// A reference to the flow at `index`.
    #[inline]
    pub(crate) fn reference(&self, index: u32) -> Option<FlowRef> {
        self.flows.reference(index)
    }

    /// How many flows there are.
    pub(crate) const fn len(&self) -> usize {
        self.flows.len()
    }

    /// How many places for flows there are: one more than the highest index.
    pub(crate) const fn places(&self) -> usize {
        self.flows.places()
    }

    /// How many distinct masks there are.
    pub(crate) const fn n_masks(&self) -> usize {
        self.lookup.manual.n_subtables() + self.lookup.bridge.n_subtables()
    }

    /// Searches the masks that are hit most first.
    pub(crate) fn rank(&mut self) {
        self.lookup.manual.rank();
        self.lookup.bridge.rank();
    }

    /// Has what a lookup and the actions need of the flow on its way from memory, as the caches do.
    #[inline]
    pub(crate) fn prefetch(&self, index: u32) {
        if let Some(Flow { stats, rule, .. }) = self.flows.get(index) {
            let ([key, ..], [mask, ..]) = (rule.key.words(), rule.mask.words());
            black_box(stats.packets ^ key ^ mask);
        }
    }

    /// True while the flow exists.
    #[inline]
    pub(crate) fn is_live(&self, flow: FlowRef) -> bool {
        self.flows.is_live(flow)
    }

    /// The flow at `index`.
    #[inline]
    pub(crate) fn get(&self, index: u32) -> Option<&Flow> {
        self.flows.get(index)
    }

    /// The flow at `index`.
    #[inline]
    pub(crate) fn get_mut(&mut self, index: u32) -> Option<&mut Flow> {
        self.flows.get_mut(index)
    }

    /// The hash of an identifier. It starts from the seed: identifiers themselves do not, so a sender of
    /// packets can choose flows whose identifiers agree in many bits.
    #[allow(clippy::cast_possible_truncation, reason = "takes both halves")]
    fn hash(&self, ufid: Ufid) -> u32 {
        short(hash_words(self.seed, &[(ufid.0 >> 64) as u64, ufid.0 as u64]))
    }

    /// Where the flow with this identifier is.
    pub(crate) fn find(&self, ufid: Ufid) -> Option<u32> {
        let is_it = |index| self.flows.get(index).is_some_and(|flow| flow.ufid == ufid);
        self.by_ufid.find(self.hash(ufid), is_it)
    }

    /// Adds a flow; the caller has made sure that there is none with its identifier.
    pub(crate) fn insert(&mut self, flow: Flow) -> FlowRef {
        let hash = self.hash(flow.ufid);
        let index = self.flows.insert(flow);
        self.by_ufid.insert(hash, index);
        if let Some(flow) = self.flows.get(index) {
            self.lookup.install(flow, index);
        }
        self.flows.reference(index).unwrap_or(FlowRef::NONE)
    }

    /// Replaces what is done to the packets of a flow.
    pub(crate) fn set_actions(&mut self, index: u32, actions: Box<[Action]>) {
        if let Some(flow) = self.flows.get_mut(index) {
            let counted = self.lookup.withdraw(flow, index);
            flow.stats.merge(&counted);
            flow.actions = actions;
            self.lookup.install(flow, index);
        }
    }

    /// Removes a flow; when this returns every executor has withdrawn it.
    pub(crate) fn remove(&mut self, index: u32) -> Option<Flow> {
        let counted = self.lookup.withdraw(self.flows.get(index)?, index);
        let mut flow = self.flows.remove(index)?;
        self.by_ufid.remove(self.hash(flow.ufid), index);
        flow.stats.merge(&counted);
        Some(flow)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{Field, FlowMask, Match, Nanos};

    /// Keys from few values in some fields, so that matches hit, miss and overlap.
    fn keys() -> impl Strategy<Value = FlowKey> {
        (0u8..3, 0u8..3, 0u16..4, any::<bool>()).prop_map(|(port, ip, tp, v6)| {
            let mut key = FlowKey::default();
            key.set(&Field::IN_PORT, port.into());
            key.set(&Field::ETH_TYPE, if v6 { 0x86dd } else { 0x0800 });
            let address = if v6 { &Field::IPV6_DST } else { &Field::IPV4_DST };
            key.set(address, u128::from(ip) * 0x0101);
            key.set(&Field::TP_DST, tp.into());
            key
        })
    }

    fn masks() -> impl Strategy<Value = FlowMask> {
        (0u32..17, 0u32..17, 0u32..3, any::<bool>()).prop_map(|(v4, v6, tp, eth)| {
            let mut mask = FlowMask::default();
            mask.add(&Field::IN_PORT);
            mask.add_bits(&Field::ETH_TYPE, if eth { 0xffff } else { 0 });
            mask.add_bits(&Field::IPV4_DST, (1 << v4) - 1);
            mask.add_bits(&Field::IPV6_DST, (1 << v6) - 1);
            mask.add_bits(&Field::TP_DST, (1 << tp) - 1);
            mask
        })
    }

    #[derive(Clone, Debug)]
    enum Op {
        Add(Match, Origin),
        Del(usize),
        Lookup(FlowKey),
        Rank,
    }

    fn ops() -> impl Strategy<Value = Op> {
        let origin = prop_oneof![4 => Just(Origin::Bridge), 1 => Just(Origin::Manual)];
        let rule = (keys(), masks()).prop_map(|(key, mask)| Match::new(&key, mask));
        prop_oneof![
            3 => (rule, origin).prop_map(|(rule, origin)| Op::Add(rule, origin)),
            1 => any::<usize>().prop_map(Op::Del),
            6 => keys().prop_map(Op::Lookup),
            1 => Just(Op::Rank),
        ]
    }

    fn add(table: &mut FlowTable, rule: Match, origin: Origin) -> Option<FlowRef> {
        let flow = Flow::new(rule, Box::default(), origin, Nanos(0));
        table.find(flow.ufid).is_none().then(|| table.insert(flow))
    }

    proptest! {
        /// The table finds a flow exactly when one matches, a manual one if any does, and what it finds
        /// matches; the oracle is a list.
        #[test]
        fn lookup_agrees_with_a_list(ops in prop::collection::vec(ops(), 1..200)) {
            let mut table = FlowTable::new(42);
            let mut list: Vec<(Match, Origin, FlowRef)> = Vec::new();
            for op in ops {
                match op {
                    Op::Add(rule, origin) => {
                        let known = list.iter().any(|(other, ..)| *other == rule);
                        let added = add(&mut table, rule, origin);
                        prop_assert_eq!(added.is_none(), known);
                        list.extend(added.map(|flow| (rule, origin, flow)));
                    }
                    Op::Del(at) if !list.is_empty() => {
                        let (rule, _, flow) = list.swap_remove(at % list.len());
                        prop_assert_eq!(table.find(Ufid::of(&rule)), Some(flow.index));
                        prop_assert_eq!(table.remove(flow.index).unwrap().rule, rule);
                        prop_assert_eq!(table.find(Ufid::of(&rule)), None);
                        prop_assert!(!table.is_live(flow));
                    }
                    Op::Del(_) => {}
                    Op::Lookup(key) => {
                        let matching = || list.iter().filter(|(rule, ..)| rule.matches(&key));
                        let manual = matching().any(|&(_, origin, _)| origin == Origin::Manual);
                        let (found, visited) = table.lookup(&key);
                        prop_assert!(visited <= table.n_masks() as u64);
                        prop_assert_eq!(found.is_some(), matching().next().is_some());
                        if let Some(found) = found {
                            let (.., origin, _) = matching().find(|&&(.., flow)| flow == found).unwrap();
                            prop_assert_eq!(*origin == Origin::Manual, manual);
                        }
                    }
                    Op::Rank => table.rank(),
                }
                prop_assert_eq!(table.len(), list.len());
            }
        }
    }

    #[test]
    fn busy_masks_are_searched_first() {
        let mut table = FlowTable::new(42);
        let base = Match::default().with(&Field::IN_PORT, 1);
        for bits in 1..=15 {
            add(&mut table, base.with_masked(&Field::TP_DST, 0, (1 << bits) - 1), Origin::Bridge);
        }
        let mut key = FlowKey::default();
        key.set(&Field::IN_PORT, 1);
        key.set(&Field::TP_DST, 0x1000);
        assert_eq!(table.lookup(&key).1, 1, "the first mask covers the key");
        let first = table.find(Ufid::of(&base.with_masked(&Field::TP_DST, 0, 1))).unwrap();
        key.set(&Field::TP_DST, 0x1001);
        add(&mut table, base.with(&Field::TP_DST, 0x1001), Origin::Bridge);
        table.remove(first);
        assert_eq!(table.lookup(&key).1, 15, "the last mask is found last");
        table.rank();
        assert_eq!(table.lookup(&key).1, 1, "until it was hit and ranked");
    }

    #[test]
    fn a_flow_is_smaller_than_640_bytes() {
        let place = size_of::<Flow>() + 16;
        let action = size_of::<Action>() + 16;
        let indexes = 2 * 8 * 8 / 3 + 4;
        assert!(place + action + indexes <= 640, "{place} + {action} + {indexes}");
    }
}
