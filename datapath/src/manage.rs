//! What commands do with the flows of a thread: add, change, show, delete.
//!
//! All of it runs on the thread itself, between batches, and in bounded pieces: a dump or flush of a
//! large table is many calls, so that packets do not wait for it.

use core::fmt;

use crate::hash::short;
use crate::{Action, Datapath, Flow, FlowKey, FlowSnapshot, Match, Nanos, Origin, Ufid, Upcall};

/// Why a flow was not added or changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowError {
    /// There is a manual flow with this match already.
    Exists(Ufid),
    /// There is no such flow.
    Missing(Ufid),
    /// The table is full; this is the limit.
    Full(usize),
}

impl fmt::Display for FlowError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exists(ufid) => write!(f, "flow {ufid} exists; modify it, or delete it first"),
            Self::Missing(ufid) => write!(f, "there is no flow {ufid}"),
            Self::Full(limit) => {
                write!(f, "the flow table is full: flow-limit is {limit}; delete flows or raise it")
            }
        }
    }
}

impl core::error::Error for FlowError {}

/// How far a dump or flush has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DumpCursor(u32);

impl DumpCursor {
    /// The places of a table that one call may visit without packets waiting for a millisecond.
    pub const MAX_PLACES: usize = 512;
}

/// Where a thread would find the flow of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hit {
    /// In the exact-match cache.
    Emc,
    /// In the signature cache.
    Smc,
    /// In the classifier.
    Megaflow {
        /// After searching so many subtables.
        n_subtables: usize,
    },
    /// Nowhere: the bridge would be asked.
    Miss,
}

/// What a thread would do with a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    /// Where it would find the flow.
    pub hit: Hit,
    /// The flow.
    pub flow: Option<FlowSnapshot>,
}

impl Datapath {
    /// Adds a manual flow. It goes before all flows of the bridge, in place of one with the same
    /// match, of whose last packets the bridge is told; where manual flows overlap, which of them is
    /// used is not specified.
    ///
    /// # Errors
    /// [`FlowError::Exists`], [`FlowError::Full`].
    pub fn add<U: Upcall + ?Sized>(
        &mut self,
        rule: Match,
        actions: Box<[Action]>,
        upcall: &U,
        now: Nanos,
    ) -> Result<Ufid, FlowError> {
        let flow = Flow::new(Match::new(&rule.key, rule.mask), actions, Origin::Manual, now);
        let ufid = flow.ufid;
        if let Some(index) = self.table.find(ufid) {
            if self.table.get(index).is_some_and(|flow| flow.origin == Origin::Manual) {
                return Err(FlowError::Exists(ufid));
            }
            self.retire(index, upcall, now);
        }
        if self.table.len() >= self.config.flow_limit {
            return Err(FlowError::Full(self.config.flow_limit));
        }
        self.table.insert(flow);
        self.emc.clear();
        self.count_flows();
        Ok(ufid)
    }

    /// Replaces the actions of a flow; with `clear`, its statistics start again. A flow of the bridge
    /// gets its own actions back when it is checked next.
    ///
    /// # Errors
    /// [`FlowError::Missing`].
    pub fn modify(
        &mut self,
        ufid: Ufid,
        actions: Box<[Action]>,
        clear: bool,
    ) -> Result<(), FlowError> {
        let index = self.table.find(ufid).ok_or(FlowError::Missing(ufid))?;
        self.table.set_actions(index, actions);
        if clear && let Some(flow) = self.table.get_mut(index) {
            flow.clear_stats();
        }
        Ok(())
    }

    /// The flow with this identifier ([`Ufid::of`] makes one of a match).
    #[must_use]
    pub fn get(&self, ufid: Ufid) -> Option<FlowSnapshot> {
        self.table.get(self.table.find(ufid)?).map(Flow::snapshot)
    }

