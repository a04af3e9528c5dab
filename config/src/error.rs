//! Everything that can be wrong with a configuration, worded for the person who wrote it.

use core::fmt;
use std::io;

use crate::{BridgeName, IfName};

/// Where in which file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The file, as it was named.
    pub file: String,
    /// From 1.
    pub line: u32,
    /// In characters, from 1.
    pub column: u32,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}

/// The thing that a problem is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A key before the first section.
    General,
    /// A table, as `[umem]`.
    Table(&'static str),
    /// One of several, as `port "v1"`.
    Named(&'static str, String),
    /// One of several whose name is not known; counted from 1.
    Nameless(&'static str, usize),
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::General => Ok(()),
            Self::Table(section) => write!(f, "[{section}]: "),
            Self::Named(section, name) => write!(f, "{section} {name:?}: "),
            Self::Nameless(section, n) => write!(f, "{section} number {n}: "),
        }
    }
}

/// What is wrong.
#[derive(Debug)]
pub enum Problem {
    /// The file cannot be read.
    Unreadable(io::Error),
    /// It is not TOML; the parser's words.
    Syntax(String),
    /// No section of this name.
    UnknownSection {
        /// As written.
        name: String,
        /// Those there are.
        allowed: Vec<&'static str>,
    },
    /// No key of this name in the section.
    UnknownKey {
        /// Where it stands.
        subject: Subject,
        /// As written.
        key: String,
        /// Those there are.
        allowed: Vec<&'static str>,
    },
    /// A required key is not there.
    Missing {
        /// Where it should stand.
        subject: Subject,
        /// The key.
        key: &'static str,
        /// What it takes.
        allowed: String,
    },
    /// A value that the key does not take.
    Value {
        /// Where it stands.
        subject: Subject,
        /// The key.
        key: &'static str,
        /// What was written.
        found: String,
        /// What the key takes.
        allowed: String,
    },
    /// Two of a kind have the same name or number.
    Duplicate {
        /// The second of them.
        subject: Subject,
        /// The key that has to be unique.
        key: &'static str,
        /// The value that both have.
        value: String,
    },
    /// A port names a bridge that is not there.
    UnknownBridge {
        /// The port.
        port: IfName,
        /// The bridge it names.
        bridge: BridgeName,
        /// Those there are.
        bridges: Vec<String>,
    },
    /// Two settings of a port of which one makes the other meaningless.
    Conflict {
        /// The port.
        port: IfName,
        /// The key to blame.
        key: &'static str,
        /// Its value, as TOML.
        value: String,
        /// The key that it does not go with.
        other: &'static str,
        /// The value of that one, as TOML.
        other_value: String,
        /// What to do, as it follows "want ".
        want: &'static str,
    },
    /// More ports than there are numbers.
    TooManyPorts {
        /// How many there are.
        n_ports: usize,
    },
    /// The packet memory cannot fill all rings.
    TooFewFrames {
        /// What the ports and threads need.
        needed: u64,
        /// What `[umem]` has.
        frames: u32,
    },
    /// An option of a port that is not `key=value`.
    NotAnOption {
        /// The port, as written.
        port: String,
        /// The option, as written.
        option: String,
    },
    /// A rule that the bridge does not understand.
    Rule {
        /// The bridge.
        bridge: BridgeName,
        /// The rule, as written.
        rule: String,
        /// The parser's words.
        reason: String,
    },
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(error) => write!(f, "cannot read it: {error}"),
            Self::Syntax(message) => write!(f, "not valid TOML: {message}"),
            Self::UnknownSection { name, allowed } => {
                write!(f, "unknown section or key {name:?}")?;
                suggest(f, name, allowed)
            }
            Self::UnknownKey { subject, key, allowed } => {
                write!(f, "{subject}unknown key {key:?}")?;
                suggest(f, key, allowed)
            }
            Self::Missing { subject, key, allowed } => {
                write!(f, "{subject}{key} is missing: want {allowed}")
            }
            Self::Value { subject, key, found, allowed } => {
                write!(f, "{subject}{key} is {found}: want {allowed}")
            }
            Self::Duplicate { subject, key, value } => {
                write!(f, "{subject}{key} {value} is there twice: want it once")
            }
            Self::UnknownBridge { port, bridge, bridges } => {
                write!(f, "port \"{port}\": bridge is \"{bridge}\", which is not there: ")?;
                match bridges.as_slice() {
                    [] => f.write_str("want a [[bridge]] of that name"),
                    bridges => write!(f, "want one of {}", bridges.join(", ")),
                }
            }
            Self::Conflict { port, key, value, other, other_value, want } => write!(
                f,
                "port \"{port}\": {key} is {value} while {other} is {other_value}: want {want}"
            ),
            Self::TooManyPorts { n_ports } => {
                write!(f, "{n_ports} ports: want at most {}", xvs_datapath::PortNo::MAX)
            }
            Self::TooFewFrames { needed, frames } => write!(
                f,
                "[umem]: frames is {frames}: want at least {needed} for the rings of all ports \
                 and threads (or fewer or smaller rings)"
            ),
            Self::NotAnOption { port, option } => {
                write!(f, "port {port:?}: option {option:?} is not of the form key=value")
            }
            Self::Rule { bridge, rule, reason } => {
                write!(f, "bridge \"{bridge}\": rule {rule:?}: {reason}")
            }
        }
    }
}

/// Names the allowed word that is most like what was written, and all that are allowed.
fn suggest(f: &mut fmt::Formatter<'_>, written: &str, allowed: &[&str]) -> fmt::Result {
    let likeness = |word: &str| strsim::jaro_winkler(&written.to_lowercase(), word);
    let nearest = allowed
        .iter()
        .filter(|word| likeness(word) > 0.75)
        .max_by(|a, b| likeness(a).total_cmp(&likeness(b)));
    if let Some(nearest) = nearest {
        write!(f, ", did you mean {nearest:?}?")?;
    }
    write!(f, ": want one of {}", allowed.join(", "))
}

/// One problem and where it is, if it is in a file.
#[derive(Debug)]
pub struct Error {
    /// Where.
    pub place: Option<Place>,
    /// What.
    pub problem: Problem,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            // A file without lines was not even read.
            Some(place) if place.line == 0 => write!(f, "{}: {}", place.file, self.problem),
            Some(place) => write!(f, "{place}: {}", self.problem),
            None => self.problem.fmt(f),
        }
    }
}

impl core::error::Error for Error {}

impl From<Problem> for Error {
    fn from(problem: Problem) -> Self {
        Self { place: None, problem }
    }
}

/// All that is wrong, in the order of the file; at least one. Shown one on each line.
#[derive(Debug)]
pub struct Errors(Vec<Error>);

impl Errors {
    /// Sorts by place; `None` when nothing is wrong.
    #[must_use]
    pub fn collect(mut errors: Vec<Error>) -> Option<Self> {
        errors.sort_by(|a, b| a.place.cmp(&b.place));
        Some(Self(errors)).filter(|errors| !errors.0.is_empty())
    }

    /// One after the other.
    pub fn iter(&self) -> impl Iterator<Item = &Error> {
        self.0.iter()
    }
}

impl fmt::Display for Errors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, error) in self.0.iter().enumerate() {
            if n > 0 {
                f.write_str("\n")?;
            }
            error.fmt(f)?;
        }
        Ok(())
    }
}

impl core::error::Error for Errors {}

impl From<Error> for Errors {
    fn from(error: Error) -> Self {
        Self(vec![error])
    }
}
