//! Keeping flows true: they are checked in bounded slices, in a circle over the table.
//!
//! A round over all flows begins when the version of the [`Upcall`] changes, and every so often
//! without a change, so that the bridge hears of flows that live and idle ones go. A change during a
//! round does not begin at the front again: the circle is prolonged until every flow was checked
//! since the change.
//!
//! A change shall have reached every flow within [`ROUND`]. So the calls check as many flows at once as
//! that takes, and where it still takes longer the table is too large for what the thread has to do
//! besides: fewer flows may be in it until rounds are quick again.

use crate::{Datapath, DatapathConfig, Flow, Match, Nanos, Origin, Purpose, Upcall};

/// The longest that a round may take.
const ROUND: Nanos = Nanos::from_secs(1);

/// So many flows may be in the table however long rounds take.
const MIN_BOUND: usize = 1000;

/// A flow of a table with too many goes when no packet came for so long.
const IDLE_IN_A_CROWD: Nanos = Nanos::from_millis(100);

/// Where the circle is.
#[derive(Debug)]
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
    /// How many flows can be checked in [`ROUND`], as far as rounds have shown.
    bound: usize,
}

impl Default for Sweep {
    fn default() -> Self {
        Self {
            cursor: 0,
            remaining: 0,
            version: None,
            started: Nanos(0),
            ranked: Nanos(0),
            bound: DatapathConfig::MAX_FLOWS,
        }
    }
}

impl Datapath {
    /// Checks at most `budget` flows and returns when it wants to be called again: `now` while there
    /// is more to do. Called on every pass, it is cheap when nothing is due.
    ///
    /// After a change of the upcall's version every flow is right as soon as the calls add up to one
    /// table; [`checks_due`](Self::checks_due) is a budget with which that takes half a second.
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
            if self.sweep.remaining == 0 {
                self.end_round(now);
            }
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

    /// How many flows to check in a pass, `elapsed` after the last one, so that a round takes half of
    /// its time.
    #[must_use]
    pub fn checks_due(&self, elapsed: Nanos) -> usize {
        if self.sweep.remaining == 0 {
            return 0;
        }
        let places = self.table.places() as u64;
        let due = places.saturating_mul(elapsed.0) / (ROUND.0 / 2);
        usize::try_from(due).unwrap_or(usize::MAX)
    }

    /// How many flows there may be now: the configured limit, or less while rounds take too long.
    #[must_use]
    pub fn flow_limit(&self) -> usize {
        self.config.flow_limit.min(self.sweep.bound)
    }

    /// Has a round begin, in which the bridge hears of every packet so far.
    pub const fn recheck(&mut self) {
        self.sweep.version = None;
    }

    /// True when every flow has been checked since the last change and the last
    /// [`recheck`](Self::recheck).
    pub fn is_checked<U: Upcall + ?Sized>(&self, upcall: &U) -> bool {
        self.sweep.remaining == 0 && self.sweep.version == Some(upcall.version())
    }

    /// Learns from how long the round took.
    fn end_round(&mut self, now: Nanos) {
        let (n, took) = (self.table.len(), now.since(self.sweep.started));
        if took > ROUND && n >= MIN_BOUND {
            let checkable = (n as u64).saturating_mul(ROUND.0) / took.0;
            self.sweep.bound = usize::try_from(checkable).unwrap_or(n).max(MIN_BOUND);
        } else if took.0 <= ROUND.0 / 2 {
            let grown = self.sweep.bound + self.sweep.bound / 4;
            self.sweep.bound = grown.min(DatapathConfig::MAX_FLOWS);
        }
        let stats = &self.stats;
        stats.round_ns.set(took.0);
        stats.flow_limit.set(self.flow_limit() as u64);
        stats.flows_max.set(stats.flows_max.get().max(n as u64));
        stats.flows_avg.set((stats.flows_avg.get() + n as u64).div_ceil(2));
    }

    /// A flow goes when no packet came for so long.
    fn max_idle(&self) -> Nanos {
        let (n, limit) = (self.table.len(), self.flow_limit());
        if n <= limit {
            self.config.max_idle
        } else if n / 2 <= limit {
            self.config.max_idle.min(IDLE_IN_A_CROWD)
        } else {
            Nanos(0)
        }
    }

