//! Flows: what is remembered of a decision, how they are identified, and their statistics.

use core::fmt;
use core::str::FromStr;

use crate::hash::hash_words;
use crate::{Action, Field, FlowKey, Match, Nanos};

/// Identifies a flow by what it matches: the same on every thread, in every executor, after a restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ufid(pub u128);

impl Ufid {
    /// The identifier of flows with this match.
    #[must_use]
    pub fn of(rule: &Match) -> Self {
        let half =
            |seed| u128::from(hash_words(hash_words(seed, rule.mask.words()), rule.key.words()));
        Self(half(0x243f_6a88_85a3_08d3) << 64 | half(0x1319_8a2e_0370_7344))
    }
}

/// As a UUID.
impl fmt::Display for Ufid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let part = |shift: u32, bits: u32| (self.0 >> shift) & ((1 << bits) - 1);
        let (a, b, c, d, e) = (part(96, 32), part(80, 16), part(64, 16), part(48, 16), part(0, 48));
        write!(f, "{a:08x}-{b:04x}-{c:04x}-{d:04x}-{e:012x}")
    }
}

/// A text that is not a flow identifier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadUfid(String);

impl fmt::Display for BadUfid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\" is not a flow identifier (want 32 hex digits, as a UUID)", self.0)
    }
}

impl core::error::Error for BadUfid {}

impl FromStr for Ufid {
    type Err = BadUfid;

    fn from_str(text: &str) -> Result<Self, BadUfid> {
        let digits: String = text.chars().filter(|&c| c != '-').collect();
        let well_formed = digits.len() == 32 && digits.bytes().all(|b| b.is_ascii_hexdigit());
        u128::from_str_radix(&digits, 16)
            .ok()
            .filter(|_| well_formed)
            .map(Self)
            .ok_or_else(|| BadUfid(text.to_owned()))
    }
}

/// What a flow has seen. Executors and threads each count their own; the sum is the flow's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowStats {
    /// Packets, also those that the actions dropped.
    pub packets: u64,
    /// Their bytes as received.
    pub bytes: u64,
    /// When the last one came; 0 is never.
    pub used: Nanos,
    /// The TCP flags of all of them.
    pub tcp_flags: u16,
}

impl FlowStats {
    /// Adds what somebody else counted for the same flow.
    #[inline]
    pub fn merge(&mut self, other: &Self) {
        self.packets += other.packets;
        self.bytes += other.bytes;
        self.used = self.used.max(other.used);
        self.tcp_flags |= other.tcp_flags;
    }
}

/// Who made a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A miss: the flow is checked against the rules, and expires when idle.
    Bridge,
    /// A command (`dpctl/add-flow`): it goes before all flows of the bridge and stays until a
    /// command deletes it.
    Manual,
}

/// A megaflow: a match, and what is done to the packets.
///
/// What each packet needs comes first: it shares a cache line with the place's generation, which the lookup
/// has read by then.
#[derive(Debug)]
#[repr(C)]
pub struct Flow {
    /// What to do; empty drops.
    pub actions: Box<[Action]>,
    /// What it has seen.
    pub stats: FlowStats,
    /// Which packets.
    pub rule: Match,
    /// Identifies it.
    pub ufid: Ufid,
    /// Who made it.
    pub origin: Origin,
    /// When it was installed.
    pub created: Nanos,
    /// [`Upcall::version`](crate::Upcall::version) of the decision.
    pub(crate) version: u64,
    /// Up to which packets and bytes of `stats` the bridge has been told; below zero (modulo 2^64)
    /// when `stats` started again before.
    pub(crate) pushed: (u64, u64),
}

impl Flow {
    /// A flow without statistics.
    #[must_use]
    pub fn new(rule: Match, actions: Box<[Action]>, origin: Origin, created: Nanos) -> Self {
        Self {
            ufid: Ufid::of(&rule),
            rule,
            actions,
            stats: FlowStats::default(),
            origin,
            created,
            version: 0,
            pushed: (0, 0),
        }
    }

    /// When it was last of use: the last packet, or its installation.
    #[must_use]
    pub fn last_used(&self) -> Nanos {
        self.stats.used.max(self.created)
    }

    /// The packets and bytes of which the bridge has not been told; now it has.
    pub(crate) const fn take_unpushed(&mut self) -> (u64, u64) {
        let (packets, bytes) = self.pushed;
        self.pushed = (self.stats.packets, self.stats.bytes);
        (self.stats.packets.wrapping_sub(packets), self.stats.bytes.wrapping_sub(bytes))
    }

    /// Starts the statistics again; what the bridge has not been told of is told later.
    pub(crate) fn clear_stats(&mut self) {
        let (packets, bytes) = self.pushed;
        self.pushed =
            (packets.wrapping_sub(self.stats.packets), bytes.wrapping_sub(self.stats.bytes));
        self.stats = FlowStats::default();
    }

    /// A copy to show.
    #[must_use]
    pub fn snapshot(&self) -> FlowSnapshot {
        FlowSnapshot {
            ufid: self.ufid,
            rule: self.rule,
            actions: self.actions.clone(),
            stats: self.stats,
            origin: self.origin,
        }
    }
}

/// A flow as it was at some time, to show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowSnapshot {
    /// Identifies it.
    pub ufid: Ufid,
    /// Which packets.
    pub rule: Match,
    /// What is done to them; empty drops.
    pub actions: Box<[Action]>,
    /// What it has seen.
    pub stats: FlowStats,
    /// Who made it.
    pub origin: Origin,
}

/// The TCP flags in a key.
#[inline]
#[allow(clippy::cast_possible_truncation, reason = "the field is the 12 highest bits")]
pub(crate) fn tcp_flags(key: &FlowKey) -> u16 {
    let word = key.words().get(Field::TCP_FLAGS.word).copied().unwrap_or(0);
    (word >> Field::TCP_FLAGS.shift) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ufid_reads_what_it_writes() {
        let ufid = Ufid::of(&Match::default().with(&Field::IN_PORT, 3));
        let text = ufid.to_string();
        assert_eq!(text.len(), 36);
        assert_eq!(text.parse(), Ok(ufid));
        assert_eq!(text.replace('-', "").parse(), Ok(ufid));
        for bad in ["", "12", "+2345678-1234-1234-1234-123456789abc", "x", &text[1..]] {
            assert!(bad.parse::<Ufid>().is_err(), "{bad}");
        }
    }

    #[test]
    fn ufid_tells_matches_apart() {
        let wide = Match::default().with(&Field::IN_PORT, 0);
        let narrow = wide.with(&Field::TP_DST, 0);
        assert_ne!(Ufid::of(&wide), Ufid::of(&narrow), "the mask counts");
        assert_ne!(Ufid::of(&wide), Ufid::of(&wide.with(&Field::IN_PORT, 1)), "the key counts");
        assert_eq!(Ufid::of(&narrow), Ufid::of(&narrow.clone()));
    }

    #[test]
    fn stats_merge() {
        let mut a = FlowStats { packets: 1, bytes: 60, used: Nanos(5), tcp_flags: 2 };
        a.merge(&FlowStats { packets: 2, bytes: 100, used: Nanos(3), tcp_flags: 0x10 });
        assert_eq!(a, FlowStats { packets: 3, bytes: 160, used: Nanos(5), tcp_flags: 0x12 });
    }
}
