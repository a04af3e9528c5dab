//! When to call `sendto` on an AF_XDP socket, and what its outcome means: a pure state machine.
//!
//! The return code is a hint. Progress is what the kernel took from the tx ring and what came back
//! through the completion ring, and only that decides whether to call again. Four things limit one
//! call (budget, send buffer, completion ring, device queue) and all of them say EAGAIN, so:
//!
//! | outcome of a call | next |
//! |---|---|
//! | ring empty | done |
//! | EAGAIN after a whole budget | call again |
//! | EAGAIN after less | blocked: wait for completions or a short timer |
//! | 0, some taken, some left | call again |
//! | 0, none taken, some left | blocked |
//! | EBUSY | one packet was dropped by the kernel: count it, call again, at most [`MAX_BUSY`] times |
//! | EINTR | call again |
//! | ENETDOWN, ENOBUFS, ENOMEM, anything else | descriptors stay queued; timer with back-off |
//! | ENXIO, ENODEV | [`Verdict::Unbound`], for good |
//! | EINVAL | [`Verdict::Broken`], for good: the kernel completes a frame that it keeps queued |
//!
//! Invariants: a pass makes at most ⌈pending / budget⌉ + [`EXTRA_CALLS`] calls; no call is made while
//! nothing is pending; a blocked queue is never called again before completions came or its timer
//! fired; what the kernel can take is taken as long as [`Kick::run`] is called, without new packets.

use xvs_datapath::Nanos;

#[cfg(test)]
mod real;
#[cfg(test)]
mod sim;
#[cfg(test)]
mod tests;

/// Calls that a pass may make beyond those that the budget accounts for.
pub(crate) const EXTRA_CALLS: u32 = 8;

/// Packets that the kernel may drop (EBUSY) in one pass before the rest waits for the next.
pub(crate) const MAX_BUSY: u32 = 8;

/// The timer of a blocked queue starts here and doubles with every fruitless call.
pub(crate) const MIN_PAUSE: Nanos = Nanos(50_000);
/// The longest timer of a blocked queue.
pub(crate) const MAX_PAUSE: Nanos = Nanos::from_millis(1);

/// The first timer after an error that completions cannot heal, but for ENETDOWN.
const MIN_BACK_OFF: Nanos = Nanos::from_millis(1);
/// The first timer after ENETDOWN.
const DOWN_BACK_OFF: Nanos = Nanos::from_millis(10);
/// The longest timer after such errors: an interface that comes up is used within this time.
const MAX_BACK_OFF: Nanos = Nanos::from_millis(100);

/// The kernel's side of one transmit queue, as far as the protocol sees it.
pub(crate) trait TxKernel {
    /// Descriptors in the tx ring that the kernel has not (visibly) consumed.
    fn pending(&self) -> u32;

    /// Drains the completion ring; how many descriptors came back. What waited for them may enter the tx ring.
    fn reap(&mut self) -> u32;

    /// One `sendto`.
    ///
    /// # Errors
    /// The errno of the call, positive.
    fn send(&mut self) -> Result<(), i32>;

    /// False while the kernel works on the ring by itself: the need_wakeup flag in zero-copy mode.
    /// In copy mode nothing moves without a call, so it is always true.
    fn needs_kick(&self) -> bool {
        true
    }
}

/// Where a pass left the queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing is left in the tx ring.
    #[default]
    Done,
    /// The bound of the pass was reached; the next pass goes on at once.
    More,
    /// The kernel takes nothing before completions come or the timer fires.
    Blocked,
    /// The interface is down; the descriptors stay queued.
    Down,
    /// The kernel is short of memory or reported an errno that is not known here.
    Failed(i32),
    /// The socket is bound no longer: the device was deleted or moved. Close it.
    Unbound,
    /// The kernel refuses a descriptor and would complete it again with every call. Close the socket
    /// and do not trust what is in the completion ring.
    Broken,
}

