//! The MAC table of one bridge: which address was last seen on which port, per VLAN.
//!
//! It is bounded. When it is full, the entry that was unused for longest on the port with the most
//! entries makes room, so that a flood of invented addresses on one port displaces itself and not
//! the hosts elsewhere. Every change says whether a cached flow may depend on what changed (see
//! [`Change`]): entries note that they were looked up as destination, and a small filter notes the
//! destinations that were looked up in vain. A flood of sources nobody sends to changes no flow.

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher, RandomState};

use crate::{MacAddr, Nanos, PortNo, VlanId};

use super::BridgeError;

/// The bounds of a MAC table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FdbConfig {
    /// An entry unused for so long is forgotten.
    pub ageing: Nanos,
    /// The most entries, static ones included; at least 1.
    pub capacity: usize,
}

impl Default for FdbConfig {
    /// 300 s and 8192 entries, as Open vSwitch.
    fn default() -> Self {
        Self { ageing: Nanos::from_secs(300), capacity: 8192 }
    }
}

/// One row of the table, to show.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FdbRow {
    /// Where the address is.
    pub port: PortNo,
    /// Its VLAN.
    pub vlan: VlanId,
    /// The address.
    pub mac: MacAddr,
    /// Whole seconds since it was last seen; `None` for a static entry.
    pub age_s: Option<u64>,
}

/// What has happened to the table so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FdbStats {
    /// Entries now.
    pub n_entries: usize,
    /// Of these, static ones.
    pub n_static: usize,
    /// The bound.
    pub capacity: usize,
    /// Addresses learned.
    pub learned: u64,
    /// Entries forgotten because of their age.
    pub expired: u64,
    /// Entries that made room for others.
    pub evicted: u64,
    /// Addresses seen on another port than before.
    pub moved: u64,
}

/// What a change of the table means for cached flows.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// No flow depends on it.
    None,
    /// Some flow may have been decided otherwise now.
    Flows,
}

impl Change {
    fn when(stale: bool) -> Self {
        if stale { Self::Flows } else { Self::None }
    }
}

type Host = (VlanId, MacAddr);

#[derive(Clone, Copy, Debug)]
struct Entry {
    port: PortNo,
    used: Nanos,
    /// Key in the port's order of use; static entries have none.
    stamp: Option<u64>,
    /// Some flow was decided by this entry.
    is_target: bool,
}

/// Destinations that were looked up and not found, hashed into a bitmap: no false negatives.
#[derive(Debug)]
struct Missed {
    hasher: RandomState,
    bits: Box<[u64]>,
}

impl Missed {
    const WORDS: u64 = 1024;

    fn new() -> Self {
        Self { hasher: RandomState::new(), bits: (0..Self::WORDS).map(|_| 0).collect() }
    }

    fn place(&self, host: Host) -> (usize, u64) {
        let hash = self.hasher.hash_one(host);
        (usize::try_from((hash >> 6) % Self::WORDS).unwrap_or(0), 1 << (hash & 63))
    }

    fn add(&mut self, host: Host) {
        let (word, bit) = self.place(host);
        if let Some(word) = self.bits.get_mut(word) {
            *word |= bit;
        }
    }

    fn has(&self, host: Host) -> bool {
        let (word, bit) = self.place(host);
        self.bits.get(word).is_some_and(|word| word & bit != 0)
    }
}

/// The table.
#[derive(Debug)]
pub(super) struct Fdb {
    config: FdbConfig,
    entries: HashMap<Host, Entry>,
    /// The bridge's ports, each with its learned entries, least recently used first.
    ports: BTreeMap<PortNo, BTreeMap<u64, Host>>,
    next_stamp: u64,
    missed: Missed,
    stats: FdbStats,
}

impl Fdb {
    pub(super) fn new(config: FdbConfig) -> Self {
        let mut fdb = Self {
            config,
            entries: HashMap::new(),
            ports: BTreeMap::new(),
            next_stamp: 0,
            missed: Missed::new(),
            stats: FdbStats::default(),
        };
        // An empty table has nothing that could change.
        let _ = fdb.configure(config);
        fdb
    }

    /// Sets new bounds; entries in excess make room at once.
    pub(super) fn configure(&mut self, config: FdbConfig) -> Change {
        self.config = FdbConfig { capacity: config.capacity.max(1), ..config };
        let mut stale = false;
        while self.entries.len() > self.config.capacity {
            match self.evict() {
                Some(change) => stale |= change == Change::Flows,
                None => break,
            }
        }
        Change::when(stale)
    }

    /// Addresses may be learned on `port` from now on.
    pub(super) fn open(&mut self, port: PortNo) {
        self.ports.entry(port).or_default();
    }

    /// Forgets all that is on `port`; nothing is learned there any more.
    pub(super) fn close(&mut self, port: PortNo) {
        self.ports.remove(&port);
        self.entries.retain(|_, entry| entry.port != port);
        self.stats.n_static = self.entries.values().filter(|entry| entry.stamp.is_none()).count();
    }

    /// Notes that `mac` sends from `port`. Does nothing for group and zero addresses, static
    /// entries, unknown ports, and when only static entries could make room.
    pub(super) fn learn(&mut self, host: Host, port: PortNo, now: Nanos) -> Change {
        if !self.may_learn(host, port) {
            self.refresh(host, port, now);
            return Change::None;
        }
        let mut change = Change::when(self.missed.has(host));
        let old = self.remove(host);
        if old.is_some() {
            self.stats.moved += 1;
            // Its flows at the old place would let it return there unseen.
            change = Change::Flows;
        } else {
            self.stats.learned += 1;
            if self.entries.len() >= self.config.capacity && self.evict() == Some(Change::Flows) {
                change = Change::Flows;
            }
        }
        let stamp = self.stamp(host, port);
        let is_target = old.is_some_and(|old| old.is_target);
        self.entries.insert(host, Entry { port, used: now, stamp, is_target });
        change
    }

