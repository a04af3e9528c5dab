//! Hashing of key words, and the open-addressing index that the classifier and the ufid lookup share.
//!
//! The hash multiplies to 128 bits and folds: two instructions for each word and every input bit
//! reaches every output bit. It starts from a secret seed, so that a sender of packets cannot choose
//! keys that collide.

const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

/// Mixes one word into a hash.
#[inline]
#[allow(clippy::cast_possible_truncation, reason = "takes both halves of the product")]
pub(crate) const fn mix(hash: u64, word: u64) -> u64 {
    let product = (hash ^ word) as u128 * (MULTIPLIER | 1) as u128;
    (product as u64) ^ ((product >> 64) as u64)
}

/// Hash of some words.
#[inline]
pub(crate) fn hash_words(seed: u64, words: &[u64]) -> u64 {
    words.iter().fold(seed, |hash, &word| mix(hash, word))
}

/// The 32 bits by which a [`HashIndex`] knows a hash.
#[inline]
#[allow(clippy::cast_possible_truncation, reason = "takes both halves")]
pub(crate) const fn short(hash: u64) -> u32 {
    (hash ^ (hash >> 32)) as u32
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    hash: u32,
    value: u32,
}

const EMPTY: Slot = Slot { hash: 0, value: u32::MAX };

/// Maps 32-bit hashes to numbers below `u32::MAX`; equal hashes may map to several, which the caller
/// tells apart by what the numbers stand for.
///
/// Linear probing, at most three quarters full, doubling; removal moves later entries up, so that
/// there are no tombstones and a table that has churned is as fast as a new one. It never shrinks.
#[derive(Debug)]
pub(crate) struct HashIndex {
    slots: Box<[Slot]>,
    len: usize,
}

impl Default for HashIndex {
    fn default() -> Self {
        Self { slots: vec![EMPTY; 8].into(), len: 0 }
    }
}

impl HashIndex {
    /// How many entries there are.
    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    /// The place of the hash in an empty table.
    #[inline]
    const fn home(&self, hash: u32) -> usize {
        hash as usize & (self.slots.len() - 1)
    }

    #[inline]
    const fn after(&self, at: usize) -> usize {
        (at + 1) & (self.slots.len() - 1)
    }

    #[inline]
    fn at(&self, at: usize) -> Slot {
        self.slots.get(at).copied().unwrap_or(EMPTY)
    }

    fn put(&mut self, at: usize, slot: Slot) {
        if let Some(place) = self.slots.get_mut(at) {
            *place = slot;
        }
    }

    /// The number with this hash for which `is_it` holds.
    #[inline]
    pub(crate) fn find(&self, hash: u32, mut is_it: impl FnMut(u32) -> bool) -> Option<u32> {
        let mut at = self.home(hash);
        loop {
            let slot = self.at(at);
            if slot.value == EMPTY.value {
                return None;
            }
            if slot.hash == hash && is_it(slot.value) {
                return Some(slot.value);
            }
            at = self.after(at);
        }
    }

    /// Adds an entry; the caller has made sure that it is not there.
    pub(crate) fn insert(&mut self, hash: u32, value: u32) {
        if (self.len + 1) * 4 > self.slots.len() * 3 {
            let bigger = vec![EMPTY; self.slots.len() * 2].into();
            let old = core::mem::replace(&mut self.slots, bigger);
            for slot in old.iter().filter(|slot| slot.value != EMPTY.value) {
                self.place(*slot);
            }
        }
        self.place(Slot { hash, value });
        self.len += 1;
    }

    fn place(&mut self, slot: Slot) {
        let mut at = self.home(slot.hash);
        while self.at(at).value != EMPTY.value {
            at = self.after(at);
        }
        self.put(at, slot);
    }

    /// Removes the entry; false when there is none.
    pub(crate) fn remove(&mut self, hash: u32, value: u32) -> bool {
        let mut hole = self.home(hash);
        loop {
            match self.at(hole).value {
                v if v == value => break,
                v if v == EMPTY.value => return false,
                _ => hole = self.after(hole),
            }
        }
        let mut at = self.after(hole);
        while self.at(at).value != EMPTY.value {
            let slot = self.at(at);
            // May the entry move up to the hole? Only if its home is not between the two.
            let from_home = at.wrapping_sub(self.home(slot.hash)) & (self.slots.len() - 1);
            let from_hole = at.wrapping_sub(hole) & (self.slots.len() - 1);
            if from_home >= from_hole {
                self.put(hole, slot);
                hole = at;
            }
            at = self.after(at);
        }
        self.put(hole, EMPTY);
        self.len -= 1;
        true
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Few hash values, so that probe sequences overlap and wrap around.
        #[test]
        fn index_is_a_multimap(ops in prop::collection::vec((any::<bool>(), 0u32..40, 0u32..6), 1..400)) {
            let mut index = HashIndex::default();
            let mut oracle = HashMap::new();
            for (add, value, hash) in ops {
                let hash = hash.wrapping_mul(5).wrapping_sub(3);
                if add {
                    if let std::collections::hash_map::Entry::Vacant(entry) = oracle.entry(value) {
                        entry.insert(hash);
                        index.insert(hash, value);
                    }
                } else if let Some(hash) = oracle.remove(&value) {
                    prop_assert!(index.remove(hash, value));
                } else {
                    prop_assert!(!index.remove(hash, value));
                }
                prop_assert_eq!(index.len(), oracle.len());
                for (&value, &hash) in &oracle {
                    prop_assert_eq!(index.find(hash, |v| v == value), Some(value));
                    prop_assert_eq!(index.find(hash.wrapping_add(1), |v| v == value), None);
                }
            }
        }
    }

    #[test]
    fn every_bit_spreads() {
        for bit in 0..64 {
            let differ = (hash_words(1, &[0, 1 << bit]) ^ hash_words(1, &[0, 0])).count_ones();
            assert!(differ >= 8, "bit {bit} changes {differ} bits");
        }
    }
}
