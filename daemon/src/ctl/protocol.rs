//! The unixctl protocol: JSON objects one after the other on a stream, without framing.
//!
//! Where an object ends is found by counting brackets, one look at each byte, so that a client who
//! sends single bytes costs no more than one who does not. What the brackets enclose is then parsed by
//! serde_json. Invariant: the reader never holds more than [`REQUEST_SIZE`] bytes of one request.

use core::fmt;

use serde::{Serialize, Serializer as _};
use serde_json::Value;

use super::{CtlError, Reply};

/// Longest request, bytes.
pub const REQUEST_SIZE: usize = 64 << 10;

/// Deepest nesting of brackets in a request.
const DEPTH: usize = 32;

/// A request. Parameters are checked to be strings when the command is known.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// Chosen by the client and echoed as it is.
    pub id: Value,
    /// The command.
    pub method: String,
    /// Its arguments.
    pub params: Vec<Value>,
}

/// The client does not speak the protocol; the connection is closed after saying so.
#[derive(Clone, Debug, PartialEq)]
pub struct BadRequest {
    /// The request's id, where it could be read; otherwise null.
    pub id: Value,
    /// What is wrong.
    pub problem: Problem,
}

/// What is wrong with a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// Longer than [`REQUEST_SIZE`].
    TooLong,
    /// Brackets nested deeper than any request has.
    TooDeep,
    /// Does not begin with a brace.
    NotAnObject,
    /// Not JSON, with serde_json's explanation.
    Syntax(String),
    /// JSON, but no request: says which member is missing or of the wrong type.
    Member(&'static str),
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong => write!(f, "request is longer than {REQUEST_SIZE} bytes"),
            Self::TooDeep => write!(f, "request is nested deeper than {DEPTH} levels"),
            Self::NotAnObject => f.write_str("request is not a JSON object"),
            Self::Syntax(why) => write!(f, "request is not valid JSON: {why}"),
            Self::Member(what) => write!(f, "request is not a JSON-RPC request: {what}"),
        }
    }
}

/// Cuts a stream of bytes into requests.
#[derive(Debug, Default)]
pub struct RequestReader {
    buffer: Vec<u8>,
    /// Bytes already looked at.
    scanned: usize,
    depth: usize,
    in_string: bool,
    escaped: bool,
}

impl RequestReader {
    /// How many bytes may be fed now; 0 when requests have to be taken out first.
    #[must_use]
    pub fn room(&self) -> usize {
        REQUEST_SIZE.saturating_sub(self.buffer.len())
    }

    /// Adds received bytes; at most [`room`](Self::room), the rest would exceed the bound.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// The next complete request, or `None` until more bytes arrive.
    ///
    /// # Errors
    /// [`BadRequest`]; the reader is of no use afterwards, as nobody knows where the next request begins.
    pub fn take(&mut self) -> Result<Option<Request>, BadRequest> {
        match self.scan() {
            Ok(Some(end)) => {
                let request = parse(self.buffer.get(..end).unwrap_or_default());
                self.buffer.drain(..end);
                self.scanned = 0;
                request.map(Some)
            }
            Ok(None) if self.room() == 0 => Err(without_id(Problem::TooLong)),
            Ok(None) => Ok(None),
            Err(problem) => Err(without_id(problem)),
        }
    }

    /// Where the first object in the buffer ends.
    fn scan(&mut self) -> Result<Option<usize>, Problem> {
        if self.depth == 0 {
            let blanks = self.buffer.iter().take_while(|b| b.is_ascii_whitespace()).count();
            self.buffer.drain(..blanks);
        }
        let unseen = self.buffer.get(self.scanned..).unwrap_or_default();
        for &byte in unseen {
            self.scanned += 1;
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' if self.in_string => self.escaped = true,
                b'"' if self.depth > 0 => self.in_string = !self.in_string,
                _ if self.in_string => {}
                b'{' | b'[' if self.depth == DEPTH => return Err(Problem::TooDeep),
                b'{' => self.depth += 1,
                _ if self.depth == 0 => return Err(Problem::NotAnObject),
                b'[' => self.depth += 1,
                b'}' | b']' => {
                    self.depth -= 1;
                    if self.depth == 0 {
                        return Ok(Some(self.scanned));
                    }
                }
                _ => {}
            }
        }
        Ok(None)
    }
}

fn without_id(problem: Problem) -> BadRequest {
    BadRequest { id: Value::Null, problem }
}

fn parse(object: &[u8]) -> Result<Request, BadRequest> {
    let value = serde_json::from_slice(object)
        .map_err(|error| without_id(Problem::Syntax(error.to_string())))?;
    let Value::Object(mut members) = value else {
        return Err(without_id(Problem::NotAnObject));
    };
    let id = members.remove("id").unwrap_or(Value::Null);
    let bad = |what| BadRequest { id: id.clone(), problem: Problem::Member(what) };
    if id.is_null() {
        return Err(bad("it has no \"id\""));
    }
    let Some(Value::String(method)) = members.remove("method") else {
        return Err(bad("\"method\" is not a string"));
    };
    let Some(Value::Array(params)) = members.remove("params") else {
        return Err(bad("\"params\" is not an array"));
    };
    Ok(Request { id, method, params })
}

/// How a connection wants replies; set by `set-options --format`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// A string as for a terminal.
    #[default]
    Text,
    /// A JSON value.
    Json,
}

/// The reply as the protocol has it: these three members and no other, in text and JSON mode.
#[derive(Serialize)]
struct Message<'a, T> {
    id: &'a Value,
    result: T,
    error: Option<&'a str>,
}

/// Encodes what a command returned. A reply may have many megabytes: there is no second copy of it meanwhile.
#[must_use]
pub fn encode(id: &Value, outcome: &Result<Box<dyn Reply>, CtlError>, format: Format) -> Vec<u8> {
    let reply = match outcome {
        Ok(reply) => reply,
        Err(error) => return encode_error(id, &error.to_string()),
    };
    let mut bytes = Vec::new();
    match write(&mut bytes, id, &**reply, format) {
        Ok(()) => bytes,
        Err(error) => encode_error(id, &format!("the reply cannot be encoded: {error}")),
    }
}

/// Writes a [`Message`] with the reply as its result.
fn write(
    out: &mut Vec<u8>,
    id: &Value,
    reply: &dyn Reply,
    format: Format,
) -> serde_json::Result<()> {
    out.extend_from_slice(br#"{"id":"#);
    serde_json::to_writer(&mut *out, id)?;
    out.extend_from_slice(br#","result":"#);
    match format {
        Format::Text => serde_json::Serializer::new(&mut *out).collect_str(&AsText(reply))?,
        Format::Json => reply.json(out)?,
    }
    out.extend_from_slice(br#","error":null}"#);
    Ok(())
}

/// A reply's text, not yet written. A text fails where what it is written to does, and a vector does not.
struct AsText<'a>(&'a dyn Reply);

impl fmt::Display for AsText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.text(f)
    }
}

/// Encodes a refusal; its text ends in a newline, as Open vSwitch's do.
#[must_use]
pub fn encode_error(id: &Value, error: &str) -> Vec<u8> {
    let error = format!("{}\n", error.trim_end_matches('\n'));
    let message = Message { id, result: Value::Null, error: Some(&error) };
    // A value and a string always encode.
    serde_json::to_vec(&message).unwrap_or_default()
}

#[cfg(test)]
mod tests;
