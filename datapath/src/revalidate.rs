//! Keeping flows true: they are checked in bounded slices, in a circle over the table.
//!
//! A round over all flows begins when the version of the [`Upcall`] changes, and every so often
//! without a change, so that the bridge hears of flows that live and idle ones go. A change during a
//! round does not begin at the front again: the circle is prolonged until every flow was checked
//! since the change.

use crate::{Datapath, Flow, Match, Nanos, Origin, Purpose, Upcall};

/// Where the circle is.
#[derive(Debug, Default)]
pub(crate) struct Sweep {
    /// The place that is checked next.
    cursor: usize,
    /// How many places are still to be checked in this round.
    remaining: usize,
    /// The version against which this round, or the last, checks.
    version: Option<u64>,
    /// When the round began.
    started: Nanos,
    /// When the masks were ranked last.
    ranked: Nanos,
}

impl Datapath {
    /// Checks at most `budget` flows and returns when it wants to be called again: `now` while there
    /// is more to do. Called on every pass, it is cheap when nothing is due.
    ///
    /// After a change of the upcall's version every flow is right as soon as the calls add up to one
    /// table: at 200,000 flows, 64 a call and 10,000 calls a second, a third of a second.
    pub fn revalidate<U: Upcall + ?Sized>(
        &mut self,
        upcall: &U,
        now: Nanos,
        budget: usize,
    ) -> Nanos {
        let version = upcall.version();
        let idle = self.sweep.remaining == 0;
        let due = now.since(self.sweep.started) >= self.config.refresh;
        if self.sweep.version != Some(version) || (idle && due) {
            self.begin_round(version, now);
        }
        let slice = budget.min(self.sweep.remaining);
        for _ in 0..slice {
            if self.sweep.cursor >= self.table.places() {
                self.sweep.cursor = 0;
            }
            let place = u32::try_from(self.sweep.cursor).unwrap_or(0);
            self.check(place, upcall, version, now);
            self.sweep.cursor += 1;
        }
        self.sweep.remaining -= slice;
        if slice > 0 {
            self.count_flows();
        }
        if self.sweep.remaining > 0 {
            now
        } else {
            Nanos(self.sweep.started.0.saturating_add(self.config.refresh.0))
        }
    }

    fn begin_round(&mut self, version: u64, now: Nanos) {
        self.sweep.version = Some(version);
        self.sweep.remaining = self.table.places();
        self.sweep.started = now;
        if now.since(self.sweep.ranked) >= self.config.refresh {
            self.sweep.ranked = now;
            self.table.rank();
        }
    }

    /// Checks the flow at `index`, if there is one and it is the bridge's.
    fn check<U: Upcall + ?Sized>(&mut self, index: u32, upcall: &U, version: u64, now: Nanos) {
        let Some(flow) = self.table.get_mut(index) else { return };
        if flow.origin == Origin::Manual {
            return;
        }
        let unpushed = flow.take_unpushed();
        let expired = now.since(flow.last_used()) >= self.config.max_idle;
        if unpushed.0 == 0 && (expired || flow.version == version) {
            if expired {
                self.table.remove(index);
                self.stats.flows_expired.add(1);
            }
            return;
        }
        let (n_packets, n_bytes) = unpushed;
        let purpose = Purpose::Revalidate { n_packets, n_bytes };
        let fresh = upcall.translate(&flow.rule.key, purpose, now);
        if expired {
            self.table.remove(index);
            self.stats.flows_expired.add(1);
        } else if !fresh.keep || Match::new(&flow.rule.key, fresh.mask) != flow.rule {
            self.table.remove(index);
            self.stats.flows_corrected.add(1);
        } else {
            flow.version = version;
            if *fresh.actions != *flow.actions {
                self.table.set_actions(index, fresh.actions.into());
                self.stats.flows_corrected.add(1);
            }
        }
    }

