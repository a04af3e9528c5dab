//! Why the client has nothing to print, and the exit status for it.

use core::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// Exit status for a wrong command line; clap's own.
pub(super) const USAGE: u8 = 2;

/// Why there is no answer.
#[derive(Debug)]
pub enum ClientError {
    /// The daemon refused the command; its words.
    Refused(String),
    /// The configuration file has mistakes.
    Config(xvs_config::Errors),
    /// Nobody listens.
    NoDaemon {
        /// Where one should.
        socket: PathBuf,
    },
    /// The socket's mode and group do not let this user connect.
    NoPermission {
        /// The socket.
        socket: PathBuf,
    },
    /// Somebody listens and says nothing.
    Hung {
        /// The socket.
        socket: PathBuf,
        /// The daemon's process, if known.
        pid: Option<u32>,
        /// How long the client waited.
        after: Duration,
    },
    /// Whoever answers is no daemon of ours, or ended in mid-sentence.
    Protocol {
        /// The socket.
        socket: PathBuf,
        /// What was wrong.
        what: String,
    },
    /// A capture file that cannot be read.
    Capture {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// An operation of the system failed.
    Io {
        /// What was tried.
        what: &'static str,
        /// Why it failed.
        source: io::Error,
    },
}

impl ClientError {
    /// The exit status; the help lists them.
    #[must_use]
    pub const fn exit_code(&self) -> u8 {
        match self {
            Self::Refused(_) | Self::Config(_) | Self::Capture { .. } | Self::Io { .. } => 1,
            Self::NoDaemon { .. } => 3,
            Self::NoPermission { .. } => 4,
            Self::Hung { .. } => 5,
            Self::Protocol { .. } => 6,
        }
    }
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(text) => f.write_str(text),
            Self::Config(errors) => errors.fmt(f),
            Self::NoDaemon { socket } => write!(
                f,
                "no daemon listens on {}: start xvswitchd, or name its directory with --run-dir",
                socket.display()
            ),
            Self::NoPermission { socket } => write!(
                f,
                "no permission to use {}: run as root or as a member of the socket's group",
                socket.display()
            ),
            Self::Hung { socket, pid, after } => {
                let process = pid.map(|pid| format!(" (process {pid})")).unwrap_or_default();
                write!(
                    f,
                    "the daemon on {}{process} has not answered for {} s: it hangs or is stopped; \
                     see its log, then restart it",
                    socket.display(),
                    after.as_secs()
                )
            }
            Self::Protocol { socket, what } => {
                write!(f, "no proper answer from {}: {what}", socket.display())
            }
            Self::Capture { file, what } => write!(f, "{}: {what}", file.display()),
            Self::Io { what, source } => write!(f, "cannot {what}: {source}"),
        }
    }
}

impl core::error::Error for ClientError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Config(errors) => Some(errors),
            Self::Io { source, .. } => Some(source),
            Self::Refused(_)
            | Self::NoDaemon { .. }
            | Self::NoPermission { .. }
            | Self::Hung { .. }
            | Self::Capture { .. }
            | Self::Protocol { .. } => None,
        }
    }
}
