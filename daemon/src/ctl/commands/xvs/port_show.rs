//! `xvs/port-show`: everything about ports.

use core::fmt;

use serde::Serialize;

use crate::ctl::command::{Command, Context, Outcome};
use crate::ctl::commands::args;
use crate::ctl::reply::Text;
use crate::ctl::{CtlError, PortInfo, QueueInfo, Setting};
use crate::registry;

pub(super) const COMMAND: Command = Command {
    name: "xvs/port-show",
    usage: "[port...]",
    about: "Show everything about some ports, or all: state, modes, values in force, counters.",
    min_args: 0,
    max_args: usize::MAX,
    run,
};

#[derive(Serialize)]
struct Ports {
    ports: Vec<PortInfo>,
}

impl Text for Ports {
    fn text(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        self.ports.iter().try_for_each(|port| {
            state(port, out)?;
            settings(port, out)?;
            counters(port, out)?;
            port.queues.iter().try_for_each(|queue| queue_counters(queue, out))
        })
    }
}

fn state(port: &PortInfo, out: &mut dyn fmt::Write) -> fmt::Result {
    writeln!(out, "port {}: {} ({})", port.port_no, port.name, port.kind)?;
    row(out, "bridge", &port.bridge)?;
    let reason = port.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
    row(out, "state", format!("{}{reason}", port.state))?;
    row(out, "ifindex", known(port.ifindex))?;
    row(out, "mac", known(port.mac))?;
    row(out, "mtu", known(port.mtu))?;
    row(out, "carrier", if port.carrier { "on" } else { "off" })?;
    row(out, "program-id", known(port.program_id))
}

fn settings(port: &PortInfo, out: &mut dyn fmt::Write) -> fmt::Result {
    let mode = known(port.xdp_mode_in_use.as_ref());
    let why = port.stepped_down.as_ref().map(|why| format!("; {why}")).unwrap_or_default();
    row(out, "xdp-mode", format!("{} (in use: {mode}{why})", port.xdp_mode))?;
    if let Some(why) = &port.hidden_tags {
        row(out, "hidden-tags", why)?;
    }
    row(out, "zero-copy", known(port.zero_copy.map(|on| if on { "yes" } else { "no" })))?;
    row(out, "n-rxq", port.n_rxq)?;
    row(out, "start-queue", port.start_queue)?;
    row(out, "rx-ring", port.rx_ring)?;
    row(out, "tx-ring", port.tx_ring)?;
    row(out, "tx-budget", setting(&port.tx_budget))?;
    row(out, "sndbuf", setting(&port.sndbuf))?;
    row(out, "xmit-batch", setting(&port.xmit_batch))?;
    row(out, "busy-poll-us", setting(&port.busy_poll_us))?;
    row(out, "busy-poll-budget", setting(&port.busy_poll_budget))?;
    row(out, "prefer-busy-poll", setting(&port.prefer_busy_poll))?;
    row(out, "batch", port.batch)?;
    port.warnings.iter().try_for_each(|warning| row(out, "WARNING", warning))
}

fn setting(setting: &Setting) -> String {
    if setting.unsupported {
        return format!("{} (unsupported)", setting.configured);
    }
    format!("{} (in force: {})", setting.configured, known(setting.in_force))
}

fn known<T: fmt::Display>(value: Option<T>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

fn counters(port: &PortInfo, out: &mut dyn fmt::Write) -> fmt::Result {
    for metric in registry::PORT {
        let name = metric.name.strip_prefix("port_").unwrap_or(metric.name);
        row(out, name, (metric.get)(port))?;
    }
    for (reason, n) in port.drops.iter().filter(|&(_, n)| n > 0) {
        row(out, &format!("drops:{}", reason.name()), n)?;
    }
    row(out, "packets per kick", format!("{:.1}", port.kicks.packets_per_call()))
}

fn queue_counters(queue: &QueueInfo, out: &mut dyn fmt::Write) -> fmt::Result {
    let tx = match queue.tx_cores.as_slice() {
        [] => "-".to_owned(),
        [one] => one.to_string(),
        [first, others @ ..] => {
            let others: String = others.iter().map(|core| format!("+{core}")).collect();
            format!("{first}{others} (shared under a lock)")
        }
    };
    writeln!(out, "  queue {}: rx core {}, tx core {tx}", queue.queue, known(queue.rx_core))?;
    for metric in registry::QUEUE {
        writeln!(out, "    {:<30} {}", metric.name, (metric.get)(queue))?;
    }
    Ok(())
}

fn row(out: &mut dyn fmt::Write, name: &str, value: impl fmt::Display) -> fmt::Result {
    writeln!(out, "  {name:<20} {value}")
}

fn run(context: &mut Context<'_>, args: &[String]) -> Outcome {
    let wanted: Vec<String> =
        args.iter().map(|name| args::port_name(context, name)).collect::<Result<_, CtlError>>()?;
    let mut ports = context.control.ports()?;
    ports.retain(|port| wanted.is_empty() || wanted.contains(&port.name));
    Ok(Box::new(Ports { ports }))
}
