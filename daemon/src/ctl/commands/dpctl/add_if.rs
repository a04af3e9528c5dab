//! `dpctl/add-if`: adds ports, all or none.

use crate::ctl::PortSpec;
use crate::ctl::command::{Command, Context, Outcome};
use crate::ctl::commands::args;
use crate::ctl::reply::Done;

pub(super) const COMMAND: Command = Command {
    name: "dpctl/add-if",
    usage: "dp iface[,option=value...]...",
    about: "Add ports; options are the keys of [[port]] in the configuration, as xdp-mode=native.",
    min_args: 2,
    max_args: usize::MAX,
    run,
};

fn run(context: &mut Context<'_>, args: &[String]) -> Outcome {
    let (datapath, ports) = COMMAND.first(args)?;
    args::datapath(datapath)?;
    let specs: Vec<PortSpec> =
        ports.iter().map(|port| args::port_spec(port)).collect::<Result<_, _>>()?;
    for (done, spec) in specs.iter().enumerate() {
        if let Err(error) = context.control.add_port(spec) {
            for added in specs.iter().take(done) {
                context.control.del_port(&added.name)?;
            }
            return Err(error);
        }
    }
    Ok(Box::new(Done {}))
}