    /// Removes the flow at `index` after telling the bridge of its last packets.
    pub(crate) fn retire<U: Upcall + ?Sized>(
        &mut self,
        index: u32,
        upcall: &U,
        now: Nanos,
    ) -> Option<Flow> {
        let mut flow = self.table.remove(index)?;
        let (n_packets, n_bytes) = flow.take_unpushed();
        if flow.origin == Origin::Bridge && n_packets > 0 {
            upcall.translate(&flow.rule.key, Purpose::Revalidate { n_packets, n_bytes }, now);
        }
        Some(flow)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::tests::{Bench, RuleTable, config, output, to_ip, udp};
    use crate::{Action, DumpCursor, PortNo, Ufid};

    /// Flows to `n` addresses, by one packet each.
    fn with_flows(n: u8) -> (Bench, RuleTable) {
        let rules: Vec<_> = (0..n).map(|i| (to_ip(i), output(2))).collect();
        let upcall = RuleTable::new(&rules);
        let mut bench = Bench::new(config());
        let packets: Vec<_> = (0..n).map(|i| udp(i, 9)).collect();
        bench.run(&upcall, &packets, 0);
        (bench, upcall)
    }

    #[test]
    fn idle_flows_expire_and_busy_ones_stay() {
        let (mut bench, upcall) = with_flows(20);
        for _ in 0..12 {
            bench.now.0 += Nanos::from_secs(1).0;
            bench.run(&upcall, &[udp(3, 9)], 0);
            bench.settle(&upcall, 7);
        }
        let (flows, _) = bench.datapath.dump(DumpCursor::default(), 100);
        assert_eq!(flows.len(), 1);
        assert_eq!(flows[0].stats.packets, 13);
        let stats = bench.datapath.stats();
        assert_eq!((stats.flows_expired.get(), stats.flows_corrected.get()), (19, 0));
        assert_eq!(upcall.credited.get().0, 32, "all packets, once each");
    }

    #[test]
    fn the_bridge_hears_of_every_packet_twice_a_second() {
        let (mut bench, upcall) = with_flows(1);
        bench.settle(&upcall, 1);
        assert_eq!(upcall.credited.get(), (1, 60));
        bench.run(&upcall, &[udp(0, 9), udp(0, 9)], 0);
        bench.settle(&upcall, 1);
        assert_eq!(upcall.credited.get(), (1, 60), "not due yet");
        let asked = upcall.asked.get();
        let next = bench.datapath.revalidate(&upcall, bench.now, 1);
        assert_eq!(next.since(bench.now), Nanos::from_millis(500));
        bench.now = next;
        bench.settle(&upcall, 1);
        assert_eq!(upcall.credited.get(), (3, 180));
        bench.now.0 += Nanos::from_secs(1).0;
        bench.settle(&upcall, 1);
        assert_eq!(upcall.asked.get(), asked + 1, "nothing new, nothing asked");
    }

    #[test]
    fn changed_actions_are_changed_in_place() {
        let (mut bench, upcall) = with_flows(2);
        upcall.set(&[(to_ip(0), output(3)), (to_ip(1), output(2))]);
        bench.settle(&upcall, 1);
        let stats = bench.datapath.stats().clone();
        assert_eq!((stats.flows.get(), stats.flows_corrected.get()), (2, 1));
        let out = bench.run(&upcall, &[udp(0, 9), udp(1, 9)], 0);
        assert_eq!((out[2].len(), out[3].len(), stats.misses.get()), (1, 1, 2));
        let ufid =
            Ufid::of(&to_ip(0).with(&crate::Field::IN_PORT, 1).with(&crate::Field::RECIRC_ID, 0));
        assert_eq!(bench.datapath.get(ufid).unwrap().stats.packets, 2, "statistics go on");
    }

    #[test]
    fn flows_that_must_not_stay_go_and_the_cache_knows() {
        let (mut bench, upcall) = with_flows(3);
        bench.run(&upcall, &[udp(1, 9)], 0);
        upcall.keep_none.set(true);
        upcall.set(&[(to_ip(1), output(3))]);
        bench.settle(&upcall, 2);
        let stats = bench.datapath.stats().clone();
        assert_eq!((stats.flows.get(), stats.flows_corrected.get()), (0, 3));
        let out = bench.run(&upcall, &[udp(1, 9)], 0);
        assert_eq!((out[3].len(), stats.misses.get()), (1, 4));
    }

    #[test]
    fn a_flow_that_says_more_of_tags_than_was_looked_at_stays() {
        let tagged = Match::default().with_masked(&crate::Field::VLAN_TCI, 0x1000, 0x1000);
        let rules = [(tagged, output(3)), (to_ip(0), output(2))];
        let upcall = RuleTable::new(&rules);
        let mut bench = Bench::new(config());
        bench.run(&upcall, &[udp(0, 9)], 0);
        upcall.set(&rules);
        bench.settle(&upcall, 1);
        let stats = bench.datapath.stats();
        assert_eq!((stats.flows.get(), stats.flows_corrected.get()), (1, 0));
    }

    #[test]
    fn a_change_during_a_round_prolongs_it() {
        let (mut bench, upcall) = with_flows(10);
        let to = |port| (0..10).map(|i| (to_ip(i), output(port))).collect::<Vec<_>>();
        upcall.set(&to(3));
        for _ in 0..2 {
            assert_eq!(bench.datapath.revalidate(&upcall, bench.now, 4), bench.now);
        }
        upcall.set(&to(4));
        assert_eq!(bench.settle(&upcall, 4), 3, "ten flows, four at a time");
        let (flows, _) = bench.datapath.dump(DumpCursor::default(), 100);
        assert!(flows.iter().all(|flow| *flow.actions == [Action::Output(PortNo(4))]));
    }

    #[test]
    fn manual_flows_stay_as_they_are() {
        let (mut bench, upcall) = with_flows(1);
        let ufid = bench.datapath.add(to_ip(0), output(4).into(), &upcall, bench.now).unwrap();
        upcall.set(&[]);
        bench.now.0 += Nanos::from_secs(100).0;
        bench.settle(&upcall, 10);
        assert_eq!(bench.datapath.stats().flows.get(), 1);
        assert_eq!(*bench.datapath.get(ufid).unwrap().actions, [Action::Output(PortNo(4))]);
    }
}
