//! How many instructions a packet costs in user space: counted by valgrind's callgrind, so that the figure is the
//! same on every machine and in every run.
//!
//! Two things are counted. A *pass* is the thread's own, from the rx ring to the tx ring, on ports without a
//! kernel ([`xvs_netdev_afxdp::testing`]). The *datapath* is what lies between: parse, look up, act, sort into
//! bins. Only what happens inside is counted. Each case runs with N and with 2 N rounds and the difference
//! counts, so that starting costs nothing.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use xvs_daemon::pmd::{Pmd, PmdConfig, RxSlot, Sleeper, TxHandle, TxSlot};
use xvs_datapath::{
    Action, Datapath, DatapathConfig, Env, Field, Match, Nanos, Outputs, PacketBatch, PortNo,
    QueueId, Switch,
};
use xvs_netdev_afxdp::{
    FrameCache, Umem, UmemConfig, XskPacket,
    testing::{self, Wire},
};
use xvs_tests::{Error, Result};

use crate::baseline::{self, Baseline};
use crate::valgrind;

/// What to count.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// Only the cases whose name begins so.
    #[arg(long, default_value = "")]
    pub only: String,
    /// Fail when a goal is missed.
    #[arg(long)]
    pub strict: bool,
    /// Fail when a case needs over 3 % more than the tracked file says, under the same compiler.
    #[arg(long, conflicts_with = "accept")]
    pub check: bool,
    /// Track these counts from now on: rewrites the file.
    #[arg(long, conflicts_with = "only")]
    pub accept: bool,
    /// The tracked file.
    #[arg(long, default_value = baseline::FILE)]
    pub file: PathBuf,
}

/// A kind of traffic.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Case {
    pub(crate) name: &'static str,
    /// All of the pass, or the datapath alone.
    pub(crate) whole: bool,
    /// Flows, in turns.
    flows: u16,
    /// Subtables that are searched, the last with success; 0: the exact-match cache knows the flows.
    subtables: u32,
    /// Instructions per packet at most.
    pub(crate) goal: Option<f64>,
}

pub(crate) const CASES: [Case; 8] = [
    case("pass-1-flow", true, 1, 0, None),
    case("pass-64-flows", true, 64, 0, None),
    case("pass-megaflow", true, 64, 1, None),
    case("datapath-1-flow", false, 1, 0, Some(450.0)),
    case("datapath-64-flows", false, 64, 0, Some(450.0)),
    case("datapath-1-subtable", false, 64, 1, None),
    case("datapath-10-subtables", false, 64, 10, Some(1_800.0)),
    case("datapath-50-subtables", false, 64, 50, Some(6_500.0)),
];

const fn case(
    name: &'static str,
    whole: bool,
    flows: u16,
    subtables: u32,
    goal: Option<f64>,
) -> Case {
    Case { name, whole, flows, subtables, goal }
}

/// Packets that arrive between two rounds.
const BATCH: u16 = 32;

/// Rounds of the shorter run.
const ROUNDS: u32 = 2000;

/// Prints instructions and nanoseconds per packet of each case, and compares or tracks the former.
///
/// # Errors
/// When valgrind is missing or fails; with `strict`, when a goal is missed; with `check`, when a case needs
/// more than is tracked.
pub fn run(options: &Options) -> Result<()> {
    println!("{:24}{:>14}{:>8}{:>8}", "64-byte UDP", "instructions", "goal", "ns");
    let (mut missed, mut counts) = (0, Vec::new());
    for case in CASES.iter().filter(|case| case.name.starts_with(&options.only)) {
        let count = count(case)?;
        let goal = case.goal.map_or_else(|| "-".to_owned(), |goal| goal.to_string());
        println!("{:24}{count:>14.1}{goal:>8}{:>8.1}", case.name, nanoseconds(case)?);
        missed += usize::from(case.goal.is_some_and(|goal| count > goal));
        counts.push((case.name.to_owned(), count));
    }
    let counted = Baseline::new(counts);
    if options.accept {
        counted.write(&options.file)?;
        println!("written to {}", options.file.display());
    } else if options.check {
        let remarks = Baseline::read(&options.file)?.compare(&counted)?;
        remarks.iter().for_each(|remark| println!("{remark}"));
    }
    if options.strict && missed > 0 {
        return Err(Error::Check(format!("{missed} goals missed")));
    }
    Ok(())
}

