//! A bounded queue in which each flow waits behind its own packets only.
//!
//! Flows take turns by bytes (deficit round robin); one that has just become active comes before those
//! that stand in line, so ARP and sparse flows overtake bulk. A flow whose packets wait too long loses some
//! of them (CoDel, RFC 8289), which tells its sender to slow down; together that is FQ-CoDel (RFC 8290).
//! When there is no room, the flow with the most bytes gives.
//!
//! Invariants: packets of one flow keep their order; every packet that went in comes out of `pop` or is
//! given to its `dropped`, to `shed`'s caller or to `drain`'s; nothing allocates after `new`.

use crate::hash::mix;
use crate::{Nanos, Packet, wire};

mod codel;
#[cfg(test)]
mod tests;

use codel::Codel;

/// Flows are told apart by so many buckets; two that meet in one share its turn.
const BUCKETS: usize = 1024;

/// No slot, no bucket.
const NONE: u32 = u32::MAX;

/// A place for one packet.
#[derive(Debug)]
struct Slot<P> {
    packet: Option<P>,
    since: Nanos,
    /// The packet after it in its bucket, or the next free slot.
    next: u32,
}

/// The packets of one flow, or of several that the hash throws together.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    first: u32,
    last: u32,
    bytes: u32,
    /// Bytes that it may still send in this turn.
    deficit: i64,
    codel: Codel,
    /// It stands in one of the two lists, before bucket `next`.
    listed: bool,
    next: u32,
}

const IDLE: Bucket = Bucket {
    first: NONE,
    last: NONE,
    bytes: 0,
    deficit: 0,
    codel: Codel::NEW,
    listed: false,
    next: NONE,
};

/// Buckets that take turns, linked by `next`.
#[derive(Clone, Copy, Debug)]
struct List {
    first: u32,
    last: u32,
}

const EMPTY: List = List { first: NONE, last: NONE };

/// The queue. Dropping it loses what is in it: [`drain`](Self::drain) it first.
#[derive(Debug)]
pub struct FairQueue<P> {
    slots: Box<[Slot<P>]>,
    free: u32,
    buckets: Box<[Bucket]>,
    /// Became active since they were last empty; served first, one turn each.
    fresh: List,
    /// All other active ones.
    old: List,
    n_packets: usize,
    n_frames: usize,
    n_bytes: u64,
    /// Buckets with packets.
    n_active: u64,
    /// The bucket that gave last when there was no room.
    fattest: u32,
    quantum: u32,
    seed: u64,
}

impl<P: Packet> FairQueue<P> {
    /// An empty queue with room for `capacity` packets, at most 2³¹. Each turn of a flow is `quantum` bytes:
    /// the longest packet of the link. `seed` is random, so that nobody can choose flows that collide.
    #[must_use]
    pub fn new(capacity: u32, quantum: u32, seed: u64) -> Self {
        let capacity = capacity.min(1 << 31);
        let slot = |i| Slot { packet: None, since: Nanos(0), next: i + 1 };
        let mut slots: Box<[Slot<P>]> = (0..capacity).map(slot).collect();
        if let Some(last) = slots.last_mut() {
            last.next = NONE;
        }
        Self {
            free: if capacity == 0 { NONE } else { 0 },
            slots,
            buckets: vec![IDLE; BUCKETS].into(),
            fresh: EMPTY,
            old: EMPTY,
            n_packets: 0,
            n_frames: 0,
            n_bytes: 0,
            n_active: 0,
            fattest: 0,
            quantum: quantum.max(1),
            seed,
        }
    }

