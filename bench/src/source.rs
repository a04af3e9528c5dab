//! The packet source: one long live-frame test run of an XDP program that redirects each frame out of an
//! interface, 6 to 10 million packets per second on one core. It ends by a signal, as the kernel returns
//! from the run only then.
//!
//! The other end of the interface must take redirected frames: a native XDP program is attached to it, or
//! its generic receive offload is on.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use libbpf_rs::{MapCore, MapFlags, MapHandle, ProgramInput};
use xvs_tests::{Error, Result, raw::RawSocket};

use crate::bpf::{self, Program, failed};

/// BPF_F_TEST_XDP_LIVE_FRAMES of linux/bpf.h.
const LIVE_FRAMES: u32 = 1 << 1;
/// TRAFFIC_PORT of traffic.h.
const TRAFFIC_PORT: u16 = 9;
/// Most flows: as many as leave the second byte of the source address below 128.
const FLOWS_MAX: i64 = 60_000 * 100;
/// TRAFFIC_FIRST_FLOW of traffic.h.
const FIRST_FLOW: u16 = 1024;
/// The longest frame of a live-frame run: a page less what the kernel keeps in it.
const LIVE_MAX: u16 = 3000;
/// Ethernet, IPv4 and UDP.
const HEADERS: usize = 42;
/// Where the checksum of the IPv4 header is in the frame.
const CHECKSUM: usize = 24;

/// What to send, and how fast.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// The interface.
    #[arg(short, long)]
    pub interface: String,
    /// Packets per second; 0 sends as fast as it can.
    #[arg(long, default_value_t = 0)]
    pub rate: u64,
    /// Packets to send before it ends; 0: no end.
    #[arg(long, default_value_t = 0)]
    pub count: u64,
    /// Bytes of each frame without its check sequence.
    /// Above 3000 they are sent through a packet socket, one flow only: the kernel's run has frames of a page.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u16).range(60..=9014))]
    pub size: u16,
    /// How many flows to take turns with; they differ in UDP source port, and each 60,000 of them in the second
    /// byte of the source address.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=FLOWS_MAX))]
    pub flows: u32,
    /// Source Ethernet address.
    #[arg(long, default_value = "02:00:00:00:00:01")]
    pub from_mac: xvs_datapath::MacAddr,
    /// Destination Ethernet address.
    #[arg(long, default_value = "02:00:00:00:00:02")]
    pub to_mac: xvs_datapath::MacAddr,
    /// Source IPv4 address.
    #[arg(long, default_value = xvs_tests::rig::C1)]
    pub from: Ipv4Addr,
    /// Destination IPv4 address.
    #[arg(long, default_value = xvs_tests::rig::C2)]
    pub to: Ipv4Addr,
}

/// Sends until all is sent or a signal ends the process, and prints the packets sent in each second.
///
/// # Errors
/// When the interface is not there, or the kernel refuses the program or its run.
pub fn run(options: &Options) -> Result<()> {
    if options.size > LIVE_MAX {
        return through_socket(options);
    }
    let ifindex = bpf::ifindex(&options.interface)?;
    let object = include_bytes!(concat!(env!("OUT_DIR"), "/source.bpf.o"));
    let mut program = Program::load("source", object)?;
    let map = program.map()?;
    let frame = frame(options);
    let pace = pace(ifindex, options, &frame);
    map.update(&0u32.to_ne_bytes(), &pace, MapFlags::ANY).map_err(failed("source"))?;
    let count = options.count;
    std::thread::spawn(move || report(count, || sent(&map)));
    loop {
        let run = program.program()?.test_run(ProgramInput {
            data_in: Some(&frame),
            flags: LIVE_FRAMES,
            repeat: u32::MAX,
            ..ProgramInput::default()
        });
        match run {
            Ok(_) => {}
            Err(error) if error.kind() == libbpf_rs::ErrorKind::Interrupted => return Ok(()),
            Err(error) => return Err(failed("live-frame test run")(error)),
        }
    }
}