/// Nanoseconds per packet without valgrind, making and taking the packets included: for orientation.
pub(crate) fn nanoseconds(case: &Case) -> Result<f64> {
    let rounds = 50 * ROUNDS;
    let start = Instant::now();
    case.run(rounds)?;
    Ok(start.elapsed().as_secs_f64() * 1e9 / f64::from(rounds) / f64::from(BATCH))
}

/// Instructions per packet. Both runs at once, as the count does not depend on what else runs.
pub(crate) fn count(case: &Case) -> Result<f64> {
    let run = |rounds: u32| valgrind::instructions(&["rounds", case.name, &rounds.to_string()]);
    let (shorter, longer) = std::thread::scope(|scope| {
        let shorter = scope.spawn(|| run(ROUNDS));
        let longer = run(2 * ROUNDS);
        (shorter.join(), longer)
    });
    let shorter = shorter.map_err(|_| Error::Check("a thread panicked".to_owned()))??;
    Ok((longer? - shorter) / f64::from(ROUNDS) / f64::from(BATCH))
}

/// Rounds over packets in memory.
#[derive(Clone, Debug, clap::Args)]
pub struct Rounds {
    /// Name of the case.
    pub case: String,
    /// How many.
    pub rounds: u32,
}

impl Rounds {
    /// Runs them.
    ///
    /// # Errors
    /// When there is no such case, or a packet does not come out.
    pub fn run(&self) -> Result<()> {
        let case = CASES.iter().find(|case| case.name == self.case);
        case.ok_or_else(|| Error::Check(format!("no case {}", self.case)))?.run(self.rounds)
    }
}

impl Case {
    fn run(&self, rounds: u32) -> Result<()> {
        let sent = if self.whole { self.passes(rounds)? } else { self.datapath_alone(rounds)? };
        let wanted = u64::from(rounds) * u64::from(BATCH);
        if sent == wanted {
            return Ok(());
        }
        Err(Error::Check(format!("{sent} of {wanted} packets came out")))
    }

    fn packets(&self) -> impl Iterator<Item = Vec<u8>> + Clone {
        (0..self.flows).map(packet)
    }

    /// How many packets came out.
    fn passes(&self, rounds: u32) -> Result<u64> {
        let (mut pmd, mut wires) = self.thread()?;
        let packets: Vec<_> = self.packets().collect();
        let mut next = packets.iter().cycle();
        let mut sent = 0;
        for n in 0..u64::from(rounds) {
            let [from, to] = &mut wires;
            for packet in next.by_ref().take(usize::from(BATCH)) {
                from.receive(packet);
            }
            from.deliver();
            measured_pass(&mut pmd, Nanos(1_000_000_000 + n * 20_000));
            sent += u64::from(to.transmit());
        }
        Ok(sent)
    }

    /// How many packets came out.
    fn datapath_alone(&self, rounds: u32) -> Result<u64> {
        let umem = Umem::create(UmemConfig::default()).map_err(failed)?;
        let mut alone = Alone {
            datapath: self.datapath()?,
            outputs: Outputs::new(),
            batch: PacketBatch::new(usize::from(BATCH)),
            copies: FrameCache::new(umem, FrameCache::DEFAULT_LIMIT),
            switch: Switch::new(),
        };
        alone.outputs.open(PortNo(2));
        let packets = self.packets().cycle().take(64);
        let mut waiting: Vec<_> =
            packets.filter_map(|packet| alone.copies.packet(&packet)).collect();
        let (mut back, mut sent) = (Vec::with_capacity(64), 0);
        for n in 0..u64::from(rounds) {
            for packet in waiting.drain(..usize::from(BATCH)) {
                if let Err(packet) = alone.batch.push(packet) {
                    back.push(packet);
                }
            }
            measured_datapath(&mut alone, Nanos(1_000_000_000 + n * 20_000));
            alone.outputs.flush(|_, bin| {
                sent += bin.len() as u64;
                back.append(bin);
            });
            waiting.append(&mut back);
        }
        alone.copies.free_all(&mut waiting);
        Ok(sent)
    }