    /// True when [`learn`](Self::learn) would do more than refresh an entry.
    pub(super) fn may_learn(&self, host: Host, port: PortNo) -> bool {
        let (_, mac) = host;
        if mac.is_multicast() || mac == MacAddr::default() || !self.ports.contains_key(&port) {
            return false;
        }
        match self.entries.get(&host) {
            Some(entry) => entry.stamp.is_some() && entry.port != port,
            None => self.stats.n_static < self.config.capacity,
        }
    }

    /// Notes that the address is alive, if it was learned on this port.
    pub(super) fn refresh(&mut self, host: Host, port: PortNo, now: Nanos) {
        let Some(entry) = self.entries.get_mut(&host) else { return };
        let (true, Some(stamp)) = (entry.port == port, entry.stamp) else { return };
        entry.used = entry.used.max(now);
        let Some(order) = self.ports.get_mut(&port) else { return };
        order.remove(&stamp);
        order.insert(self.next_stamp, host);
        entry.stamp = Some(self.next_stamp);
        self.next_stamp += 1;
    }

    /// Where the address is; a flow is about to depend on the answer.
    pub(super) fn find(&mut self, host: Host) -> Option<PortNo> {
        if let Some(entry) = self.entries.get_mut(&host) {
            entry.is_target = true;
            return Some(entry.port);
        }
        self.missed.add(host);
        None
    }

    /// Where the address is; nothing depends on the answer.
    pub(super) fn peek(&self, host: Host) -> Option<PortNo> {
        self.entries.get(&host).map(|entry| entry.port)
    }

    /// All flows are about to be checked, each of which will note again what it depends on. To be
    /// called before the version is bumped.
    pub(super) fn forget_missed(&mut self) {
        self.missed.bits.fill(0);
    }

    /// Forgets entries that were not used for the ageing time.
    pub(super) fn expire(&mut self, now: Nanos) -> Change {
        let mut stale = false;
        let ageing = self.config.ageing;
        for order in self.ports.values_mut() {
            while let Some(first) = order.first_entry() {
                let host = *first.get();
                if self.entries.get(&host).is_some_and(|entry| now.since(entry.used) < ageing) {
                    break;
                }
                first.remove();
                stale |= self.entries.remove(&host).is_some_and(|entry| entry.is_target);
                self.stats.expired += 1;
            }
        }
        Change::when(stale)
    }

    /// Pins an address to a port, whatever is learned.
    pub(super) fn add_static(&mut self, host: Host, port: PortNo) -> Result<(), BridgeError> {
        let (_, mac) = host;
        if mac.is_multicast() || mac == MacAddr::default() {
            return Err(BridgeError::NotAHost(mac));
        }
        if !self.ports.contains_key(&port) {
            return Err(BridgeError::NoPort(port.to_string()));
        }
        if self.remove(host).is_none()
            && self.entries.len() >= self.config.capacity
            && self.evict().is_none()
        {
            return Err(BridgeError::FdbFull { max: self.config.capacity });
        }
        self.stats.n_static += 1;
        let used = Nanos::default();
        self.entries.insert(host, Entry { port, used, stamp: None, is_target: false });
        Ok(())
    }

    /// Forgets one entry, static or learned; false when there is none.
    pub(super) fn delete(&mut self, host: Host) -> bool {
        self.remove(host).is_some()
    }

    /// Forgets all learned entries.
    pub(super) fn flush(&mut self) {
        self.entries.retain(|_, entry| entry.stamp.is_none());
        self.ports.values_mut().for_each(BTreeMap::clear);
    }

    /// All entries, sorted by port, VLAN and address.
    pub(super) fn rows(&self, now: Nanos) -> Vec<FdbRow> {
        let row = |(&(vlan, mac), entry): (&Host, &Entry)| FdbRow {
            port: entry.port,
            vlan,
            mac,
            age_s: entry.stamp.map(|_| now.since(entry.used).0 / 1_000_000_000),
        };
        let mut rows: Vec<_> = self.entries.iter().map(row).collect();
        rows.sort_unstable();
        rows
    }

    pub(super) fn stats(&self) -> FdbStats {
        FdbStats { n_entries: self.entries.len(), capacity: self.config.capacity, ..self.stats }
    }

    /// A new place at the end of the port's order of use.
    fn stamp(&mut self, host: Host, port: PortNo) -> Option<u64> {
        let stamp = self.next_stamp;
        self.next_stamp += 1;
        self.ports.get_mut(&port)?.insert(stamp, host);
        Some(stamp)
    }

    fn remove(&mut self, host: Host) -> Option<Entry> {
        let entry = self.entries.remove(&host)?;
        match entry.stamp {
            Some(stamp) => {
                self.ports.get_mut(&entry.port).and_then(|order| order.remove(&stamp));
            }
            None => self.stats.n_static = self.stats.n_static.saturating_sub(1),
        }
        Some(entry)
    }

    /// Makes room for one entry; `None` when all are static.
    fn evict(&mut self) -> Option<Change> {
        let order = self.ports.values_mut().max_by_key(|order| order.len())?;
        let (_, host) = order.pop_first()?;
        self.stats.evicted += 1;
        let entry = self.entries.remove(&host);
        Some(Change::when(entry.is_some_and(|entry| entry.is_target)))
    }
}
