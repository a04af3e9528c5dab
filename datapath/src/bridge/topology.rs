//! Which bridges there are, with their ports and rules: an immutable snapshot. A change makes a new one.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::PortNo;

use super::fdb::Fdb;
use super::rules::Rules;
use super::{BridgeError, FdbConfig};

/// The most bridges.
pub(super) const MAX_BRIDGES: usize = 128;

/// One bridge. Its MAC table lives on through all snapshots.
#[derive(Clone, Debug)]
pub(super) struct Bridge {
    pub(super) name: Arc<str>,
    /// Sorted.
    pub(super) ports: Vec<PortNo>,
    pub(super) rules: Arc<Rules>,
    fdb: Arc<Mutex<Fdb>>,
}

impl Bridge {
    /// The MAC table; held for one lookup at a time.
    pub(super) fn fdb(&self) -> MutexGuard<'_, Fdb> {
        self.fdb.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn has(&self, port: PortNo) -> bool {
        self.ports.binary_search(&port).is_ok()
    }
}

#[derive(Clone, Debug)]
struct Port {
    name: Arc<str>,
    bridge: Arc<str>,
}

/// All bridges and ports.
#[derive(Clone, Debug, Default)]
pub(super) struct Topology {
    bridges: BTreeMap<Arc<str>, Arc<Bridge>>,
    ports: BTreeMap<PortNo, Port>,
}

impl Topology {
    pub(super) fn bridge(&self, name: &str) -> Result<&Arc<Bridge>, BridgeError> {
        self.bridges.get(name).ok_or_else(|| BridgeError::NoBridge(name.to_owned()))
    }

    pub(super) fn bridges(&self) -> impl Iterator<Item = &Arc<Bridge>> {
        self.bridges.values()
    }

    /// The bridge that a port belongs to.
    pub(super) fn bridge_of(&self, port: PortNo) -> Option<&Arc<Bridge>> {
        self.bridges.get(&self.ports.get(&port)?.bridge)
    }

    pub(super) fn port_no(&self, name: &str) -> Option<PortNo> {
        self.ports.iter().find(|(_, port)| *port.name == *name).map(|(&no, _)| no)
    }

    pub(super) fn port_name(&self, no: PortNo) -> Option<&Arc<str>> {
        self.ports.get(&no).map(|port| &port.name)
    }

    pub(super) fn add_bridge(&mut self, name: &str) -> Result<(), BridgeError> {
        if self.bridges.contains_key(name) {
            return Err(BridgeError::BridgeExists(name.to_owned()));
        }
        if self.bridges.len() >= MAX_BRIDGES {
            return Err(BridgeError::TooManyBridges { max: MAX_BRIDGES });
        }
        let name: Arc<str> = name.into();
        let fdb = Arc::new(Mutex::new(Fdb::new(FdbConfig::default())));
        let rules = Arc::default();
        let bridge = Bridge { name: Arc::clone(&name), ports: Vec::new(), rules, fdb };
        self.bridges.insert(name, Arc::new(bridge));
        Ok(())
    }

    /// Removes a bridge with all its ports.
    pub(super) fn del_bridge(&mut self, name: &str) -> Result<(), BridgeError> {
        self.bridge(name)?;
        self.bridges.remove(name);
        self.ports.retain(|_, port| *port.bridge != *name);
        Ok(())
    }

    pub(super) fn add_port(
        &mut self,
        no: PortNo,
        name: &str,
        bridge: &str,
    ) -> Result<(), BridgeError> {
        if no == PortNo::default() || no > PortNo::MAX {
            return Err(BridgeError::BadPortNo(no));
        }
        if let Some(other) = self.port_name(no) {
            return Err(BridgeError::PortExists(other.to_string()));
        }
        if self.port_no(name).is_some() {
            return Err(BridgeError::PortExists(name.to_owned()));
        }
        let bridge = self.edit(bridge)?;
        let at = bridge.ports.partition_point(|&other| other < no);
        bridge.ports.insert(at, no);
        bridge.fdb().open(no);
        let port = Port { name: name.into(), bridge: Arc::clone(&bridge.name) };
        self.ports.insert(no, port);
        Ok(())
    }

    pub(super) fn del_port(&mut self, no: PortNo) -> Result<Arc<Bridge>, BridgeError> {
        let port = self.ports.remove(&no).ok_or_else(|| BridgeError::NoPort(no.to_string()))?;
        let bridge = self.edit(&port.bridge)?;
        bridge.ports.retain(|&other| other != no);
        self.bridge(&port.bridge).cloned()
    }

    /// This snapshot's own copy of a bridge, to change.
    pub(super) fn edit(&mut self, name: &str) -> Result<&mut Bridge, BridgeError> {
        let bridge = self.bridges.get_mut(name);
        bridge.map(Arc::make_mut).ok_or_else(|| BridgeError::NoBridge(name.to_owned()))
    }
}