/// Sends large frames until a signal ends the process.
fn through_socket(options: &Options) -> Result<()> {
    if options.flows > 1 || options.rate > 0 || options.count > 0 {
        let size = options.size;
        return Err(Error::Check(format!(
            "--size {size}: --flows, --rate and --count need at most {LIVE_MAX}"
        )));
    }
    let socket = RawSocket::open(&options.interface)?;
    let frame = frame(options);
    let sent = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&sent);
    std::thread::spawn(move || report(0, || Ok(counted.load(Ordering::Relaxed))));
    loop {
        if socket.send(&frame)? {
            sent.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// `struct pace` of source.bpf.c.
fn pace(ifindex: u32, options: &Options, frame: &[u8]) -> Vec<u8> {
    let interval = (1_000_000_000u64 << 8).checked_div(options.rate).unwrap_or(0);
    let [_, second, ..] = options.from.octets();
    let checksum = frame.get(CHECKSUM..).and_then(<[u8]>::first_chunk).copied();
    let checksum = u16::from_be_bytes(checksum.unwrap_or_default());
    let mut bytes = Vec::new();
    for half in [ifindex, options.flows, u32::from(second), u32::from(checksum)] {
        bytes.extend(half.to_ne_bytes());
    }
    for word in [options.count, interval, 0, 0] {
        bytes.extend(word.to_ne_bytes());
    }
    bytes
}

/// The frame: UDP over IPv4 without UDP checksum, so that the program may change the source port.
fn frame(options: &Options) -> Vec<u8> {
    let ip_len = options.size - 14;
    let mut frame = Vec::with_capacity(usize::from(options.size));
    frame.extend(options.to_mac.0);
    frame.extend(options.from_mac.0);
    frame.extend([0x08, 0x00]);
    let mut ip = vec![0x45, 0];
    ip.extend(ip_len.to_be_bytes());
    ip.extend([0, 0, 0x40, 0, 64, 17, 0, 0]);
    ip.extend(options.from.octets());
    ip.extend(options.to.octets());
    let checksum = ip_checksum(&ip).to_be_bytes();
    ip.splice(10..12, checksum);
    frame.extend(ip);
    frame.extend(FIRST_FLOW.to_be_bytes());
    frame.extend(TRAFFIC_PORT.to_be_bytes());
    frame.extend((ip_len - 20).to_be_bytes());
    frame.extend([0, 0]);
    debug_assert_eq!(frame.len(), HEADERS);
    frame.resize(usize::from(options.size), 0);
    frame
}

/// RFC 1071, over an even number of bytes.
fn ip_checksum(header: &[u8]) -> u16 {
    let words = header.chunks_exact(2).map(|pair| match *pair {
        [high, low] => u32::from(high) << 8 | u32::from(low),
        _ => 0,
    });
    let sum: u32 = words.sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    !u16::try_from((folded & 0xffff) + (folded >> 16)).unwrap_or(0)
}

/// Prints how much was sent, once a second, and ends the process when that is all.
fn report(count: u64, sent: impl Fn() -> Result<u64>) {
    let (mut before, mut printed) = (0, Instant::now());
    let pause = Duration::from_millis(if count == 0 { 1000 } else { 10 });
    loop {
        std::thread::sleep(pause);
        match sent() {
            Ok(now) if count > 0 && now >= count => {
                println!("{now} packets");
                std::process::exit(0);
            }
            Ok(now) if printed.elapsed() >= Duration::from_millis(999) => {
                println!("{} packets/s", now - before);
                (before, printed) = (now, Instant::now());
            }
            Ok(_) => {}
            Err(error) => eprintln!("source: {error}"),
        }
    }
}

/// The last word of `struct pace`.
fn sent(map: &MapHandle) -> Result<u64> {
    let value = map.lookup(&0u32.to_ne_bytes(), MapFlags::ANY).map_err(failed("source"))?;
    let word = value.as_deref().and_then(<[u8]>::last_chunk).copied();
    word.map(u64::from_ne_bytes).ok_or_else(|| Error::Check("the source's map is empty".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_checksum_is_that_of_rfc_1071() {
        let header = [
            0x45, 0, 0, 0x73, 0, 0, 0x40, 0, 0x40, 0x11, 0, 0, 0xc0, 0xa8, 0, 1, 0xc0, 0xa8, 0,
            0xc7,
        ];
        assert_eq!(ip_checksum(&header), 0xb861);
    }
}
