//! The real `iperf3` between the hosts of a rig, and its figures.

use std::time::Duration;

use serde_json::Value;

use crate::{Error, Result, ns::Netns, proc::Proc, rig::Rig, wait_until};

/// The line of `/proc/net/tcp6` that says iperf3 listens on its port 5201.
const LISTENING: &str = ":1451 00000000000000000000000000000000:0000 0A";

/// What one run of iperf3 measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Iperf {
    /// Throughput at the receiver over the whole run.
    pub mbit_s: f64,
    /// Throughput of each second, as the side that printed the report saw it.
    pub seconds_mbit_s: Vec<f64>,
    /// Lost datagrams in percent; 0 for TCP.
    pub loss_percent: f64,
}

impl Iperf {
    /// Runs TCP or UDP from `c1` to an address of `c2`, with more client arguments, e.g.
    /// `["-u", "-b", "100M"]` or `["-R"]`.
    ///
    /// # Errors
    /// When it fails, or has not ended 15 s after `seconds`.
    pub fn run(rig: &Rig, to: &str, seconds: u32, arguments: &[&str]) -> Result<Self> {
        Self::start(rig, to, seconds, arguments)?.finish()
    }

    /// Starts it in the background.
    ///
    /// # Errors
    /// When server or client cannot be started.
    pub fn start(rig: &Rig, to: &str, seconds: u32, arguments: &[&str]) -> Result<Running> {
        let server = start_server(rig, &rig.c2)?;
        let mut command = rig.c1.command("iperf3");
        command.args(["-c", to, "-J", "-i", "1", "--connect-timeout", "5000"]);
        command.args(["-t", &seconds.to_string()]).args(arguments);
        let client = Proc::start(&rig.scratch, "iperf3-client", &mut command)?;
        Ok(Running { client, _server: server, limit: Duration::from_secs(u64::from(seconds) + 15) })
    }

    /// Reads the JSON report.
    fn parse(text: &str) -> Result<Self> {
        let wrong = || Error::Output { what: "iperf3".to_owned(), text: text.to_owned() };
        let report: Value = serde_json::from_str(text).map_err(|_| wrong())?;
        let end = report.get("end").ok_or_else(wrong)?;
        let sum =
            ["sum_received", "sum"].iter().find_map(|name| end.get(name)).ok_or_else(wrong)?;
        let bits = |value: &Value| value.get("bits_per_second").and_then(Value::as_f64);
        let intervals = report.get("intervals").and_then(Value::as_array).ok_or_else(wrong)?;
        Ok(Self {
            mbit_s: bits(sum).ok_or_else(wrong)? / 1e6,
            seconds_mbit_s: intervals
                .iter()
                .filter_map(|interval| bits(interval.get("sum")?).map(|bits| bits / 1e6))
                .collect(),
            loss_percent: sum.get("lost_percent").and_then(Value::as_f64).unwrap_or(0.0),
        })
    }
}

/// A server for one client, listening.
fn start_server(rig: &Rig, ns: &Netns) -> Result<Proc> {
    let mut command = ns.command("iperf3");
    let server = Proc::start(&rig.scratch, "iperf3-server", command.args(["-s", "-1"]))?;
    let table = format!("/proc/{}/net/tcp6", server.pid());
    wait_until("iperf3 -s listening", Duration::from_secs(5), || {
        let listening = std::fs::read_to_string(&table).is_ok_and(|text| text.contains(LISTENING));
        Ok(listening.then_some(()))
    })?;
    Ok(server)
}

/// A run in the background.
#[derive(Debug)]
pub struct Running {
    client: Proc,
    _server: Proc,
    limit: Duration,
}

impl Running {
    /// Waits for the end and returns the figures.
    ///
    /// # Errors
    /// When it fails or does not end.
    pub fn finish(mut self) -> Result<Iperf> {
        let limit = self.limit;
        Iperf::parse(&self.client.finish(limit)?)
    }
}
