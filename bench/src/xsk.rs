//! `xvsbench txonly`, `rxdrop` and `l2fwd`: one AF_XDP socket, with the options that people know from xdpsock. The
//! socket, its rings and the way the kernel is called are xvswitch's own. Calls are counted from inside; their
//! share of the time is the thread's time in the kernel, as it calls for nothing else.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use serde_json::json;
use xvs_datapath::{DropCounters, Nanos, Packet, PacketBatch, RxQueue, TxQueue};
use xvs_netdev_afxdp as afxdp;
use xvs_tests::{Error, Result};

/// One socket.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// The interface.
    #[arg(short, long)]
    pub interface: String,
    /// Which queue of it.
    #[arg(short, long, default_value_t = 0)]
    pub queue: u32,
    /// Packets at once: those of one call when sending.
    #[arg(short, long, default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub batch_size: u16,
    /// Have the thread run the driver's receive routine.
    #[arg(short = 'B', long)]
    pub busy_poll: bool,
    /// Generic mode, on the kernel's own packets.
    #[arg(short = 'S', long, group = "mode")]
    pub xdp_skb: bool,
    /// Native mode; the packets are copied.
    #[arg(short = 'N', long, group = "mode")]
    pub xdp_native: bool,
    /// Native mode without copies.
    #[arg(short, long, group = "mode")]
    pub zero_copy: bool,
    /// Copies; with -N, and the same.
    #[arg(short, long, conflicts_with = "zero_copy")]
    pub copy: bool,
    /// Bytes of the frames that are sent, without check sequence.
    #[arg(short, long, default_value_t = 64, value_parser = clap::value_parser!(u16).range(60..=1514))]
    pub size: u16,
    /// End after so many seconds; 0 goes on until a signal comes.
    #[arg(short, long, default_value_t = 0)]
    pub duration: u64,
    /// Descriptors that the kernel sends in one call; the best by default.
    #[arg(long)]
    pub tx_budget: Option<u32>,
    /// Send buffer in bytes; what a full ring needs by default.
    #[arg(long)]
    pub sndbuf: Option<u32>,
    /// Entries of the rings.
    #[arg(long, default_value_t = 2048)]
    pub ring: u32,
    /// Packets that the kernel hands to the device together, where it can; 0: one by one.
    #[arg(long, default_value_t = 0)]
    pub xmit_batch: u32,
    /// Print the figures at the end as one line of JSON.
    #[arg(long)]
    pub json: bool,
}

/// What is done with packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Sends as many as it can.
    TxOnly,
    /// Takes and drops.
    RxDrop,
    /// Sends back what comes, with the addresses exchanged.
    L2Fwd,
}

/// Counters at some time.
#[derive(Clone, Copy, Debug, Default)]
struct Totals {
    received: u64,
    sent: u64,
    calls: u64,
    eagain: u64,
    ebusy: u64,
    errors: u64,
    /// Microseconds that the thread ran, and those of them in the kernel.
    ran_us: u64,
    kernel_us: u64,
}

/// How long calls took, sampled.
#[derive(Debug, Default)]
struct Latencies(Vec<u64>);

impl Latencies {
    /// The most samples; later ones take the place of earlier ones in turns.
    const MOST: usize = 1 << 16;

    fn add(&mut self, n: u64, ns: u64) {
        let at = usize::try_from(n).unwrap_or(0) % Self::MOST;
        match self.0.get_mut(at) {
            Some(place) => *place = ns,
            None => self.0.push(ns),
        }
    }

    fn permille(&mut self, permille: usize) -> u64 {
        self.0.sort_unstable();
        let rank = (self.0.len() * permille).div_ceil(1000).saturating_sub(1);
        self.0.get(rank).copied().unwrap_or(0)
    }
}

/// A socket at work.
struct Socket {
    rx: afxdp::XskRx,
    tx: afxdp::XskTx,
    cache: afxdp::FrameCache,
    drops: DropCounters,
    batch: PacketBatch<afxdp::XskPacket>,
    bin: Vec<afxdp::XskPacket>,
    frame: Vec<u8>,
    batch_size: usize,
    received: u64,
    _netdev: afxdp::Netdev,
}