    /// A datapath in which the traffic hits as the case says. The masks differ in the bits of address and
    /// port; only the last one has flows that match.
    fn datapath(&self) -> Result<Datapath> {
        let emc_insert_one_in = u32::from(self.subtables == 0);
        let config = DatapathConfig { emc_insert_one_in, ..DatapathConfig::default() };
        let mut datapath = Datapath::new(config, 1);
        let base = Match::default()
            .with(&Field::IN_PORT, 1)
            .with(&Field::RECIRC_ID, 0)
            .with(&Field::ETH_TYPE, 0x0800)
            .with(&Field::ETH_SRC, 0x0200_0000_0001)
            .with(&Field::IP_PROTO, 17);
        let misses = (1..self.subtables).map(|i| {
            let (prefix, ports) = (i % 32, i / 32);
            let mask = u128::from(u32::MAX) << (32 - prefix - 1);
            base.with_masked(&Field::IPV4_DST, u128::MAX, mask).with_masked(
                &Field::TP_DST,
                0,
                (1 << ports) - 1,
            )
        });
        let flows = (0..self.flows).map(|n| base.with(&Field::TP_SRC, u128::from(1000 + n)));
        let switch = Switch::new();
        for rule in misses.chain(flows) {
            let output = Box::new([Action::Output(PortNo(2))]);
            datapath.add(rule, output, &switch, Nanos(1)).map_err(failed)?;
        }
        Ok(datapath)
    }

    /// A thread with two ports.
    fn thread(&self) -> Result<(Pmd, [Wire; 2])> {
        let umem = Umem::create(UmemConfig::default()).map_err(failed)?;
        let switch = Arc::new(Switch::new());
        switch.add_bridge("br0").map_err(failed)?;
        let config = PmdConfig {
            batch_size: usize::from(BATCH),
            sleep_max: Duration::ZERO,
            perf_metrics: false,
        };
        let sleeper = Sleeper::new().map_err(failed)?;
        let cache = FrameCache::new(umem, FrameCache::DEFAULT_LIMIT);
        let mut pmd = Pmd::new(config, self.datapath()?, cache, Arc::clone(&switch), sleeper);
        let mut port = |no: u32| -> Result<Wire> {
            let (no, queue) = (PortNo(no), QueueId(0));
            switch.add_port(no, &format!("v{}", no.0), "br0").map_err(failed)?;
            let (rx, tx, wire) = testing::port(umem, 2048).map_err(failed)?;
            let (watched, busy_ns) = (true, Arc::default());
            pmd.add_rx(RxSlot { port: no, queue, rx, watched, busy_ns, in_pass: 0 });
            pmd.add_tx(TxSlot { port: no, queue, tx: TxHandle::Owned(tx), drops: Arc::default() });
            Ok(wire)
        };
        let wires = [port(1)?, port(2)?];
        Ok((pmd, wires))
    }
}

fn failed(error: impl std::fmt::Display) -> Error {
    Error::Check(error.to_string())
}

/// A datapath and what it is lent.
struct Alone {
    datapath: Datapath,
    outputs: Outputs<XskPacket>,
    batch: PacketBatch<XskPacket>,
    copies: FrameCache,
    switch: Switch,
}

/// What is counted; found by its name.
#[inline(never)]
fn measured_datapath(alone: &mut Alone, now: Nanos) {
    let Alone { datapath, outputs, batch, copies, switch } = alone;
    datapath.process(PortNo(1), batch, &mut Env { now, outputs, copies, upcall: &*switch });
}

/// What is counted; found by its name.
#[inline(never)]
fn measured_pass(pmd: &mut Pmd, now: Nanos) -> u64 {
    pmd.pass(now)
}

/// A UDP packet of 64 bytes, frame check sequence included.
fn packet(flow: u16) -> Vec<u8> {
    let payload = [0; 18];
    let (a, b) = ([10, 1, 1, 1], [10, 1, 1, 2]);
    let udp = xvs_tests::frame::udp((a.into(), 1000 + flow), (b.into(), 9), &payload);
    let ip = xvs_tests::frame::ipv4(a.into(), b.into(), 17, &udp);
    xvs_tests::frame::ethernet([2, 0, 0, 0, 0, 2], [2, 0, 0, 0, 0, 1], 0x0800, &ip)
}
