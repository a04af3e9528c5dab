//! Packets from the source on `c1` to the sink on `c2`, through whatever is between them.

use std::time::Duration;

use xvs_tests::{Error, Result, daemon, proc::Proc, rig::Rig};

use crate::sink::Sink;

/// The core of whoever makes and takes packets; the switch has the other.
pub(crate) const HOSTS_CORE: &str = "1";

/// How long the source and what is between are given to get going.
const SETTLE: Duration = Duration::from_millis(500);

/// What is offered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    /// Bytes of each frame.
    pub(crate) size: u16,
    /// How many flows take turns.
    pub(crate) flows: u32,
}

impl Default for Load {
    fn default() -> Self {
        Self { size: 64, flows: 1 }
    }
}

impl Load {
    /// Starts the source with more arguments.
    pub(crate) fn start(self, rig: &Rig, arguments: &[&str]) -> Result<Proc> {
        let mut command = rig.c1.command("taskset");
        command.args(["-c", HOSTS_CORE]).arg(daemon::program("xvsbench")?);
        command.args(["source", "-i", "e0", "--size", &self.size.to_string()]);
        command.args(["--flows", &self.flows.to_string()]).args(arguments);
        Proc::start(&rig.scratch, "source", &mut command)
    }

    /// Packets per second that come out when as many are offered as the source can make.
    pub(crate) fn saturate(self, rig: &Rig, length: Duration) -> Result<f64> {
        let sink = rig.c2.enter(|| Sink::attach("e0"))?;
        let mut source = self.start(rig, &[])?;
        std::thread::sleep(SETTLE);
        let rate = sink.rate(length)?;
        match source.ended()? {
            None => Ok(rate),
            Some(status) => {
                let line = format!("xvsbench source ({status})");
                Err(Error::Command { line, output: source.stderr() })
            }
        }
    }
}
