//! All rules of a bridge, by table: an immutable part of the snapshot. A change edits a copy, which
//! shares what it does not touch.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::{FlowKey, FlowMask, Nanos};

use super::BridgeError;
use super::rule::{Installed, Rule, RuleFilter, RuleRow};
use super::table::{Edited, Table};

/// The most rules of a bridge.
pub(super) const MAX_RULES: usize = 100_000;

/// The rules; without any the bridge behaves as NORMAL.
#[derive(Clone, Debug, Default)]
pub(super) struct Rules {
    tables: BTreeMap<u8, Table>,
    len: usize,
    /// How many have a timeout.
    n_timed: usize,
}

impl Rules {
    pub(super) const fn len(&self) -> usize {
        self.len
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The rule for a key; what was looked at is added to `looked`.
    pub(super) fn find(
        &self,
        table: u8,
        key: &FlowKey,
        looked: &mut FlowMask,
    ) -> Option<&Installed> {
        self.tables.get(&table)?.find(key, looked)
    }

    /// Adds rules, each in place of one with the same table, priority and match.
    pub(super) fn add(&mut self, rules: Vec<Rule>, now: Nanos) -> Result<(), BridgeError> {
        for rule in rules {
            let table = self.tables.entry(rule.table).or_default();
            let new = Installed::new(rule, now);
            self.n_timed += usize::from(new.is_timed());
            match table.insert(Arc::new(new)) {
                Some(old) => self.n_timed -= usize::from(old.is_timed()),
                None => self.len += 1,
            }
        }
        if self.len > MAX_RULES {
            return Err(BridgeError::TooManyRules { max: MAX_RULES });
        }
        Ok(())
    }

    /// Removes the rules that are meant.
    pub(super) fn delete(&mut self, filter: &RuleFilter) -> usize {
        self.edit(&mut |old| (!filter.means(&old.rule)).then(|| Arc::clone(old)))
    }

    /// Removes the rules whose time is over.
    pub(super) fn expire(&mut self, now: Nanos) -> usize {
        self.edit(&mut |old| (!old.is_expired(now)).then(|| Arc::clone(old)))
    }

    /// True when [`expire`](Self::expire) would remove some rule.
    pub(super) fn have_expired(&self, now: Nanos) -> bool {
        self.n_timed > 0 && self.iter().any(|rule| rule.is_expired(now))
    }

    /// The rules that are meant, by table, falling priority, and match.
    pub(super) fn rows(&self, filter: &RuleFilter, now: Nanos) -> Vec<RuleRow> {
        let meant = self.iter().filter(|rule| filter.means(&rule.rule));
        let mut rows: Vec<_> = meant.map(|rule| rule.row(now)).collect();
        rows.sort_by_cached_key(|RuleRow { rule, .. }| {
            (rule.table, core::cmp::Reverse(rule.priority), rule.match_text())
        });
        rows
    }

    fn iter(&self) -> impl Iterator<Item = &Arc<Installed>> {
        self.tables.values().flat_map(Table::rules)
    }

    fn edit(&mut self, edit: &mut dyn FnMut(&Arc<Installed>) -> Edited) -> usize {
        let n_changed = self.tables.values_mut().map(|table| table.edit(edit)).sum();
        self.tables.retain(|_, table| !table.is_empty());
        self.len = self.iter().count();
        self.n_timed = self.iter().filter(|rule| rule.is_timed()).count();
        n_changed
    }
}
