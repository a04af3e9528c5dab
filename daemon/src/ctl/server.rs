//! The control socket on the main loop: accepts clients, runs their requests, sends the replies.
//!
//! Nothing here blocks. Every quantity is bounded: [`MAX_CLIENTS`] clients, one request and one reply
//! for each, [`TOTAL_UNSENT`] bytes of replies over all of them, [`TURNS`] requests per call.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::time::{Duration, Instant};

use mio::event::Event;
use mio::net::{UnixListener, UnixStream};
use mio::{Interest, Registry, Token};
use slog::{Logger, warn};

use super::command::{self, Context};
use super::conn::{Conn, Turn};
use super::coverage::Coverage;
use super::protocol::{self, Request};
use super::{Control, CtlError, MAX_REPLY};

/// Most clients at a time.
pub const MAX_CLIENTS: usize = 256;

/// Bytes of replies that wait for slow readers, over all clients; a reply beyond it is refused.
const TOTAL_UNSENT: usize = MAX_REPLY;

/// Requests per call, so that the main loop gets to its other duties.
const TURNS: usize = 64;

/// Clients accepted per call, for the same reason.
const ACCEPTS: usize = 64;

/// When all places are taken, a client that has been silent for so long makes room for a new one.
const SILENT_AFTER: Duration = Duration::from_secs(10);

/// The control socket and its clients.
#[derive(Debug)]
pub struct CtlServer {
    listener: UnixListener,
    clients: Vec<Option<Conn>>,
    /// Clients (by place) that can move on.
    ready: VecDeque<usize>,
    coverage: Coverage,
    /// There may be more to accept.
    accepting: bool,
    first: usize,
    registry: Registry,
    log: Logger,
    accept_failed: bool,
}

impl CtlServer {
    /// How many tokens the server uses, from the one given to [`new`](Self::new).
    pub const TOKENS: usize = MAX_CLIENTS + 1;

    /// Serves `listener` with tokens from `first` on.
    ///
    /// # Errors
    /// When the listener cannot be registered.
    pub fn new(
        mut listener: UnixListener,
        registry: &Registry,
        first: Token,
        log: Logger,
    ) -> io::Result<Self> {
        let registry = registry.try_clone()?;
        registry.register(&mut listener, first, Interest::READABLE)?;
        let clients = (0..MAX_CLIENTS).map(|_| None).collect();
        Ok(Self {
            listener,
            clients,
            ready: VecDeque::new(),
            coverage: Coverage::default(),
            accepting: false,
            first: first.0,
            registry,
            log,
            accept_failed: false,
        })
    }

    /// True when the token is one of this server's.
    #[must_use]
    pub fn owns(&self, token: Token) -> bool {
        (self.first..self.first + Self::TOKENS).contains(&token.0)
    }

    /// How many clients are connected.
    #[must_use]
    pub fn n_clients(&self) -> usize {
        self.clients.iter().flatten().count()
    }

