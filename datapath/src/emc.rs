//! The exact-match cache: from a whole key to its flow in one probe.
//!
//! 8192 entries in sets of two. An entry may refer to a flow that is gone: the reference tells, and
//! the entry is a miss and the first to be replaced. Only some of the packets that miss are inserted,
//! so that many short flows do not push out the few long ones.

use core::hint::black_box;

use crate::slab::FlowRef;
use crate::{FlowKey, N_WORDS};

/// Sets of two entries; a power of two.
const SETS: usize = 4096;

/// Keys that use more words are not cached: neighbour discovery, and what actions have marked.
const MAX_USED: usize = 13;

/// One key and its flow: two cache lines, of which a key of IPv4 needs the first only.
///
/// `used` is how many words the key uses, and above these [`USED_BITS`] in which age it was inserted.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
struct Entry {
    hash: u32,
    used: u32,
    flow: FlowRef,
    words: [u64; MAX_USED],
}

/// Bits of a number up to [`N_WORDS`].
const USED_BITS: u32 = usize::BITS - N_WORDS.leading_zeros();

const EMPTY: Entry = Entry { hash: 0, used: 0, flow: FlowRef::NONE, words: [0; MAX_USED] };

impl Entry {
    #[inline]
    fn is(&self, hash: u32, used: u32, key: &FlowKey) -> bool {
        self.hash == hash && self.used == used && key.has(&self.words)
    }
}

/// The cache of one thread.
#[derive(Debug)]
pub(crate) struct Emc {
    sets: Box<[[Entry; 2]]>,
    /// A miss is inserted when a random number is at most this; `None` is never.
    threshold: Option<u32>,
    /// Entries of earlier ages are forgotten.
    age: u32,
    random: u64,
}

impl Emc {
    /// An empty cache that is off.
    pub(crate) fn new(seed: u64) -> Self {
        Self { sets: vec![[EMPTY; 2]; SETS].into(), threshold: None, age: 0, random: seed | 1 }
    }

    /// Changes how many misses are inserted: one in `one_in`; 0 switches the cache off.
    pub(crate) fn insert_one_in(&mut self, one_in: u32) {
        self.threshold = u32::MAX.checked_div(one_in);
    }

    /// Forgets everything: at once, but for one in 2^27 times.
    pub(crate) fn clear(&mut self) {
        self.age = (self.age + 1) % (1 << (u32::BITS - USED_BITS));
        if self.age == 0 {
            self.sets.fill([EMPTY; 2]);
        }
    }

    /// What [`Entry::used`] is for the key now.
    #[inline]
    #[allow(clippy::cast_possible_truncation, reason = "at most N_WORDS")]
    const fn used(&self, key: &FlowKey) -> u32 {
        (self.age << USED_BITS) | key.used() as u32
    }

    #[inline]
    const fn set(hash: u32) -> usize {
        hash as usize & (SETS - 1)
    }

    /// What the cache has for the key; the flow may be gone.
    #[inline]
    pub(crate) fn lookup(&self, hash: u32, key: &FlowKey) -> Option<FlowRef> {
        self.threshold?;
        let [first, second] = self.sets.get(Self::set(hash))?;
        let used = self.used(key);
        if first.is(hash, used, key) {
            return Some(first.flow);
        }
        second.is(hash, used, key).then_some(second.flow)
    }

    /// Has what the cache may have for a key of this hash on its way from memory. A load for whose value
    /// nothing waits does that, and needs no unsafe code.
    #[inline]
    pub(crate) fn prefetch(&self, hash: u32) {
        black_box(self.sets.get(Self::set(hash)).map_or(0, |[first, _]| first.hash));
    }

    /// Offers what the slower lookup found; sometimes inserts it, in place of an entry of the same key
    /// or of a flow that is gone if there is one.
    #[inline]
    pub(crate) fn offer(
        &mut self,
        hash: u32,
        key: &FlowKey,
        flow: FlowRef,
        is_live: impl Fn(FlowRef) -> bool,
    ) {
        let random = self.next_random();
        let fits = key.used() <= MAX_USED;
        if fits && self.threshold.is_some_and(|threshold| random <= threshold) {
            self.insert(hash, key, flow, is_live);
        }
    }

    #[inline(never)]
    fn insert(
        &mut self,
        hash: u32,
        key: &FlowKey,
        flow: FlowRef,
        is_live: impl Fn(FlowRef) -> bool,
    ) {
        let (coin, used) = (self.random >> 63 == 0, self.used(key));
        let Some(words) = key.words().first_chunk() else { return };
        let Some([first, second]) = self.sets.get_mut(Self::set(hash)) else { return };
        let age = self.age;
        let is_free = |entry: &Entry| entry.used >> USED_BITS != age || !is_live(entry.flow);
        let victim = if first.is(hash, used, key) {
            first
        } else if second.is(hash, used, key) || is_free(second) {
            second
        } else if is_free(first) || coin {
            first
        } else {
            second
        };
        *victim = Entry { hash, used, flow, words: *words };
    }

