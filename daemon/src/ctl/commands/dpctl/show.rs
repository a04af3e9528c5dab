//! `dpctl/show`: the datapath with its ports.

use core::fmt;

use serde::Serialize;
use xvs_datapath::DropReason;

use crate::ctl::command::{Command, Context, Outcome};
use crate::ctl::commands::args::{self, Args, DATAPATH};
use crate::ctl::reply::Text;
use crate::ctl::{PmdStats, PortInfo, PortState};

pub(super) const COMMAND: Command = Command {
    name: "dpctl/show",
    usage: "[-s] [dp...]",
    about: "Show the datapath and its ports, with statistics on -s.",
    min_args: 0,
    max_args: usize::MAX,
    run,
};

/// What became of the packets that asked for a flow.
#[derive(Serialize)]
struct Lookups {
    hit: u64,
    missed: u64,
    lost: u64,
}

#[derive(Serialize)]
struct Datapath {
    name: &'static str,
    lookups: Lookups,
    flows: u64,
    ports: Vec<PortInfo>,
    #[serde(skip)]
    with_statistics: bool,
}

impl Text for Datapath {
    fn text(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        let Lookups { hit, missed, lost } = self.lookups;
        writeln!(out, "{}:", self.name)?;
        writeln!(out, "  lookups: hit:{hit} missed:{missed} lost:{lost}")?;
        writeln!(out, "  flows: {}", self.flows)?;
        for port in &self.ports {
            writeln!(out, "  port {}: {} ({})", port.port_no, port.name, settings(port))?;
            if self.with_statistics {
                statistics(port, out)?;
            }
        }
        Ok(())
    }
}

fn settings(port: &PortInfo) -> String {
    let mut text = format!("{}: n_rxq={}, xdp-mode={}", port.kind, port.n_rxq, port.xdp_mode);
    if let Some(mode) = &port.xdp_mode_in_use {
        text += &format!(", xdp-mode-in-use={mode}");
    }
    if port.state != PortState::Bound {
        text += &format!(", state={}", port.state);
    }
    text
}

/// As dpctl prints them; what nobody counts is a question mark.
fn statistics(port: &PortInfo, out: &mut dyn fmt::Write) -> fmt::Result {
    let kernel = |get: fn(&crate::ctl::XskCounters) -> u64| -> u64 {
        port.queues.iter().map(|queue| get(&queue.kernel)).sum()
    };
    let ring_full = kernel(|k| k.rx_ring_full);
    let dropped = ring_full + kernel(|k| k.rx_dropped);
    writeln!(
        out,
        "    RX packets:{} errors:? dropped:{dropped} overruns:{ring_full} frame:?",
        port.rx.packets
    )?;
    let (drops, no_carrier) = (port.drops.total(), port.drops.get(DropReason::NoCarrier));
    writeln!(
        out,
        "    TX packets:{} errors:{} dropped:{drops} aborted:? carrier:{no_carrier}",
        port.tx.packets, port.kicks.errors
    )?;
    writeln!(out, "    collisions:?")?;
    writeln!(out, "    RX bytes:{}  TX bytes:{}", port.rx.bytes, port.tx.bytes)
}

fn run(context: &mut Context<'_>, args: &[String]) -> Outcome {
    let args = Args::parse(args, &["-s", "--statistics"], &[])?;
    args.rest.iter().try_for_each(|name| args::datapath(name))?;
    let pmds = context.control.pmd_stats()?;
    let sum = |get: fn(&PmdStats) -> u64| pmds.iter().map(get).sum();
    let lookups = Lookups {
        hit: sum(|pmd| pmd.emc_hits + pmd.smc_hits + pmd.megaflow_hits),
        missed: sum(|pmd| pmd.upcalls),
        lost: sum(|pmd| pmd.lost_upcalls),
    };
    Ok(Box::new(Datapath {
        name: DATAPATH,
        lookups,
        flows: sum(|pmd| pmd.flows),
        ports: context.control.ports()?,
        with_statistics: args.has("-s") || args.has("--statistics"),
    }))
}
