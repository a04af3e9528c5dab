//! The packet sink: an XDP program on the receiving interface that counts the source's packets and drops
//! them, so that the receiver costs as little as a receiver can.

use std::time::{Duration, Instant};

use libbpf_rs::{Link, MapCore, MapFlags, MapHandle};
use xvs_tests::{Error, Result};

use crate::bpf::{self, Program, failed};

/// Where to count.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// The interface.
    #[arg(short, long)]
    pub interface: String,
}

/// Counts until the process ends, and prints the packets received in each second.
///
/// # Errors
/// When the interface is not there, or the kernel refuses the program.
pub fn run(options: &Options) -> Result<()> {
    let sink = Sink::attach(&options.interface)?;
    loop {
        println!("{:.0} packets/s", sink.rate(Duration::from_secs(1))?);
    }
}

/// What arrived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Packets.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// An attached sink; detached when dropped.
#[derive(Debug)]
pub struct Sink {
    _link: Link,
    counts: MapHandle,
}

impl Sink {
    /// Attaches to an interface of the current network namespace.
    ///
    /// # Errors
    /// When the interface is not there, or the kernel refuses the program.
    pub fn attach(interface: &str) -> Result<Self> {
        let ifindex = i32::try_from(bpf::ifindex(interface)?)
            .map_err(|_| Error::Check(format!("index of {interface}")))?;
        let object = include_bytes!(concat!(env!("OUT_DIR"), "/sink.bpf.o"));
        let mut program = Program::load("sink", object)?;
        let link = program.program()?.attach_xdp(ifindex).map_err(failed("attach the sink"))?;
        Ok(Self { _link: link, counts: program.map()? })
    }

    /// What has arrived since it was attached, on all CPUs.
    ///
    /// # Errors
    /// When the map cannot be read.
    pub fn count(&self) -> Result<Count> {
        let key = 0u32.to_ne_bytes();
        let values = self.counts.lookup_percpu(&key, MapFlags::ANY).map_err(failed("sink"))?;
        let mut sum = Count::default();
        for value in values.iter().flatten() {
            let mut words = value.chunks_exact(8).filter_map(|word| word.first_chunk());
            sum.packets += words.next().map_or(0, |word| u64::from_ne_bytes(*word));
            sum.bytes += words.next().map_or(0, |word| u64::from_ne_bytes(*word));
        }
        Ok(sum)
    }

    /// Packets per second over the given time from now.
    ///
    /// # Errors
    /// When the map cannot be read.
    #[allow(clippy::cast_precision_loss, reason = "a rate")]
    pub fn rate(&self, time: Duration) -> Result<f64> {
        let (start, before) = (Instant::now(), self.count()?);
        std::thread::sleep(time);
        let packets = self.count()?.packets - before.packets;
        Ok(packets as f64 / start.elapsed().as_secs_f64())
    }
}
