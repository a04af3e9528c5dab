//! The real `tcpdump` on an interface of a rig, started so that no later packet is missed.

use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::sys::signal::Signal;

use crate::{Error, Result, ns::Netns, proc::Proc, scratch::Scratch, wait_until};

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

/// A running capture whose frames can be read byte by byte, tags that the kernel took off included.
#[derive(Debug)]
pub struct Capture {
    file: PathBuf,
    _proc: Proc,
}

/// Bytes before the first frame of a capture file, and before each.
const FILE_HEADER: usize = 24;
const FRAME_HEADER: usize = 16;

impl Capture {
    /// Captures the first 2048 bytes of all frames that arrive on `interface`.
    ///
    /// # Errors
    /// When it does not start listening.
    pub fn start(scratch: &Scratch, ns: &Netns, interface: &str) -> Result<Self> {
        let name = format!("capture-{}-{interface}", ns.name());
        let file = scratch.path().join(format!("{name}.pcap"));
        let mut command = ns.command("tcpdump");
        // With a small snapshot length there is room for many frames in the ring.
        command.args(["-U", "--immediate-mode", "-s", "2048", "-Q", "in", "-Z", "root"]);
        command.args(["-i", interface, "-w"]);
        let proc = Proc::start(scratch, &name, command.arg(&file))?;
        wait_until("tcpdump listening", Duration::from_secs(5), || {
            Ok(proc.stderr().contains("listening on").then_some(()))
        })?;
        Ok(Self { file, _proc: proc })
    }

    /// The file.
    #[must_use]
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// The frames so far.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn frames(&self) -> Result<Vec<Vec<u8>>> {
        let bytes = std::fs::read(&self.file).map_err(Error::io("read a capture"))?;
        let (mut frames, mut at) = (Vec::new(), FILE_HEADER);
        while let Some(len) = bytes.get(at + 8..at + 12).and_then(<[u8]>::first_chunk) {
            let start = at + FRAME_HEADER;
            at = start + u32::from_le_bytes(*len) as usize;
            // The last may be under way.
            let Some(frame) = bytes.get(start..at) else { break };
            frames.push(frame.to_vec());
        }
        Ok(frames)
    }
}