    /// Xorshift: good enough to pick victims, and cheap.
    #[inline]
    #[allow(clippy::cast_possible_truncation, reason = "takes the upper half")]
    const fn next_random(&mut self) -> u32 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 32) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Field;

    fn key(port: u16) -> FlowKey {
        let mut key = FlowKey::default();
        key.set(&Field::TP_SRC, u128::from(port));
        key
    }

    fn emc(one_in: u32) -> Emc {
        let mut emc = Emc::new(1);
        emc.insert_one_in(one_in);
        emc
    }

    fn real(flow: FlowRef) -> bool {
        flow != FlowRef::NONE
    }

    fn flow(index: u32) -> FlowRef {
        FlowRef { index, generation: 0 }
    }

    #[test]
    fn entry_is_two_cache_lines() {
        assert_eq!((size_of::<Entry>(), align_of::<Entry>()), (128, 64));
    }

    #[test]
    fn finds_exactly_what_was_inserted() {
        let mut emc = emc(1);
        emc.offer(5, &key(1), flow(1), real);
        emc.offer(5, &key(2), flow(2), real);
        assert_eq!(emc.lookup(5, &key(1)), Some(flow(1)));
        assert_eq!(emc.lookup(5, &key(2)), Some(flow(2)));
        assert_eq!(emc.lookup(5, &key(3)), None, "same hash, other key");
        assert_eq!(emc.lookup(5, &FlowKey::default()), None, "a prefix is not the key");
        emc.offer(5, &key(1), flow(9), real);
        assert_eq!(emc.lookup(5, &key(1)), Some(flow(9)), "replaced, not doubled");
        assert_eq!(emc.lookup(5, &key(2)), Some(flow(2)));
        emc.clear();
        assert_eq!(emc.lookup(5, &key(1)), None);
        emc.offer(5, &key(1), flow(1), real);
        assert_eq!(emc.lookup(5, &key(1)), Some(flow(1)));
        emc.age = u32::MAX >> USED_BITS;
        emc.clear();
        emc.age = 1;
        assert_eq!(emc.lookup(5, &key(1)), None, "ages come again, entries do not");
    }

    #[test]
    fn keys_that_are_too_long_are_not_cached() {
        let mut emc = emc(1);
        for (field, cached) in [(&Field::SKB_MARK, true), (&Field::SKB_PRIORITY, false)] {
            let mut key = key(1);
            key.set(field, 1);
            emc.offer(5, &key, flow(1), real);
            assert_eq!(emc.lookup(5, &key).is_some(), cached, "{}", field.name);
        }
    }

    #[test]
    fn dead_flows_are_replaced_first() {
        let mut emc = emc(1);
        for round in 0..20 {
            emc.offer(5, &key(1), flow(1), real);
            emc.offer(5, &key(2), flow(2), real);
            let dead = flow(1 + round % 2);
            emc.offer(5, &key(3), flow(3), |flow| real(flow) && flow != dead);
            assert_eq!(emc.lookup(5, &key(3)), Some(flow(3)));
            let live = 3 - dead.index;
            let port = u16::try_from(live).unwrap();
            assert_eq!(emc.lookup(5, &key(port)), Some(flow(live)), "the live one stays");
            emc.clear();
        }
    }

    #[test]
    fn inserts_as_often_as_told() {
        let inserted = |one_in| {
            let mut emc = emc(one_in);
            (0..20_000u32)
                .filter(|&i| {
                    emc.clear_set(i);
                    emc.offer(i, &key(1), flow(i), real);
                    emc.lookup(i, &key(1)).is_some()
                })
                .count()
        };
        assert_eq!(inserted(0), 0);
        assert_eq!(inserted(1), 20_000);
        let hundredth = inserted(100);
        assert!((120..300).contains(&hundredth), "{hundredth} of 20000 with 1/100");
    }

    #[test]
    fn off_finds_nothing() {
        let mut emc = emc(1);
        emc.offer(5, &key(1), flow(1), real);
        emc.insert_one_in(0);
        assert_eq!(emc.lookup(5, &key(1)), None);
    }

    impl Emc {
        fn clear_set(&mut self, hash: u32) {
            self.sets[Self::set(hash)] = [EMPTY; 2];
        }
    }
}