/// Works until the time is over or a signal comes, and prints the figures.
///
/// # Errors
/// When the interface, queue or mode is not to be had.
pub fn run(options: &Options, work: Work) -> Result<()> {
    let mut socket = Socket::open(options)?;
    let stop = stopper()?;
    let start = Instant::now();
    let (first, mut latencies) = (socket.totals(), Latencies::default());
    let (mut before, mut told, mut n) = (first, Duration::ZERO, 0);
    let end = Duration::from_secs(options.duration);
    loop {
        let elapsed = start.elapsed();
        if stop.load(Relaxed) || (!end.is_zero() && elapsed >= end) {
            break;
        }
        if elapsed - told >= Duration::from_secs(1) && !options.json {
            let now = socket.totals();
            println!("{}", line(&before, &now, elapsed - told));
            (before, told) = (now, elapsed);
        }
        let now = Nanos(u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX));
        if socket.pass(work, now) {
            let took = start.elapsed() - elapsed;
            latencies.add(n, u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
            n += 1;
        }
    }
    let (last, elapsed) = (socket.totals(), start.elapsed());
    if options.json {
        println!("{}", summary(&first, &last, elapsed, &mut latencies));
    } else {
        println!("in all: {}", line(&first, &last, elapsed));
    }
    Ok(())
}

/// Set by a signal.
fn stopper() -> Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop))
            .map_err(Error::io("watch for signals"))?;
    }
    Ok(stop)
}

impl Socket {
    fn open(options: &Options) -> Result<Self> {
        let umem = afxdp::Umem::create(afxdp::UmemConfig::default()).map_err(failed)?;
        let mut groups = afxdp::UmemGroups::new(umem);
        let mut cache = afxdp::FrameCache::new(umem, 1024);
        let mode = match () {
            () if options.xdp_skb => Some(afxdp::XdpMode::Generic),
            () if options.zero_copy => Some(afxdp::XdpMode::ZeroCopy),
            () if options.xdp_native || options.copy => Some(afxdp::XdpMode::Native),
            () => None,
        };
        let busy_poll =
            options.busy_poll.then_some(afxdp::BusyPoll { us: 20, budget: 64, prefer: true });
        let wanted = afxdp::NetdevOptions {
            mode,
            start_queue: options.queue,
            rx_ring: options.ring,
            tx_ring: options.ring,
            tx_budget: options.tx_budget,
            sndbuf: options.sndbuf,
            xmit_batch: options.xmit_batch,
            busy_poll,
            ..afxdp::NetdevOptions::new(&options.interface)
        };
        let (netdev, sockets) = afxdp::Netdev::open(&mut groups, &wanted).map_err(failed)?;
        let halves = sockets.into_iter().find_map(|(_, socket)| socket.rx.zip(socket.tx));
        let none = || Error::Check(format!("{}: a socket without both halves", options.interface));
        let (mut rx, tx) = halves.ok_or_else(none)?;
        rx.refill(&mut cache);
        netdev.enter().map_err(failed)?;
        let batch_size = usize::from(options.batch_size);
        Ok(Self {
            rx,
            tx,
            cache,
            drops: DropCounters::default(),
            batch: PacketBatch::new(batch_size),
            bin: Vec::with_capacity(batch_size),
            frame: frame(options.size),
            batch_size,
            received: 0,
            _netdev: netdev,
        })
    }

    /// True when packets were moved.
    fn pass(&mut self, work: Work, now: Nanos) -> bool {
        match work {
            Work::TxOnly => {
                // What the link does not take is not piled up.
                while self.tx.queued() == 0 && self.bin.len() < self.batch_size {
                    let Some(packet) = self.cache.packet(&self.frame) else { break };
                    self.bin.push(packet);
                }
            }
            Work::RxDrop | Work::L2Fwd => {
                self.received += self.rx.receive(&mut self.batch, &mut self.cache) as u64;
                self.bin.extend(self.batch.drain());
            }
        }
        let moved = !self.bin.is_empty();
        if work == Work::RxDrop {
            self.cache.free_all(&mut self.bin);
            return moved;
        }
        if work == Work::L2Fwd {
            self.bin.iter_mut().for_each(exchange);
        }
        self.tx.enqueue(&mut self.bin, &mut self.cache, &self.drops, now);
        self.tx.flush(&mut self.cache, &self.drops, now);
        moved
    }

