//! What the running switch refuses, and why.

use std::fmt;

use xvs_config::Errors;
use xvs_datapath::BridgeError;

use crate::ctl::CtlError;
use crate::pmd::PmdError;

/// Why a change was refused; nothing has changed then.
#[derive(Debug)]
pub enum Error {
    /// The configuration contradicts itself or a limit.
    Config(Errors),
    /// A running daemon cannot have the new value.
    Restart(String),
    /// There is no such port.
    NoPort(String),
    /// The device refuses.
    Netdev(xvs_netdev_afxdp::Error),
    /// The interface carries the default route, which must not be cut off by accident.
    LockOut(String),
    /// Somebody is connected through the interface, and would be cut off by accident.
    Connected {
        /// The interface.
        port: String,
        /// The far end of one connection.
        from: std::net::SocketAddr,
    },
    /// A bridge refuses.
    Bridge(BridgeError),
    /// A rule of a bridge cannot be understood.
    Rule {
        /// The bridge.
        bridge: String,
        /// Line in the configuration file, when it came from there.
        line: Option<u32>,
        /// The rule.
        rule: String,
        /// What is wrong with it.
        why: String,
    },
    /// A thread does not answer or cannot be started.
    Pmd(PmdError),
    /// A step outside the switch failed.
    System {
        /// What was tried.
        what: String,
        /// What the system said.
        source: std::io::Error,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Config(errors) => errors.fmt(f),
            Self::Restart(change) => f.write_str(change),
            Self::NoPort(name) => write!(f, "no port named {name}"),
            Self::Netdev(error) => error.fmt(f),
            Self::LockOut(port) => write!(
                f,
                "{port} carries the default route, and all of its traffic would go to the switch: set \
                 force = true for this port if that is meant"
            ),
            Self::Connected { port, from } => write!(
                f,
                "{port} has a TCP connection from {from}, and all of its traffic would go to the switch: \
                 log in another way, or set force = true for this port if that is meant"
            ),
            Self::Bridge(error) => error.fmt(f),
            Self::Rule { bridge, line, rule, why } => {
                if let Some(line) = line.filter(|&line| line > 0) {
                    write!(f, "line {line}: ")?;
                }
                write!(f, "rule \"{rule}\" of bridge {bridge}: {why}")
            }
            Self::Pmd(error) => error.fmt(f),
            Self::System { what, source } => write!(f, "{what}: {source}"),
        }
    }
}

impl std::error::Error for Error {}

impl From<xvs_netdev_afxdp::Error> for Error {
    fn from(error: xvs_netdev_afxdp::Error) -> Self {
        Self::Netdev(error)
    }
}

impl From<BridgeError> for Error {
    fn from(error: BridgeError) -> Self {
        Self::Bridge(error)
    }
}

impl From<PmdError> for Error {
    fn from(error: PmdError) -> Self {
        Self::Pmd(error)
    }
}

impl From<Error> for CtlError {
    fn from(error: Error) -> Self {
        match error {
            Error::NoPort(name) => Self::NotFound { kind: "port", name },
            Error::Pmd(PmdError::Hung(core)) => Self::Timeout(crate::pmd::thread_name(core)),
            Error::Config(_)
            | Error::Restart(_)
            | Error::Netdev(_)
            | Error::LockOut(_)
            | Error::Bridge(_)
            | Error::Rule { .. }
            | Error::Pmd(_)
            | Error::Connected { .. }
            | Error::System { .. } => Self::Refused(error.to_string()),
        }
    }
}
