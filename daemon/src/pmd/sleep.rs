//! Sleep of an idle PMD thread: until a packet arrives, a command is posted or a bound is reached.
//!
//! Readiness is level-triggered, so a packet or a command that came between the last look and the sleep
//! ends it at once; nothing need be armed. A socket's poll also transmits what lies in its tx ring
//! and hides a refusal, so a thread with unsent packets naps by the clock instead.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{EventfdFlags, Timespec, epoll, eventfd};

/// What an event of the wake-up descriptor carries, and one of a socket.
const WAKE: u64 = 0;
const PACKETS: u64 = 1;

/// Ends a sleep from another thread.
#[derive(Clone, Debug)]
pub struct Waker(Arc<OwnedFd>);

impl Waker {
    /// Ends the current or the next sleep.
    pub fn wake(&self) {
        // A full counter (EAGAIN) means that a wake-up is pending already.
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }
}

/// What the thread sleeps on.
#[derive(Debug)]
pub struct Sleeper {
    epoll: OwnedFd,
    wake: Arc<OwnedFd>,
}

impl Sleeper {
    /// A sleeper that so far only a [`Waker`] can wake.
    ///
    /// # Errors
    /// When the process has no file descriptor left.
    pub fn new() -> std::io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let wake = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        epoll::add(&epoll, &*wake, epoll::EventData::new_u64(WAKE), epoll::EventFlags::IN)?;
        Ok(Self { epoll, wake })
    }

    /// For the other threads.
    #[must_use]
    pub fn waker(&self) -> Waker {
        Waker(Arc::clone(&self.wake))
    }

    /// Packets at this socket end the sleep from now on. Closing the socket removes it.
    ///
    /// # Errors
    /// When the kernel refuses (too many watches).
    pub fn watch(&self, socket: impl AsFd) -> std::io::Result<()> {
        epoll::add(&self.epoll, socket, epoll::EventData::new_u64(PACKETS), epoll::EventFlags::IN)?;
        Ok(())
    }

    /// Packets at this socket do not matter any more.
    pub fn unwatch(&self, socket: impl AsFd) {
        // Not watched is what is wanted.
        let _ = epoll::delete(&self.epoll, socket);
    }

    /// Sleeps until something happens, at most `bound`.
    pub fn sleep(&self, bound: Duration) {
        let timeout = Timespec {
            tv_sec: i64::try_from(bound.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(bound.subsec_nanos()),
        };
        let mut events = [MaybeUninit::uninit(); 8];
        // An interrupted or failed sleep is a short one; the next pass looks at everything anyway.
        let Ok((events, _)) = epoll::wait(&self.epoll, &mut events, Some(&timeout)) else { return };
        if events.iter().any(|event| event.data.u64() == WAKE) {
            let _ = rustix::io::read(&self.wake, &mut [0; 8]);
        }
    }
}
