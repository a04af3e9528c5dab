//! One client: what it sent so far, and what it has not read yet.
//!
//! Invariant: no request of a client is run while a reply to it is unsent. So a client who does not
//! read is not read either, and holds one request and one reply at most.

use std::io::{self, ErrorKind, Read, Write};
use std::time::{Duration, Instant};

use mio::net::UnixStream;
use serde_json::Value;

use super::protocol::{self, BadRequest, Format, Request, RequestReader};

/// A client with an unsent reply that reads nothing for so long is disconnected.
pub(super) const STUCK_AFTER: Duration = Duration::from_secs(10);

/// Bytes read from one client at a time, so that none keeps the others waiting.
const READ_SIZE: usize = 16 << 10;

/// What to do next about a client.
#[derive(Debug, PartialEq)]
pub(super) enum Turn {
    /// Run this request and reply.
    Run(Request),
    /// Nothing until the socket says so.
    Wait,
    /// Close.
    Close,
}

/// A connected client.
#[derive(Debug)]
pub(super) struct Conn {
    pub(super) stream: UnixStream,
    pub(super) format: Format,
    /// When something last moved.
    pub(super) active: Instant,
    /// It stands in the server's queue of those that can move on.
    pub(super) queued: bool,
    reader: RequestReader,
    unsent: Vec<u8>,
    sent: usize,
    /// The socket may have more to read.
    readable: bool,
    /// The client has closed its side, or is to be closed once it has read its last reply.
    ending: bool,
}

impl Conn {
    pub(super) fn new(stream: UnixStream, now: Instant) -> Self {
        Self {
            stream,
            format: Format::Text,
            active: now,
            queued: false,
            reader: RequestReader::default(),
            unsent: Vec::new(),
            sent: 0,
            readable: true,
            ending: false,
        }
    }

    /// Notes that the socket became readable.
    pub(super) fn set_readable(&mut self) {
        self.readable = true;
    }

    /// Bytes of the reply that the client has not read.
    pub(super) fn unsent(&self) -> usize {
        self.unsent.len() - self.sent
    }

    /// True for a client who has long been reading nothing of its reply.
    pub(super) fn is_stuck(&self, now: Instant) -> bool {
        self.unsent() > 0 && now.duration_since(self.active) >= STUCK_AFTER
    }

    /// Moves on as far as the socket allows: sends, then reads, then cuts out the next request.
    pub(super) fn turn(&mut self, now: Instant) -> Turn {
        loop {
            match self.send(now) {
                Ok(true) => {}
                Ok(false) => return Turn::Wait,
                Err(_) => return Turn::Close,
            }
            match self.reader.take() {
                _ if self.ending => return Turn::Close,
                Ok(Some(request)) => return Turn::Run(request),
                Err(bad) => self.refuse(&bad, now),
                Ok(None) if self.readable => self.receive(now),
                Ok(None) => return Turn::Wait,
            }
        }
    }

    /// Sends a reply as far as the socket takes it now; [`turn`](Self::turn) sends the rest.
    pub(super) fn reply(&mut self, bytes: Vec<u8>, now: Instant) {
        self.unsent = bytes;
        self.sent = 0;
        if self.send(now).is_err() {
            self.ending = true;
            self.unsent = Vec::new();
        }
    }

    /// Says what is wrong with the client's bytes; it is closed when it has read that.
    fn refuse(&mut self, bad: &BadRequest, now: Instant) {
        self.ending = true;
        self.reply(protocol::encode_error(&bad.id, &bad.problem.to_string()), now);
    }

    /// Says why the client is not wanted; the caller closes it.
    pub(super) fn reject(&mut self, why: &str, now: Instant) {
        self.reply(protocol::encode_error(&Value::Null, why), now);
    }

    /// Sends what is unsent; true when all of it is.
    fn send(&mut self, now: Instant) -> io::Result<bool> {
        while let Some(rest) = self.unsent.get(self.sent..).filter(|rest| !rest.is_empty()) {
            match self.stream.write(rest) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(n) => {
                    self.sent += n;
                    self.active = now;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.unsent = Vec::new();
        self.sent = 0;
        Ok(true)
    }

    fn receive(&mut self, now: Instant) {
        let mut chunk = [0; READ_SIZE];
        let n = self.reader.room().min(READ_SIZE);
        match self.stream.read(chunk.get_mut(..n).unwrap_or_default()) {
            Ok(0) => self.ending = true,
            Ok(n) => {
                self.active = now;
                self.reader.feed(chunk.get(..n).unwrap_or_default());
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => self.readable = false,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => self.ending = true,
        }
    }
}
