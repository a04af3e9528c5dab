//! A switch in memory behind a real control socket, on a thread of its own.

use std::fs;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use mio::{Events, Poll, Token};
use serde::Deserialize;
use serde_json::{Value, json};
use slog::{Discard, Logger, o};

use super::MemorySwitch;
use crate::ctl::CtlServer;
use crate::rundir::{RunDir, SocketAccess};

/// A directory that goes when this does.
#[derive(Debug)]
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("xvs-ctl-{}-{n}", process::id()));
        fs::create_dir(&path).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).unwrap();
    }
}

/// What the thread and the test share.
#[derive(Debug, Default)]
struct Shared {
    stop: AtomicBool,
    /// Seconds that the server's clock is ahead.
    ahead_s: AtomicU64,
    n_clients: AtomicU64,
    ticks: AtomicU64,
}

/// The server, its run directory and its thread.
#[derive(Debug)]
pub(crate) struct Served {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<MemorySwitch>>,
    /// Goes after the thread, which removes its files first.
    pub(crate) scratch: Scratch,
}

impl Served {
    pub(crate) fn start(switch: MemorySwitch) -> Self {
        let scratch = Scratch::new();
        let shared = Arc::new(Shared::default());
        let (dir, listener) = RunDir::claim(scratch.path(), &SocketAccess::default()).unwrap();
        let theirs = Arc::clone(&shared);
        let thread = thread::spawn(move || serve(switch, dir, listener, &theirs));
        Self { shared, thread: Some(thread), scratch }
    }

    pub(crate) fn socket(&self) -> PathBuf {
        RunDir::link_in(self.scratch.path())
    }

    /// Lets time pass for the server, and waits until it has noticed.
    pub(crate) fn pass(&self, seconds: u64) {
        self.shared.ahead_s.fetch_add(seconds, Ordering::Relaxed);
        let before = self.shared.ticks.load(Ordering::Relaxed);
        self.until("two ticks", || self.shared.ticks.load(Ordering::Relaxed) > before + 1);
    }

    /// Waits until the server has so many clients.
    pub(crate) fn wait_clients(&self, n: u64) {
        self.until("clients", || self.shared.n_clients.load(Ordering::Relaxed) == n);
    }

    fn until(&self, what: &str, is_so: impl Fn() -> bool) {
        let limit = Instant::now() + Duration::from_secs(10);
        while !is_so() {
            assert!(Instant::now() < limit, "{what}: not yet, {:?}", self.shared);
            thread::sleep(Duration::from_millis(2));
        }
    }

    /// Ends the server; the switch as it was then.
    pub(crate) fn stop(mut self) -> MemorySwitch {
        self.shared.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap()
    }

    pub(crate) fn client(&self) -> Client {
        let stream = UnixStream::connect(self.socket()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        Client(stream)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
            && !thread::panicking()
        {
            panic!("the server panicked");
        }
    }
}

fn serve(
    mut switch: MemorySwitch,
    dir: RunDir,
    listener: std::os::unix::net::UnixListener,
    shared: &Shared,
) -> MemorySwitch {
    let mut poll = Poll::new().unwrap();
    let mut events = Events::with_capacity(64);
    let listener = mio::net::UnixListener::from_std(listener);
    let log = Logger::root(Discard, o!());
    let mut server = CtlServer::new(listener, poll.registry(), Token(5), log).unwrap();
    while !shared.stop.load(Ordering::Relaxed) && switch.exit.is_none() {
        let pause = if server.is_busy() { 0 } else { 5 };
        poll.poll(&mut events, Some(Duration::from_millis(pause))).unwrap();
        for event in &events {
            assert!(server.owns(event.token()));
            server.event(event);
        }
        let now = Instant::now() + Duration::from_secs(shared.ahead_s.load(Ordering::Relaxed));
        server.run(&mut switch, now);
        server.tick(&mut switch, now);
        shared.n_clients.store(server.n_clients() as u64, Ordering::Relaxed);
        shared.ticks.fetch_add(1, Ordering::Relaxed);
    }
    drop(dir);
    switch
}

/// A client that does what it is told.
#[derive(Debug)]
pub(crate) struct Client(pub(crate) UnixStream);

impl Client {
    /// Sends a request; what is written to a server that has hung up is lost.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> bool {
        self.0.write_all(bytes).is_ok()
    }

    /// The next reply; `None` when the server has hung up.
    pub(crate) fn receive(&mut self) -> Option<Value> {
        // serde_json takes one byte at a time, so nothing of the next reply.
        Value::deserialize(&mut serde_json::Deserializer::from_reader(&self.0)).ok()
    }

    pub(crate) fn ask(&mut self, method: &str, params: &[&str]) -> Value {
        let request = json!({ "id": 3, "method": method, "params": params });
        assert!(self.send(request.to_string().as_bytes()), "the server has hung up");
        self.receive().expect("a reply")
    }
}
