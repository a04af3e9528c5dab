//! How many instructions a packet costs in user space, from the rx ring to the tx ring: counted by
//! valgrind's callgrind, so that the figure is the same on every machine and in every run.
//!
//! The thread's own pass runs on ports without a kernel ([`xvs_netdev_afxdp::testing`]); only what
//! happens inside the pass is counted. Each case runs with N and with 2 N passes and the difference counts,
//! so that starting costs nothing.

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use xvs_daemon::pmd::{Pmd, PmdConfig, RxSlot, Sleeper, TxHandle, TxSlot};
use xvs_datapath::{Datapath, DatapathConfig, Nanos, PortNo, QueueId, Switch};
use xvs_netdev_afxdp::{
    FrameCache, Umem, UmemConfig,
    testing::{self, Wire},
};
use xvs_tests::{Error, Result, daemon};

/// What to count.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// Only this case.
    #[arg(long)]
    pub only: Option<Case>,
}

/// A kind of traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Case {
    /// One flow that the exact-match cache knows.
    Emc,
    /// 64 flows in turns that the exact-match cache knows.
    Emc64,
    /// 64 flows in turns, without the exact-match cache.
    Megaflow,
}

impl Case {
    const ALL: [Self; 3] = [Self::Emc, Self::Emc64, Self::Megaflow];

    fn name(self) -> &'static str {
        match self {
            Self::Emc => "emc",
            Self::Emc64 => "emc64",
            Self::Megaflow => "megaflow",
        }
    }

    fn flows(self) -> u16 {
        if self == Self::Emc { 1 } else { 64 }
    }
}

/// Packets that arrive between two passes.
const BATCH: u16 = 32;

/// Passes of the shorter run.
const PASSES: u32 = 2000;

/// Prints the instructions per packet of each case.
///
/// # Errors
/// When valgrind is missing or fails.
pub fn run(options: &Options) -> Result<()> {
    for case in Case::ALL.into_iter().filter(|&case| options.only.is_none_or(|only| only == case)) {
        println!("{:10} {:.1} instructions per packet", case.name(), count(case)?);
    }
    Ok(())
}

/// Instructions per packet.
fn count(case: Case) -> Result<f64> {
    let more = callgrind(case, 2 * PASSES)? - callgrind(case, PASSES)?;
    Ok(more / f64::from(PASSES) / f64::from(BATCH))
}

/// Instructions inside the passes of one run.
fn callgrind(case: Case, passes: u32) -> Result<f64> {
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]);
    command.args(["--collect-atstart=no", "--toggle-collect=*measured_pass*"]);
    command.arg(daemon::program("xvsbench")?).args(["passes", case.name(), &passes.to_string()]);
    let output = command.output().map_err(Error::io("valgrind"))?;
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let collected = text.lines().find_map(|line| line.split_once("Collected : ")?.1.parse().ok());
    collected
        .filter(|&count: &f64| output.status.success() && count > 0.0)
        .ok_or(Error::Output { what: "valgrind".to_owned(), text })
}

/// Passes over packets in memory.
#[derive(Clone, Debug, clap::Args)]
pub struct Passes {
    /// The kind of traffic.
    pub case: Case,
    /// How many.
    pub passes: u32,
}

impl Passes {
    /// Runs them.
    ///
    /// # Errors
    /// When a packet does not come out.
    pub fn run(&self) -> Result<()> {
        let (mut pmd, mut wires) = thread(self.case)?;
        let packets: Vec<_> = (0..self.case.flows()).map(packet).collect();
        let mut next = packets.iter().cycle();
        let mut sent = 0;
        for n in 0..u64::from(self.passes) {
            let [from, to] = &mut wires;
            for packet in next.by_ref().take(usize::from(BATCH)) {
                from.receive(packet);
            }
            from.deliver();
            measured_pass(&mut pmd, Nanos(1_000_000_000 + n * 20_000));
            sent += u64::from(to.transmit());
        }
        let wanted = u64::from(self.passes) * u64::from(BATCH);
        if sent == wanted {
            return Ok(());
        }
        Err(Error::Check(format!("{sent} of {wanted} packets came out")))
    }
}

/// What is counted; found by its name.
#[inline(never)]
fn measured_pass(pmd: &mut Pmd, now: Nanos) -> u64 {
    pmd.pass(now)
}

/// A thread with two ports.
fn thread(case: Case) -> Result<(Pmd, [Wire; 2])> {
    let failed = |error: &dyn std::fmt::Display| Error::Check(error.to_string());
    let umem = Umem::create(UmemConfig::default()).map_err(|e| failed(&e))?;
    let switch = Switch::new();
    switch.add_bridge("br0").map_err(|e| failed(&e))?;
    let emc_insert_one_in = u32::from(case != Case::Megaflow);
    let config = DatapathConfig { emc_insert_one_in, ..DatapathConfig::default() };
    let pmd_config = PmdConfig { batch_size: usize::from(BATCH), sleep_max: Duration::ZERO };
    let sleeper = Sleeper::new().map_err(|e| failed(&e))?;
    let cache = FrameCache::new(umem, FrameCache::DEFAULT_LIMIT);
    let switch = Arc::new(switch);
    let mut pmd =
        Pmd::new(pmd_config, Datapath::new(config, 1), cache, Arc::clone(&switch), sleeper);
    let mut port = |no: u32| -> Result<Wire> {
        let (no, queue) = (PortNo(no), QueueId(0));
        switch.add_port(no, &format!("v{}", no.0), "br0").map_err(|e| failed(&e))?;
        let (rx, tx, wire) = testing::port(umem, 2048).map_err(|e| failed(&e))?;
        pmd.add_rx(RxSlot { port: no, queue, rx, busy_ns: Arc::default(), in_pass: 0 });
        pmd.add_tx(TxSlot { port: no, queue, tx: TxHandle::Owned(tx), drops: Arc::default() });
        Ok(wire)
    };
    let wires = [port(1)?, port(2)?];
    Ok((pmd, wires))
}

/// A UDP packet of 64 bytes, frame check sequence included.
fn packet(flow: u16) -> Vec<u8> {
    let payload = [0; 18];
    let (a, b) = ([10, 1, 1, 1], [10, 1, 1, 2]);
    let udp = xvs_tests::frame::udp((a.into(), 1000 + flow), (b.into(), 9), &payload);
    let ip = xvs_tests::frame::ipv4(a.into(), b.into(), 17, &udp);
    xvs_tests::frame::ethernet([2, 0, 0, 0, 0, 2], [2, 0, 0, 0, 0, 1], 0x0800, &ip)
}
