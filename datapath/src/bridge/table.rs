//! One table of rules: the rule with the highest priority for a key, and no more of the key looked at
//! than needed to be sure.
//!
//! Rules with the same mask form a subtable, a hash map. Subtables are visited by falling highest
//! priority until none can hold a better rule, so one that only has lower rules is not looked at. Within
//! a subtable a key is looked at in stages, from what all packets of a flow share to what differs most: a
//! stage that no rule has ends the visit before the later ones are looked at. And of a field with a
//! prefix mask, only so many leading bits are looked at as tell the key from all rules.
//!
//! Each bit that decides what is looked at next is itself looked at: keys that agree in what was looked
//! at lead to the same rule **and** the same bits. The fast path relies on it when it checks a flow.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::{Field, FlowKey, FlowMask};

use super::rule::{Installed, Rule};

/// The fields by stage. All decisions look at the first stage; the last holds what is not named.
const STAGES: [&[Field]; 4] = [
    &[Field::IN_PORT, Field::RECIRC_ID, Field::ETH_TYPE],
    &[Field::VLAN_TCI, Field::ETH_SRC, Field::ETH_DST],
    &[Field::IP_PROTO, Field::IP_FRAG],
    &[
        Field::IPV4_SRC,
        Field::IPV4_DST,
        Field::IPV6_SRC,
        Field::IPV6_DST,
        Field::IP_TOS,
        Field::IP_TTL,
        Field::IPV6_LABEL,
    ],
];

/// What is in the place of a rule after an edit; none if it was removed.
pub(super) type Edited = Option<Arc<Installed>>;

/// All rules of a table.
#[derive(Clone, Debug, Default)]
pub(super) struct Table {
    /// By falling highest priority.
    subtables: Vec<Arc<Subtable>>,
}

impl Table {
    /// The rule for a key. What was looked at is added to `looked`.
    pub(super) fn find(&self, key: &FlowKey, looked: &mut FlowMask) -> Option<&Installed> {
        let mut best: Option<&Installed> = None;
        for subtable in &self.subtables {
            if best.is_some_and(|best| best.rule.priority >= subtable.max_priority) {
                break;
            }
            let found = subtable.find(key, looked);
            // The subtable's best rule would be better; the one that was found may be not.
            let better = found
                .filter(|found| best.is_none_or(|best| found.rule.priority > best.rule.priority));
            best = better.or(best);
        }
        best
    }

    pub(super) fn rules(&self) -> impl Iterator<Item = &Arc<Installed>> {
        self.subtables.iter().flat_map(|subtable| subtable.rules.values().flatten())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.subtables.is_empty()
    }

    /// Adds a rule in place of one with the same match and priority, which is returned.
    pub(super) fn insert(&mut self, rule: Arc<Installed>) -> Option<Arc<Installed>> {
        let mask = rule.rule.matching.mask;
        let at = self.subtables.iter().position(|subtable| subtable.mask == mask);
        let old = match at.and_then(|at| self.subtables.get_mut(at)) {
            Some(subtable) => Arc::make_mut(subtable).insert(rule),
            None => {
                let mut subtable = Subtable::new(mask);
                subtable.insert(rule);
                self.subtables.push(Arc::new(subtable));
                None
            }
        };
        self.rank();
        old
    }

    /// Replaces each rule by what `edit` makes of it, with the same match and priority, or removes it;
    /// returns how many changed.
    pub(super) fn edit(&mut self, edit: &mut dyn FnMut(&Arc<Installed>) -> Edited) -> usize {
        let mut n_changed = 0;
        for subtable in &mut self.subtables {
            let all: Vec<_> = subtable.rules.values().flatten().cloned().collect();
            for old in all {
                match edit(&old) {
                    None => Arc::make_mut(subtable).remove(&old.rule),
                    Some(new) if Arc::ptr_eq(&new, &old) => continue,
                    Some(new) => {
                        Arc::make_mut(subtable).insert(new);
                    }
                }
                n_changed += 1;
            }
            let priorities = subtable.rules.values().flatten().map(|rule| rule.rule.priority);
            let max = priorities.max().unwrap_or(0);
            if max != subtable.max_priority {
                Arc::make_mut(subtable).max_priority = max;
            }
        }
        self.rank();
        n_changed
    }

    fn rank(&mut self) {
        self.subtables.retain(|subtable| !subtable.rules.is_empty());
        self.subtables.sort_by_key(|subtable| core::cmp::Reverse(subtable.max_priority));
    }
}

/// Rules with the same mask.
#[derive(Clone, Debug)]
struct Subtable {
    mask: FlowMask,
    max_priority: u16,
    stages: Vec<Stage>,
    /// By masked key; those with the same match by falling priority.
    rules: HashMap<FlowKey, Vec<Arc<Installed>>>,
}

impl Subtable {
    fn new(mask: FlowMask) -> Self {
        Self { mask, max_priority: 0, stages: Stage::of(&mask), rules: HashMap::new() }
    }

