//! Sleep of an idle PMD thread: until a packet arrives, a command is posted or a bound is reached.
//!
//! Readiness is level-triggered, so a packet or a command that came between the last look and the sleep
//! ends it at once; nothing need be armed. The kernel is told of the sockets for the time of the sleep
//! only: a socket that somebody watches pays a wake-up for every packet that it sends, which is a
//! tenth of what a small packet costs. Polling a socket also transmits what lies in its tx ring and
//! hides a refusal, so a thread with unsent packets naps by the clock instead.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{
    AtomicBool,
    Ordering::{Acquire, Relaxed, Release},
};
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

/// A call from another thread: a flag for a thread that polls, a descriptor for one that sleeps.
#[derive(Debug)]
struct Call {
    pending: AtomicBool,
    event: OwnedFd,
}

/// Calls a thread from another one.
#[derive(Clone, Debug)]
pub struct Waker(Arc<Call>);

impl Waker {
    /// Lets [`Sleeper::is_called`] be true, and ends the current or the next sleep. What was done
    /// before is seen by the thread that is called.
    pub fn wake(&self) {
        self.0.pending.store(true, Release);
        // A full counter (EAGAIN) means that a wake-up is pending already.
        let _ = rustix::io::write(&self.0.event, &1u64.to_ne_bytes());
    }
}

/// What a thread sleeps on besides its sockets.
#[derive(Debug)]
pub struct Sleeper(Arc<Call>);

impl Sleeper {
    /// A sleeper.
    ///
    /// # Errors
    /// When the process has no file descriptor left.
    pub fn new() -> std::io::Result<Self> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self(Arc::new(Call { pending: AtomicBool::new(false), event })))
    }

    /// True once after each call (several may be taken as one). Costs a polling thread one load.
    #[inline]
    #[must_use]
    pub fn is_called(&self) -> bool {
        self.0.pending.load(Relaxed) && self.0.pending.swap(false, Acquire)
    }

    /// For the other threads.
    #[must_use]
    pub fn waker(&self) -> Waker {
        Waker(Arc::clone(&self.0))
    }

    /// Sleeps until a packet arrives at one of `sockets` or somebody wakes it, at most `bound`.
    pub fn sleep<'a, F: AsFd + 'a>(&self, sockets: impl Iterator<Item = &'a F>, bound: Duration) {
        let timeout = Timespec {
            tv_sec: i64::try_from(bound.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(bound.subsec_nanos()),
        };
        let mut fds = vec![PollFd::new(&self.0.event, PollFlags::IN)];
        fds.extend(sockets.map(|socket| PollFd::new(socket, PollFlags::IN)));
        // An interrupted or failed sleep is a short one; the next pass looks at everything anyway.
        let _ = poll(&mut fds, Some(&timeout));
        if fds.first().is_some_and(|wake| wake.revents().contains(PollFlags::IN)) {
            let _ = rustix::io::read(&self.0.event, &mut [0; 8]);
        }
    }
}
