//! The run directory: pid file, control socket and the stable link to it.
//!
//! `xvswitchd.pid`, `xvswitchd.<pid>.ctl` (where `ovs-appctl -t xvswitchd` looks) and `ctl`, a link to
//! the socket. The pid file is taken first; whoever holds it owns all three names, so sockets of dead
//! daemons can be removed without asking. The socket has its mode and group before it listens.

use core::fmt;
use std::fs::{self, DirBuilder, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt, chown, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process;

use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with,
};

use crate::pidfile::{PidFile, PidFileError};

/// Clients that may wait to be accepted.
const BACKLOG: i32 = 128;

/// Who may use the control socket: there is no other authorisation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SocketAccess {
    /// File mode; connecting needs write permission.
    pub mode: u32,
    /// Group by name or number; `None` leaves it as the process's.
    pub group: Option<String>,
}

impl Default for SocketAccess {
    fn default() -> Self {
        Self { mode: 0o660, group: None }
    }
}

/// Why the run directory cannot be used.
#[derive(Debug)]
pub enum RunDirError {
    /// The pid file cannot be taken.
    PidFile(PidFileError),
    /// The socket's path is longer than the kernel allows.
    PathTooLong(PathBuf),
    /// No such group.
    NoGroup(String),
    /// An operation failed.
    Io {
        /// What was tried.
        what: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
}

impl fmt::Display for RunDirError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PidFile(error) => write!(f, "{error}"),
            Self::PathTooLong(path) => write!(
                f,
                "control socket path {} is longer than 107 bytes: choose a shorter run-dir",
                path.display()
            ),
            Self::NoGroup(name) => {
                write!(f, "no group named {name} for the control socket (see /etc/group)")
            }
            Self::Io { what, path, source } => {
                write!(f, "cannot {what} {}: {source}", path.display())
            }
        }
    }
}

impl core::error::Error for RunDirError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::PidFile(error) => Some(error),
            Self::Io { source, .. } => Some(source),
            Self::PathTooLong(_) | Self::NoGroup(_) => None,
        }
    }
}

/// A run directory that this process owns; dropping it removes the three names.
#[derive(Debug)]
pub struct RunDir {
    path: PathBuf,
    socket: PathBuf,
    /// Dropped last: the names above belong to its holder.
    _pid_file: PidFile,
}

impl RunDir {
    /// Creates the directory if need be, takes the pid file, and makes the control socket.
    ///
    /// # Errors
    /// When another daemon has it (with that one's process), or something cannot be created.
    pub fn claim(path: &Path, access: &SocketAccess) -> Result<(Self, UnixListener), RunDirError> {
        create(path)?;
        let pid_file =
            PidFile::acquire(&path.join("xvswitchd.pid")).map_err(RunDirError::PidFile)?;
        remove_stale_sockets(path)?;
        let socket = path.join(format!("xvswitchd.{}.ctl", process::id()));
        let this = Self { path: path.into(), socket, _pid_file: pid_file };
        let listener = this.open_socket(access)?;
        this.link()?;
        Ok((this, listener))
    }

    /// The directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The stable name of the control socket in `run_dir`.
    #[must_use]
    pub fn link_in(run_dir: &Path) -> PathBuf {
        run_dir.join("ctl")
    }

    /// Gives the control socket another mode and group.
    ///
    /// # Errors
    /// When there is no such group, or the process may not.
    pub fn set_access(&self, access: &SocketAccess) -> Result<(), RunDirError> {
        let path = &self.socket;
        if let Some(group) = access.group.as_deref().map(group_id).transpose()? {
            chown(path, None, Some(group)).map_err(failed("set the group of", path))?;
        }
        fs::set_permissions(path, Permissions::from_mode(access.mode))
            .map_err(failed("set the mode of", path))
    }

    fn open_socket(&self, access: &SocketAccess) -> Result<UnixListener, RunDirError> {
        let path = &self.socket;
        let address =
            SocketAddrUnix::new(path).map_err(|_| RunDirError::PathTooLong(path.clone()))?;
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let fd = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
            .map_err(|error| failed("open a socket for", path)(error.into()))?;
        bind(&fd, &address).map_err(|error| failed("bind", path)(error.into()))?;
        self.set_access(access)?;
        listen(&fd, BACKLOG).map_err(|error| failed("listen on", path)(error.into()))?;
        Ok(UnixListener::from(fd))
    }

    /// Points the stable name to the socket, without a moment in which there is none.
    fn link(&self) -> Result<(), RunDirError> {
        let link = Self::link_in(&self.path);
        let fresh = self.path.join(format!(".ctl.{}", process::id()));
        let target = self.socket.file_name().unwrap_or_default();
        remove(&fresh)?;
        symlink(target, &fresh).map_err(failed("create", &fresh))?;
        fs::rename(&fresh, &link).map_err(failed("create", &link))
    }
}

impl Drop for RunDir {
    fn drop(&mut self) {
        // Nobody is left to tell that a name could not be removed; the next daemon does it.
        let _ = fs::remove_file(Self::link_in(&self.path));
        let _ = fs::remove_file(&self.socket);
    }
}

fn failed(what: &'static str, path: &Path) -> impl Fn(io::Error) -> RunDirError {
    let path = path.to_path_buf();
    move |source| RunDirError::Io { what, path: path.clone(), source }
}

fn create(path: &Path) -> Result<(), RunDirError> {
    if path.is_dir() {
        return Ok(());
    }
    let made = DirBuilder::new().recursive(true).mode(0o755).create(path);
    made.map_err(failed("create directory", path))
}

fn remove(path: &Path) -> Result<(), RunDirError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(failed("remove", path)(error)),
        _ => Ok(()),
    }
}

/// Removes the sockets of daemons that were killed: the pid file says that none of them lives.
fn remove_stale_sockets(dir: &Path) -> Result<(), RunDirError> {
    for entry in fs::read_dir(dir).map_err(failed("read directory", dir))?.flatten() {
        let name = entry.file_name();
        let middle = name.as_bytes().strip_prefix(b"xvswitchd.");
        let pid = middle.and_then(|rest| rest.strip_suffix(b".ctl"));
        if pid.is_some_and(|pid| !pid.is_empty() && pid.iter().all(u8::is_ascii_digit)) {
            remove(&entry.path())?;
        }
    }
    Ok(())
}

/// The number of a group, from /etc/group (no name service: that would need the C library).
fn group_id(name: &str) -> Result<u32, RunDirError> {
    if let Ok(number) = name.parse() {
        return Ok(number);
    }
    let groups = Path::new("/etc/group");
    let text = fs::read_to_string(groups).map_err(failed("read", groups))?;
    let found = text.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next() == Some(name)).then(|| fields.nth(1)?.parse().ok()).flatten()
    });
    found.ok_or_else(|| RunDirError::NoGroup(name.to_owned()))
}
