//! A connection to the control socket, with a limit on how long the daemon may stay silent.

use std::fs;
use std::io::{BufReader, ErrorKind, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use serde::Deserialize;
use serde_json::{Value, json};

use super::ClientError;
use crate::rundir::RunDir;

/// A daemon that says nothing for so long hangs.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// The pause between attempts while the daemon's queue of clients is full.
const RETRY: Duration = Duration::from_millis(20);

/// A client's side of the control socket.
#[derive(Debug)]
pub struct Connection {
    stream: BufReader<UnixStream>,
    run_dir: PathBuf,
    patience: Duration,
    next_id: u64,
}

#[derive(Deserialize)]
struct Answer {
    id: Value,
    result: Value,
    error: Value,
}

impl Connection {
    /// Connects to the daemon of `run_dir`. Here and afterwards nothing waits longer than `patience`
    /// for a sign of life.
    ///
    /// # Errors
    /// When there is no daemon, no permission, or no answer.
    pub fn open(run_dir: &Path, patience: Duration) -> Result<Self, ClientError> {
        let stream = dial(run_dir, patience)?;
        let set = stream
            .set_nonblocking(false)
            .and_then(|()| stream.set_read_timeout(Some(patience)))
            .and_then(|()| stream.set_write_timeout(Some(patience)));
        set.map_err(|source| ClientError::Io { what: "set the socket's timeouts", source })?;
        let stream = BufReader::new(stream);
        Ok(Self { stream, run_dir: run_dir.to_owned(), patience, next_id: 0 })
    }

    /// Asks for JSON from now on.
    ///
    /// # Errors
    /// As [`call`](Self::call).
    pub fn set_json(&mut self) -> Result<(), ClientError> {
        self.call("set-options", &["--format".to_owned(), "json".to_owned()]).map(drop)
    }

    /// Runs a command and returns its text.
    ///
    /// # Errors
    /// As [`call`](Self::call).
    pub fn text(&mut self, command: &str, words: &[String]) -> Result<String, ClientError> {
        if let Value::String(text) = self.call(command, words)? {
            return Ok(text);
        }
        Err(self.protocol("text was wanted, JSON came".to_owned()))
    }

    /// Runs a command and returns its result.
    ///
    /// # Errors
    /// When the daemon refuses it, hangs, or ends.
    pub fn call(&mut self, command: &str, words: &[String]) -> Result<Value, ClientError> {
        let id = self.next_id;
        self.next_id += 1;
        let request = json!({ "id": id, "method": command, "params": words }).to_string();
        match self.stream.get_mut().write_all(request.as_bytes()) {
            // A daemon that hangs up may have said why.
            Err(error) if error.kind() != ErrorKind::BrokenPipe => {
                return Err(self.failed(error.kind(), &error.to_string()));
            }
            _ => {}
        }
        let mut reader = serde_json::Deserializer::from_reader(&mut self.stream);
        let answer = match Answer::deserialize(&mut reader) {
            Ok(answer) => answer,
            Err(error) if error.is_eof() => {
                return Err(self.protocol("it closed the connection".to_owned()));
            }
            Err(error) => {
                let kind = error.io_error_kind().unwrap_or(ErrorKind::InvalidData);
                return Err(self.failed(kind, &error.to_string()));
            }
        };
        if let Value::String(text) = answer.error {
            // The program's name that dpctl commands begin with is for ovs-appctl's users.
            let text = text.strip_prefix("xvswitchd: ").unwrap_or(&text);
            return Err(ClientError::Refused(text.trim_end().to_owned()));
        }
        if answer.id != json!(id) || !answer.error.is_null() || answer.result.is_null() {
            return Err(self.protocol("it does not speak unixctl".to_owned()));
        }
        Ok(answer.result)
    }

    fn failed(&self, kind: ErrorKind, why: &str) -> ClientError {
        if [ErrorKind::WouldBlock, ErrorKind::TimedOut].contains(&kind) {
            return hung(&self.run_dir, self.patience);
        }
        self.protocol(why.to_owned())
    }

    fn protocol(&self, what: String) -> ClientError {
        ClientError::Protocol { socket: RunDir::link_in(&self.run_dir), what }
    }
}

/// Connects; a full queue of clients is waited for, as long as `patience`.
fn dial(run_dir: &Path, patience: Duration) -> Result<UnixStream, ClientError> {
    let socket = RunDir::link_in(run_dir);
    let give_up = Instant::now() + patience;
    let failed = |source: Errno| ClientError::Io { what: "connect", source: source.into() };
    let address = SocketAddrUnix::new(&socket).map_err(failed)?;
    loop {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let fd =
            socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).map_err(failed)?;
        match connect(&fd, &address) {
            Ok(()) => return Ok(UnixStream::from(fd)),
            Err(Errno::AGAIN | Errno::INTR) if Instant::now() < give_up => thread::sleep(RETRY),
            Err(Errno::AGAIN) => return Err(hung(run_dir, patience)),
            Err(Errno::NOENT | Errno::CONNREFUSED | Errno::NOTDIR) => {
                return Err(ClientError::NoDaemon { socket });
            }
            Err(Errno::ACCESS | Errno::PERM) => return Err(ClientError::NoPermission { socket }),
            Err(error) => return Err(failed(error)),
        }
    }
}

fn hung(run_dir: &Path, after: Duration) -> ClientError {
    let pid = fs::read_to_string(run_dir.join("xvswitchd.pid"));
    let pid = pid.ok().and_then(|text| text.trim().parse().ok());
    ClientError::Hung { socket: RunDir::link_in(run_dir), pid, after }
}