    fn find(&self, key: &FlowKey, looked: &mut FlowMask) -> Option<&Installed> {
        if !self.stages.iter().all(|stage| stage.admits(key, looked)) {
            return None;
        }
        looked.union(&self.mask);
        self.rules.get(&key.masked(&self.mask))?.first().map(Arc::as_ref)
    }

    fn insert(&mut self, rule: Arc<Installed>) -> Option<Arc<Installed>> {
        let priority = rule.rule.priority;
        self.max_priority = self.max_priority.max(priority);
        let key = rule.rule.matching.key;
        let same = self.rules.entry(key).or_default();
        let at = same.partition_point(|other| other.rule.priority > priority);
        match same.get_mut(at) {
            Some(other) if other.rule.priority == priority => Some(core::mem::replace(other, rule)),
            _ => {
                same.insert(at, rule);
                self.stages.iter_mut().for_each(|stage| stage.count(&key, 1));
                None
            }
        }
    }

    /// Takes a rule out; the highest priority is for the caller to work out again.
    fn remove(&mut self, rule: &Rule) {
        let key = rule.matching.key;
        let Some(same) = self.rules.get_mut(&key) else { return };
        let before = same.len();
        same.retain(|other| other.rule.priority != rule.priority);
        let n_removed = before - same.len();
        if same.is_empty() {
            self.rules.remove(&key);
        }
        for _ in 0..n_removed {
            self.stages.iter_mut().for_each(|stage| stage.count(&key, -1));
        }
    }
}

/// What a subtable's rules look like up to a stage.
#[derive(Clone, Debug)]
struct Stage {
    /// The subtable's mask up to this stage.
    mask: FlowMask,
    /// Fields of this stage of which the mask has a proper prefix, or all.
    prefixes: Vec<Prefixes>,
    /// How many rules there are for each key, masked.
    keys: HashMap<FlowKey, usize>,
}

impl Stage {
    /// The stages at which a key may turn out to match no rule of a mask; the last field excepted, for
    /// which the rules themselves are asked.
    fn of(mask: &FlowMask) -> Vec<Self> {
        let mut stages: Vec<Self> = Vec::new();
        let mut upto = FlowMask::default();
        for fields in STAGES {
            let before = upto;
            fields.iter().for_each(|field| upto.add_bits(field, mask.get(field)));
            if upto != before {
                let prefixes = fields.iter().filter_map(|field| Prefixes::of(field, mask));
                let prefixes = prefixes.collect();
                stages.push(Self { mask: upto, prefixes, keys: HashMap::new() });
            }
        }
        stages
    }

    /// True when some rule is like this key up to here.
    fn admits(&self, key: &FlowKey, looked: &mut FlowMask) -> bool {
        for prefixes in &self.prefixes {
            let (admits, bits) = prefixes.admit(key.get(&prefixes.field));
            looked.add_bits(&prefixes.field, bits);
            if !admits {
                return false;
            }
        }
        looked.union(&self.mask);
        self.keys.contains_key(&key.masked(&self.mask))
    }

    fn count(&mut self, key: &FlowKey, by: isize) {
        let masked = key.masked(&self.mask);
        let n = self.keys.entry(masked).or_default();
        *n = n.saturating_add_signed(by);
        if *n == 0 {
            self.keys.remove(&masked);
        }
        for prefixes in &mut self.prefixes {
            prefixes.count(key, by);
        }
    }
}

/// The values that a subtable's rules want of one address field; all have the same prefix length.
#[derive(Clone, Debug)]
struct Prefixes {
    field: Field,
    mask: u128,
    values: BTreeMap<u128, usize>,
}

impl Prefixes {
    fn of(field: &Field, mask: &FlowMask) -> Option<Self> {
        const FIELDS: [Field; 4] =
            [Field::IPV4_SRC, Field::IPV4_DST, Field::IPV6_SRC, Field::IPV6_DST];
        let mask = mask.get(field);
        let is_prefix = mask != 0 && leading(field, mask.count_ones()) == mask;
        let new = || Self { field: *field, mask, values: BTreeMap::new() };
        (is_prefix && FIELDS.contains(field)).then(new)
    }

    /// Whether some rule wants this value, and the leading bits that show it.
    fn admit(&self, value: u128) -> (bool, u128) {
        let value = value & self.mask;
        if self.values.contains_key(&value) {
            return (true, self.mask);
        }
        // The neighbours in order have the longest prefix in common with it.
        let below = self.values.range(..value).next_back();
        let above = self.values.range(value..).next();
        let common = |(other, _): (&u128, _)| {
            (value ^ other).leading_zeros() - (u128::BITS - self.field.bits)
        };
        let longest = below.map(common).max(above.map(common));
        (false, longest.map_or(0, |n| leading(&self.field, n + 1)))
    }

    fn count(&mut self, key: &FlowKey, by: isize) {
        let value = key.get(&self.field);
        let n = self.values.entry(value).or_default();
        *n = n.saturating_add_signed(by);
        if *n == 0 {
            self.values.remove(&value);
        }
    }
}

/// The `n` leading bits of a field.
fn leading(field: &Field, n: u32) -> u128 {
    field.max() & !field.max().checked_shr(n).unwrap_or(0)
}
