//! What is wrong with a text, and where.

use core::fmt;

/// What is wrong with a word.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// No such field or action, or not at this place.
    Unknown,
    /// One of these is wanted here.
    OneOf(Vec<&'static str>),
    /// Something else is wanted here.
    Want(&'static str),
    /// The number is above this.
    TooLarge(u128),
    /// It was said before.
    Twice,
    /// Known, but not to this datapath; only zero is accepted, if anything.
    Unsupported,
    /// No port has this name or number.
    NoSuchPort,
    /// Only with this in the match.
    Needs(&'static str),
    /// This cannot be rewritten.
    ReadOnly,
}

/// Why a text is no match or no action list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    /// What is wrong.
    pub kind: ErrorKind,
    /// The word it is about; empty at the end of the text.
    pub word: String,
    /// Where the word begins, in bytes from the start of the text.
    pub at: usize,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, word, at } = self;
        match word.as_str() {
            "" => write!(f, "syntax error at end of text")?,
            word => write!(f, "syntax error at {word}")?,
        }
        match kind {
            ErrorKind::Unknown => write!(f, ": not known")?,
            ErrorKind::OneOf(names) => write!(f, ": want {}", names.join(", "))?,
            ErrorKind::Want(what) => write!(f, ": want {what}")?,
            ErrorKind::TooLarge(max) => write!(f, ": at most {max} is allowed")?,
            ErrorKind::Twice => write!(f, ": given twice")?,
            ErrorKind::Unsupported => write!(f, ": not supported by this datapath")?,
            ErrorKind::NoSuchPort => write!(f, ": no such port")?,
            ErrorKind::Needs(what) => write!(f, ": needs {what} in the match")?,
            ErrorKind::ReadOnly => write!(f, ": cannot be rewritten")?,
        }
        write!(f, ", position {at}")
    }
}

impl core::error::Error for ParseError {}