/// What one pass did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct KickReport {
    /// `sendto` calls.
    pub(crate) calls: u32,
    /// Descriptors that left the tx ring: sent, dropped by the kernel, or found invalid by it.
    pub(crate) sent_descriptors: u32,
    /// Descriptors that came back.
    pub(crate) completed: u32,
    /// Packets that the kernel dropped and said so (EBUSY).
    pub(crate) busy_drops: u32,
    /// Calls that returned EAGAIN.
    pub(crate) again: u32,
    /// Calls that returned anything but success, EAGAIN and EBUSY.
    pub(crate) errors: u32,
    /// How it ended.
    pub(crate) verdict: Verdict,
}

/// Until when no call is made, and why.
#[derive(Clone, Copy, Debug)]
struct Wait {
    until: Nanos,
    /// So many completions end it earlier; `None` when none can.
    completions: Option<u32>,
    why: Verdict,
}

/// The state of one transmit queue between passes.
#[derive(Clone, Debug)]
pub(crate) struct Kick {
    budget: u32,
    wait: Option<Wait>,
    stopped: Option<Verdict>,
    /// Descriptors were left when the last pass ended.
    left: bool,
    pause: Nanos,
    back_off: Nanos,
    /// Descriptors taken from the ring and descriptors completed, since the start.
    consumed: u64,
    completed: u64,
}

/// What to do after one call.
enum Next {
    Again,
    Stop(Verdict),
}

impl Kick {
    /// `budget`: descriptors that the kernel takes in one call (XDP_MAX_TX_SKB_BUDGET, or 32).
    #[must_use]
    pub(crate) fn new(budget: u32) -> Self {
        Self {
            budget: budget.max(1),
            wait: None,
            stopped: None,
            left: false,
            pause: MIN_PAUSE,
            back_off: Nanos(0),
            consumed: 0,
            completed: 0,
        }
    }

    /// One pass: takes back what is completed, and calls the kernel as often as that makes sense.
    pub(crate) fn run(&mut self, kernel: &mut impl TxKernel, now: Nanos) -> KickReport {
        let mut report = KickReport::default();
        if self.stopped == Some(Verdict::Broken) {
            report.verdict = Verdict::Broken;
            return report;
        }
        self.reap(kernel, &mut report);
        let pending = kernel.pending();
        report.verdict = if let Some(verdict) = self.stopped {
            verdict
        } else if pending == 0 {
            self.done()
        } else if let Some(why) = self.waiting(now) {
            why
        } else if kernel.needs_kick() {
            self.kick(kernel, now, &mut report)
        } else {
            self.block(now, 1, 0)
        };
        self.left = kernel.pending() > 0;
        report
    }

    /// When a thread that wants to sleep must call [`Kick::run`] again; `None`: when it has packets.
    /// Never earlier than `now`.
    #[must_use]
    pub(crate) fn next_wake(&self, now: Nanos) -> Option<Nanos> {
        if !self.left || self.stopped.is_some() {
            return None;
        }
        match self.wait {
            Some(wait) if wait.completions != Some(0) => Some(wait.until.max(now)),
            _ => Some(now),
        }
    }

    /// Calls until nothing is pending, the kernel blocks, or the bound of the pass is reached.
    fn kick(&mut self, k: &mut impl TxKernel, now: Nanos, report: &mut KickReport) -> Verdict {
        let bound = k.pending().div_ceil(self.budget).saturating_add(EXTRA_CALLS);
        while report.calls < bound {
            if let Next::Stop(verdict) = self.call(k, now, report) {
                return verdict;
            }
        }
        Verdict::More
    }

