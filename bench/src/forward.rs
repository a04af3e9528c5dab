//! A bare forwarder: moves packets between two interfaces with the sockets of xvswitch and nothing else,
//! no parsing, no flow table, no bridge. What it reaches is what the rest of the switch can cost.

use std::time::Instant;

use xvs_datapath::{DropCounters, Nanos, PacketBatch, RxQueue, TxQueue};
use xvs_netdev_afxdp as afxdp;
use xvs_tests::{Error, Result};

/// Packets per pass and direction, as the switch's default.
const BATCH_SIZE: usize = 32;

/// The two interfaces.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// One interface.
    #[arg(short)]
    pub a: String,
    /// The other one.
    #[arg(short)]
    pub b: String,
}

/// Forwards until a signal ends the process.
///
/// # Errors
/// When an interface is not there, or the kernel refuses sockets or program.
pub fn run(options: &Options) -> Result<()> {
    let umem = afxdp::Umem::create(afxdp::UmemConfig::default()).map_err(failed)?;
    let mut groups = afxdp::UmemGroups::new(umem);
    let mut cache = afxdp::FrameCache::new(umem, 1024);
    let mut a = End::open(&options.a, &mut groups, &mut cache)?;
    let mut b = End::open(&options.b, &mut groups, &mut cache)?;
    let (start, drops) = (Instant::now(), DropCounters::default());
    let mut batch = PacketBatch::new(BATCH_SIZE);
    let mut bin = Vec::with_capacity(BATCH_SIZE);
    loop {
        let elapsed = start.elapsed().as_nanos();
        let now = Nanos(u64::try_from(elapsed).unwrap_or(u64::MAX));
        for (from, to) in [(&mut a.rx, &mut b.tx), (&mut b.rx, &mut a.tx)] {
            from.receive(&mut batch, &mut cache);
            bin.extend(batch.drain());
            to.enqueue(&mut bin, &mut cache, &drops, now);
            to.flush(&mut cache, &drops, now);
        }
    }
}

/// One interface and its first queue.
struct End {
    rx: afxdp::XskRx,
    tx: afxdp::XskTx,
    _netdev: afxdp::Netdev,
}

impl End {
    fn open(
        name: &str,
        groups: &mut afxdp::UmemGroups,
        cache: &mut afxdp::FrameCache,
    ) -> Result<Self> {
        // One queue, rings and modes as the switch's default.
        let options = afxdp::NetdevOptions::new(name);
        let (netdev, sockets) = afxdp::Netdev::open(groups, &options).map_err(failed)?;
        let halves = sockets.into_iter().find_map(|(_, socket)| socket.rx.zip(socket.tx));
        let (mut rx, tx) =
            halves.ok_or_else(|| Error::Check(format!("{name}: a socket without both halves")))?;
        rx.refill(cache);
        netdev.enter().map_err(failed)?;
        println!("{name}: {}", netdev.mode());
        Ok(Self { rx, tx, _netdev: netdev })
    }
}

fn failed(error: afxdp::Error) -> Error {
    Error::Io { what: "bare forwarder".to_owned(), source: std::io::Error::other(error) }
}
