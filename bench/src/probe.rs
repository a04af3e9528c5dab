//! Request and response through a switch, open loop: requests leave when they are due, whatever became of those
//! before, and a response is timed from when its request was due. A prober that waited for responses, or
//! timed from when it came to send, would not see the time in which nothing moved.

use std::net::UdpSocket;
use std::os::fd::AsFd as _;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;
use xvs_tests::{
    Error, Result, daemon,
    proc::Proc,
    rig::{C2, Rig},
    wait_until,
};

use crate::load::HOSTS_CORE;

/// The port of the echo server.
const PORT: u16 = 7007;
/// How long responses are waited for after the last request.
const LAST: Duration = Duration::from_millis(200);

/// What to send.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// Where the echo server listens.
    #[arg(long, default_value = C2)]
    pub to: String,
    /// Requests per second.
    #[arg(long, default_value_t = 2000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub rate: u32,
    /// How many.
    #[arg(long, default_value_t = 4000)]
    pub count: u32,
}

/// Sends back what comes, until a signal comes.
///
/// # Errors
/// When the port is taken.
pub fn echo() -> Result<()> {
    let socket = UdpSocket::bind(("0.0.0.0", PORT)).map_err(Error::io("bind a UDP socket"))?;
    println!("ready");
    let mut buffer = [0; 2048];
    loop {
        let (size, from) = socket.recv_from(&mut buffer).map_err(Error::io("receive"))?;
        // A full queue loses it, as a network may.
        buffer.get(..size).into_iter().for_each(|bytes| drop(socket.send_to(bytes, from)));
    }
}

/// Sends all requests and prints the round trip of each that was answered, in nanoseconds, one a line.
///
/// # Errors
/// When the socket fails.
pub fn run(options: &Options) -> Result<()> {
    let socket = UdpSocket::bind("0.0.0.0:0").map_err(Error::io("bind a UDP socket"))?;
    socket.connect((options.to.as_str(), PORT)).map_err(Error::io("connect"))?;
    socket.set_nonblocking(true).map_err(Error::io("make a socket non-blocking"))?;
    let start = Instant::now();
    let due = |n: u32| Duration::from_nanos(u64::from(n) * 1_000_000_000 / u64::from(options.rate));
    let end = due(options.count) + LAST;
    let (mut next, mut round_trips) = (0, Vec::with_capacity(options.count as usize));
    while start.elapsed() < end && round_trips.len() < options.count as usize {
        if next < options.count && start.elapsed() >= due(next) {
            let _ = socket.send(&next.to_be_bytes());
            next += 1;
            continue;
        }
        let until = if next < options.count { due(next) } else { end };
        let pause = TimeSpec::from_duration(until.saturating_sub(start.elapsed()));
        let mut fds = [PollFd::new(socket.as_fd(), PollFlags::POLLIN)];
        ppoll(&mut fds, Some(pause), None).map_err(Error::io("wait for a response"))?;
        let mut number = [0; 4];
        while let Ok(4) = socket.recv(&mut number) {
            let due = due(u32::from_be_bytes(number));
            round_trips.push(start.elapsed().saturating_sub(due).as_nanos());
        }
    }
    round_trips.iter().for_each(|ns| println!("{ns}"));
    Ok(())
}

/// What a prober saw.
#[derive(Clone, Debug, Default)]
pub(crate) struct Probes {
    /// Round trips in µs, ascending; a request that was lost took forever.
    round_trips_us: Vec<f64>,
    sent: u32,
}

/// Prober and echo server on the hosts of a rig, both before whatever else runs on the hosts' core.
#[derive(Debug)]
pub(crate) struct Probing {
    prober: Proc,
    _echo: Proc,
    count: u32,
    limit: Duration,
}

impl Probing {
    /// Starts it, for so long.
    pub(crate) fn start(rig: &Rig, length: Duration) -> Result<Self> {
        let rate = 2000;
        let count = u32::try_from(length.as_millis() * rate / 1000).unwrap_or(u32::MAX);
        let words = ["-f", "10", "taskset", "-c", HOSTS_CORE];
        let program = daemon::program("xvsbench")?;
        let mut command = rig.c2.command("chrt");
        let echo =
            Proc::start(&rig.scratch, "echo", command.args(words).arg(&program).arg("echo"))?;
        let is_ready = || Ok((!echo.stdout().is_empty()).then_some(()));
        wait_until("the echo server", Duration::from_secs(5), is_ready)?;
        let mut command = rig.c1.command("chrt");
        command.args(words).arg(&program).args(["probe", "--rate", &rate.to_string()]);
        command.args(["--count", &count.to_string()]);
        let prober = Proc::start(&rig.scratch, "probe", &mut command)?;
        Ok(Self { prober, _echo: echo, count, limit: length + Duration::from_secs(10) })
    }

    /// Waits for its end.
    pub(crate) fn finish(mut self) -> Result<Probes> {
        let text = self.prober.finish(self.limit)?;
        let mut round_trips_us: Vec<_> =
            text.lines().filter_map(|ns| ns.parse::<f64>().ok()).map(|ns| ns / 1e3).collect();
        round_trips_us.sort_by(f64::total_cmp);
        Ok(Probes { round_trips_us, sent: self.count })
    }
}

impl Probes {
    /// What that share of the requests, in thousandths, did not exceed; those lost count as the longest.
    pub(crate) fn permille_us(&self, permille: usize) -> f64 {
        let rank = (self.sent as usize * permille).div_ceil(1000).saturating_sub(1);
        self.round_trips_us.get(rank).copied().unwrap_or(LAST.as_secs_f64() * 1e6)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_request_is_the_slowest() {
        let round_trips_us = (1..=99u8).map(f64::from).collect();
        let probes = Probes { round_trips_us, sent: 100 };
        assert_eq!([500, 990].map(|p| probes.permille_us(p)), [50.0, 99.0]);
        assert_eq!(probes.permille_us(999), 200_000.0);
    }
}
