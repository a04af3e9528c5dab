//! `dpif-netdev/pmd-perf-log-set`: tells the log of passes that took suspiciously long.

use crate::ctl::command::{Command, Context, Outcome};
use crate::ctl::commands::args::Args;
use crate::ctl::reply::Done;
use crate::ctl::{CtlError, MAX_AROUND};
use crate::pmd::Suspicion;

pub(super) const COMMAND: Command = Command {
    name: "dpif-netdev/pmd-perf-log-set",
    usage: "on|off [-b before] [-a after] [-e|-ne] [-us usec]",
    about: "Have the log told, at most once a second, of a pass of a PMD thread that takes more than so many \
            microseconds (1000), with those before and after it (5 each); -e: another one in these moves the end. \
            Needs perf-metrics.",
    min_args: 1,
    max_args: 8,
    run,
};

/// The longest time that can be asked for, in microseconds.
const MAX_US: u64 = 1_000_000;

fn run(context: &mut Context<'_>, args: &[String]) -> Outcome {
    let args = Args::parse(args, &["-e", "-ne"], &["-b", "-a", "-us"])?;
    let around = |option| args.bounded(option, 5, 0..=MAX_AROUND);
    let rule = Suspicion {
        over_ns: args.bounded("-us", 1000, 1..=MAX_US)? * 1000,
        before: around("-b")?,
        after: around("-a")?,
        extend: args.has("-e"),
    };
    let rule = match args.rest.as_slice() {
        ["on"] => Some(rule),
        ["off"] => None,
        words => {
            let (what, text) = ("switch", words.join(" "));
            return Err(CtlError::BadArgument { what, text, want: "on or off".to_owned() });
        }
    };
    context.control.suspect_passes(rule)?;
    Ok(Box::new(Done {}))
}
