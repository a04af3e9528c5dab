//! From the command line to a running main loop, and what is said when that fails.

use std::fmt;

use slog::info;

use crate::args::Args;
use crate::clock::Clock;
use crate::log;
use crate::mainloop::MainLoop;
use crate::rundir::{RunDir, RunDirError, SocketAccess};
use crate::switchd::{self, Setup, Switchd};

/// Why the daemon does not run.
#[derive(Debug)]
pub enum StartError {
    /// The configuration file is wrong.
    Config(xvs_config::Errors),
    /// The run directory cannot be had.
    RunDir(RunDirError),
    /// The switch cannot be started.
    Switch(switchd::Error),
    /// The main loop failed.
    Io(std::io::Error),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Config(errors) => errors.fmt(f),
            Self::RunDir(error) => error.fmt(f),
            Self::Switch(error) => error.fmt(f),
            Self::Io(error) => write!(f, "main loop: {error}"),
        }
    }
}

impl std::error::Error for StartError {}

/// Who may use the control socket.
#[must_use]
pub fn access(control: &xvs_config::Control) -> SocketAccess {
    let group = control.group.as_str();
    SocketAccess { mode: control.mode.bits(), group: (!group.is_empty()).then(|| group.to_owned()) }
}

/// Runs the daemon until it is told to end.
///
/// # Errors
/// Why it could not start; nothing is left behind.
pub fn run(args: &Args) -> Result<(), StartError> {
    let mut wanted = xvs_config::load(&args.config).map_err(StartError::Config)?;
    if let Some(run_dir) = &args.run_dir {
        wanted.general.run_dir = xvs_config::RunDir::new(run_dir)
            .ok_or_else(|| RunDirError::PathTooLong(run_dir.clone()))
            .map_err(StartError::RunDir)?;
    }
    if args.check {
        return Ok(());
    }
    let (logger, level) = log::logger(log::level(wanted.log.level));
    info!(logger, "xvswitchd {} starts", env!("CARGO_PKG_VERSION");
        "configuration" => %args.config.display(), "pid" => std::process::id());
    let path = wanted.general.run_dir.as_path();
    let claimed = RunDir::claim(path, &access(&wanted.control)).map_err(StartError::RunDir)?;
    let clock = Clock::start();
    let setup = Setup {
        log: logger.clone(),
        level,
        clock,
        file: Some(args.config.clone()),
        run_dir: path.to_owned(),
    };
    let switchd = Switchd::start(setup, &wanted).map_err(StartError::Switch)?;
    let main_loop = MainLoop::new(switchd, claimed, clock, logger).map_err(StartError::Io)?;
    main_loop.run().map_err(StartError::Io)
}
