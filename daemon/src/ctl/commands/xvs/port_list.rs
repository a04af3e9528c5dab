//! `xvs/port-list`: the ports, one line each.

use core::fmt;

use serde::Serialize;

use crate::ctl::PortInfo;
use crate::ctl::command::{Command, Context, Outcome};
use crate::ctl::reply::Text;
use crate::ctl::table;

pub(super) const COMMAND: Command = Command {
    name: "xvs/port-list",
    usage: "",
    about: "List the ports with their state, mode and traffic.",
    min_args: 0,
    max_args: 0,
    run,
};

#[derive(Serialize)]
struct Ports(Vec<PortInfo>);

const HEADINGS: &[&str] = &[
    "PORT#",
    "NAME",
    "BRIDGE",
    "STATE",
    "MODE",
    "RXQS#",
    "RX#",
    "TX#",
    "DROPS#",
    "PKTS/KICK#",
    "REASON",
];

impl Text for Ports {
    fn text(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        let row = |port: &PortInfo| {
            [
                port.port_no.to_string(),
                port.name.clone(),
                port.bridge.clone(),
                port.state.to_string(),
                port.xdp_mode_in_use.clone().unwrap_or_else(|| "-".to_owned()),
                port.n_rxq.to_string(),
                port.rx.packets.to_string(),
                port.tx.packets.to_string(),
                port.drops.total().to_string(),
                format!("{:.1}", port.kicks.packets_per_call()),
                port.reason.clone().unwrap_or_default(),
            ]
        };
        table::write(out, HEADINGS, self.0.iter().map(row))
    }
}

fn run(context: &mut Context<'_>, _args: &[String]) -> Outcome {
    Ok(Box::new(Ports(context.control.ports()?)))
}
