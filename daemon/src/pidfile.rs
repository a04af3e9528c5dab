//! The pid file: says who runs, and keeps a second daemon out.
//!
//! The daemon holds a POSIX write lock on it (`fcntl(2)`, F_SETLK), as `ovs-appctl -t NAME` expects: it
//! asks the kernel for the owner of the lock and compares that with the number in the file. Such a lock
//! belongs to the process and goes with it, however it ends. It is also lost when the process closes
//! *any* descriptor of the file: nobody else in this process may open it.

use core::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process;

use rustix::fs::{FlockOperation, fcntl_lock};
use rustix::process::{Flock, FlockType, fcntl_getlk};

/// Attempts to lock a file that another daemon is just removing.
const ATTEMPTS: usize = 8;

/// Why the pid file could not be taken.
#[derive(Debug)]
pub enum PidFileError {
    /// Another daemon runs.
    Held {
        /// The file.
        path: PathBuf,
        /// The other's process, if it could be found out.
        pid: Option<u32>,
    },
    /// An operation failed.
    Io {
        /// What was tried.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
}

impl fmt::Display for PidFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Held { path, pid: Some(pid) } => {
                let path = path.display();
                write!(f, "xvswitchd is already running with process id {pid} (it holds {path})")
            }
            Self::Held { path, pid: None } => {
                write!(f, "xvswitchd is already running (it holds {})", path.display())
            }
            Self::Io { what, path, source } => {
                write!(f, "cannot {what} pid file {}: {source}", path.display())
            }
        }
    }
}

impl core::error::Error for PidFileError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            Self::Held { .. } => None,
        }
    }
}

/// A pid file that this process holds; removed when dropped.
#[derive(Debug)]
pub struct PidFile {
    path: PathBuf,
    _lock: File,
}

impl PidFile {
    /// Creates (or takes over a stale) `path`, locks it and writes this process's number into it.
    ///
    /// # Errors
    /// [`PidFileError::Held`] when another process has it.
    pub fn acquire(path: &Path) -> Result<Self, PidFileError> {
        let io = |what, source: io::Error| PidFileError::Io { what, path: path.into(), source };
        for _ in 0..ATTEMPTS {
            let mut file = OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .mode(0o644)
                .open(path)
                .map_err(|error| io("open", error))?;
            match fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {}
                Err(rustix::io::Errno::AGAIN | rustix::io::Errno::ACCESS) => {
                    return Err(PidFileError::Held { path: path.into(), pid: owner(&file) });
                }
                Err(error) => return Err(io("lock", error.into())),
            }
            if !is_at(&file, path).map_err(|error| io("inspect", error))? {
                continue; // its last owner removed it between open and lock
            }
            file.set_len(0).map_err(|error| io("truncate", error))?;
            writeln!(file, "{}", process::id()).map_err(|error| io("write", error))?;
            return Ok(Self { path: path.into(), _lock: file });
        }
        Err(PidFileError::Held { path: path.into(), pid: None })
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        // While the lock is still held, so that a newcomer's file is never removed.
        let _ = fs::remove_file(&self.path);
    }
}

fn owner(file: &File) -> Option<u32> {
    let lock = fcntl_getlk(file, &Flock::from(FlockType::WriteLock)).ok()??;
    u32::try_from(lock.pid?.as_raw_nonzero().get()).ok()
}

/// True when `path` still names this file.
fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    let ours = file.metadata()?;
    match fs::metadata(path) {
        Ok(there) => Ok((ours.dev(), ours.ino()) == (there.dev(), there.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}
