//! The slow path: bridges that decide what happens to packets no flow matches.
//!
//! [`Switch`] is all bridges of the daemon, shared by all threads. What the operator configures is an
//! immutable snapshot: a change prepares a new one and swaps it, so no decision ever mixes old and new.
//! What is learned from packets lies in one MAC table per bridge behind a lock that a decision takes for
//! one lookup. Lock order: writers' lock, then snapshot or MAC table, never both.

mod error;
mod fdb;
mod pace;
mod rule;
mod rule_print;
mod rule_text;
mod rules;
mod switch_rules;
mod table;
mod tags;
mod topology;
mod trace;
mod translate;
mod values;
mod words;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use crate::{FlowKey, MacAddr, Nanos, PortNo, Purpose, Translation, Upcall, VlanId};

pub use error::{BridgeError, RuleError};
pub use fdb::{FdbConfig, FdbRow, FdbStats};
pub use rule::{Rule, RuleAction, RuleFilter, RuleRow};
pub use trace::{Trace, TraceStep, TraceWhat};

use fdb::{Change, Fdb};
use pace::Pace;
use topology::{Bridge, Topology};
use translate::{Context, Limit};

/// All bridges; see the module.
#[derive(Debug)]
pub struct Switch {
    /// Held for cloning or replacing the pointer only.
    topology: RwLock<Arc<Topology>>,
    /// Held by whoever prepares the next snapshot.
    writer: Mutex<()>,
    pace: Pace,
    counts: Counts,
}

/// What decisions met; added to by all threads, on misses only.
#[derive(Debug, Default)]
struct Counts {
    misses: AtomicU64,
    checks: AtomicU64,
    no_bridge: AtomicU64,
    too_deep: AtomicU64,
    too_many_lookups: AtomicU64,
    too_many_actions: AtomicU64,
    /// Decisions that met one of the last three, by bridge.
    limited: Mutex<BTreeMap<Arc<str>, u64>>,
}

/// What decisions met so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SwitchCounters {
    /// Packets that no flow matched.
    pub misses: u64,
    /// Cached flows that were checked.
    pub checks: u64,
    /// Decisions to drop because the port is in no bridge.
    pub no_bridge: u64,
    /// Decisions to drop because tables led to tables more than 64 deep: most likely a loop of rules.
    /// Worth one warning when it becomes non-zero, see [`Switch::limited`].
    pub too_deep: u64,
    /// Decisions to drop because of more than 1024 lookups.
    pub too_many_lookups: u64,
    /// Decisions to drop because of more than 4096 actions, or of more than four tags pushed.
    pub too_many_actions: u64,
}

impl Default for Switch {
    fn default() -> Self {
        Self::new()
    }
}

impl Switch {
    /// No bridges yet.
    #[must_use]
    pub fn new() -> Self {
        Self {
            topology: RwLock::default(),
            writer: Mutex::new(()),
            pace: Pace::new(),
            counts: Counts::default(),
        }
    }

    /// Adds a bridge; without rules it behaves as NORMAL.
    ///
    /// # Errors
    /// The name is taken, or there are 128 bridges.
    pub fn add_bridge(&self, name: &str) -> Result<(), BridgeError> {
        self.change(|topology| topology.add_bridge(name))
    }

    /// Deletes a bridge with its rules, its MAC table and the membership of its ports.
    ///
    /// # Errors
    /// There is none of this name.
    pub fn del_bridge(&self, name: &str) -> Result<(), BridgeError> {
        self.change(|topology| topology.del_bridge(name))
    }

    /// Adds a port to a bridge.
    ///
    /// # Errors
    /// The number is out of range, the number or the name is taken, or there is no such bridge.
    pub fn add_port(&self, no: PortNo, name: &str, bridge: &str) -> Result<(), BridgeError> {
        self.change(|topology| topology.add_port(no, name, bridge))
    }

