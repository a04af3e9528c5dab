//! What the results were measured on: enough to judge them, nothing that tells whose machine it is.

use std::process::Command;

use serde::{Deserialize, Serialize};
use xvs_tests::{Result, proc};

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
