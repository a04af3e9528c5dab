//! The daemon; see `--help`.

use std::process::ExitCode;

use clap::Parser;
use xvs_daemon::args::Args;

fn main() -> ExitCode {
    match xvs_daemon::start::run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xvswitchd: {error}");
            ExitCode::FAILURE
        }
    }
}