    /// True when [`run`](Self::run) would have something to do: the main loop must not sleep.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        self.accepting || !self.ready.is_empty()
    }

    /// Notes an event of a token of this server's; [`run`](Self::run) acts on it.
    pub fn event(&mut self, event: &Event) {
        let Some(place) = event.token().0.checked_sub(self.first + 1) else {
            self.accepting = true;
            return;
        };
        if let Some(Some(conn)) = self.clients.get_mut(place) {
            if event.is_readable() || event.is_read_closed() || event.is_error() {
                conn.set_readable();
            }
            self.enqueue(place);
        }
    }

    /// Lets a client move on in the next [`run`](Self::run); each stands in the queue at most once.
    fn enqueue(&mut self, place: usize) {
        if let Some(Some(conn)) = self.clients.get_mut(place)
            && !conn.queued
        {
            conn.queued = true;
            self.ready.push_back(place);
        }
    }

    /// Accepts clients and runs requests, a bounded number of each.
    pub fn run(&mut self, control: &mut dyn Control, now: Instant) {
        self.accept(now);
        for _ in 0..TURNS {
            let Some(place) = self.ready.pop_front() else { return };
            self.turn(place, control, now);
        }
    }

    /// To be called about once a second: disconnects clients who do not read, tries again to accept
    /// after a failure, and takes samples of the counters every five seconds.
    pub fn tick(&mut self, control: &mut dyn Control, now: Instant) {
        if self.coverage.is_due(now)
            && let Err(error) = self.coverage.sample(control, now)
        {
            warn!(self.log, "no sample of the counters"; "error" => %error);
        }
        for place in 0..self.clients.len() {
            let conn = self.clients.get(place).and_then(Option::as_ref);
            if conn.is_some_and(|conn| conn.is_stuck(now)) {
                warn!(self.log, "control client reads nothing, disconnected"; "place" => place);
                self.close(place);
            }
        }
        self.accepting |= self.accept_failed;
    }

    fn turn(&mut self, place: usize, control: &mut dyn Control, now: Instant) {
        let elsewhere = self.unsent();
        let Some(Some(conn)) = self.clients.get_mut(place) else { return };
        conn.queued = false;
        match conn.turn(now) {
            Turn::Wait => {}
            Turn::Close => self.close(place),
            Turn::Run(request) => {
                let limit = TOTAL_UNSENT.saturating_sub(elsewhere);
                let reply = answer(&request, conn, &self.coverage, control);
                let reply = bounded(&request, reply, limit);
                conn.reply(reply, now);
                self.enqueue(place);
            }
        }
    }

    fn unsent(&self) -> usize {
        self.clients.iter().flatten().map(Conn::unsent).sum()
    }

    fn accept(&mut self, now: Instant) {
        for _ in 0..ACCEPTS {
            if !self.accepting {
                return;
            }
            match self.listener.accept() {
                Ok((stream, _)) => {
                    self.accept_failed = false;
                    self.admit(stream, now);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.accepting = false,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    if !self.accept_failed {
                        warn!(self.log, "cannot accept a control client"; "error" => %error);
                    }
                    (self.accepting, self.accept_failed) = (false, true);
                }
            }
        }
    }

    fn admit(&mut self, stream: UnixStream, now: Instant) {
        let mut conn = Conn::new(stream, now);
        let Some(place) = self.free_place(now) else {
            conn.reject(&format!("too many control clients (at most {MAX_CLIENTS})"), now);
            return;
        };
        let token = Token(self.first + 1 + place);
        let interest = Interest::READABLE | Interest::WRITABLE;
        if let Err(error) = self.registry.register(&mut conn.stream, token, interest) {
            warn!(self.log, "cannot watch a control client"; "error" => %error);
            return;
        }
        if let Some(free) = self.clients.get_mut(place) {
            *free = Some(conn);
            self.enqueue(place);
        }
    }

    /// A place for a new client, if need be that of the one who has been silent longest.
    fn free_place(&mut self, now: Instant) -> Option<usize> {
        if let Some(place) = self.clients.iter().position(Option::is_none) {
            return Some(place);
        }
        let active = |conn: &Option<Conn>| conn.as_ref().map(|conn| conn.active);
        let ages = self.clients.iter().enumerate();
        let (place, since) = ages.map(|(place, conn)| (place, active(conn))).min_by_key(|x| x.1)?;
        if now.duration_since(since?) < SILENT_AFTER {
            return None;
        }
        self.close(place);
        Some(place)
    }

    fn close(&mut self, place: usize) {
        if let Some(mut conn) = self.clients.get_mut(place).and_then(Option::take) {
            // Closing the descriptor would do; only its error is of no interest.
            let _ = self.registry.deregister(&mut conn.stream);
        }
    }
}

/// Runs a request and encodes its reply.
fn answer(
    request: &Request,
    conn: &mut Conn,
    coverage: &Coverage,
    control: &mut dyn Control,
) -> Vec<u8> {
    let mut context = Context { control, format: &mut conn.format, coverage };
    let outcome = command::execute(&mut context, request);
    protocol::encode(&request.id, &outcome, conn.format)
}

/// The reply, or a refusal if it has more than `limit` bytes.
fn bounded(request: &Request, reply: Vec<u8>, limit: usize) -> Vec<u8> {
    if reply.len() <= limit {
        return reply;
    }
    let error = CtlError::ReplyTooLong { size: reply.len(), limit };
    protocol::encode_error(&request.id, &error.to_string())
}

#[cfg(test)]
mod tests;