    /// What the caches of this thread would do with a packet now; changes nothing.
    #[must_use]
    pub fn probe(&self, key: &FlowKey) -> Probe {
        let hash = short(key.hash(self.seed));
        let (found, n_subtables) = self.table.peek(key);
        let by_emc = self.emc.lookup(hash, key).filter(|&flow| self.table.is_live(flow));
        let by_smc = self.smc.lookup(hash, |index| Some(index) == found);
        let (index, hit) = match (by_emc, by_smc) {
            (Some(flow), _) => (Some(flow.index), Hit::Emc),
            (None, Some(index)) => (Some(index), Hit::Smc),
            (None, None) if found.is_some() => (found, Hit::Megaflow { n_subtables }),
            (None, None) => (None, Hit::Miss),
        };
        Probe { hit, flow: index.and_then(|index| self.table.get(index)).map(Flow::snapshot) }
    }

    /// Removes a flow and returns it with its last statistics; no packet uses it any more.
    pub fn del<U: Upcall + ?Sized>(
        &mut self,
        ufid: Ufid,
        upcall: &U,
        now: Nanos,
    ) -> Option<FlowSnapshot> {
        let flow = self.retire(self.table.find(ufid)?, upcall, now);
        self.count_flows();
        flow.as_ref().map(Flow::snapshot)
    }

    /// The flows in the next at most `max_places` places from `from` on, and where to go on; `None` at
    /// the end. Flows that come or go between the calls may be missed; all others are there once.
    #[must_use]
    pub fn dump(
        &self,
        from: DumpCursor,
        max_places: usize,
    ) -> (Vec<FlowSnapshot>, Option<DumpCursor>) {
        let (places, next) = self.slice(from, max_places);
        let flows = places.filter_map(|index| self.table.get(index));
        (flows.map(Flow::snapshot).collect(), next)
    }

    /// Removes the flows in the next at most `max_places` places and returns where to go on. Flows
    /// that misses install meanwhile may stay.
    pub fn flush<U: Upcall + ?Sized>(
        &mut self,
        from: DumpCursor,
        max_places: usize,
        upcall: &U,
        now: Nanos,
    ) -> Option<DumpCursor> {
        let (places, next) = self.slice(from, max_places);
        for index in places {
            self.retire(index, upcall, now);
        }
        self.count_flows();
        next
    }