    /// Checks the flow at `index`, if there is one and it is the bridge's.
    fn check<U: Upcall + ?Sized>(&mut self, index: u32, upcall: &U, version: u64, now: Nanos) {
        let max_idle = self.max_idle();
        let Some(flow) = self.table.get_mut(index) else { return };
        if flow.origin == Origin::Manual {
            return;
        }
        let unpushed = flow.take_unpushed();
        let expired = now.since(flow.last_used()) >= max_idle;
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

    /// Rules that have addresses and ports looked at, and all packets sent to a port.
    fn looking(port: u32) -> [(Match, Vec<Action>); 2] {
        let nobody =
            Match::default().with(&crate::Field::IPV4_DST, 0).with(&crate::Field::TP_DST, 0xffff);
        [(nobody, Vec::new()), (Match::default(), output(port))]
    }

    /// So many flows, each of a packet to an address and port of its own.
    fn with_many(n: u32) -> (Bench, RuleTable) {
        let upcall = RuleTable::new(&looking(2));
        let mut bench = Bench::new(config());
        let address = |i| u8::try_from(i / 50_000).unwrap();
        let port = |i| u16::try_from(i % 50_000).unwrap();
        let packets: Vec<_> = (0..n).map(|i| udp(address(i), port(i))).collect();
        packets.chunks(256).for_each(|packets| _ = bench.run(&upcall, packets, 0));
        assert_eq!(bench.datapath.stats().flows.get(), n.into());
        (bench, upcall)
    }

    /// Rounds of passes of this length, until all flows are checked; how long that took.
    fn round(bench: &mut Bench, upcall: &RuleTable, pass: Nanos) -> Nanos {
        let start = bench.now;
        bench.datapath.recheck();
        while !bench.datapath.is_checked(upcall) {
            let checks = bench.datapath.checks_due(pass).clamp(64, 512);
            bench.datapath.revalidate(upcall, bench.now, checks);
            bench.now.0 += pass.0;
        }
        bench.now.since(start)
    }

    #[test]
    fn two_hundred_thousand_flows_follow_a_change_within_a_second() {
        let (mut bench, upcall) = with_many(200_000);
        for (pass, port) in [(Nanos(20_000), 3), (Nanos(1_000_000), 4)] {
            upcall.set(&looking(port));
            let took = round(&mut bench, &upcall, pass);
            assert!(took < Nanos::from_millis(600), "{took:?}");
            assert_eq!(bench.datapath.flow_limit(), 200_000, "that is quick enough");
        }
        assert_eq!(bench.datapath.stats().flows_corrected.get(), 400_000);
        upcall.set(&[]);
        round(&mut bench, &upcall, Nanos(20_000));
        assert_eq!(
            bench.datapath.stats().flows.get(),
            0,
            "those that look at more than they must go"
        );
    }

    #[test]
    fn slow_rounds_lower_the_limit_and_quick_ones_raise_it() {
        let (mut bench, upcall) = with_many(20_000);
        // 512 flows in 100 ms.
        round(&mut bench, &upcall, Nanos::from_millis(100));
        let limit = bench.datapath.flow_limit();
        assert!((4_900..5_300).contains(&limit), "{limit} flows can be checked in a second");
        assert_eq!(bench.datapath.stats().flow_limit.get(), limit as u64);
        // More than twice as many as there may be: they go, used or not.
        round(&mut bench, &upcall, Nanos(20_000));
        let flows = usize::try_from(bench.datapath.stats().flows.get()).unwrap();
        assert!(flows <= 2 * bench.datapath.flow_limit() && flows >= limit, "{flows} flows");
        for _ in 0..12 {
            round(&mut bench, &upcall, Nanos(20_000));
        }
        assert!(bench.datapath.flow_limit() > 40_000, "{}", bench.datapath.flow_limit());
        for _ in 0..30 {
            round(&mut bench, &upcall, Nanos(20_000));
        }
        assert_eq!(bench.datapath.flow_limit(), 200_000, "what is configured");
    }

    #[test]
    fn a_thread_that_was_stopped_with_few_flows_keeps_its_limit() {
        let (mut bench, upcall) = with_flows(20);
        bench.datapath.recheck();
        bench.datapath.revalidate(&upcall, bench.now, 10);
        bench.now.0 += Nanos::from_secs(5).0;
        bench.settle(&upcall, 10);
        assert_eq!(bench.datapath.flow_limit(), 200_000);
        assert_eq!(bench.datapath.stats().round_ns.get(), Nanos::from_secs(5).0);
    }

    #[test]
    fn flows_in_excess_of_a_lowered_limit_go_when_idle() {
        let (mut bench, upcall) = with_flows(20);
        bench.datapath.configure(DatapathConfig { flow_limit: 15, ..config() });
        bench.run(&upcall, &[udp(3, 9)], 0);
        bench.now.0 += Nanos::from_millis(200).0;
        bench.run(&upcall, &[udp(4, 9), udp(5, 9)], 0);
        bench.datapath.recheck();
        bench.settle(&upcall, 7);
        let (flows, _) = bench.datapath.dump(DumpCursor::default(), 100);
        assert_eq!(flows.len(), 15);
        assert_eq!(flows.iter().filter(|flow| flow.stats.packets == 2).count(), 2);
    }
}