    /// True when nothing waits.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.n_packets == 0
    }

    /// Packets that wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.n_packets
    }

    /// Frames of all packets that wait.
    #[must_use]
    pub fn n_frames(&self) -> usize {
        self.n_frames
    }

    /// Adds a packet at the end of its flow.
    ///
    /// # Errors
    /// Gives the packet back when there is no room: [`shed`](Self::shed) makes some.
    pub fn push(&mut self, packet: P, now: Nanos) -> Result<(), P> {
        let at = self.bucket_of(&packet);
        let (len, frames) = (packet.len(), packet.n_frames());
        let index = self.free;
        let Some(slot) = self.slots.get_mut(index as usize) else { return Err(packet) };
        self.free = slot.next;
        *slot = Slot { packet: Some(packet), since: now, next: NONE };
        let Some(bucket) = self.buckets.get_mut(at as usize) else { return Ok(()) };
        let before = std::mem::replace(&mut bucket.last, index);
        if before == NONE {
            bucket.first = index;
            self.n_active += 1;
        }
        bucket.bytes = bucket.bytes.saturating_add(bytes(len));
        let joins = !std::mem::replace(&mut bucket.listed, true);
        if joins {
            bucket.deficit = i64::from(self.quantum);
        }
        if let Some(slot) = self.slots.get_mut(before as usize) {
            slot.next = index;
        }
        if joins {
            Self::link(&mut self.buckets, &mut self.fresh, at);
        }
        self.n_packets += 1;
        self.n_frames += frames;
        self.n_bytes += u64::from(bytes(len));
        Ok(())
    }

    /// The packet whose turn it is. What CoDel drops on the way goes to `dropped`.
    pub fn pop(&mut self, now: Nanos, mut dropped: impl FnMut(P)) -> Option<P> {
        loop {
            let is_fresh = self.fresh.first != NONE;
            let at = if is_fresh { self.fresh.first } else { self.old.first };
            let bucket = self.buckets.get_mut(at as usize)?;
            if bucket.deficit <= 0 {
                bucket.deficit += i64::from(self.quantum);
                self.requeue(is_fresh, at);
                continue;
            }
            if let Some(packet) = self.pop_bucket(at, now, &mut dropped) {
                if let Some(bucket) = self.buckets.get_mut(at as usize) {
                    bucket.deficit -= i64::from(bytes(packet.len()));
                }
                return Some(packet);
            }
            if is_fresh && self.old.first != NONE {
                // It must not come first again at once by having been empty for a moment.
                self.requeue(true, at);
            } else {
                self.unlink(is_fresh);
                if let Some(bucket) = self.buckets.get_mut(at as usize) {
                    bucket.listed = false;
                }
            }
        }
    }

    /// Makes room: the oldest packet of the flow with the most bytes (or, cheaper, of the one that had the most
    /// and still has more than the average).
    pub fn shed(&mut self) -> Option<P> {
        if !self.is_fat(self.fattest) {
            self.fattest = self.find_fattest();
        }
        self.take_first(self.fattest).map(|(packet, _)| packet)
    }

    /// Takes everything out.
    pub fn drain(&mut self) -> impl Iterator<Item = P> + '_ {
        std::iter::from_fn(|| self.shed())
    }

    /// True when the bucket has at least the average of those with packets.
    fn is_fat(&self, at: u32) -> bool {
        self.buckets.get(at as usize).is_some_and(|bucket| {
            bucket.first != NONE && u64::from(bucket.bytes) * self.n_active >= self.n_bytes
        })
    }

    fn find_fattest(&self) -> u32 {
        let mut most = (0, NONE);
        for List { first, .. } in [self.fresh, self.old] {
            let mut at = first;
            while let Some(bucket) = self.buckets.get(at as usize) {
                if bucket.first != NONE {
                    most = most.max((bucket.bytes, at));
                }
                at = bucket.next;
            }
        }
        most.1
    }

    fn pop_bucket(&mut self, at: u32, now: Nanos, dropped: &mut impl FnMut(P)) -> Option<P> {
        loop {
            let taken = self.take_first(at);
            let bucket = self.buckets.get_mut(at as usize)?;
            let Some((packet, since)) = taken else {
                bucket.codel.rest();
                return None;
            };
            let is_short = bucket.bytes <= self.quantum;
            if !bucket.codel.drops(now, now.since(since), is_short) {
                return Some(packet);
            }
            dropped(packet);
        }
    }

    /// The oldest packet of a bucket, and since when it was in.
    fn take_first(&mut self, at: u32) -> Option<(P, Nanos)> {
        let bucket = self.buckets.get_mut(at as usize)?;
        let index = bucket.first;
        let slot = self.slots.get_mut(index as usize)?;
        let packet = slot.packet.take()?;
        bucket.first = std::mem::replace(&mut slot.next, self.free);
        self.free = index;
        let len = bytes(packet.len());
        bucket.bytes = bucket.bytes.saturating_sub(len);
        if bucket.first == NONE {
            bucket.last = NONE;
            self.n_active -= 1;
        }
        self.n_packets -= 1;
        self.n_frames -= packet.n_frames();
        self.n_bytes -= u64::from(len);
        Some((packet, slot.since))
    }

    /// Moves the first bucket of a list to the end of the old ones.
    fn requeue(&mut self, is_fresh: bool, at: u32) {
        self.unlink(is_fresh);
        Self::link(&mut self.buckets, &mut self.old, at);
    }

    /// Takes the first bucket out of a list.
    fn unlink(&mut self, is_fresh: bool) {
        let list = if is_fresh { &mut self.fresh } else { &mut self.old };
        let next = self.buckets.get(list.first as usize).map_or(NONE, |bucket| bucket.next);
        *list = if next == NONE { EMPTY } else { List { first: next, ..*list } };
    }

    /// Puts a bucket at the end of a list.
    fn link(buckets: &mut [Bucket], list: &mut List, at: u32) {
        if let Some(bucket) = buckets.get_mut(at as usize) {
            bucket.next = NONE;
        }
        match buckets.get_mut(list.last as usize) {
            Some(last) => last.next = at,
            None => list.first = at,
        }
        list.last = at;
    }

    /// The bucket of a packet's flow: addresses, protocol and ports of IP, all of ARP, else the Ethernet header.
    fn bucket_of(&self, packet: &P) -> u32 {
        let (head, layers) = (packet.head(), packet.layers());
        let ip = head.get(usize::from(layers.l3)..).filter(|_| layers.l3 != 0).unwrap_or_default();
        let (hash, proto) = match ip.first().map(|byte| byte >> 4) {
            Some(4) => (self.hash(ip.get(12..20)), ip.get(9)),
            Some(6) => (self.hash(ip.get(8..40)), ip.get(6)),
            // ARP begins with a zero.
            Some(_) => return bucket(self.hash(ip.get(..28))),
            None => return bucket(self.hash(head.get(..wire::ETH_LEN))),
        };
        let l4 = usize::from(layers.l4);
        let has_ports =
            matches!(proto, Some(&(wire::proto::TCP | wire::proto::UDP | wire::proto::SCTP)));
        let ports = if l4 != 0 && has_ports { wire::be32(head, l4) } else { None };
        let rest = u64::from(ports.unwrap_or_default()) << 8 | u64::from(*proto.unwrap_or(&0));
        bucket(mix(hash, rest))
    }

    fn hash(&self, bytes: Option<&[u8]>) -> u64 {
        let (words, rest) = bytes.unwrap_or_default().as_chunks::<8>();
        let hash = words.iter().fold(self.seed, |hash, word| mix(hash, u64::from_ne_bytes(*word)));
        rest.iter().fold(hash, |hash, byte| mix(hash, u64::from(*byte)))
    }
}

#[allow(clippy::cast_possible_truncation, reason = "below the number of buckets")]
fn bucket(hash: u64) -> u32 {
    ((hash ^ hash >> 32) % BUCKETS as u64) as u32
}

/// Length as it counts; a packet is far shorter than 4 GiB.
fn bytes(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}
