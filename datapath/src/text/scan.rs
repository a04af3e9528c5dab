//! Words of a text with their positions.

use super::error::{ErrorKind, ParseError};

/// Reads a text from left to right.
#[derive(Clone, Debug)]
pub(super) struct Scanner<'a> {
    text: &'a str,
    at: usize,
}

/// A word and where it begins.
#[derive(Clone, Copy, Debug)]
pub(super) struct Word<'a> {
    pub(super) text: &'a str,
    pub(super) at: usize,
}

impl Word<'_> {
    pub(super) fn error(&self, kind: ErrorKind) -> ParseError {
        ParseError { kind, word: self.text.to_owned(), at: self.at }
    }

    pub(super) fn want<T>(&self, what: &'static str) -> Result<T, ParseError> {
        Err(self.error(ErrorKind::Want(what)))
    }
}

impl<'a> Scanner<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// Skips white space, and commas too if `commas`; false at the end of the text.
    pub(super) fn skip(&mut self, commas: bool) -> bool {
        let rest = self.rest();
        let skipped = |c: char| c.is_ascii_whitespace() || commas && c == ',';
        self.at += rest.len() - rest.trim_start_matches(skipped).len();
        self.at < self.text.len()
    }

    /// The characters up to white space or one of `( ) , = /`; may be empty.
    pub(super) fn word(&mut self) -> Word<'a> {
        self.skip(false);
        let rest = self.rest();
        let end = |c: char| c.is_ascii_whitespace() || "(),=/".contains(c);
        let (text, _) = rest.split_at(rest.find(end).unwrap_or(rest.len()));
        let at = self.at;
        self.at += text.len();
        Word { text, at }
    }

    /// A word that is not empty.
    pub(super) fn some_word(&mut self, what: &'static str) -> Result<Word<'a>, ParseError> {
        let word = self.word();
        if word.text.is_empty() { self.here().want(what) } else { Ok(word) }
    }

    /// True when `c` comes next.
    pub(super) fn is_at(&mut self, c: char) -> bool {
        self.skip(false);
        self.rest().starts_with(c)
    }

    /// Takes `c` if it comes next.
    pub(super) fn take(&mut self, c: char) -> bool {
        let taken = self.is_at(c);
        self.at += if taken { c.len_utf8() } else { 0 };
        taken
    }

    /// Takes `c`, which must come next.
    pub(super) fn expect(&mut self, c: char, what: &'static str) -> Result<(), ParseError> {
        if self.take(c) { Ok(()) } else { self.here().want(what) }
    }

    /// The next word or character without taking it, for messages.
    pub(super) fn here(&self) -> Word<'a> {
        let mut ahead = self.clone();
        let word = ahead.word();
        if !word.text.is_empty() {
            return word;
        }
        let text = ahead.rest();
        let len = text.chars().next().map_or(0, char::len_utf8);
        Word { text: text.get(..len).unwrap_or_default(), at: ahead.at }
    }

    /// Calls `f` for each element of `( … )`, the opening one taken already; commas separate.
    pub(super) fn list(
        &mut self,
        mut f: impl FnMut(&mut Self) -> Result<(), ParseError>,
    ) -> Result<(), ParseError> {
        while self.skip(true) && !self.rest().starts_with(')') {
            f(self)?;
            self.skip(false);
            if !self.rest().starts_with([',', ')']) {
                return self.here().want("\",\" or \")\"");
            }
        }
        self.expect(')', "\")\"")
    }
}
