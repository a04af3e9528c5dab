//! Bridges: their MAC tables and their rules.
//!
//! Rules come last in a change of the topology, as they may name ports. They are tried on a scratch
//! switch first, so that setting them cannot fail half-way.

use slog::warn;
use xvs_config::{Bridge as Settings, Topology};
use xvs_datapath::{BridgeError, FdbConfig, Nanos, Switch};

use super::{Error, Switchd};
use crate::ctl::{CtlError, RuleInfo, RuleMatch};

fn fdb_config(bridge: &Settings) -> FdbConfig {
    FdbConfig {
        ageing: Nanos::from_secs(bridge.mac_aging_s.into()),
        capacity: bridge.mac_table_size as usize,
    }
}

fn put_rules(switch: &Switch, bridge: &Settings, now: Nanos) -> Result<(), BridgeError> {
    let texts: Vec<_> = bridge.rules.iter().map(|rule| rule.text.as_str()).collect();
    switch.replace_rules(bridge.name.as_str(), &texts, now)
}

/// Finds out whether bridges, ports and rules of a topology fit together.
pub(super) fn check(wanted: &Topology) -> Result<(), Error> {
    let scratch = Switch::new();
    for bridge in &wanted.bridges {
        scratch.add_bridge(bridge.name.as_str())?;
    }
    for port in &wanted.ports {
        scratch.add_port(port.number(), port.name.as_str(), port.bridge.as_str())?;
    }
    for bridge in &wanted.bridges {
        put_rules(&scratch, bridge, Nanos(0)).map_err(|error| refused(bridge, error))?;
    }
    Ok(())
}

/// Says which rule of which bridge, and on which line of the file it stands.
fn refused(bridge: &Settings, error: BridgeError) -> Error {
    let BridgeError::Rule { text, why } = error else { return Error::Bridge(error) };
    Error::Rule {
        bridge: bridge.name.to_string(),
        line: bridge.rules.iter().find(|rule| rule.text == text).map(|rule| rule.line),
        rule: text,
        why: why.to_string(),
    }
}

/// A bridge whose rules went in circles is told of again after so long without.
const LOOP_OVER: Nanos = Nanos::from_secs(60);

impl Switchd {
    /// Says once of a bridge that its rules led packets to a bound.
    pub(super) fn warn_of_loops(&mut self, now: Nanos) {
        for (bridge, n) in self.switch.limited() {
            let told = self.limited.get(&bridge).copied();
            if told.is_some_and(|(before, _)| before == n) {
                continue;
            }
            if told.is_none_or(|(_, at)| now.since(at) > LOOP_OVER) {
                warn!(
                    self.log,
                    "bridge {bridge}: packets are dropped because rules lead them through too many tables, \
                     most likely in a circle; see its rules and the counters bridge_too_*"
                );
            }
            self.limited.insert(bridge, (n, now));
        }
    }

    /// Adds a bridge. One that is to have rules drops everything until it has them.
    pub(super) fn add_bridge(&mut self, bridge: &Settings) -> Result<(), Error> {
        let name = bridge.name.as_str();
        self.switch.add_bridge(name)?;
        if !bridge.rules.is_empty() {
            self.switch.add_rules(name, &["actions=drop"], self.clock.now())?;
        }
        Ok(self.switch.set_fdb(name, fdb_config(bridge))?)
    }

    /// Changes the limits of a bridge's MAC table.
    pub(super) fn modify_bridge(&mut self, bridge: &Settings) -> Result<(), Error> {
        Ok(self.switch.set_fdb(bridge.name.as_str(), fdb_config(bridge))?)
    }

    /// Removes a bridge without ports.
    pub(super) fn del_bridge(&mut self, name: &str) -> Result<(), Error> {
        Ok(self.switch.del_bridge(name)?)
    }

    /// Puts the configured rules of a bridge in place of all that it has.
    pub(super) fn set_rules(&mut self, bridge: &Settings) -> Result<(), Error> {
        put_rules(&self.switch, bridge, self.clock.now()).map_err(|error| refused(bridge, error))
    }

    /// The rules of a bridge.
    pub(super) fn rule_infos(&self, bridge: &str) -> Result<Vec<RuleInfo>, CtlError> {
        let rows = self.switch.rules(bridge, "", self.clock.now()).map_err(Error::Bridge)?;
        let info = |row: xvs_datapath::RuleRow| RuleInfo {
            table: row.rule.table,
            priority: row.rule.priority,
            cookie: row.rule.cookie,
            packets: row.n_packets,
            bytes: row.n_bytes,
            duration_ms: row.duration.0 / 1_000_000,
            idle_timeout: row.rule.idle_timeout,
            hard_timeout: row.rule.hard_timeout,
            match_text: row.rule.match_text(),
            actions: row.rule.actions_text(),
        };
        Ok(rows.into_iter().map(info).collect())
    }

    /// Adds rules, all or none.
    pub(super) fn add_bridge_rules(&self, bridge: &str, rules: &[String]) -> Result<(), CtlError> {
        for rule in rules {
            let rule = self.switch.parse_rule(bridge, rule).map_err(Error::Bridge)?;
            self.check_meters(&rule)?;
        }
        Ok(self.switch.add_rules(bridge, rules, self.clock.now()).map_err(Error::Bridge)?)
    }

    /// Removes the rules that are meant; returns how many.
    pub(super) fn del_bridge_rules(
        &self,
        bridge: &str,
        which: &RuleMatch,
    ) -> Result<u64, CtlError> {
        let n = self.switch.del_rules(bridge, &which.text, which.strict).map_err(Error::Bridge)?;
        Ok(n as u64)
    }
}
