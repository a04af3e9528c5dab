//! Tuple-space search: which flow matches a key, by one hash lookup for each distinct mask.
//!
//! Flows of one mask make a subtable. The subtables are searched one after the other, those that
//! were hit most first; the first hit wins, as flows have no priorities: the bridge makes flows
//! that agree wherever they overlap.

use core::cmp::Reverse;

use crate::hash::{HashIndex, mix, short};
use crate::key::SHORT;
use crate::slab::Slab;
use crate::{FlowKey, FlowMask, Match, N_WORDS};

/// A word of a mask that is not zero, and where it is; beyond those that most packets use.
#[derive(Clone, Copy, Debug)]
struct MaskWord {
    at: usize,
    mask: u64,
}

/// All flows of one mask.
#[derive(Debug)]
struct Subtable {
    /// All of the mask for flows of IPv4, of a fixed length: no look at a list.
    short: [u64; SHORT],
    rest: Box<[MaskWord]>,
    index: HashIndex,
    hits: u32,
    mask: FlowMask,
}

impl Subtable {
    fn new(mask: FlowMask) -> Self {
        let mut short = [0; SHORT];
        short.iter_mut().zip(mask.words()).for_each(|(short, word)| *short = *word);
        let words = mask.words().iter().enumerate().skip(SHORT).filter(|&(_, &mask)| mask != 0);
        let rest = words.map(|(at, &mask)| MaskWord { at, mask }).collect();
        Self { short, rest, index: HashIndex::default(), hits: 0, mask }
    }

    #[inline]
    fn hash(&self, seed: u64, key: &[u64; N_WORDS]) -> u32 {
        let masked = |word: &MaskWord| key.get(word.at).copied().unwrap_or(0) & word.mask;
        let words = self.short.iter().zip(key);
        let hash = words.fold(seed, |hash, (mask, word)| mix(hash, mask & word));
        short(self.rest.iter().fold(hash, |hash, word| mix(hash, masked(word))))
    }

    /// True when the keys agree in all bits that matter.
    #[inline]
    fn agree(&self, a: &[u64; N_WORDS], b: &[u64; N_WORDS]) -> bool {
        let differ = |word: &MaskWord| match (a.get(word.at), b.get(word.at)) {
            (Some(a), Some(b)) => (a ^ b) & word.mask,
            _ => 0,
        };
        let words = self.short.iter().zip(a.iter().zip(b));
        let short = words.fold(0, |acc, (mask, (a, b))| acc | (a ^ b) & mask);
        self.rest.iter().fold(short, |acc, word| acc | differ(word)) == 0
    }

    #[inline]
    fn find(&self, seed: u64, key: &FlowKey, flows: &Slab) -> Option<u32> {
        let is_it = |index| {
            flows.get(index).is_some_and(|flow| self.agree(key.words(), flow.rule.key.words()))
        };
        self.index.find(self.hash(seed, key.words()), is_it)
    }
}

/// Finds flows by key; knows them by their index in the slab.
#[derive(Debug)]
pub(crate) struct Classifier {
    subtables: Vec<Subtable>,
    seed: u64,
}

impl Classifier {
    /// An empty classifier; `seed` is what hashes start from.
    pub(crate) const fn new(seed: u64) -> Self {
        Self { subtables: Vec::new(), seed }
    }

    /// The first flow that matches, adding to `visited` how many subtables were searched.
    #[inline]
    pub(crate) fn lookup(&mut self, key: &FlowKey, flows: &Slab, visited: &mut u64) -> Option<u32> {
        for subtable in &mut self.subtables {
            *visited += 1;
            if let Some(index) = subtable.find(self.seed, key, flows) {
                subtable.hits = subtable.hits.saturating_add(1);
                return Some(index);
            }
        }
        None
    }

    /// The first flow that matches, and how many subtables are searched for it; counts nothing.
    pub(crate) fn peek(&self, key: &FlowKey, flows: &Slab) -> (Option<u32>, usize) {
        let found = self.subtables.iter().enumerate().find_map(|(before, subtable)| {
            Some((subtable.find(self.seed, key, flows)?, before + 1))
        });
        found.map_or((None, self.subtables.len()), |(index, n)| (Some(index), n))
    }

    /// How many distinct masks there are.
    pub(crate) const fn n_subtables(&self) -> usize {
        self.subtables.len()
    }

    fn position(&self, mask: &FlowMask) -> Option<usize> {
        self.subtables.iter().position(|subtable| subtable.mask == *mask)
    }

    /// Adds a flow; the caller has made sure that there is none with this match.
    pub(crate) fn insert(&mut self, rule: &Match, index: u32) {
        let at = self.position(&rule.mask).unwrap_or_else(|| {
            self.subtables.push(Subtable::new(rule.mask));
            self.subtables.len() - 1
        });
        if let Some(subtable) = self.subtables.get_mut(at) {
            let hash = subtable.hash(self.seed, rule.key.words());
            subtable.index.insert(hash, index);
        }
    }

    /// Removes a flow, and its subtable with the last one.
    pub(crate) fn remove(&mut self, rule: &Match, index: u32) {
        let Some(at) = self.position(&rule.mask) else { return };
        if let Some(subtable) = self.subtables.get_mut(at) {
            let hash = subtable.hash(self.seed, rule.key.words());
            subtable.index.remove(hash, index);
            if subtable.index.len() == 0 {
                self.subtables.remove(at);
            }
        }
    }

    /// Moves the subtables that were hit most to the front. Older hits count less each time.
    pub(crate) fn rank(&mut self) {
        self.subtables.sort_unstable_by_key(|subtable| Reverse(subtable.hits));
        for subtable in &mut self.subtables {
            subtable.hits /= 2;
        }
    }
}
