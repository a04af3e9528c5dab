//! The real `tcpdump` on an interface of a rig, started so that no later packet is missed.

use std::time::Duration;

use nix::sys::signal::Signal;

use crate::{Result, ns::Netns, proc::Proc, scratch::Scratch, wait_until};

/// A running capture.
#[derive(Debug)]
pub struct Tcpdump(Proc);

impl Tcpdump {
    /// Captures what arrives on `interface` (`-Q in`) and matches `filter`, printed with `-nnevvt`: addresses
    /// as numbers, link headers and checksums included.
    ///
    /// # Errors
    /// When it does not start listening.
    pub fn start(scratch: &Scratch, ns: &Netns, interface: &str, filter: &str) -> Result<Self> {
        let name = format!("tcpdump-{}-{interface}", ns.name());
        let mut command = ns.command("tcpdump");
        command.args(["-nnevvt", "-l", "--immediate-mode", "-Q", "in", "-i", interface, filter]);
        let proc = Proc::start(scratch, &name, &mut command)?;
        wait_until("tcpdump listening", Duration::from_secs(5), || {
            Ok(proc.stderr().contains("listening on").then_some(()))
        })?;
        Ok(Self(proc))
    }

    /// What it printed so far.
    #[must_use]
    pub fn text(&self) -> String {
        self.0.stdout()
    }

    /// Ends it and returns what it printed.
    ///
    /// # Errors
    /// When it does not end.
    pub fn stop(mut self) -> Result<String> {
        self.0.signal(Signal::SIGINT)?;
        self.0.wait(Duration::from_secs(3))?;
        Ok(self.0.stdout())
    }
}
