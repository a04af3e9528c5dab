//! What has to change so that one topology becomes another.

use core::fmt;

use crate::settings::OnChange;
use crate::{
    Bridge, BridgeName, Control, Datapath, General, IfName, Log, Pmd, Port, Section, Topology, Umem,
};

/// One step from the old topology to the new one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A running daemon cannot have the new value: nothing may be applied.
    RestartRequired {
        /// Section, empty for the keys before the first.
        section: &'static str,
        /// Key.
        key: &'static str,
        /// What runs, as TOML.
        old: String,
        /// What is wanted, as TOML.
        new: String,
    },
    /// Another log level.
    SetLog(Log),
    /// Another mode or group of the control socket.
    SetControl(Control),
    /// Other limits of the flow table.
    SetDatapath(Datapath),
    /// Other settings of the threads.
    SetPmd {
        /// What is wanted.
        pmd: Pmd,
        /// The keys that differ.
        keys: Vec<&'static str>,
    },
    /// Close a port; an [`AddPort`](Self::AddPort) may follow that opens it with another number.
    DelPort(IfName),
    /// Remove a bridge; its ports are gone or moved by the other changes.
    DelBridge(BridgeName),
    /// A new bridge.
    AddBridge(Bridge),
    /// Other settings of a bridge, all of which are live.
    ModifyBridge {
        /// What is wanted.
        bridge: Bridge,
        /// The keys that differ.
        keys: Vec<&'static str>,
    },
    /// Other settings of a port.
    ModifyPort {
        /// What is wanted.
        port: Port,
        /// The keys that differ.
        keys: Vec<&'static str>,
        /// Whether it has to be closed and opened again; else traffic goes on undisturbed.
        recreate: bool,
    },
    /// A new port.
    AddPort(Port),
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RestartRequired { section: "", key, old, new } => {
                write!(f, "{key} cannot change from {old} to {new} without a restart")
            }
            Self::RestartRequired { section, key, old, new } => {
                write!(f, "[{section}] {key} cannot change from {old} to {new} without a restart")
            }
            Self::SetLog(log) => write!(f, "set log level {}", log.level),
            Self::SetControl(_) => f.write_str("set mode and group of the control socket"),
            Self::SetDatapath(_) => f.write_str("set limits of the flow table"),
            Self::SetPmd { keys, .. } => write!(f, "set {} of the threads", keys.join(", ")),
            Self::DelPort(name) => write!(f, "delete port {name}"),
            Self::DelBridge(name) => write!(f, "delete bridge {name}"),
            Self::AddBridge(bridge) => write!(f, "add bridge {}", bridge.name),
            Self::ModifyBridge { bridge, keys } => {
                write!(f, "set {} of bridge {}", keys.join(", "), bridge.name)
            }
            Self::ModifyPort { port, keys, recreate } => {
                let how = if *recreate { "open again with other" } else { "set" };
                write!(f, "{how} {} of port {}", keys.join(", "), port.name)
            }
            Self::AddPort(port) => write!(f, "add port {}", port.name),
        }
    }
}

/// What has to change so that `old` becomes `new`, in an order in which it can be applied: bridges come
/// before the ports that join them, and names and numbers are free before they are taken.
///
/// Both must be [numbered](Topology::numbered), `new` with `old` as the running one. Two topologies
/// that differ in order only are the same.
#[must_use]
pub fn diff(old: &Topology, new: &Topology) -> Vec<Change> {
    let mut changes = Vec::new();
    restart::<General>(&old.general, &new.general, &mut changes);
    restart::<Umem>(&old.umem, &new.umem, &mut changes);
    if old.log != new.log {
        changes.push(Change::SetLog(new.log.clone()));
    }
    if old.control != new.control {
        changes.push(Change::SetControl(new.control.clone()));
    }
    if old.datapath != new.datapath {
        changes.push(Change::SetDatapath(new.datapath.clone()));
    }
    if old.pmd != new.pmd {
        let keys = differing(&old.pmd, &new.pmd).map(|key| key.name).collect();
        changes.push(Change::SetPmd { pmd: new.pmd.clone(), keys });
    }
    let stays = |port: &Port| {
        new.port(port.name.as_str()).is_some_and(|new| effort(port, new) != OnChange::Identity)
    };
    let gone = old.ports.iter().filter(|port| !stays(port));
    changes.extend(gone.map(|port| Change::DelPort(port.name.clone())));
    bridges(old, new, &mut changes);
    ports(old, new, &mut changes);
    let gone = old.bridges.iter().filter(|bridge| new.bridge(bridge.name.as_str()).is_none());
    changes.extend(gone.map(|bridge| Change::DelBridge(bridge.name.clone())));
    changes
}

fn bridges(old: &Topology, new: &Topology, changes: &mut Vec<Change>) {
    for bridge in &new.bridges {
        match old.bridge(bridge.name.as_str()) {
            None => changes.push(Change::AddBridge(bridge.clone())),
            Some(old) if old == bridge => {}
            Some(old) => {
                let keys = differing(old, bridge).map(|key| key.name).collect();
                changes.push(Change::ModifyBridge { bridge: bridge.clone(), keys });
            }
        }
    }
}

fn ports(old: &Topology, new: &Topology, changes: &mut Vec<Change>) {
    let mut added = Vec::new();
    for port in &new.ports {
        match old.port(port.name.as_str()) {
            Some(old) if old == port => {}
            Some(old) if effort(old, port) != OnChange::Identity => {
                let recreate = effort(old, port) != OnChange::Live;
                let keys = differing(old, port).map(|key| key.name).collect();
                changes.push(Change::ModifyPort { port: port.clone(), keys, recreate });
            }
            _ => added.push(Change::AddPort(port.clone())),
        }
    }
    changes.append(&mut added);
}

/// The greatest effort that any of the differing keys needs.
fn effort<S: Section>(old: &S, new: &S) -> OnChange {
    differing(old, new).map(|key| key.on_change).max().unwrap_or(OnChange::Live)
}

fn restart<S: Section>(old: &S, new: &S, changes: &mut Vec<Change>) {
    for key in differing(old, new) {
        let (old, new) = ((key.print)(old), (key.print)(new));
        changes.push(Change::RestartRequired { section: S::NAME, key: key.name, old, new });
    }
}

/// The keys in which two sections differ.
fn differing<'a, S: Section>(
    old: &'a S,
    new: &'a S,
) -> impl Iterator<Item = &'static crate::Key<S>> + 'a {
    S::KEYS.iter().filter(move |key| (key.print)(old) != (key.print)(new))
}
