//! The one place that changes the running switch: applies the difference of two topologies.
//!
//! All or nothing: what can be checked is checked first; when a step fails nevertheless, the same
//! machinery leads back from what was reached to what was running.

use slog::{error, info};
use xvs_config::{Bridge, Change, Port, Topology, diff};

use super::{Error, Switchd, bridges};

impl Switchd {
    /// Makes `wanted` the running topology; returns what changed, one line each.
    ///
    /// # Errors
    /// Why not; the old topology is in force then.
    pub fn become_topology(&mut self, wanted: Topology) -> Result<Vec<String>, Error> {
        let wanted = wanted.numbered(Some(&self.running));
        wanted.check().map_err(Error::Config)?;
        let changes = diff(&self.running, &wanted);
        self.check_changes(&changes, &wanted)?;
        let before = self.running.clone();
        if let Err(error) = self.apply_all(&changes) {
            self.go_back(&before);
            return Err(error);
        }
        // The same sections in the order of the new file.
        self.running = wanted;
        self.generation += 1;
        let lines: Vec<_> = changes.iter().map(Change::to_string).collect();
        for line in &lines {
            info!(self.log, "configuration: {line}"; "generation" => self.generation);
        }
        Ok(lines)
    }

    /// What `wanted` would change, one line each, after all checks that do not touch the running switch.
    ///
    /// # Errors
    /// Why it could not be applied.
    pub fn check_topology(&self, wanted: Topology) -> Result<Vec<String>, Error> {
        let wanted = wanted.numbered(Some(&self.running));
        wanted.check().map_err(Error::Config)?;
        let changes = diff(&self.running, &wanted);
        self.check_changes(&changes, &wanted)?;
        Ok(changes.iter().map(Change::to_string).collect())
    }

    /// Refuses what is known to fail, before anything is changed.
    fn check_changes(&self, changes: &[Change], wanted: &Topology) -> Result<(), Error> {
        bridges::check(wanted)?;
        for change in changes {
            match change {
                Change::RestartRequired { .. } => return Err(Error::Restart(change.to_string())),
                Change::AddPort(port) | Change::ModifyPort { port, recreate: true, .. } => {
                    self.check_device(port)?;
                }
                Change::SetLog(_)
                | Change::SetControl(_)
                | Change::SetDatapath(_)
                | Change::SetPmd { .. }
                | Change::DelPort(_)
                | Change::DelBridge(_)
                | Change::AddBridge(_)
                | Change::ModifyBridge { .. }
                | Change::ModifyPort { .. } => {}
            }
        }
        Ok(())
    }

    /// Applies changes in their order, then the rules, which may name ports, and opens the new ports
    /// last: none forwards before the rules that govern it.
    fn apply_all(&mut self, changes: &[Change]) -> Result<(), Error> {
        for change in changes {
            self.apply(change)?;
            adopt(&mut self.running, change);
        }
        changes.iter().filter_map(new_rules).try_for_each(|bridge| self.set_rules(bridge))?;
        changes.iter().filter_map(new_port).try_for_each(|port| self.open_port(port))
    }

    fn apply(&mut self, change: &Change) -> Result<(), Error> {
        match change {
            Change::RestartRequired { .. } => Err(Error::Restart(change.to_string())),
            Change::SetLog(log) => {
                self.level.set(crate::log::level(log.level));
                Ok(())
            }
            Change::SetControl(control) => {
                self.control_changed = Some(control.clone());
                Ok(())
            }
            Change::SetDatapath(datapath) => self.set_datapath(datapath),
            Change::SetPmd { pmd, keys } => self.set_pmd(pmd, keys.contains(&"cpu-mask")),
            Change::DelPort(name) => self.close_port(name.as_str()),
            Change::AddPort(port) => self.add_port(port.clone()),
            Change::ModifyPort { port, recreate: true, .. } => {
                self.close_port(port.name.as_str())?;
                self.add_port(port.clone())
            }
            Change::ModifyPort { port, .. } => self.modify_port(port),
            Change::AddBridge(bridge) => self.add_bridge(bridge),
            Change::ModifyBridge { bridge, .. } => self.modify_bridge(bridge),
            Change::DelBridge(name) => self.del_bridge(name.as_str()),
        }
    }

    /// Leads back to `before` as far as possible. A step that fails here is logged and left out: a port
    /// that cannot be opened again waits and is retried.
    fn go_back(&mut self, before: &Topology) {
        let changes = diff(&self.running, before);
        for change in &changes {
            if let Err(error) = self.apply(change) {
                error!(self.log, "cannot go back: {change}: {error}");
            }
        }
        for bridge in changes.iter().filter_map(new_rules) {
            if let Err(error) = self.set_rules(bridge) {
                error!(self.log, "cannot go back: {error}");
            }
        }
        self.running = before.clone();
        self.retry_ports(self.clock.now());
    }
}

/// The bridge that a change gives other rules.
fn new_rules(change: &Change) -> Option<&Bridge> {
    if let Change::AddBridge(bridge) = change {
        return Some(bridge);
    }
    let Change::ModifyBridge { bridge, keys } = change else { return None };
    keys.contains(&"rules").then_some(bridge)
}

/// The port that a change leaves to be opened.
fn new_port(change: &Change) -> Option<&Port> {
    if let Change::AddPort(port) = change {
        return Some(port);
    }
    let Change::ModifyPort { port, recreate: true, .. } = change else { return None };
    Some(port)
}

/// Does to a topology what was just done to the switch.
fn adopt(running: &mut Topology, change: &Change) {
    match change {
        Change::RestartRequired { .. } => {}
        Change::SetLog(log) => running.log = log.clone(),
        Change::SetControl(control) => running.control = control.clone(),
        Change::SetDatapath(datapath) => running.datapath = datapath.clone(),
        Change::SetPmd { pmd, .. } => running.pmd = pmd.clone(),
        Change::DelPort(name) => running.ports.retain(|port| port.name != *name),
        Change::DelBridge(name) => running.bridges.retain(|bridge| bridge.name != *name),
        Change::AddBridge(bridge) => running.bridges.push(bridge.clone()),
        Change::AddPort(port) => running.ports.push(port.clone()),
        Change::ModifyBridge { bridge, .. } => {
            for old in running.bridges.iter_mut().filter(|old| old.name == bridge.name) {
                *old = bridge.clone();
            }
        }
        Change::ModifyPort { port, .. } => {
            for old in running.ports.iter_mut().filter(|old| old.name == port.name) {
                *old = port.clone();
            }
        }
    }
}
