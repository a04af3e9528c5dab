//! A network namespace with a name, deleted when dropped. Commands run in it through `ip netns exec`,
//! closures through a thread that enters it.

use std::fs::File;
use std::path::PathBuf;
use std::process::Command;
use std::thread::JoinHandle;

use nix::sched::{CloneFlags, setns};

use crate::{Error, Result, proc, scratch::Scratch};

/// A network namespace of our own.
#[derive(Debug)]
pub struct Netns {
    name: String,
}

impl Netns {
    /// Makes `<scratch>-<role>` with the loopback interface up.
    ///
    /// # Errors
    /// When `ip` refuses, for want of privilege above all.
    pub fn new(scratch: &Scratch, role: &str) -> Result<Self> {
        let name = format!("{}-{role}", scratch.name());
        proc::run(Command::new("ip").args(["netns", "add", &name]))?;
        let ns = Self { name };
        ns.ip("link set lo up")?;
        Ok(ns)
    }

    /// The name, as `ip netns` shows it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A command that runs in the namespace and is killed when this process ends.
    #[must_use]
    pub fn command(&self, program: &str) -> Command {
        let mut command = proc::tethered("ip");
        command.args(["netns", "exec", &self.name, program]);
        command
    }

    /// Runs a command line (split at blanks) to its end and returns what it printed.
    ///
    /// # Errors
    /// When it fails.
    pub fn run(&self, line: &str) -> Result<String> {
        let mut words = line.split_ascii_whitespace();
        let mut command = self.command(words.next().unwrap_or_default());
        proc::run(command.args(words))
    }

    /// Runs `ip -n NAME …`.
    ///
    /// # Errors
    /// When it fails.
    pub fn ip(&self, arguments: &str) -> Result<String> {
        proc::run(
            Command::new("ip").args(["-n", &self.name]).args(arguments.split_ascii_whitespace()),
        )
    }

    /// Runs a closure on a thread of its own inside the namespace.
    ///
    /// # Errors
    /// When the namespace is gone.
    pub fn spawn<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<JoinHandle<Result<T>>> {
        let path = PathBuf::from("/run/netns").join(&self.name);
        let what = format!("enter {}", path.display());
        let file = File::open(path).map_err(Error::io(what.clone()))?;
        Ok(std::thread::spawn(move || {
            setns(file, CloneFlags::CLONE_NEWNET).map_err(Error::io(what))?;
            work()
        }))
    }

    /// Runs a closure inside the namespace and waits for it.
    ///
    /// # Errors
    /// Those of the closure, and when it panicked.
    pub fn enter<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        join(self.spawn(work)?)
    }
}

/// Waits for a thread of [`Netns::spawn`].
///
/// # Errors
/// Those of its closure, and when it panicked.
pub fn join<T>(thread: JoinHandle<Result<T>>) -> Result<T> {
    thread.join().map_err(|_| Error::Check("a thread of the test panicked".to_owned()))?
}

impl Drop for Netns {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["netns", "del", &self.name]).output();
    }
}
