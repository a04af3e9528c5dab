//! `dpif-netdev/pmd-stats-clear`: starts the statistics of PMD threads afresh.

use crate::ctl::command::{Command, Context, Outcome};
use crate::ctl::commands::args::{self, Args};
use crate::ctl::reply::Done;

pub(super) const COMMAND: Command = Command {
    name: "dpif-netdev/pmd-stats-clear",
    usage: "[-pmd core] [dp]",
    about: "Start the statistics of the PMD threads afresh.",
    min_args: 0,
    max_args: 3,
    run,
};

fn run(context: &mut Context<'_>, args: &[String]) -> Outcome {
    let args = Args::parse(args, &[], &["-pmd"])?;
    args.rest.iter().try_for_each(|name| args::datapath(name))?;
    let core = args::core(args.value("-pmd"))?;
    super::only(context.control.pmd_stats()?, core, |pmd| pmd.core)?;
    context.control.clear_pmd_stats(core)?;
    Ok(Box::new(Done {}))
}
