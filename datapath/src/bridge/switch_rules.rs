//! The rules of the switch's bridges: read, added, changed, removed. Each call is one swap of snapshots:
//! all of it or nothing, and no packet is decided by a part of it.

use std::sync::Arc;

use crate::{Nanos, PortNo};

use super::rule::{Rule, RuleFilter, RuleRow};
use super::rules::Rules;
use super::topology::Topology;
use super::{BridgeError, RuleError, Switch, rule_text};

impl Switch {
    /// Reads a rule as `ovs-ofctl add-flow` does; ports may be named.
    ///
    /// # Errors
    /// No such bridge, or what is wrong with the text.
    pub fn parse_rule(&self, bridge: &str, text: &str) -> Result<Rule, BridgeError> {
        self.read(bridge, text, |ports| rule_text::rule(text, ports))
    }

    /// Reads which rules are meant, as `ovs-ofctl del-flows` does; empty means all.
    ///
    /// # Errors
    /// No such bridge, or what is wrong with the text.
    pub fn parse_filter(
        &self,
        bridge: &str,
        text: &str,
        strict: bool,
    ) -> Result<RuleFilter, BridgeError> {
        self.read(bridge, text, |ports| rule_text::filter(text, strict, ports))
    }

    /// Adds rules, each in place of one with the same table, priority and match, whose statistics go
    /// with it. All or none.
    ///
    /// # Errors
    /// No such bridge, the first text that cannot be read, or more than 100,000 rules.
    pub fn add_rules(
        &self,
        bridge: &str,
        texts: &[impl AsRef<str>],
        now: Nanos,
    ) -> Result<(), BridgeError> {
        let new = self.parse_rules(bridge, texts)?;
        self.change_rules(bridge, |rules| rules.add(new, now))
    }

    /// Puts these rules in place of all rules of the bridge. All or nothing.
    ///
    /// # Errors
    /// As [`add_rules`](Self::add_rules).
    pub fn replace_rules(
        &self,
        bridge: &str,
        texts: &[impl AsRef<str>],
        now: Nanos,
    ) -> Result<(), BridgeError> {
        let new = self.parse_rules(bridge, texts)?;
        self.change_rules(bridge, |rules| {
            *rules = Rules::default();
            rules.add(new, now)
        })
    }

    /// Removes the rules that are meant: those with exactly this match and priority if `strict`, else
    /// all whose match is at least as specific. Returns how many.
    ///
    /// # Errors
    /// No such bridge, or what is wrong with the text.
    pub fn del_rules(&self, bridge: &str, text: &str, strict: bool) -> Result<usize, BridgeError> {
        let filter = self.parse_filter(bridge, text, strict)?;
        self.change_rules(bridge, |rules| Ok(rules.delete(&filter)))
    }

    /// The rules that are meant (see [`del_rules`](Self::del_rules)), by table and falling priority.
    ///
    /// # Errors
    /// No such bridge, or what is wrong with the text.
    pub fn rules(&self, bridge: &str, text: &str, now: Nanos) -> Result<Vec<RuleRow>, BridgeError> {
        let filter = self.parse_filter(bridge, text, false)?;
        Ok(self.bridge(bridge)?.rules.rows(&filter, now))
    }

    /// How many rules a bridge has.
    ///
    /// # Errors
    /// There is no such bridge.
    pub fn n_rules(&self, bridge: &str) -> Result<usize, BridgeError> {
        Ok(self.bridge(bridge)?.rules.len())
    }

    /// Removes rules whose time is over.
    pub(super) fn expire_rules(&self, now: Nanos) {
        for bridge in self.snapshot().bridges().filter(|bridge| bridge.rules.have_expired(now)) {
            // The bridge may have gone meanwhile, and its rules with it.
            let _ = self.change_rules(&bridge.name, |rules| Ok(rules.expire(now)));
        }
    }

    fn parse_rules(
        &self,
        bridge: &str,
        texts: &[impl AsRef<str>],
    ) -> Result<Vec<Rule>, BridgeError> {
        texts.iter().map(|text| self.parse_rule(bridge, text.as_ref())).collect()
    }

    /// Reads a text in which ports of the bridge may be named.
    fn read<T>(
        &self,
        bridge: &str,
        text: &str,
        parse: impl FnOnce(rule_text::Ports<'_>) -> Result<T, RuleError>,
    ) -> Result<T, BridgeError> {
        let topology = self.snapshot();
        let bridge = topology.bridge(bridge)?;
        let port = |name: &str| topology.port_no(name).filter(|&no: &PortNo| bridge.has(no));
        parse(&port).map_err(|why| BridgeError::Rule { text: text.to_owned(), why })
    }

    fn change_rules<T>(
        &self,
        bridge: &str,
        edit: impl FnOnce(&mut Rules) -> Result<T, BridgeError>,
    ) -> Result<T, BridgeError> {
        self.change(|topology: &mut Topology| {
            edit(Arc::make_mut(&mut topology.edit(bridge)?.rules))
        })
    }
}
