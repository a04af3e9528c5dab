//! The real `ping`, and its answers as numbers.

use std::time::Duration;

use nix::sys::signal::Signal;

use crate::{Error, Result, ns::Netns, proc::Proc, scratch::Scratch};

/// A ping to be started.
#[derive(Clone, Debug)]
pub struct Ping<'a> {
    ns: &'a Netns,
    target: String,
    count: Option<u32>,
    interval_s: f64,
    timeout_s: f64,
    size: Option<u32>,
}

impl<'a> Ping<'a> {
    /// A ping from a namespace to an address: every 0.1 s, waiting 1 s for the last answer.
    #[must_use]
    pub fn new(ns: &'a Netns, target: &str) -> Self {
        let target = target.to_owned();
        Self { ns, target, count: None, interval_s: 0.1, timeout_s: 1.0, size: None }
    }

    /// How many to send; without it until [`Pinging::stop`].
    #[must_use]
    pub fn count(mut self, count: u32) -> Self {
        self.count = Some(count);
        self
    }

    /// Time between two.
    #[must_use]
    pub fn interval_s(mut self, interval_s: f64) -> Self {
        self.interval_s = interval_s;
        self
    }

    /// How long to wait for the last answer.
    #[must_use]
    pub fn timeout_s(mut self, timeout_s: f64) -> Self {
        self.timeout_s = timeout_s;
        self
    }

    /// Payload bytes; fragments are forbidden.
    #[must_use]
    pub fn size(mut self, size: u32) -> Self {
        self.size = Some(size);
        self
    }

    /// Starts it in the background.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(self, scratch: &Scratch) -> Result<Pinging> {
        let mut command = self.ns.command("ping");
        command.args(["-n", "-i", &self.interval_s.to_string(), "-W", &self.timeout_s.to_string()]);
        if let Some(count) = self.count {
            command.args(["-c", &count.to_string()]);
        }
        if let Some(size) = self.size {
            command.args(["-M", "do", "-s", &size.to_string()]);
        }
        let name = format!("ping-{}-{}", self.ns.name(), self.target);
        Ok(Pinging(Proc::start(scratch, &name, command.arg(&self.target))?))
    }

    /// Runs it to its end; needs a count.
    ///
    /// # Errors
    /// When it cannot be started or does not end.
    pub fn run(self, scratch: &Scratch) -> Result<Pings> {
        let total_s = f64::from(self.count.unwrap_or(1)) * self.interval_s + self.timeout_s + 10.0;
        self.start(scratch)?.finish(Duration::from_secs_f64(total_s))
    }
}

/// A running ping.
#[derive(Debug)]
pub struct Pinging(Proc);

impl Pinging {
    /// Ends it and returns its answers.
    ///
    /// # Errors
    /// When it does not end or printed no summary.
    pub fn stop(self) -> Result<Pings> {
        // An error means that it has ended by itself.
        let _ = self.0.signal(Signal::SIGINT);
        self.finish(Duration::from_secs(3))
    }

    /// Waits for its end and returns its answers; lost pings are no error.
    ///
    /// # Errors
    /// When it does not end or printed no summary.
    pub fn finish(mut self, limit: Duration) -> Result<Pings> {
        self.0.wait(limit)?;
        let text = self.0.stdout();
        Pings::parse(&text)
            .ok_or_else(|| Error::Output { what: "ping".to_owned(), text: text + &self.0.stderr() })
    }
}

/// What a ping found.
#[derive(Clone, Debug, PartialEq)]
pub struct Pings {
    /// Requests sent.
    pub sent: u32,
    /// Round-trip times of the answers, in order.
    pub rtt_ms: Vec<f64>,
}

impl Pings {
    fn parse(text: &str) -> Option<Self> {
        let rtt_ms = text.lines().filter_map(|line| {
            (!line.contains("DUP!")).then_some(())?;
            line.split_once(" time=")?.1.split(' ').next()?.parse().ok()
        });
        let summary = text.lines().find(|line| line.contains(" packets transmitted"))?;
        let sent = summary.split(' ').next()?.parse().ok()?;
        Some(Self { sent, rtt_ms: rtt_ms.collect() })
    }

    /// Requests without an answer.
    #[must_use]
    pub fn lost(&self) -> u32 {
        self.sent.saturating_sub(u32::try_from(self.rtt_ms.len()).unwrap_or(u32::MAX))
    }

    /// The median round-trip time; infinite without answers.
    #[must_use]
    pub fn median_ms(&self) -> f64 {
        let mut sorted = self.rtt_ms.clone();
        sorted.sort_by(f64::total_cmp);
        sorted.get(sorted.len() / 2).copied().unwrap_or(f64::INFINITY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summary_and_times_are_read() {
        let text = "PING 10.1.1.2 (10.1.1.2) 56(84) bytes of data.\n\
            64 bytes from 10.1.1.2: icmp_seq=1 ttl=64 time=0.5 ms\n\
            64 bytes from 10.1.1.2: icmp_seq=3 ttl=64 time=12 ms\n\n\
            --- 10.1.1.2 ping statistics ---\n\
            3 packets transmitted, 2 received, 33% packet loss, time 401ms\n";
        let pings = Pings::parse(text).expect("well formed");
        assert_eq!(pings, Pings { sent: 3, rtt_ms: vec![0.5, 12.0] });
        assert_eq!((pings.lost(), pings.median_ms()), (1, 12.0));
    }
}
