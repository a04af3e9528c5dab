//! The real `xvswitchd` in a rig, driven by the real `xvsctl` and `ovs-appctl`. A daemon that is stopped has
//! its ledgers checked first: no test passes with a packet or frame unaccounted for.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::{
    Error, Result,
    ledger::Ledger,
    proc::{self, Proc, tethered},
    rig::{PortSpec, Rig},
    wait_until,
};

/// How long a daemon may take until its ports are bound.
const START_LIMIT: Duration = Duration::from_secs(15);
/// How long the ledgers may take to balance once traffic has ended.
const QUIET_LIMIT: Duration = Duration::from_secs(10);

/// What the configuration file says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setup {
    /// Lines of `[pmd]`.
    pub pmd: String,
    /// Lines of `[umem]`.
    pub umem: String,
    /// The ports, all on bridge `br0`.
    pub ports: Vec<PortSpec>,
    /// Which program, by its file name.
    pub program: String,
}

impl Setup {
    /// The ports of a rig; one PMD thread on core 0 that sleeps when there is nothing to do.
    #[must_use]
    pub fn new(rig: &Rig) -> Self {
        Self {
            pmd: "cpu-mask = \"0x1\"\nsleep-max-us = 200".to_owned(),
            umem: "frames = 16384".to_owned(),
            ports: rig.ports.clone(),
            program: "xvswitchd".to_owned(),
        }
    }

    /// With these lines in `[pmd]`.
    #[must_use]
    pub fn pmd(mut self, lines: &str) -> Self {
        lines.clone_into(&mut self.pmd);
        self
    }

    /// With these lines for every port, in addition.
    #[must_use]
    pub fn each_port(mut self, lines: &str) -> Self {
        for port in &mut self.ports {
            port.lines = format!("{}\n{lines}", port.lines);
        }
        self
    }

    /// The file's text.
    #[must_use]
    pub fn toml(&self) -> String {
        let mut text =
            format!("[umem]\n{}\n[pmd]\n{}\n[[bridge]]\nname = \"br0\"\n", self.umem, self.pmd);
        for port in &self.ports {
            text.push_str(&format!(
                "[[port]]\nname = \"{}\"\nbridge = \"br0\"\ntype = \"afxdp\"\n{}\n",
                port.name, port.lines
            ));
        }
        text
    }
}

/// A program that the build made: in `XVS_BIN_DIR`, or near the running one.
///
/// # Errors
/// When it was not built.
pub fn program(name: &str) -> Result<PathBuf> {
    let near = std::env::current_exe().map_err(Error::io("find myself"))?;
    let dirs = std::env::var_os("XVS_BIN_DIR").map(PathBuf::from).into_iter();
    let mut dirs = dirs.chain(near.ancestors().skip(1).take(2).map(Path::to_owned));
    dirs.find_map(|dir| Some(dir.join(name)).filter(|path| path.is_file()))
        .ok_or_else(|| Error::Check(format!("{name} is not built: use ./x")))
}

/// A running `xvswitchd`.
#[derive(Debug)]
pub struct Daemon {
    proc: Proc,
    run_dir: PathBuf,
    config: PathBuf,
}

impl Daemon {
    /// Starts it in `dut` and waits until all its ports are bound.
    ///
    /// # Errors
    /// When it ends, or a port is not bound in time.
    pub fn start(rig: &Rig, setup: &Setup) -> Result<Self> {
        let mut daemon = Self::launch(rig, &setup.program, &setup.toml(), &[])?;
        daemon.wait_bound(setup.ports.len(), START_LIMIT)?;
        Ok(daemon)
    }

