//! How one value is read, limited and written, whether it comes from the file or from an option.

use core::fmt;

/// A value as it was written, before anybody asked what it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Raw<'a> {
    /// A whole number.
    Integer(i128),
    /// `true` or `false`.
    Boolean(bool),
    /// A string.
    Text(&'a str),
    /// A list of strings, each with the line on which it begins (0: not from a file).
    List(Vec<(u32, &'a str)>),
    /// Anything that no setting takes; says what it is.
    Other(&'static str),
}

impl<'a> Raw<'a> {
    /// What the text of an option `key=text` may mean, the most specific reading first.
    #[must_use]
    pub fn of_option(text: &'a str) -> Vec<Self> {
        let number = text.parse().ok().map(Self::Integer);
        let boolean = text.parse().ok().map(Self::Boolean);
        number.into_iter().chain(boolean).chain([Self::Text(text)]).collect()
    }
}

impl fmt::Display for Raw<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Integer(number) => write!(f, "{number}"),
            Self::Boolean(boolean) => write!(f, "{boolean}"),
            Self::Text(text) => write!(f, "{text:?}"),
            Self::List(_) => f.write_str("a list"),
            Self::Other(what) => f.write_str(what),
        }
    }
}

/// Which numbers a setting takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Whatever the type holds.
    Any,
    /// From the first to the second, both included.
    Range(u32, u32),
    /// The powers of two from the first to the second.
    PowerOfTwo(u32, u32),
    /// These two.
    Either(u32, u32),
}

impl Limit {
    fn allows(self, number: u32) -> bool {
        match self {
            Self::Any => true,
            Self::Range(min, max) => (min..=max).contains(&number),
            Self::PowerOfTwo(min, max) => number.is_power_of_two() && (min..=max).contains(&number),
            Self::Either(a, b) => number == a || number == b,
        }
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => write!(f, "a whole number from 0 to {}", u32::MAX),
            Self::Range(min, max) => write!(f, "a whole number from {min} to {max}"),
            Self::PowerOfTwo(min, max) => write!(f, "a power of two from {min} to {max}"),
            Self::Either(a, b) => write!(f, "{a} or {b}"),
        }
    }
}

/// The type of a setting.
pub trait Value: Sized {
    /// What is allowed, as it follows "want ".
    fn allowed(limit: Limit) -> String;

    /// The value that was written, or `None` when it is not allowed.
    fn read(raw: &Raw<'_>, limit: Limit) -> Option<Self>;

    /// The value as TOML, which [`read`](Self::read) takes back.
    fn print(&self) -> String;
}

impl Value for u32 {
    fn allowed(limit: Limit) -> String {
        limit.to_string()
    }

    fn read(raw: &Raw<'_>, limit: Limit) -> Option<Self> {
        let Raw::Integer(number) = raw else { return None };
        Self::try_from(*number).ok().filter(|&number| limit.allows(number))
    }

    fn print(&self) -> String {
        self.to_string()
    }
}

impl Value for bool {
    fn allowed(_: Limit) -> String {
        "true or false".to_owned()
    }

    fn read(raw: &Raw<'_>, _: Limit) -> Option<Self> {
        if let Raw::Boolean(boolean) = raw { Some(*boolean) } else { None }
    }

    fn print(&self) -> String {
        self.to_string()
    }
}

/// A string as TOML.
pub(crate) fn quote(text: &str) -> String {
    toml::Value::from(text).to_string()
}