    /// One call and the judgement on it.
    fn call(&mut self, k: &mut impl TxKernel, now: Nanos, report: &mut KickReport) -> Next {
        let before = k.pending();
        let outcome = k.send();
        report.calls += 1;
        match outcome {
            Ok(()) => {}
            Err(libc::EAGAIN) => report.again += 1,
            Err(libc::EBUSY) => report.busy_drops += 1,
            Err(_) => report.errors += 1,
        }
        if outcome == Err(libc::EINVAL) {
            return Next::Stop(self.stop(Verdict::Broken));
        }
        let taken = before.saturating_sub(k.pending());
        let reaped = self.reap(k, report);
        let left = k.pending();
        self.consumed += u64::from(taken);
        report.sent_descriptors += taken;
        Next::Stop(match outcome {
            Err(libc::ENXIO | libc::ENODEV) => self.stop(Verdict::Unbound),
            _ if left == 0 => self.done(),
            Ok(()) if taken > 0 || reaped > 0 => return Next::Again,
            Err(libc::EAGAIN) if taken >= self.budget => return Next::Again,
            Ok(()) | Err(libc::EAGAIN) => self.block(now, report.sent_descriptors, reaped),
            Err(libc::EBUSY) if report.busy_drops < MAX_BUSY => return Next::Again,
            Err(libc::EBUSY) => Verdict::More,
            Err(libc::EINTR) if report.errors < EXTRA_CALLS => return Next::Again,
            Err(libc::ENETDOWN) => self.fail(now, Verdict::Down, DOWN_BACK_OFF),
            Err(errno) => self.fail(now, Verdict::Failed(errno), MIN_BACK_OFF),
        })
    }

    /// Takes completions back and lets them shorten a wait.
    fn reap(&mut self, kernel: &mut impl TxKernel, report: &mut KickReport) -> u32 {
        let reaped = kernel.reap();
        self.completed += u64::from(reaped);
        report.completed += reaped;
        if let Some(Wait { completions: Some(wanted), .. }) = &mut self.wait {
            *wanted = wanted.saturating_sub(reaped);
        }
        reaped
    }

    /// Why no call may be made now; ends a wait that is over.
    fn waiting(&mut self, now: Nanos) -> Option<Verdict> {
        let wait = self.wait?;
        if now < wait.until && wait.completions != Some(0) {
            return Some(wait.why);
        }
        self.wait = None;
        None
    }

    /// The ring is empty. The timer of an error goes on: new packets do not make it heal faster.
    fn done(&mut self) -> Verdict {
        self.wait = self.wait.filter(|wait| wait.completions.is_none());
        self.pause = MIN_PAUSE;
        self.back_off = Nanos(0);
        Verdict::Done
    }

    /// Waits for completions or the timer, which follows the rate at which the kernel makes room:
    /// `taken` descriptors in this pass. `reaped` came back after the call that found no room.
    fn block(&mut self, now: Nanos, taken: u32, reaped: u32) -> Verdict {
        if taken >= self.budget.div_ceil(2) {
            self.pause = Nanos(self.pause.0 / 2).max(MIN_PAUSE);
        }
        self.back_off = Nanos(0);
        self.wait = Some(Wait {
            until: after(now, self.pause),
            completions: Some(self.wanted_completions().saturating_sub(reaped)),
            why: Verdict::Blocked,
        });
        if taken == 0 {
            self.pause = Nanos(self.pause.0 * 2).min(MAX_PAUSE);
        }
        Verdict::Blocked
    }

    /// Waits for the timer alone; it doubles from `first` while the error lasts.
    fn fail(&mut self, now: Nanos, why: Verdict, first: Nanos) -> Verdict {
        self.back_off = Nanos(self.back_off.0 * 2).clamp(first, MAX_BACK_OFF);
        self.wait = Some(Wait { until: after(now, self.back_off), completions: None, why });
        why
    }

    /// No call is ever made again.
    fn stop(&mut self, why: Verdict) -> Verdict {
        self.stopped = Some(why);
        why
    }

    /// How many completions make another call worth while: a quarter of what the kernel holds, so
    /// that it cannot run dry meanwhile, and at most half a budget.
    fn wanted_completions(&self) -> u32 {
        let held = self.consumed.saturating_sub(self.completed);
        let most = self.budget.div_ceil(2);
        u32::try_from(held / 4).unwrap_or(most).clamp(1, most)
    }
}

/// The time `pause` after `now`.
fn after(now: Nanos, pause: Nanos) -> Nanos {
    Nanos(now.0.saturating_add(pause.0))
}