    fn slice(&self, from: DumpCursor, max: usize) -> (core::ops::Range<u32>, Option<DumpCursor>) {
        let places = u32::try_from(self.table.places()).unwrap_or(u32::MAX);
        let max = u32::try_from(max.max(1)).unwrap_or(u32::MAX);
        let end = from.0.saturating_add(max).min(places);
        (from.0..end, (end < places).then_some(DumpCursor(end)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::tests::{Bench, RuleTable, config, output, to_ip, udp};
    use crate::{Field, PortNo};

    #[test]
    fn manual_flows_go_first_from_now_on() {
        let upcall = RuleTable::new(&[(to_ip(2), output(2))]);
        let mut bench = Bench::new(config());
        let packets = vec![udp(2, 9); 3];
        assert_eq!(bench.run(&upcall, &packets, 0)[2].len(), 3);
        let rule = Match::default().with(&Field::TP_DST, 9);
        let ufid = bench.datapath.add(rule, output(3).into(), &upcall, bench.now).unwrap();
        assert_eq!(ufid, Ufid::of(&rule));
        assert_eq!(bench.run(&upcall, &packets, 0)[3].len(), 3, "also where the cache had a flow");
        assert_eq!(
            bench.datapath.add(rule, Box::default(), &upcall, bench.now),
            Err(FlowError::Exists(ufid))
        );
        let gone = bench.datapath.del(ufid, &upcall, bench.now).unwrap();
        assert_eq!((gone.stats.packets, gone.origin), (3, Origin::Manual));
        assert_eq!(bench.run(&upcall, &packets, 0)[2].len(), 3, "back to the bridge's flow");
        assert_eq!(bench.datapath.del(ufid, &upcall, bench.now), None);
        assert_eq!(bench.datapath.get(ufid), None);
    }

    #[test]
    fn a_manual_flow_takes_the_place_of_the_bridges() {
        let upcall = RuleTable::new(&[(to_ip(2), output(2))]);
        let mut bench = Bench::new(config());
        bench.run(&upcall, &[udp(2, 9)], 0);
        let (flows, _) = bench.datapath.dump(DumpCursor::default(), 10);
        bench.datapath.add(flows[0].rule, output(3).into(), &upcall, bench.now).unwrap();
        assert_eq!(bench.datapath.stats().flows.get(), 1);
        assert_eq!(upcall.credited.get(), (1, 60), "the bridge hears of the last packets");
        assert_eq!(bench.run(&upcall, &[udp(2, 9)], 0)[3].len(), 1);
    }

    #[test]
    fn modify_replaces_actions_and_clears_on_request() {
        let upcall = RuleTable::default();
        let mut bench = Bench::new(config());
        let ufid = bench.datapath.add(to_ip(2), output(2).into(), &upcall, bench.now).unwrap();
        bench.run(&upcall, &[udp(2, 9)], 0);
        bench.datapath.modify(ufid, output(3).into(), false).unwrap();
        assert_eq!(bench.run(&upcall, &[udp(2, 9)], 0)[3].len(), 1);
        assert_eq!(bench.datapath.get(ufid).unwrap().stats.packets, 2);
        bench.datapath.modify(ufid, output(3).into(), true).unwrap();
        assert_eq!(bench.datapath.get(ufid).unwrap().stats.packets, 0);
        let missing = Ufid(1);
        assert_eq!(
            bench.datapath.modify(missing, Box::default(), false),
            Err(FlowError::Missing(missing))
        );
    }

    #[test]
    fn cleared_statistics_are_not_lost_to_the_bridge() {
        let upcall = RuleTable::new(&[(to_ip(2), output(2))]);
        let mut bench = Bench::new(config());
        bench.run(&upcall, &[udp(2, 9), udp(2, 9)], 0);
        let (flows, _) = bench.datapath.dump(DumpCursor::default(), 10);
        let ufid = flows[0].ufid;
        bench.datapath.modify(ufid, output(2).into(), true).unwrap();
        assert_eq!(bench.datapath.get(ufid).unwrap().stats.packets, 0);
        bench.run(&upcall, &[udp(2, 9)], 0);
        bench.settle(&upcall, 9);
        assert_eq!(upcall.credited.get(), (3, 180));
        bench.datapath.modify(ufid, output(2).into(), true).unwrap();
        bench.run(&upcall, &[udp(2, 9)], 0);
        let gone = bench.datapath.del(ufid, &upcall, bench.now).unwrap();
        assert_eq!((gone.stats.packets, upcall.credited.get()), (1, (4, 240)));
    }

    #[test]
    fn dump_and_flush_go_in_slices() {
        let rules: Vec<_> = (0..100).map(|i| (to_ip(i), output(2))).collect();
        let upcall = RuleTable::new(&rules);
        let mut bench = Bench::new(config());
        let packets: Vec<_> = (0..100).map(|i| udp(i, 9)).collect();
        bench.run(&upcall, &packets, 0);
        bench
            .datapath
            .add(to_ip(200), vec![Action::Output(PortNo(1))].into(), &upcall, bench.now)
            .unwrap();
        let (mut ufids, mut cursor) = (Vec::new(), Some(DumpCursor::default()));
        while let Some(from) = cursor {
            let (flows, next) = bench.datapath.dump(from, 7);
            assert!(flows.len() <= 7);
            ufids.extend(flows.iter().map(|flow| flow.ufid));
            cursor = next;
        }
        ufids.sort();
        ufids.dedup();
        assert_eq!(ufids.len(), 101);
        let mut cursor = Some(DumpCursor::default());
        while let Some(from) = cursor {
            cursor = bench.datapath.flush(from, 7, &upcall, bench.now);
        }
        assert_eq!(bench.datapath.stats().flows.get(), 0);
        assert_eq!(upcall.credited.get().0, 100, "the last packets are credited");
        assert_eq!(bench.datapath.dump(DumpCursor::default(), 500).0, []);
    }
}
