//! The signature cache: from the hash of a whole key to the place of its flow, in six bytes a key.
//!
//! It remembers 262,144 keys in 2 MiB, where the exact-match cache remembers 8192 in 1 MiB, for it keeps
//! 16 bits of the hash instead of the key. Two keys may have the same signature, and another flow may
//! have taken the place: the caller checks each answer against the key. So it saves the search through
//! many subtables, not the look at the flow.

use core::hint::black_box;

/// Buckets; a power of two, chosen by the lower half of the hash.
const BUCKETS: usize = 1 << 16;

/// Keys of a bucket.
const WAYS: usize = 4;

/// Four keys: half a cache line.
#[derive(Clone, Copy, Debug)]
#[repr(align(32))]
struct Bucket {
    signatures: [u16; WAYS],
    flows: [u32; WAYS],
}

/// The place of no flow.
const NONE: u32 = u32::MAX;

const EMPTY: Bucket = Bucket { signatures: [0; WAYS], flows: [NONE; WAYS] };

/// The cache of one thread.
#[derive(Debug, Default)]
pub(crate) struct Smc {
    /// None while it is off.
    buckets: Box<[Bucket]>,
}

/// Bucket and signature of a key with this hash.
#[inline]
#[allow(clippy::cast_possible_truncation, reason = "takes both halves")]
const fn split(hash: u32) -> (usize, u16) {
    (hash as u16 as usize & (BUCKETS - 1), (hash >> 16) as u16)
}

impl Smc {
    /// Switches it on, empty, or off; without a change it keeps what it has. Allocates: not on the packet
    /// path.
    pub(crate) fn enable(&mut self, on: bool) {
        if on == self.buckets.is_empty() {
            self.buckets = if on { vec![EMPTY; BUCKETS].into() } else { Box::default() };
        }
    }

    /// The place of a flow with a key of this hash for which `is_it` holds.
    #[inline]
    pub(crate) fn lookup(&self, hash: u32, mut is_it: impl FnMut(u32) -> bool) -> Option<u32> {
        let (bucket, signature) = split(hash);
        let Bucket { signatures, flows } = self.buckets.get(bucket)?;
        let ways = signatures.iter().zip(flows);
        let mut alike = ways.filter(|&(&other, _)| other == signature).map(|(_, &flow)| flow);
        alike.find(|&flow| is_it(flow))
    }

    /// As that of the exact-match cache.
    #[inline]
    pub(crate) fn prefetch(&self, hash: u32) {
        black_box(self.buckets.get(split(hash).0).map(|bucket| bucket.signatures));
    }

    /// Remembers the place for keys of this hash: instead of the one that it had for them, or where
    /// nothing is, or in place of the key that shares two bits of the signature.
    #[inline]
    pub(crate) fn insert(&mut self, hash: u32, flow: u32) {
        let (bucket, signature) = split(hash);
        let Some(Bucket { signatures, flows }) = self.buckets.get_mut(bucket) else { return };
        let same = flows.iter().zip(&*signatures).position(|(&f, &s)| f != NONE && s == signature);
        let way = same.or_else(|| flows.iter().position(|&flow| flow == NONE));
        let way = way.unwrap_or(usize::from(signature) % WAYS);
        if let (Some(s), Some(f)) = (signatures.get_mut(way), flows.get_mut(way)) {
            (*s, *f) = (signature, flow);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn smc() -> Smc {
        let mut smc = Smc::default();
        smc.enable(true);
        smc
    }

    const ANY: fn(u32) -> bool = |_| true;

    #[test]
    fn a_bucket_is_half_a_cache_line() {
        assert_eq!((size_of::<Bucket>(), align_of::<Bucket>()), (32, 32));
        assert_eq!(BUCKETS * size_of::<Bucket>(), 2 << 20);
    }

    #[test]
    fn remembers_four_keys_of_a_bucket_and_then_replaces_one() {
        let mut smc = smc();
        let key = |n: u32| 7 | n << 16;
        assert_eq!(smc.lookup(key(0), |flow| flow != NONE), None, "nothing looks like signature 0");
        for n in 0..4 {
            smc.insert(key(n), 100 + n);
        }
        for n in 0..4 {
            assert_eq!(smc.lookup(key(n), ANY), Some(100 + n));
            assert_eq!(smc.lookup(key(n), |_| false), None, "the caller has the last word");
            assert_eq!(smc.lookup(key(n) + 1, |flow| flow != NONE), None, "another bucket");
        }
        smc.insert(key(2), 9);
        assert_eq!(smc.lookup(key(2), ANY), Some(9), "replaced, not doubled");
        smc.insert(key(4), 104);
        let left: Vec<_> = (0..5).filter(|&n| smc.lookup(key(n), ANY).is_some()).collect();
        assert_eq!(left, [1, 2, 3, 4], "the one that shares two bits went");
    }

    #[test]
    fn off_it_takes_no_memory_and_remembers_nothing() {
        let mut smc = smc();
        smc.insert(1, 1);
        smc.enable(true);
        assert_eq!(smc.lookup(1, ANY), Some(1), "enabling again changes nothing");
        smc.enable(false);
        smc.insert(1, 1);
        assert_eq!(smc.lookup(1, ANY), None);
        assert!(smc.buckets.is_empty());
        smc.enable(true);
        assert_eq!(smc.lookup(1, |flow| flow != NONE), None);
    }
}
