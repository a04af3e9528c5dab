//! Packets from the source on `c1` to the sink on `c2`, through whatever is between them.

use std::time::Duration;

use xvs_tests::{Error, Result, daemon, proc::Proc, rig::Rig};

use crate::probe::{Probes, Probing};
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

    /// Loss in percent at a rate below saturation, and what a prober saw meanwhile.
    #[allow(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "rates and counts far below 2^52"
    )]
    pub(crate) fn probe(self, rig: &Rig, rate: f64, length: Duration) -> Result<(f64, Probes)> {
        let sink = rig.c2.enter(|| Sink::attach("e0"))?;
        // Begins before the prober and ends after it.
        let count = (rate * (length + 2 * SETTLE).as_secs_f64()) as u64;
        let rate = (rate as u64).to_string();
        let mut source = self.start(rig, &["--rate", &rate, "--count", &count.to_string()])?;
        std::thread::sleep(SETTLE);
        let probes = Probing::start(rig, length)?.finish()?;
        source.finish(length * 2 + Duration::from_secs(15))?;
        std::thread::sleep(Duration::from_millis(100));
        let lost = count.saturating_sub(sink.count()?.packets);
        Ok((lost as f64 * 100.0 / count.max(1) as f64, probes))
    }
}
