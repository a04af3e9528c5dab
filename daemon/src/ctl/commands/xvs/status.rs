//! `xvs/status`: the daemon in brief.

use core::fmt;

use serde::Serialize;

use crate::ctl::command::{Command, Context, Outcome};
use crate::ctl::reply::Text;
use crate::ctl::{PortInfo, PortState, Status};

pub(super) const COMMAND: Command = Command {
    name: "xvs/status",
    usage: "",
    about: "Show the daemon in brief: ports, threads, configuration, what the kernel offers.",
    min_args: 0,
    max_args: 0,
    run,
};

/// A port in one line.
#[derive(Serialize)]
struct PortLine {
    name: String,
    bridge: String,
    state: PortState,
    xdp_mode_in_use: Option<String>,
    reason: Option<String>,
}

impl From<PortInfo> for PortLine {
    fn from(port: PortInfo) -> Self {
        let PortInfo { name, bridge, state, xdp_mode_in_use, reason, .. } = port;
        Self { name, bridge, state, xdp_mode_in_use, reason }
    }
}

#[derive(Serialize)]
struct Overview {
    #[serde(flatten)]
    status: Status,
    ports: Vec<PortLine>,
}

impl Text for Overview {
    fn text(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        let status = &self.status;
        writeln!(out, "xvswitchd {} (process {})", status.version, status.pid)?;
        writeln!(out, "  uptime: {} s", status.uptime_s)?;
        writeln!(out, "  run-dir: {}", status.run_dir)?;
        let file = status.config_file.as_deref().unwrap_or("none");
        writeln!(out, "  configuration: {file}, applied {} times", status.config_generation)?;
        if let Some(error) = &status.last_reload_error {
            writeln!(out, "  last reload refused: {error}")?;
        }
        for bridge in &status.bridges {
            let (ports, rules, macs) = (bridge.ports, bridge.rules, bridge.fdb_entries);
            writeln!(out, "  bridge {}: {ports} ports, {rules} rules, {macs} macs", bridge.name)?;
        }
        for port in &self.ports {
            let mode = port.xdp_mode_in_use.as_deref().unwrap_or("-");
            let reason = port.reason.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
            writeln!(out, "  port {}: {}, {mode}{reason}", port.name, port.state)?;
        }
        for pmd in &status.pmds {
            let state = if pmd.alive { "running" } else { "NO PROGRESS" };
            writeln!(out, "  {}: core {}, {} passes, {state}", pmd.thread, pmd.core, pmd.passes)?;
        }
        for feature in &status.features {
            writeln!(out, "  {}: {}", feature.name, feature.state)?;
        }
        Ok(())
    }
}

fn run(context: &mut Context<'_>, _args: &[String]) -> Outcome {
    let ports = context.control.ports()?.into_iter().map(PortLine::from).collect();
    Ok(Box::new(Overview { status: context.control.status(), ports }))
}
