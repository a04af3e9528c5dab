//! What can go wrong when bridges, ports, MAC tables and rules are changed.

use core::fmt;

use crate::{MacAddr, PortNo};

/// Why a change of the switch was refused; nothing has changed then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BridgeError {
    /// A bridge of this name exists.
    BridgeExists(String),
    /// No bridge has this name.
    NoBridge(String),
    /// The bound on bridges is reached.
    TooManyBridges {
        /// The bound.
        max: usize,
    },
    /// The port number is 0 or above [`PortNo::MAX`].
    BadPortNo(PortNo),
    /// A port has this number or this name.
    PortExists(String),
    /// No port has this number or name.
    NoPort(String),
    /// The address names a group, or nobody.
    NotAHost(MacAddr),
    /// The MAC table is full of static entries.
    FdbFull {
        /// The bound.
        max: usize,
    },
    /// The MAC table has no such entry.
    NoFdbEntry(MacAddr),
}

impl fmt::Display for BridgeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BridgeExists(name) => write!(f, "bridge \"{name}\" already exists"),
            Self::NoBridge(name) => write!(f, "no bridge named \"{name}\""),
            Self::TooManyBridges { max } => {
                write!(f, "too many bridges: at most {max} are possible; delete one first")
            }
            Self::BadPortNo(no) => {
                write!(f, "port number {no} is out of range (allowed: 1 to {})", PortNo::MAX)
            }
            Self::PortExists(port) => write!(f, "port \"{port}\" already exists"),
            Self::NoPort(port) => write!(f, "no port \"{port}\" in the bridge"),
            Self::NotAHost(mac) => {
                write!(f, "{mac} is not the address of one host (it is a group's, or zero)")
            }
            Self::FdbFull { max } => {
                write!(f, "the MAC table is full of static entries ({max}); delete one first")
            }
            Self::NoFdbEntry(mac) => write!(f, "no entry for {mac} in the MAC table"),
        }
    }
}

impl core::error::Error for BridgeError {}
