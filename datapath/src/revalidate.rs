//! Keeping flows true: they are checked in bounded slices, in a circle over the table.
//!
//! A round over all flows begins when the version of the [`Upcall`] changes, and every so often
//! without a change, so that the bridge hears of flows that live and idle ones go. A change during a
//! round does not begin at the front again: the circle is prolonged until every flow was checked
//! since the change.

use crate::{Datapath, Flow, Nanos, Origin, Purpose, Upcall};

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
        } else if !fresh.keep || fresh.mask != flow.rule.mask {
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