    /// Starts a program with a configuration text and environment, and waits for nothing.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn launch(
        rig: &Rig,
        name: &str,
        toml: &str,
        environment: &[(&str, &Path)],
    ) -> Result<Self> {
        let config = rig.scratch.write("xvswitch.toml", toml)?;
        let run_dir = rig.scratch.path().join("run");
        let path = program(name)?;
        let mut command = rig.dut.command(&path.to_string_lossy());
        command.arg("--config").arg(&config).arg("--run-dir").arg(&run_dir);
        command.envs(environment.iter().copied());
        let proc = Proc::start(&rig.scratch, "xvswitchd", &mut command)?;
        Ok(Self { proc, run_dir, config })
    }

    /// Waits until `count` ports are bound.
    ///
    /// # Errors
    /// When the daemon ends, or after the limit.
    pub fn wait_bound(&mut self, count: usize, limit: Duration) -> Result<()> {
        let what = format!("{count} bound ports");
        wait_until(&what, limit, || {
            if let Some(status) = self.proc.ended()? {
                let output = self.proc.stdout() + &self.proc.stderr();
                return Err(Error::Command { line: format!("xvswitchd ({status})"), output });
            }
            let ports = self.ctl(&["port", "list"]).unwrap_or_default();
            let bound = ports.as_array().into_iter().flatten();
            let bound = bound.filter(|port| port.get("state") == Some(&Value::from("bound")));
            Ok((bound.count() >= count).then_some(()))
        })
    }

    /// The process.
    pub fn proc(&mut self) -> &mut Proc {
        &mut self.proc
    }

    /// The run directory.
    #[must_use]
    pub fn run_dir(&self) -> &Path {
        &self.run_dir
    }

    /// The control socket.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        self.run_dir.join("ctl")
    }

    /// Writes a new configuration file; the daemon reads it on reload.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn rewrite(&self, toml: &str) -> Result<()> {
        fs::write(&self.config, toml).map_err(Error::io("write the configuration"))
    }

    /// `xvsctl --json` with these words: the parsed reply.
    ///
    /// # Errors
    /// When it exits with a failure, or prints no JSON.
    pub fn ctl(&self, words: &[&str]) -> Result<Value> {
        let text = proc::run(self.xvsctl()?.arg("--json").args(words))?;
        serde_json::from_str(&text)
            .map_err(|_| Error::Output { what: format!("xvsctl --json {}", words.join(" ")), text })
    }

    /// `xvsctl` with these words, as text.
    ///
    /// # Errors
    /// When it exits with a failure.
    pub fn ctl_text(&self, words: &[&str]) -> Result<String> {
        proc::run(self.xvsctl()?.args(words))
    }

    /// `xvsctl` with words that must be refused: what it printed on standard error.
    ///
    /// # Errors
    /// When it succeeds.
    pub fn ctl_refused(&self, words: &[&str]) -> Result<String> {
        refused(self.xvsctl()?.args(words))
    }

    /// The real `ovs-appctl` with these words.
    ///
    /// # Errors
    /// When it exits with a failure.
    pub fn appctl(&self, words: &[&str]) -> Result<String> {
        proc::run(self.ovs_appctl().args(words))
    }

    /// The real `ovs-appctl` with words that must be refused: what it printed on standard error.
    ///
    /// # Errors
    /// When it succeeds.
    pub fn appctl_refused(&self, words: &[&str]) -> Result<String> {
        refused(self.ovs_appctl().args(words))
    }

    fn xvsctl(&self) -> Result<Command> {
        let mut command = tethered(&program("xvsctl")?.to_string_lossy());
        command.arg("--run-dir").arg(&self.run_dir);
        Ok(command)
    }

    fn ovs_appctl(&self) -> Command {
        let mut command = tethered("ovs-appctl");
        command.arg("-T").arg("10").arg("-t").arg(self.socket());
        command
    }

    /// What the daemon says of one port.
    ///
    /// # Errors
    /// When there is no such port.
    pub fn port(&self, name: &str) -> Result<Value> {
        let ports = self.ctl(&["port", "list"])?;
        let found = ports.as_array().into_iter().flatten();
        let mut found = found.filter(|port| port.get("name") == Some(&Value::from(name)));
        found.next().cloned().ok_or_else(|| Error::Check(format!("no port {name} in {ports}")))
    }

    /// The ledgers as they are now.
    ///
    /// # Errors
    /// When the daemon does not answer.
    pub fn ledger(&self) -> Result<Ledger> {
        Ok(Ledger::new(self.ctl(&["ledger"])?))
    }

    /// The ledgers once they balance and nothing is under way.
    ///
    /// # Errors
    /// When they still do not after a while: with all their numbers.
    pub fn balanced(&self) -> Result<Ledger> {
        let mut last = None;
        let balanced = wait_until("balanced ledgers", QUIET_LIMIT, || {
            let ledger = self.ledger()?;
            last = Some(ledger.clone());
            let idle = ledger.packets("queued") == 0 && ledger.frames("tx") == 0;
            Ok((idle && ledger.imbalance().is_none()).then_some(ledger))
        });
        balanced.map_err(|error| match (error, last) {
            (Error::Timeout { .. }, Some(ledger)) => Error::Check(format!(
                "{}: {}",
                ledger.imbalance().unwrap_or_else(|| "packets remain under way".to_owned()),
                ledger.json()
            )),
            (error, _) => error,
        })
    }

    /// Checks the ledgers, then ends the daemon as systemd would.
    ///
    /// # Errors
    /// When the ledgers do not balance, or it does not exit with 0 within 5 s.
    pub fn stop(mut self) -> Result<()> {
        self.balanced()?;
        self.proc.signal(Signal::SIGTERM)?;
        self.proc.finish(Duration::from_secs(5)).map(drop)
    }
}

/// Runs a command that must fail, and returns its standard error.
///
/// # Errors
/// When it succeeds, or dies by a signal.
pub fn refused(command: &mut Command) -> Result<String> {
    let line = format!("{command:?}");
    let Output { status, stdout, stderr } =
        command.stdin(Stdio::null()).output().map_err(Error::io(line.clone()))?;
    let text = String::from_utf8_lossy(&stderr).into_owned();
    if status.code().is_some_and(|code| code != 0) {
        return Ok(text);
    }
    let output = format!("not refused ({status}): {}{text}", String::from_utf8_lossy(&stdout));
    Err(Error::Command { line, output })
}
