//! `./x demo`: two hosts with default offloads, the switch between them, and what they get out of it.

use std::time::{Duration, Instant};

use comfy_table::{CellAlignment, Table, presets::ASCII_MARKDOWN};
use serde_json::Value;
use xvs_tests::{
    Result, check,
    daemon::{Daemon, Setup},
    iperf::Iperf,
    ledger::Ledger,
    ping::{Ping, Pings},
    rig::{C2, Rig},
};

use crate::kernel_peers;
use crate::peers::OpenVswitch;

/// Seconds of each iperf3 run: no step is silent for 10 s.
const SECONDS: u32 = 4;
/// Rate at which UDP is offered.
const UDP_RATE: &str = "100M";

/// Options of the demo.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Measure Debian's Open vSwitch (userspace datapath, afxdp ports) and the Linux bridge as well.
    #[arg(long)]
    pub compare: bool,
}

/// Runs the demo and prints its table.
///
/// # Errors
/// When anything did not work: a lost ping, a second without TCP, a ledger that does not balance.
pub fn run(options: &Options) -> Result<()> {
    let clock = Instant::now();
    let (traffic, inside) = xvswitch(clock)?;
    let mut columns = vec![("xvswitch", traffic)];
    if options.compare {
        columns.push(("Open vSwitch", open_vswitch(clock)?));
        columns.push(("Linux bridge", linux_bridge(clock)?));
    }
    println!("\n{}\n\n{}", traffic_table(&columns), inside.table());
    inside.ledgers();
    if options.compare {
        println!(
            "Hosts have default offloads, but for Open vSwitch, which needs tx checksum offload off. \
             The Linux bridge forwards 64 KiB segments; AF_XDP sees each packet."
        );
    }
    columns.iter().try_for_each(|(name, traffic)| traffic.check(name))?;
    println!("Everything worked and both ledgers balance.");
    Ok(())
}

/// One line of progress.
fn say(clock: Instant, text: &str) {
    println!("[{:3} s] {text}", clock.elapsed().as_secs());
}

/// What the hosts see of any switch.
#[derive(Debug)]
struct Traffic {
    ping: Pings,
    there: Iperf,
    back: Iperf,
    udp: Iperf,
}

impl Traffic {
    /// Measures through whatever joins the two hosts of a rig.
    fn measure(rig: &Rig, clock: Instant, name: &str) -> Result<Self> {
        rig.wait_forwarding(Duration::from_secs(10))?;
        say(clock, &format!("{name}: ping"));
        let ping = Ping::new(&rig.c1, C2).count(20).run(&rig.scratch)?;
        say(clock, &format!("{name}: TCP from c1 to c2"));
        let there = Iperf::run(rig, C2, SECONDS, &[])?;
        say(clock, &format!("{name}: TCP from c2 to c1"));
        let back = Iperf::run(rig, C2, SECONDS, &["-R"])?;
        say(clock, &format!("{name}: UDP at {UDP_RATE}bit/s"));
        let udp = Iperf::run(rig, C2, SECONDS, &["-u", "-b", UDP_RATE])?;
        Ok(Self { ping, there, back, udp })
    }

    /// Whether all of it worked.
    fn check(&self, name: &str) -> Result<()> {
        check!(self.ping.lost() == 0, "{name}: {} pings lost", self.ping.lost());
        for tcp in [&self.there, &self.back] {
            let stalled = tcp.seconds_mbit_s.iter().any(|mbit_s| *mbit_s <= 0.0);
            check!(!stalled, "{name}: TCP stood still for a second: {:?}", tcp.seconds_mbit_s);
        }
        check!(self.udp.loss_percent < 1.0, "{name}: {} % of UDP lost", self.udp.loss_percent);
        Ok(())
    }
}

fn xvswitch(clock: Instant) -> Result<(Traffic, Inside)> {
    say(clock, "xvswitch: two hosts c1 and c2 with default offloads, the switch between them");
    let rig = Rig::pair()?;
    let measured = (|| {
        let daemon = Daemon::start(&rig, &Setup::new(&rig))?;
        let traffic = Traffic::measure(&rig, clock, "xvswitch")?;
        let inside = Inside::read(&daemon)?;
        daemon.stop()?;
        Ok((traffic, inside))
    })();
    measured.inspect_err(|_| eprint!("{}", rig.scratch.logs(20)))
}

fn open_vswitch(clock: Instant) -> Result<Traffic> {
    say(clock, "Open vSwitch: the same rig, checksum offload off");
    let rig = Rig::pair()?;
    let measured = OpenVswitch::start(&rig, "0x1")
        .and_then(|_running| Traffic::measure(&rig, clock, "Open vSwitch"));
    measured.inspect_err(|_| eprint!("{}", rig.scratch.logs(20)))
}

