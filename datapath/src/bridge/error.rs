//! What can go wrong when bridges, ports, MAC tables and rules are changed.

use core::fmt;

use crate::{MacAddr, PortNo};

use super::words::{SHORTHANDS, WORDS, Word};

/// Why a change of the switch was refused; nothing has changed then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BridgeError {
    /// A bridge of this name exists.
    BridgeExists(String),
    /// No bridge has this name.
    NoBridge(String),
    /// The bound on bridges is reached.
    TooManyBridges {
        /// The bound.
        max: usize,
    },
    /// The port number is 0 or above [`PortNo::MAX`].
    BadPortNo(PortNo),
    /// A port has this number or this name.
    PortExists(String),
    /// No port has this number or name.
    NoPort(String),
    /// The address names a group, or nobody.
    NotAHost(MacAddr),
    /// The MAC table is full of static entries.
    FdbFull {
        /// The bound.
        max: usize,
    },
    /// The MAC table has no such entry.
    NoFdbEntry(MacAddr),
    /// The bridge would have too many rules.
    TooManyRules {
        /// The bound.
        max: usize,
    },
    /// The text of a rule, or of what tells which rules are meant, cannot be understood.
    Rule {
        /// The text.
        text: String,
        /// What is wrong with it.
        why: RuleError,
    },
}

/// What is wrong with the text of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuleError {
    /// No such word in a match.
    UnknownWord(String),
    /// No such action.
    UnknownAction(String),
    /// The word is known, its value is not possible.
    BadValue {
        /// The word with its value.
        word: String,
        /// What is allowed.
        allowed: String,
    },
    /// The word wants other bits than an earlier one.
    Contradiction(String),
    /// The word has no meaning unless the match says more.
    Needs {
        /// The word.
        word: String,
        /// What the match must have: one of these.
        needs: String,
    },
    /// No port of the bridge has this name.
    NoPort(String),
    /// This cannot be set.
    NotSettable(String),
    /// The word has no place in this command.
    NotHere {
        /// The word.
        word: String,
        /// Where it has.
        place: &'static str,
    },
    /// There is no `actions=`.
    NoActions,
    /// `drop` and `goto_table` do not go with what follows.
    NotLast(String),
    /// A table can be left for later ones only.
    Backward {
        /// Table of the rule.
        from: u8,
        /// Table of the action.
        to: u8,
    },
    /// The rule has too many actions.
    TooManyActions {
        /// The bound.
        max: usize,
    },
}

/// The names of some words.
fn names(which: impl Fn(&Word) -> bool) -> String {
    let names: Vec<_> = WORDS.iter().filter(|word| which(word)).map(|word| word.name).collect();
    names.join(", ")
}

impl fmt::Display for RuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownWord(word) => {
                let short: Vec<_> = SHORTHANDS.iter().map(|known| known.name).collect();
                let (short, names) = (short.join(", "), names(|_| true));
                write!(
                    f,
                    "unknown word \"{word}\" in the match: want one of {short}; or NAME=VALUE \
                    with table, priority, cookie, idle_timeout, hard_timeout, in_port, {names}"
                )
            }
            Self::UnknownAction(word) => write!(
                f,
                "unknown action \"{word}\": want drop, output:PORT, NORMAL, FLOOD, ALL, IN_PORT, \
                 strip_vlan, push_vlan:TPID, mod_FIELD:VALUE, set_field:VALUE->FIELD, \
                 resubmit(,TABLE) or goto_table:TABLE"
            ),
            Self::BadValue { word, allowed } => {
                write!(f, "bad value in \"{word}\": want {allowed}")
            }
            Self::Contradiction(word) => write!(f, "\"{word}\" contradicts an earlier word"),
            Self::Needs { word, needs } => write!(f, "\"{word}\" needs {needs} in the match"),
            Self::NoPort(name) => write!(
                f,
                "no port \"{name}\" in the bridge: want the name of one, or a number from 1 to {}",
                PortNo::MAX
            ),
            Self::NotSettable(word) => {
                write!(f, "\"{word}\" cannot be set: want {}", names(|word| word.settable))
            }
            Self::NotHere { word, place } => write!(f, "\"{word}\" is for {place} only"),
            Self::NoActions => f.write_str("no \"actions=\"; to drop, write actions=drop"),
            Self::NotLast(word) => {
                write!(f, "\"{word}\" must be the last action, drop the only one")
            }
            Self::Backward { from, to } => {
                write!(f, "goto_table:{to} does not lead forward from table {from}; use resubmit")
            }
            Self::TooManyActions { max } => write!(f, "more than {max} actions"),
        }
    }
}

impl core::error::Error for RuleError {}

impl fmt::Display for BridgeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BridgeExists(name) => write!(f, "bridge \"{name}\" already exists"),
            Self::NoBridge(name) => write!(f, "no bridge named \"{name}\""),
            Self::TooManyBridges { max } => {
                write!(f, "too many bridges: at most {max} are possible; delete one first")
            }
            Self::BadPortNo(no) => {
                write!(f, "port number {no} is out of range (allowed: 1 to {})", PortNo::MAX)
            }
            Self::PortExists(port) => write!(f, "port \"{port}\" already exists"),
            Self::NoPort(port) => write!(f, "no port \"{port}\" in the bridge"),
            Self::NotAHost(mac) => {
                write!(f, "{mac} is not the address of one host (it is a group's, or zero)")
            }
            Self::FdbFull { max } => {
                write!(f, "the MAC table is full of static entries ({max}); delete one first")
            }
            Self::NoFdbEntry(mac) => write!(f, "no entry for {mac} in the MAC table"),
            Self::TooManyRules { max } => {
                write!(f, "too many rules: a bridge has at most {max}; delete some first")
            }
            Self::Rule { text, why } => write!(f, "rule \"{text}\": {why}"),
        }
    }
}

impl core::error::Error for BridgeError {}
