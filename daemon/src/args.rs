//! The command line of `xvswitchd`.

use std::path::PathBuf;

use clap::Parser;

/// Forwards packets between AF_XDP ports through a flow table.
#[derive(Clone, Debug, Parser)]
#[command(
    name = "xvswitchd",
    version,
    after_help = "Examples:
  xvswitchd                                     as the unit starts it
  xvswitchd --config lab.toml --run-dir /run/lab   a second switch beside it
  xvswitchd --config lab.toml --check           say what is wrong with a file

SIGHUP reloads the file; SIGINT and SIGTERM end the daemon. Exit status 0 after a clean end, 1 when it
cannot start, 2 for a wrong command line."
)]
pub struct Args {
    /// The configuration file.
    #[arg(long, value_name = "FILE", default_value = "/etc/xvswitch/xvswitch.toml")]
    pub config: PathBuf,
    /// Directory of the control socket and the pid file; overrides `run-dir` of the file.
    #[arg(long, value_name = "DIR")]
    pub run_dir: Option<PathBuf>,
    /// Check the configuration file and end.
    #[arg(long)]
    pub check: bool,
}