    fn totals(&self) -> Totals {
        let tx = self.tx.stats();
        let usage = getrusage(UsageWho::RUSAGE_THREAD).ok();
        let us = |us: i64| u64::try_from(us).unwrap_or(0);
        let user_us = usage.map_or(0, |usage| us(usage.user_time().num_microseconds()));
        let kernel_us = usage.map_or(0, |usage| us(usage.system_time().num_microseconds()));
        Totals {
            received: self.received,
            sent: tx.packets.get(),
            calls: tx.kicks.get(),
            eagain: tx.eagain.get(),
            ebusy: tx.ebusy.get(),
            errors: tx.errors.get(),
            ran_us: user_us + kernel_us,
            kernel_us,
        }
    }
}

/// Exchanges the Ethernet addresses.
fn exchange(packet: &mut afxdp::XskPacket) {
    if let Some((to, from)) = packet.head_mut().get_mut(..12).map(|both| both.split_at_mut(6)) {
        to.swap_with_slice(from);
    }
}

/// A frame from the rig's first host to the second, as the source's are.
fn frame(size: u16) -> Vec<u8> {
    let (from, to) = (Ipv4Addr::new(10, 1, 1, 1), Ipv4Addr::new(10, 1, 1, 2));
    let payload = vec![0; usize::from(size) - 42];
    let udp = xvs_tests::frame::udp((from, 1024), (to, 9), &payload);
    let ip = xvs_tests::frame::ipv4(from, to, 17, &udp);
    xvs_tests::frame::ethernet(xvs_tests::rig::C2_MAC, xvs_tests::rig::C1_MAC, 0x0800, &ip)
}

/// `part / whole`, 0 without a whole.
#[allow(clippy::cast_precision_loss, reason = "a ratio for people")]
fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// What happened between two times, for people.
fn line(before: &Totals, now: &Totals, elapsed: Duration) -> String {
    let per_second = |n: u64| {
        ratio(n.saturating_mul(1_000_000), u64::try_from(elapsed.as_micros()).unwrap_or(1))
    };
    let calls = now.calls - before.calls;
    format!(
        "rx {:.0}/s, tx {:.0}/s, {:.0} calls/s, {:.1} packets/call, EAGAIN {}, EBUSY {}, other {}, {:.0} % in calls",
        per_second(now.received - before.received),
        per_second(now.sent - before.sent),
        per_second(calls),
        ratio(now.sent - before.sent, calls),
        now.eagain - before.eagain,
        now.ebusy - before.ebusy,
        now.errors - before.errors,
        100.0 * ratio(now.kernel_us - before.kernel_us, now.ran_us - before.ran_us),
    )
}

/// The same for programs.
fn summary(first: &Totals, last: &Totals, elapsed: Duration, latencies: &mut Latencies) -> String {
    let calls = last.calls - first.calls;
    json!({
        "seconds": elapsed.as_secs_f64(),
        "received": last.received - first.received,
        "sent": last.sent - first.sent,
        "calls": calls,
        "eagain": last.eagain - first.eagain,
        "ebusy": last.ebusy - first.ebusy,
        "errors": last.errors - first.errors,
        "packets_per_call": ratio(last.sent - first.sent, calls),
        "percent_in_calls":
            100.0 * ratio(last.kernel_us - first.kernel_us, last.ran_us - first.ran_us),
        "p50_us": ratio(latencies.permille(500), 1000),
        "p99_us": ratio(latencies.permille(990), 1000),
    })
    .to_string()
}

fn failed(error: afxdp::Error) -> Error {
    Error::Io { what: "AF_XDP socket".to_owned(), source: std::io::Error::other(error) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_are_by_rank() {
        let mut latencies = Latencies::default();
        (1..=100).for_each(|n| latencies.add(n - 1, n));
        assert_eq!((latencies.permille(500), latencies.permille(990)), (50, 99));
        assert_eq!(Latencies::default().permille(500), 0);
        let mut many = Latencies::default();
        (0..2 * Latencies::MOST as u64).for_each(|n| many.add(n, n));
        assert_eq!(many.0.len(), Latencies::MOST);
    }

    #[test]
    fn frames_have_the_size_that_is_asked_for() {
        for size in [60, 64, 1514] {
            assert_eq!(frame(size).len(), usize::from(size));
        }
    }
}
