//! The main thread: waits for clients, signals, link changes and the clock, and acts on them.

use std::io;
use std::time::{Duration, Instant};

use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook_mio::v1_0::Signals;
use slog::{Logger, info, warn};

use crate::clock::Clock;
use crate::ctl::{Control, CtlServer};
use crate::notify;
use crate::rundir::RunDir;
use crate::switchd::Switchd;

const SIGNALS: Token = Token(0);
const LINKS: Token = Token(1);
/// The server uses this token and those above it.
const CTL: Token = Token(2);

/// Events taken from the kernel at once.
const MAX_EVENTS: usize = 64;

/// The pause between two calls for clients who do not read, and for ageing.
const HOUSEKEEPING: Duration = Duration::from_secs(1);

/// The main thread's state.
#[allow(missing_debug_implementations, reason = "Signals has none")]
pub struct MainLoop {
    poll: Poll,
    signals: Signals,
    server: CtlServer,
    run_dir: RunDir,
    switchd: Switchd,
    clock: Clock,
    log: Logger,
}

impl MainLoop {
    /// A loop around a started switch.
    ///
    /// # Errors
    /// When the system has no descriptors left.
    pub fn new(
        switchd: Switchd,
        (run_dir, listener): (RunDir, std::os::unix::net::UnixListener),
        clock: Clock,
        log: Logger,
    ) -> io::Result<Self> {
        let poll = Poll::new()?;
        let mut signals = Signals::new([SIGHUP, SIGINT, SIGTERM])?;
        poll.registry().register(&mut signals, SIGNALS, Interest::READABLE)?;
        if let Some(links) = switchd.link_source() {
            poll.registry().register(&mut SourceFd(&links), LINKS, Interest::READABLE)?;
        }
        let server = CtlServer::new(
            mio::net::UnixListener::from_std(listener),
            poll.registry(),
            CTL,
            log.clone(),
        )?;
        Ok(Self { poll, signals, server, run_dir, switchd, clock, log })
    }

    /// Runs until a signal or a command ends it, then closes the switch.
    ///
    /// # Errors
    /// When waiting for events fails.
    pub fn run(mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(MAX_EVENTS);
        let mut housekeeping = Instant::now() + HOUSEKEEPING;
        notify::ready(&self.log);
        while !self.switchd.wants_exit() {
            self.wait(&mut events, housekeeping)?;
            for event in &events {
                match event.token() {
                    SIGNALS => self.on_signals(),
                    LINKS => self.switchd.on_link_events(),
                    _ => self.server.event(event),
                }
            }
            let now = Instant::now();
            self.server.run(&mut self.switchd, now);
            if let Some(control) = self.switchd.take_control_change() {
                self.set_access(&control);
            }
            if now >= housekeeping {
                self.server.tick(&mut self.switchd, now);
                housekeeping = now + HOUSEKEEPING;
            }
            self.switchd.tick();
        }
        notify::stopping(&self.log);
        info!(self.log, "ending");
        self.switchd.stop();
        Ok(())
    }

    fn wait(&mut self, events: &mut Events, housekeeping: Instant) -> io::Result<()> {
        let tick = Duration::from_nanos(self.switchd.next_tick(self.clock.now()).0);
        let timeout = if self.server.is_busy() {
            Duration::ZERO
        } else {
            tick.min(housekeeping.saturating_duration_since(Instant::now()))
        };
        match self.poll.poll(events, Some(timeout)) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            result => result,
        }
    }

    fn on_signals(&mut self) {
        let pending: Vec<_> = self.signals.pending().collect();
        for signal in pending {
            match signal {
                SIGHUP => {
                    notify::reloading(&self.log);
                    // Refusals are logged and kept for `status`.
                    let _ = self.switchd.config_reload();
                    notify::ready(&self.log);
                }
                _ => self.switchd.request_exit(false),
            }
        }
    }

    fn set_access(&self, control: &xvs_config::Control) {
        if let Err(error) = self.run_dir.set_access(&crate::start::access(control)) {
            warn!(self.log, "mode or group of the control socket cannot be changed: {error}");
        }
    }
}