fn linux_bridge(clock: Instant) -> Result<Traffic> {
    say(clock, "Linux bridge: the same rig");
    let rig = Rig::pair()?;
    kernel_peers::linux_bridge(&rig, &rig.ports)?;
    Traffic::measure(&rig, clock, "Linux bridge")
}

/// One column per switch.
fn traffic_table(columns: &[(&str, Traffic)]) -> Table {
    let mut table = table(std::iter::once("").chain(columns.iter().map(|(name, _)| *name)));
    let mut row = |name: &str, cell: fn(&Traffic) -> String| {
        let cells = columns.iter().map(|(_, traffic)| cell(traffic));
        table.add_row(std::iter::once(name.to_owned()).chain(cells));
    };
    row("ping, median", |traffic| format!("{:.2} ms", traffic.ping.median_ms()));
    row("ping, lost", |traffic| format!("{} of {}", traffic.ping.lost(), traffic.ping.sent));
    row("TCP c1 to c2", |traffic| format!("{:.0} Mbit/s", traffic.there.mbit_s));
    row("TCP c2 to c1", |traffic| format!("{:.0} Mbit/s", traffic.back.mbit_s));
    row("UDP c1 to c2", |traffic| format!("{:.0} Mbit/s", traffic.udp.mbit_s));
    row("UDP, lost", |traffic| format!("{:.2} %", traffic.udp.loss_percent));
    table
}

/// A table whose first column is of names, the others of figures.
fn table<'a>(header: impl Iterator<Item = &'a str>) -> Table {
    let mut table = Table::new();
    table.load_style(ASCII_MARKDOWN);
    table.set_header(header);
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// What only the switch itself knows.
#[derive(Debug)]
struct Inside {
    ports: Value,
    pmds: Value,
    ledger: Ledger,
}

impl Inside {
    fn read(daemon: &Daemon) -> Result<Self> {
        let ledger = daemon.balanced()?;
        Ok(Self {
            ports: daemon.ctl(&["port", "list"])?,
            pmds: daemon.ctl(&["pmd", "stats"])?,
            ledger,
        })
    }

    /// One column per port; hits of the flow table are those of the switch.
    fn table(&self) -> Table {
        let ports = self.ports.as_array().map(Vec::as_slice).unwrap_or_default();
        let name = |port: &'_ Value| text(port, "/name");
        let names: Vec<String> = ports.iter().map(name).collect();
        let mut table = table(std::iter::once("port").chain(names.iter().map(String::as_str)));
        let mut row = |name: &str, cell: &dyn Fn(&Value) -> String| {
            table.add_row(std::iter::once(name.to_owned()).chain(ports.iter().map(cell)));
        };
        row("mode in use", &|port| text(port, "/xdp_mode_in_use"));
        row("received", &|port| number(port, "/rx/packets").to_string());
        row("sent", &|port| number(port, "/tx/packets").to_string());
        row("kicks", &|port| number(port, "/kicks/calls").to_string());
        row("packets per kick", &|port| {
            ratio(number(port, "/kicks/packets"), number(port, "/kicks/calls"))
        });
        row("EAGAIN", &|port| number(port, "/kicks/eagain").to_string());
        table
    }

    /// Flow table and ledgers in a line each.
    fn ledgers(&self) {
        let sum = |name: &str| -> u64 {
            self.pmds.as_array().into_iter().flatten().map(|pmd| number(pmd, name)).sum()
        };
        let hits = sum("/emc_hits") + sum("/smc_hits") + sum("/megaflow_hits");
        println!("\nflow table   {hits} hits, {} misses, {} flows", sum("/upcalls"), sum("/flows"));
        let packets = |name| self.ledger.packets(name);
        println!(
            "packets      {} received + {} copies = {} sent + {} dropped + {} queued",
            packets("rx"),
            packets("copies"),
            packets("tx"),
            self.ledger.all_drops(),
            packets("queued")
        );
        let frames = |name| self.ledger.frames(name);
        println!(
            "frames       {} = {} pool + {} caches + {} filled + {} queued or in transmission + {} elsewhere\n",
            frames("total"),
            frames("pool"),
            frames("caches"),
            frames("filled"),
            frames("queued") + frames("tx"),
            frames("batches") + frames("held") + frames("quarantined"),
        );
    }
}

fn number(value: &Value, path: &str) -> u64 {
    value.pointer(path).and_then(Value::as_u64).unwrap_or(0)
}

fn text(value: &Value, path: &str) -> String {
    value.pointer(path).and_then(Value::as_str).unwrap_or("-").to_owned()
}

#[allow(clippy::cast_precision_loss, reason = "a ratio for people")]
fn ratio(part: u64, whole: u64) -> String {
    if whole == 0 { "-".to_owned() } else { format!("{:.1}", part as f64 / whole as f64) }
}
