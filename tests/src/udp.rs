//! Numbered, timed UDP packets from one host to another, at a rate. Sender and receiver are threads of this
//! process, so that one clock serves both.

use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::sys::socket::{setsockopt, sockopt::RcvBufForce};

use crate::{
    Error, Result,
    ns::{self, Netns},
};

/// Packets of a flow; number and time of sending are in the first 16 bytes of the payload.
#[derive(Clone, Debug)]
pub struct Flow {
    /// Where to, e.g. `10.1.1.2:7000`.
    pub to: String,
    /// Payload bytes, at least 16.
    pub size: usize,
    /// Packets per second; sent in bursts of a millisecond's worth.
    pub rate_pps: u32,
    /// How many.
    pub count: u32,
}

impl Flow {
    /// `mbit_s` of payloads of 1400 bytes for `seconds`.
    #[must_use]
    pub fn bulk(to: &str, mbit_s: u32, seconds: u32) -> Self {
        let size = 1400;
        let rate_pps = mbit_s * 1_000_000 / (size * 8);
        Self { to: to.to_owned(), size: size as usize, rate_pps, count: rate_pps * seconds }
    }

    /// Starts sending in a namespace; the thread returns how many were sent.
    ///
    /// # Errors
    /// When the namespace is gone.
    pub fn start(self, ns: &Netns) -> Result<JoinHandle<Result<u32>>> {
        let epoch = *EPOCH;
        ns.spawn(move || self.send(epoch))
    }

    fn send(&self, epoch: Instant) -> Result<u32> {
        let socket = UdpSocket::bind("0.0.0.0:0").map_err(Error::io("bind a UDP socket"))?;
        socket.connect(&self.to).map_err(Error::io(format!("connect to {}", self.to)))?;
        let mut payload = vec![0; self.size.max(16)];
        let start = Instant::now();
        let mut sent = 0;
        for n in 0..self.count {
            let due = Duration::from_micros(u64::from(n) * 1_000_000 / u64::from(self.rate_pps));
            let ahead = due.saturating_sub(start.elapsed());
            if ahead > Duration::from_millis(1) {
                std::thread::sleep(ahead);
            }
            let now_ns = u64::try_from(epoch.elapsed().as_nanos()).unwrap_or(u64::MAX);
            stamp(&mut payload, u64::from(n), now_ns);
            // A full device queue (ENOBUFS) or an ARP failure loses the packet as the network would.
            sent += u32::from(socket.send(&payload).is_ok());
        }
        Ok(sent)
    }
}

/// The clock of all senders and receivers.
static EPOCH: std::sync::LazyLock<Instant> = std::sync::LazyLock::new(Instant::now);

/// Writes number and time into a payload.
fn stamp(payload: &mut [u8], number: u64, now_ns: u64) {
    for (place, byte) in
        payload.iter_mut().zip([number.to_be_bytes(), now_ns.to_be_bytes()].concat())
    {
        *place = byte;
    }
}

/// What a receiver saw.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Received {
    /// Numbers in order of arrival.
    pub numbers: Vec<u64>,
    /// Time from sending to receiving, in order of arrival.
    pub latency_us: Vec<u64>,
}

impl Received {
    /// Packets that arrived after one with a higher number.
    #[must_use]
    pub fn reordered(&self) -> usize {
        self.numbers.iter().zip(self.numbers.iter().skip(1)).filter(|(a, b)| a >= b).count()
    }

    /// The latency that `percent` of the packets do not exceed.
    #[must_use]
    pub fn latency_us(&self, percent: usize) -> u64 {
        let mut sorted = self.latency_us.clone();
        sorted.sort_unstable();
        let rank = (sorted.len() * percent).div_ceil(100).saturating_sub(1);
        sorted.get(rank).copied().unwrap_or(u64::MAX)
    }
}

/// A receiver in the background.
#[derive(Debug)]
pub struct Receiver {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<Received>>,
}

impl Receiver {
    /// Receives on `port` of all addresses of a namespace.
    ///
    /// # Errors
    /// When the socket cannot be bound.
    pub fn start(ns: &Netns, port: u16) -> Result<Self> {
        let epoch = *EPOCH;
        let stop = Arc::new(AtomicBool::new(false));
        let socket = ns.enter(move || {
            let socket =
                UdpSocket::bind(("0.0.0.0", port)).map_err(Error::io("bind a UDP socket"))?;
            // Losses shall be those of the switch, not of a busy receiver.
            setsockopt(&socket, RcvBufForce, &(16 << 20)).map_err(Error::io("size a buffer"))?;
            socket
                .set_read_timeout(Some(Duration::from_millis(50)))
                .map_err(Error::io("set a timeout"))?;
            Ok(socket)
        })?;
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || Ok(receive(&socket, epoch, &stopped)));
        Ok(Self { stop, thread })
    }

    /// Takes what has arrived and ends.
    ///
    /// # Errors
    /// When the thread failed.
    pub fn stop(self) -> Result<Received> {
        self.stop.store(true, Ordering::Relaxed);
        ns::join(self.thread)
    }
}

/// Receives until told to stop and nothing is left in the socket.
fn receive(socket: &UdpSocket, epoch: Instant, stop: &AtomicBool) -> Received {
    let mut received = Received::default();
    let mut buffer = [0; 9000];
    loop {
        match socket.recv(&mut buffer) {
            Ok(16..) => {
                let now_ns = u64::try_from(epoch.elapsed().as_nanos()).unwrap_or(u64::MAX);
                let word =
                    |at| buffer.iter().skip(at).take(8).fold(0, |n, b| n << 8 | u64::from(*b));
                received.numbers.push(word(0));
                received.latency_us.push(now_ns.saturating_sub(word(8)) / 1000);
            }
            Ok(_) => {}
            Err(_) if stop.load(Ordering::Relaxed) => return received,
            Err(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_and_percentiles() {
        let received = Received { numbers: vec![0, 2, 1, 3], latency_us: vec![4, 1, 3, 2] };
        assert_eq!(received.reordered(), 1);
        assert_eq!((received.latency_us(50), received.latency_us(100)), (2, 4));
        assert_eq!(Received::default().latency_us(50), u64::MAX);
    }
}
