//! The daemon itself: configuration, status, log levels.

use core::str::FromStr;

use serde::Serialize;

/// The running configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ConfigView {
    /// The file it came from, if any.
    pub file: Option<String>,
    /// Canonical TOML; the same configuration always gives the same bytes.
    pub text: String,
}

/// That a PMD thread is alive: the number grows while it runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PmdProgress {
    /// Name of the thread.
    pub thread: String,
    /// Its core.
    pub core: u32,
    /// Passes since the start.
    pub passes: u64,
    /// It made progress since the main thread last looked.
    pub alive: bool,
}

/// A bridge in brief.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct BridgeInfo {
    /// Its name.
    pub name: String,
    /// Its ports.
    pub ports: u64,
    /// Its rules.
    pub rules: u64,
    /// Its MAC entries.
    pub fdb_entries: u64,
}

/// Something with a name and a state, as a UMEM or a kernel feature.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Feature {
    /// Name.
    pub name: String,
    /// State in words.
    pub state: String,
}

/// The daemon in brief.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Status {
    /// Version of the daemon.
    pub version: String,
    /// Process.
    pub pid: u32,
    /// Seconds since the start.
    pub uptime_s: u64,
    /// Run directory.
    pub run_dir: String,
    /// Configuration file, if any.
    pub config_file: Option<String>,
    /// Configurations applied since the start.
    pub config_generation: u64,
    /// Why the last reload was refused.
    pub last_reload_error: Option<String>,
    /// Bridges.
    pub bridges: Vec<BridgeInfo>,
    /// PMD threads.
    pub pmds: Vec<PmdProgress>,
    /// Features of the kernel and packet memories: what is in use, what is missing.
    pub features: Vec<Feature>,
}

/// A log level, with Open vSwitch's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Nothing.
    Off,
    /// The daemon cannot go on.
    Emer,
    /// Something failed.
    Err,
    /// Someone should look.
    Warn,
    /// News.
    Info,
    /// For developers.
    Dbg,
}

impl Level {
    /// All levels, from silent to talkative.
    pub const ALL: [Self; 6] =
        [Self::Off, Self::Emer, Self::Err, Self::Warn, Self::Info, Self::Dbg];

    /// As shown by `vlog/list`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Off => "OFF",
            Self::Emer => "EMER",
            Self::Err => "ERR",
            Self::Warn => "WARN",
            Self::Info => "INFO",
            Self::Dbg => "DBG",
        }
    }
}

/// A word that is no log level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoLevel;

impl FromStr for Level {
    type Err = NoLevel;

    fn from_str(text: &str) -> Result<Self, NoLevel> {
        let found = Self::ALL.into_iter().find(|level| level.name().eq_ignore_ascii_case(text));
        found.ok_or(NoLevel)
    }
}

/// The level of one log module.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LogLevel {
    /// Module.
    pub module: String,
    /// Messages up to this level are written.
    pub level: Level,
}
