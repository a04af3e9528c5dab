//! The thread around the loop, and the handle by which the main thread commands it.
//!
//! A command is a function that runs on the thread between two passes, when no packet is under way. The
//! queue of commands is bounded, and so is the wait for an answer.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded};
use rustix::thread::{CpuSet, sched_setaffinity};
use xvs_datapath::CoreId;

use super::{Pmd, PmdStats, Sleeper, Waker};
use crate::clock::Clock;

/// Commands that may wait for a thread.
const MAX_COMMANDS: usize = 16;

/// How long a thread may take to answer; a pass takes microseconds.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);

enum Command {
    Run(Box<dyn FnOnce(&mut Pmd) + Send>),
    Stop,
}

/// What can go wrong with a PMD thread.
#[derive(Debug)]
pub enum PmdError {
    /// It did not answer a command in time.
    Hung(CoreId),
    /// It could not be started on its core.
    Start(CoreId, io::Error),
}

impl fmt::Display for PmdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hung(core) => {
                write!(f, "thread {} did not answer within {ANSWER_WITHIN:?}", thread_name(*core))
            }
            Self::Start(core, error) => write!(
                f,
                "thread {} cannot be started: {error}; check cpu-mask against the cores this process may use",
                thread_name(*core)
            ),
        }
    }
}

impl std::error::Error for PmdError {}

/// The name that the thread has in `top` and in the texts of commands.
#[must_use]
pub fn thread_name(core: CoreId) -> String {
    format!("pmd-c{:02}", core.0)
}

/// A running PMD thread.
pub struct PmdHandle {
    core: CoreId,
    commands: Sender<Command>,
    waker: Waker,
    stats: Arc<PmdStats>,
    thread: Option<JoinHandle<Pmd>>,
}

impl fmt::Debug for PmdHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PmdHandle").field("core", &self.core).finish_non_exhaustive()
    }
}

impl PmdHandle {
    /// Starts a thread pinned to `core`; `build` makes its state from its sleeper.
    ///
    /// # Errors
    /// [`PmdError::Start`] when the thread cannot be created or pinned.
    pub fn start(
        core: CoreId,
        clock: Clock,
        build: impl FnOnce(Sleeper) -> Pmd,
    ) -> Result<Self, PmdError> {
        let failed = |error| PmdError::Start(core, error);
        let sleeper = Sleeper::new().map_err(failed)?;
        let waker = sleeper.waker();
        let pmd = build(sleeper);
        let stats = Arc::clone(&pmd.stats);
        let (commands, queue) = bounded(MAX_COMMANDS);
        let (pinned, is_pinned) = bounded(1);
        let thread = std::thread::Builder::new()
            .name(thread_name(core))
            .spawn(move || {
                let result = pin(core);
                let good = result.is_ok();
                // The starter waits for this, so the channel has room and a receiver.
                let _ = pinned.send(result);
                if good { run(pmd, &queue, clock) } else { pmd }
            })
            .map_err(failed)?;
        match is_pinned.recv() {
            Ok(Ok(())) => Ok(Self { core, commands, waker, stats, thread: Some(thread) }),
            Ok(Err(error)) => Err(failed(error)),
            Err(_) => Err(failed(io::Error::other("it ended at once"))),
        }
    }

    /// The core it is pinned to.
    #[must_use]
    pub fn core(&self) -> CoreId {
        self.core
    }

    /// Its counters.
    #[must_use]
    pub fn stats(&self) -> &PmdStats {
        &self.stats
    }

    /// Runs `f` on the thread between two passes and returns what it returns.
    ///
    /// # Errors
    /// [`PmdError::Hung`] when there is no answer in time; `f` may still run later.
    pub fn call<R: Send + 'static>(
        &self,
        f: impl FnOnce(&mut Pmd) -> R + Send + 'static,
    ) -> Result<R, PmdError> {
        let (answer, answered) = bounded(1);
        self.post(move |pmd| {
            // Nobody waits any more when the answer was late.
            let _ = answer.send(f(pmd));
        })?;
        answered.recv_timeout(ANSWER_WITHIN).map_err(|_| PmdError::Hung(self.core))
    }

    /// Has the thread run `f` between two passes and does not wait for it.
    ///
    /// # Errors
    /// [`PmdError::Hung`] when the queue of commands stays full.
    pub fn post(&self, f: impl FnOnce(&mut Pmd) + Send + 'static) -> Result<(), PmdError> {
        self.commands
            .send_timeout(Command::Run(Box::new(f)), ANSWER_WITHIN)
            .map_err(|_| PmdError::Hung(self.core))?;
        self.waker.wake();
        Ok(())
    }

    /// Stops the thread and returns its state; `None` when it does not stop in time.
    pub fn stop(&mut self) -> Option<Pmd> {
        self.commands.send_timeout(Command::Stop, ANSWER_WITHIN).ok()?;
        self.waker.wake();
        self.thread.take()?.join().ok()
    }
}

fn pin(core: CoreId) -> io::Result<()> {
    let core = core.0 as usize;
    if core >= CpuSet::MAX_CPU {
        return Err(io::Error::from_raw_os_error(22));
    }
    let mut set = CpuSet::new();
    set.set(core);
    Ok(sched_setaffinity(None, &set)?)
}

/// Passes and commands until told to stop.
fn run(mut pmd: Pmd, commands: &Receiver<Command>, clock: Clock) -> Pmd {
    loop {
        let now = clock.now();
        let received = pmd.pass(now);
        if pmd.is_called() {
            for command in commands.try_iter() {
                match command {
                    Command::Run(f) => f(&mut pmd),
                    Command::Stop => return pmd,
                }
                pmd.stats.commands.add(1);
            }
        }
        if received == 0 {
            pmd.rest(now, clock);
        }
    }
}
