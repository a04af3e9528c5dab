//! The thread around the loop, and the handle by which the main thread commands it.
//!
//! A command is a function that runs on the thread between two passes, when no packet is under way. The
//! queue of commands is bounded, and so is the wait for an answer.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
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
    /// It did not answer the last time.
    late: AtomicBool,
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
            Ok(Ok(())) => {
                let late = AtomicBool::new(false);
                Ok(Self { core, commands, waker, stats, late, thread: Some(thread) })
            }
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
        // Asked before there is a command that an idle thread has yet to take up.
        let patience = self.patience();
        self.post(move |pmd| {
            // Nobody waits any more when the answer was late.
            let _ = answer.send(f(pmd));
        })?;
        let answer = answered.recv_timeout(patience);
        self.late.store(answer.is_err(), Relaxed);
        answer.map_err(|_| PmdError::Hung(self.core))
    }

    /// True while a thread that did not answer still has not taken up what it was told since.
    #[must_use]
    pub fn is_hung(&self) -> bool {
        self.late.load(Relaxed) && !self.commands.is_empty()
    }

    /// How long to wait for the thread: not again and again for one that hangs.
    fn patience(&self) -> Duration {
        if self.is_hung() { Duration::ZERO } else { ANSWER_WITHIN }
    }

    /// Has the thread run `f` between two passes and does not wait for it.
    ///
    /// # Errors
    /// [`PmdError::Hung`] when the queue of commands stays full.
    pub fn post(&self, f: impl FnOnce(&mut Pmd) + Send + 'static) -> Result<(), PmdError> {
        self.commands
            .send_timeout(Command::Run(Box::new(f)), self.patience())
            .map_err(|_| PmdError::Hung(self.core))?;
        self.waker.wake();
        Ok(())
    }

    /// Stops the thread and returns its state; `None` when it does not stop in time.
    pub fn stop(&mut self) -> Option<Pmd> {
        // Whoever answers comes to the next command as well.
        self.call(|_| ()).ok()?;
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

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use xvs_datapath::{Datapath, DatapathConfig, Switch};
    use xvs_netdev_afxdp::{FrameCache, Umem, UmemConfig};

    use super::*;
    use crate::pmd::PmdConfig;

    fn start() -> PmdHandle {
        let umem =
            Umem::create(UmemConfig { frames: 64, ..UmemConfig::default() }).expect("memory");
        let config =
            PmdConfig { batch_size: 32, sleep_max: Duration::from_millis(10), perf_metrics: false };
        let datapath = Datapath::new(DatapathConfig::default(), 1);
        let cache = FrameCache::new(umem, 0);
        PmdHandle::start(CoreId(0), Clock::start(), |sleeper| {
            Pmd::new(config, datapath, cache, Arc::new(Switch::new()), sleeper)
        })
        .expect("a thread on core 0")
    }

    #[test]
    fn a_hung_thread_keeps_its_callers_waiting_once() {
        let mut handle = start();
        assert!(handle.call(|pmd| pmd.rxqs.len()).is_ok_and(|n| n == 0) && !handle.is_hung());
        let (resume, resumed) = bounded::<()>(1);
        let hang = move |_: &mut Pmd| resumed.recv().is_ok();
        handle.post(move |pmd| assert!(hang(pmd))).expect("room");
        let first = Instant::now();
        assert!(matches!(handle.call(|_| ()), Err(PmdError::Hung(CoreId(0)))));
        assert!(first.elapsed() >= ANSWER_WITHIN && handle.is_hung());
        let others = Instant::now();
        for _ in 0..2 * MAX_COMMANDS {
            assert!(handle.call(|_| ()).is_err());
        }
        assert!(handle.stop().is_none(), "it cannot stop now");
        assert!(others.elapsed() < ANSWER_WITHIN, "{:?}", others.elapsed());
        resume.send(()).expect("it waits for this");
        while handle.is_hung() {
            std::thread::yield_now();
        }
        assert!(handle.call(|_| ()).is_ok());
        assert!(handle.stop().is_some_and(|pmd| pmd.rxqs.is_empty()));
    }

    #[test]
    fn a_core_that_does_not_exist_is_refused() {
        let error = pin(CoreId(1023)).expect_err("no machine of ours has it");
        assert!(PmdError::Start(CoreId(1023), error).to_string().contains("cpu-mask"));
    }
}
