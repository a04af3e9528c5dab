//! The client; see `--help`.

use std::io::{stderr, stdout};
use std::process::ExitCode;

fn main() -> ExitCode {
    xvs_daemon::client::run(std::env::args_os(), &mut stdout(), &mut stderr()).into()
}
