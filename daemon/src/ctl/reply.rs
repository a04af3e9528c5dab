//! What commands return: one typed value that can be written as text and as JSON.

use core::fmt;

use serde::Serialize;

/// Longest reply, bytes; a longer one is refused. 200,000 flows have half of it.
pub const MAX_REPLY: usize = 128 << 20;

/// The text form of a reply, as Open vSwitch prints it where there is such a command.
pub trait Text {
    /// Writes the text; every line ends in a newline, and no output at all is fine.
    ///
    /// # Errors
    /// Those of `out`.
    fn text(&self, out: &mut dyn fmt::Write) -> fmt::Result;
}

/// A reply in both forms; implemented by everything that is [`Text`] and [`Serialize`].
pub trait Reply {
    /// For text mode.
    ///
    /// # Errors
    /// Those of `out`.
    fn text(&self, out: &mut dyn fmt::Write) -> fmt::Result;

    /// For JSON mode: writes one value.
    ///
    /// # Errors
    /// When the value has no JSON form, as a map whose keys are not strings.
    fn json(&self, out: &mut Vec<u8>) -> serde_json::Result<()>;
}

impl<T: Text + Serialize> Reply for T {
    fn text(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        Text::text(self, out)
    }

    fn json(&self, out: &mut Vec<u8>) -> serde_json::Result<()> {
        serde_json::to_writer(out, self)
    }
}

/// A reply of many megabytes, which is written once only: it is in the form that the connection wants.
#[derive(Clone, Debug)]
pub struct Written(pub String);

impl Reply for Written {
    fn text(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        out.write_str(&self.0)
    }

    fn json(&self, out: &mut Vec<u8>) -> serde_json::Result<()> {
        out.extend_from_slice(self.0.as_bytes());
        Ok(())
    }
}

/// Success without output.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Done {}

impl Text for Done {
    fn text(&self, _out: &mut dyn fmt::Write) -> fmt::Result {
        Ok(())
    }
}

/// A sentence or more for people, with a name in JSON: `{"message":"…"}`.
#[derive(Clone, Debug, Serialize)]
pub struct Message {
    /// Without newline at the end.
    pub message: String,
}

impl Text for Message {
    fn text(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        writeln!(out, "{}", self.message)
    }
}

/// What a change of the configuration changes: `{"changes":[…]}`.
#[derive(Clone, Debug, Serialize)]
pub struct Changes {
    /// One line each, without newlines.
    pub changes: Vec<String>,
}

impl Text for Changes {
    fn text(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        if self.changes.is_empty() {
            return writeln!(out, "nothing changes");
        }
        self.changes.iter().try_for_each(|line| writeln!(out, "{line}"))
    }
}
