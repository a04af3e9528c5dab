//! `dpif/show`: bridges and their ports.

use core::fmt;

use serde::Serialize;

use crate::ctl::PortState;
use crate::ctl::command::{Command, Context, Outcome};
use crate::ctl::commands::args::DATAPATH;
use crate::ctl::reply::Text;

pub(super) const COMMAND: Command = Command {
    name: "dpif/show",
    usage: "",
    about: "Show the bridges, and the ports of each with their numbers.",
    min_args: 0,
    max_args: 0,
    run,
};

#[derive(Serialize)]
struct Port {
    name: String,
    port_no: u32,
    #[serde(rename = "type")]
    kind: String,
    state: PortState,
}

#[derive(Serialize)]
struct Bridge {
    name: String,
    ports: Vec<Port>,
}

#[derive(Serialize)]
struct Datapath {
    datapath: &'static str,
    /// Packets found in a cache, over all threads.
    hit: u64,
    /// Packets that a bridge decided on.
    missed: u64,
    bridges: Vec<Bridge>,
}

impl Text for Datapath {
    fn text(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        writeln!(out, "{}: hit:{} missed:{}", self.datapath, self.hit, self.missed)?;
        for Bridge { name, ports } in &self.bridges {
            writeln!(out, "  {name}:")?;
            for Port { name, port_no, kind, .. } in ports {
                writeln!(out, "    {name} {port_no}/{port_no}: ({kind})")?;
            }
        }
        Ok(())
    }
}

fn run(context: &mut Context<'_>, _args: &[String]) -> Outcome {
    let ports = context.control.ports()?;
    let pmds = context.control.pmd_stats()?;
    let bridges = context.control.bridges().into_iter().map(|name| {
        let own = ports.iter().filter(|port| port.bridge == name);
        let ports = own.map(|port| Port {
            name: port.name.clone(),
            port_no: port.port_no,
            kind: port.kind.clone(),
            state: port.state,
        });
        Bridge { ports: ports.collect(), name }
    });
    Ok(Box::new(Datapath {
        datapath: DATAPATH,
        hit: pmds.iter().map(|pmd| pmd.emc_hits + pmd.smc_hits + pmd.megaflow_hits).sum(),
        missed: pmds.iter().map(|pmd| pmd.upcalls).sum(),
        bridges: bridges.collect(),
    }))
}
