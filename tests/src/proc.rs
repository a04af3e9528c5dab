//! Child processes that cannot outlive the thread that started them: the kernel kills them with it
//! (PR_SET_PDEATHSIG, set by `setpriv`), Drop kills them before. Output goes to a file, which the report of
//! a failed test shows.

use std::fs::{self, File};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::{Error, Result, scratch::Scratch, wait_until};

/// A command that the kernel kills when its parent ends, and that no Ctrl-C at the terminal reaches.
#[must_use]
pub fn tethered(program: &str) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--", program]).process_group(0);
    command
}

/// Runs a command to its end and returns its standard output.
///
/// # Errors
/// When it cannot be started, or ends with a failure: with both outputs.
pub fn run(command: &mut Command) -> Result<String> {
    let line = line_of(command);
    let output = command.stdin(Stdio::null()).output().map_err(Error::io(line.clone()))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(text);
    }
    Err(Error::Command { line, output: text + &String::from_utf8_lossy(&output.stderr) })
}

/// The command line without what [`tethered`] put before it.
fn line_of(command: &Command) -> String {
    let words: Vec<_> = std::iter::once(command.get_program())
        .chain(command.get_args())
        .map(|word| word.to_string_lossy())
        .collect();
    let line = words.join(" ");
    line.strip_prefix("setpriv --pdeathsig KILL -- ").map_or(line.clone(), str::to_owned)
}

/// A running child process.
#[derive(Debug)]
pub struct Proc {
    child: Child,
    line: String,
    stdout: PathBuf,
    stderr: PathBuf,
}

impl Proc {
    /// Starts `command`; its output goes to `<name>.out.log` and `<name>.err.log` of the scratch directory.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(scratch: &Scratch, name: &str, command: &mut Command) -> Result<Self> {
        let line = line_of(command);
        let file = |stream: &str| {
            let path = scratch.path().join(format!("{name}.{stream}.log"));
            File::create(&path).map(|file| (path, file)).map_err(Error::io(line.clone()))
        };
        let (stdout, out) = file("out")?;
        let (stderr, err) = file("err")?;
        let child = command
            .stdin(Stdio::null())
            .stdout(out)
            .stderr(err)
            .spawn()
            .map_err(Error::io(line.clone()))?;
        Ok(Self { child, line, stdout, stderr })
    }

    /// The process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What it wrote to standard output so far.
    #[must_use]
    pub fn stdout(&self) -> String {
        read(&self.stdout)
    }

    /// What it wrote to standard error so far.
    #[must_use]
    pub fn stderr(&self) -> String {
        read(&self.stderr)
    }

    /// Sends a signal.
    ///
    /// # Errors
    /// When the process is gone.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        let pid = i32::try_from(self.pid()).map_err(|_| Error::Check("pid".to_owned()))?;
        kill(Pid::from_raw(pid), signal).map_err(Error::io(format!("signal `{}`", self.line)))
    }

    /// Its exit status, if it has ended.
    ///
    /// # Errors
    /// When the system does not say.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>> {
        self.child.try_wait().map_err(Error::io(self.line.clone()))
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// When it is still running after `limit`.
    pub fn wait(&mut self, limit: Duration) -> Result<ExitStatus> {
        let what = format!("end of `{}`", self.line);
        wait_until(&what, limit, || self.ended())
    }

    /// Waits for its successful end and returns its standard output.
    ///
    /// # Errors
    /// A failure, with all it printed; running on after `limit`.
    pub fn finish(&mut self, limit: Duration) -> Result<String> {
        let status = self.wait(limit)?;
        if status.success() {
            return Ok(self.stdout());
        }
        Err(Error::Command { line: self.line.clone(), output: self.stdout() + &self.stderr() })
    }
}

/// A log as text; empty when it is not there.
fn read(path: &Path) -> String {
    String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned()
}

impl Drop for Proc {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
