//! A rule of a bridge and its statistics.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::{Field, Match, Nanos, PortNo};

/// One action of a rule. A rule without actions drops.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuleAction {
    /// To a port of the bridge, unless the packet came from there.
    Output(PortNo),
    /// The first bytes to a port of the bridge, unless the packet came from there.
    OutputPart {
        /// The port.
        port: PortNo,
        /// How many bytes, at least 14.
        max_len: u32,
    },
    /// Go on only if the packet keeps to the rate of this meter, else drop it. A meter that is not there
    /// lets everything pass.
    Meter(u32),
    /// Queue a copy for the reader at the control socket.
    Controller {
        /// The most bytes that it wants.
        max_len: u16,
        /// Which reader.
        id: u16,
    },
    /// Back to where the packet came from.
    InPort,
    /// As a learning switch.
    Normal,
    /// To all ports of the bridge but the one the packet came from.
    Flood,
    /// The same as [`Flood`](Self::Flood): no port is exempt from flooding here.
    All,
    /// Remove the outer VLAN tag, if there is one.
    StripVlan,
    /// Put a VLAN tag, all zero, before the others.
    PushVlan {
        /// 0x8100 or 0x88a8.
        tpid: u16,
    },
    /// Rewrite bits of the outer VLAN tag; a packet without gets one first.
    SetVlan {
        /// The new bits.
        value: u16,
        /// Which bits; never bit 12.
        mask: u16,
    },
    /// Rewrite bits of another header field.
    Set {
        /// Which field; the rule's match says that the packet has it.
        field: &'static Field,
        /// The new bits.
        value: u128,
        /// Which bits.
        mask: u128,
    },
    /// Look the packet, as it is now, up in this table, and then go on here.
    Resubmit(u8),
    /// Go on in this later table; the last action.
    Goto(u8),
}

/// A rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// In which table; lookups begin in table 0.
    pub table: u8,
    /// Of the rules of a table that match, the one with the highest priority is used. Which of two
    /// with equal priority is not specified.
    pub priority: u16,
    /// What it matches.
    pub matching: Match,
    /// Whatever the author wants to tell rules apart by.
    pub cookie: u64,
    /// Seconds without packets after which it goes; 0: never.
    pub idle_timeout: u16,
    /// Seconds after which it goes; 0: never.
    pub hard_timeout: u16,
    /// What it does; none drops.
    pub actions: Vec<RuleAction>,
}

impl Rule {
    /// The priority of a rule that does not say.
    pub const DEFAULT_PRIORITY: u16 = 0x8000;
    /// The highest table.
    pub const MAX_TABLE: u8 = 254;
    /// The most actions of one rule.
    pub const MAX_ACTIONS: usize = 256;
}

impl Default for Rule {
    /// Drops everything in table 0 with the default priority.
    fn default() -> Self {
        Self {
            table: 0,
            priority: Self::DEFAULT_PRIORITY,
            matching: Match::default(),
            cookie: 0,
            idle_timeout: 0,
            hard_timeout: 0,
            actions: Vec::new(),
        }
    }
}

/// A rule with its statistics, to show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleRow {
    /// The rule.
    pub rule: Rule,
    /// Packets that used it, as far as their flows were checked since: a second late at most.
    pub n_packets: u64,
    /// Their bytes.
    pub n_bytes: u64,
    /// The time since it was added.
    pub duration: Nanos,
    /// The time since a packet is known to have used it, or since it was added.
    pub idle: Nanos,
}

/// Which rules a command means.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleFilter {
    /// Only in this table; `None`: in all.
    pub table: Option<u8>,
    /// With this priority, if strict.
    pub priority: u16,
    /// Only with these bits of the cookie: value and mask.
    pub cookie: (u64, u64),
    /// The match: exactly this one if strict, else all that it covers.
    pub matching: Match,
    /// Only rules with exactly this match and priority.
    pub strict: bool,
}

impl RuleFilter {
    /// True when the rule is meant.
    #[must_use]
    pub fn means(&self, rule: &Rule) -> bool {
        let (cookie, mask) = self.cookie;
        self.table.is_none_or(|table| table == rule.table)
            && (rule.cookie ^ cookie) & mask == 0
            && if self.strict {
                self.priority == rule.priority && self.matching == rule.matching
            } else {
                self.matching.covers(&rule.matching)
            }
    }
}

/// What a rule did; shared by all snapshots it is in.
#[derive(Debug, Default)]
pub(super) struct RuleStats {
    n_packets: AtomicU64,
    n_bytes: AtomicU64,
    /// When it was last used, in nanoseconds.
    used: AtomicU64,
}

/// A rule in force.
#[derive(Clone, Debug)]
pub(super) struct Installed {
    pub(super) rule: Rule,
    created: Nanos,
    stats: Arc<RuleStats>,
}

impl Installed {
    pub(super) fn new(rule: Rule, now: Nanos) -> Self {
        let stats = RuleStats { used: now.0.into(), ..RuleStats::default() };
        Self { rule, created: now, stats: Arc::new(stats) }
    }

    /// Counts packets that used the rule.
    pub(super) fn credit(&self, n_packets: u64, n_bytes: u64, now: Nanos) {
        self.stats.n_packets.fetch_add(n_packets, Relaxed);
        self.stats.n_bytes.fetch_add(n_bytes, Relaxed);
        self.stats.used.fetch_max(now.0, Relaxed);
    }

    /// True when one of its timeouts has passed.
    pub(super) fn is_expired(&self, now: Nanos) -> bool {
        let after =
            |secs: u16, since| secs > 0 && now.since(since) >= Nanos::from_secs(secs.into());
        after(self.rule.hard_timeout, self.created) || after(self.rule.idle_timeout, self.used())
    }

    /// True when it has a timeout.
    pub(super) fn is_timed(&self) -> bool {
        self.rule.idle_timeout > 0 || self.rule.hard_timeout > 0
    }

    pub(super) fn row(&self, now: Nanos) -> RuleRow {
        RuleRow {
            rule: self.rule.clone(),
            n_packets: self.stats.n_packets.load(Relaxed),
            n_bytes: self.stats.n_bytes.load(Relaxed),
            duration: now.since(self.created),
            idle: now.since(self.used()),
        }
    }

    fn used(&self) -> Nanos {
        Nanos(self.stats.used.load(Relaxed))
    }
}
