//! What the results were measured on: enough to judge them, nothing that tells whose machine it is.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::process::Command;

use serde::{Deserialize, Serialize};
use xvs_tests::{Result, daemon, proc};

/// The machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Machine {
    /// Model of the CPU, as the kernel names it.
    pub(super) cpu: String,
    /// Cores that may be used.
    pub(super) cores: usize,
    /// Release of the kernel.
    pub(super) kernel: String,
}

impl Machine {
    /// This one.
    pub(super) fn this() -> Result<Self> {
        let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
        let kernel = proc::run(Command::new("uname").arg("-r"))?;
        Ok(Self {
            cpu: model.map_or("unknown", |(_, model)| model).trim().to_owned(),
            cores: std::thread::available_parallelism().map_or(0, usize::from),
            kernel: kernel.trim().to_owned(),
        })
    }
}

/// Tells one build of the daemon from another; rows of different builds do not belong to one run. Empty when
/// there is no daemon.
pub(super) fn build() -> String {
    let program = daemon::program("xvswitchd").ok().and_then(|path| std::fs::read(path).ok());
    program.map_or_else(String::new, |program| {
        let mut hasher = DefaultHasher::new();
        program.hash(&mut hasher);
        format!("{:016x}", hasher.finish())
    })
}