    /// Takes a port out of its bridge and forgets the addresses behind it.
    ///
    /// # Errors
    /// There is none of this number.
    pub fn del_port(&self, no: PortNo) -> Result<(), BridgeError> {
        let _writer = self.writing();
        let bridge = self.swap(|topology| topology.del_port(no))?;
        // Decisions that began before the swap may have learned on it until here.
        bridge.fdb().close(no);
        self.pace.bump();
        Ok(())
    }

    /// Names of all bridges, sorted.
    #[must_use]
    pub fn bridges(&self) -> Vec<String> {
        self.snapshot().bridges().map(|bridge| bridge.name.to_string()).collect()
    }

    /// The ports of a bridge, by number.
    ///
    /// # Errors
    /// There is no such bridge.
    pub fn ports(&self, bridge: &str) -> Result<Vec<(PortNo, String)>, BridgeError> {
        let topology = self.snapshot();
        let named = |&no: &PortNo| Some((no, topology.port_name(no)?.to_string()));
        Ok(topology.bridge(bridge)?.ports.iter().filter_map(named).collect())
    }

    /// A port's number.
    #[must_use]
    pub fn port_no(&self, name: &str) -> Option<PortNo> {
        self.snapshot().port_no(name)
    }

    /// A port's name.
    #[must_use]
    pub fn port_name(&self, no: PortNo) -> Option<String> {
        self.snapshot().port_name(no).map(|name| name.to_string())
    }

    /// The bridge that a port belongs to.
    #[must_use]
    pub fn bridge_of(&self, no: PortNo) -> Option<String> {
        self.snapshot().bridge_of(no).map(|bridge| bridge.name.to_string())
    }

    /// Ageing and expiry; to be called about once a second.
    pub fn tick(&self, now: Nanos) {
        for bridge in self.snapshot().bridges() {
            let change = bridge.fdb().expire(now);
            self.learned(bridge, change, now);
        }
        self.expire_rules(now);
        self.catch_up(now);
    }

    /// What decisions met so far.
    #[must_use]
    pub fn counters(&self) -> SwitchCounters {
        let counts = &self.counts;
        SwitchCounters {
            misses: counts.misses.load(Relaxed),
            checks: counts.checks.load(Relaxed),
            no_bridge: counts.no_bridge.load(Relaxed),
            too_deep: counts.too_deep.load(Relaxed),
            too_many_lookups: counts.too_many_lookups.load(Relaxed),
            too_many_actions: counts.too_many_actions.load(Relaxed),
        }
    }

    /// The bridges whose rules led decisions to a bound, so that their packets were dropped, and how often.
    #[must_use]
    pub fn limited(&self) -> Vec<(Arc<str>, u64)> {
        let limited = self.counts.limited.lock().unwrap_or_else(PoisonError::into_inner);
        limited.iter().map(|(bridge, &n)| (Arc::clone(bridge), n)).collect()
    }

    /// The MAC table of a bridge, sorted by port, VLAN and address.
    ///
    /// # Errors
    /// There is no such bridge.
    pub fn fdb_rows(&self, bridge: &str, now: Nanos) -> Result<Vec<FdbRow>, BridgeError> {
        Ok(self.bridge(bridge)?.fdb().rows(now))
    }

    /// What has happened to the MAC table of a bridge.
    ///
    /// # Errors
    /// There is no such bridge.
    pub fn fdb_stats(&self, bridge: &str) -> Result<FdbStats, BridgeError> {
        Ok(self.bridge(bridge)?.fdb().stats())
    }

    /// Sets ageing and size of a MAC table; entries in excess are forgotten.
    ///
    /// # Errors
    /// There is no such bridge.
    pub fn set_fdb(&self, bridge: &str, config: FdbConfig) -> Result<(), BridgeError> {
        self.change_fdb(bridge, |fdb| {
            // The version is bumped whatever it was.
            let _ = fdb.configure(config);
            Ok(())
        })
    }

    /// Pins an address to a port of the bridge; learning does not move it and it does not age.
    ///
    /// # Errors
    /// No such bridge or port, a group address, or a table full of static entries.
    pub fn fdb_add(
        &self,
        bridge: &str,
        port: PortNo,
        vlan: VlanId,
        mac: MacAddr,
    ) -> Result<(), BridgeError> {
        self.change_fdb(bridge, |fdb| fdb.add_static((vlan, mac), port))
    }

    /// Forgets an address, static or learned.
    ///
    /// # Errors
    /// There is no such bridge or entry.
    pub fn fdb_del(&self, bridge: &str, vlan: VlanId, mac: MacAddr) -> Result<(), BridgeError> {
        self.change_fdb(bridge, |fdb| {
            if fdb.delete((vlan, mac)) { Ok(()) } else { Err(BridgeError::NoFdbEntry(mac)) }
        })
    }

    /// Forgets all learned addresses of a bridge.
    ///
    /// # Errors
    /// There is no such bridge.
    pub fn fdb_flush(&self, bridge: &str) -> Result<(), BridgeError> {
        self.change_fdb(bridge, |fdb| {
            fdb.flush();
            Ok(())
        })
    }

    fn snapshot(&self) -> Arc<Topology> {
        Arc::clone(&self.topology.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn bridge(&self, name: &str) -> Result<Arc<Bridge>, BridgeError> {
        self.snapshot().bridge(name).cloned()
    }

    fn writing(&self) -> MutexGuard<'_, ()> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change<T>(
        &self,
        edit: impl FnOnce(&mut Topology) -> Result<T, BridgeError>,
    ) -> Result<T, BridgeError> {
        let _writer = self.writing();
        self.swap(edit)
    }

    /// Prepares the next snapshot with `edit`, and swaps it in unless that fails; for one writer.
    fn swap<T>(
        &self,
        edit: impl FnOnce(&mut Topology) -> Result<T, BridgeError>,
    ) -> Result<T, BridgeError> {
        let mut next = Topology::clone(&self.snapshot());
        let result = edit(&mut next)?;
        *self.topology.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(next);
        self.pace.bump();
        Ok(result)
    }

    fn change_fdb(
        &self,
        bridge: &str,
        edit: impl FnOnce(&mut Fdb) -> Result<(), BridgeError>,
    ) -> Result<(), BridgeError> {
        edit(&mut self.bridge(bridge)?.fdb())?;
        self.pace.bump();
        Ok(())
    }

    /// Has flows checked after a change of the MAC table that came from packets or age.
    fn learned(&self, bridge: &Bridge, change: Change, now: Nanos) {
        if change == Change::Flows && self.pace.ask(now) {
            bridge.fdb().forget_missed();
            self.pace.bump();
        }
    }

    /// Does a bump that had to wait.
    fn catch_up(&self, now: Nanos) {
        if self.pace.due(now) {
            self.snapshot().bridges().for_each(|bridge| bridge.fdb().forget_missed());
            self.pace.bump();
        }
    }
}

impl Upcall for Switch {
    fn translate(&self, key: &FlowKey, purpose: Purpose, now: Nanos) -> Translation {
        let topology = self.snapshot();
        let counts = &self.counts;
        match purpose {
            Purpose::Packet | Purpose::Uncached { .. } => counts.misses.fetch_add(1, Relaxed),
            Purpose::Revalidate { .. } => counts.checks.fetch_add(1, Relaxed),
        };
        let Some(bridge) = topology.bridge_of(translate::in_port(key)) else {
            counts.no_bridge.fetch_add(1, Relaxed);
            return translate::nothing(key);
        };
        if translate::is_again(key) {
            return translate::nothing(key);
        }
        let mut context = Context::new(bridge, key, purpose, now);
        context.run();
        if let Some(limit) = context.limit {
            let count = match limit {
                Limit::Depth => &counts.too_deep,
                Limit::Lookups => &counts.too_many_lookups,
                Limit::Actions => &counts.too_many_actions,
            };
            count.fetch_add(1, Relaxed);
            let mut limited = counts.limited.lock().unwrap_or_else(PoisonError::into_inner);
            *limited.entry(Arc::clone(&bridge.name)).or_default() += 1;
        }
        self.learned(bridge, context.change, now);
        self.catch_up(now);
        context.finish()
    }

    fn version(&self) -> u64 {
        self.pace.version()
    }
}
