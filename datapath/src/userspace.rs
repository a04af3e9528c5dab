//! What `userspace()` puts aside for a reader: bounded in number, length and rate.
//!
//! Each thread has its own queue. Its buffers are there from the start, so that queueing allocates
//! nothing; what finds the queue full, or comes faster than the rate, is not queued but counted.

use std::collections::VecDeque;

use crate::{MeterConfig, MeterUnit, Meters, Nanos, Packet, PortNo, Userspace};

/// A packet that was put aside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserspacePacket {
    /// Where it came in.
    pub in_port: PortNo,
    /// What the action says of it.
    pub userspace: Userspace,
    /// Its length in bytes.
    pub len: usize,
    /// When it was queued.
    pub at: Nanos,
    /// Its first bytes: as many as were wanted, [`UserspaceQueue::MAX_BYTES`] at most.
    pub bytes: Vec<u8>,
}

/// The packets of one thread that wait to be read.
#[derive(Debug)]
pub struct UserspaceQueue {
    waiting: VecDeque<UserspacePacket>,
    free: Vec<Vec<u8>>,
    rate: Meters,
}

/// The only meter of a queue.
const RATE: u32 = 1;

impl Default for UserspaceQueue {
    fn default() -> Self {
        let rate = Meters::with_capacity(RATE);
        let config = MeterConfig {
            unit: MeterUnit::Packets,
            rate: Self::MAX_RATE,
            burst: Self::MAX_PACKETS_U32,
        };
        // Number and rate are within bounds.
        let _ = rate.set(RATE, config);
        Self {
            waiting: VecDeque::with_capacity(Self::MAX_PACKETS),
            free: (0..Self::MAX_PACKETS).map(|_| Vec::with_capacity(Self::MAX_BYTES)).collect(),
            rate,
        }
    }
}

impl UserspaceQueue {
    /// The most packets that wait.
    pub const MAX_PACKETS: usize = Self::MAX_PACKETS_U32 as usize;
    const MAX_PACKETS_U32: u32 = 64;
    /// The most bytes of each.
    pub const MAX_BYTES: usize = 9216;
    /// The most packets in a second, beyond a burst that fills the queue.
    pub const MAX_RATE: u32 = 1000;

    /// Puts a copy of a packet aside, cut to `trunc` bytes; false when there is no room, or too many
    /// came lately.
    pub(crate) fn offer(
        &mut self,
        packet: &impl Packet,
        in_port: PortNo,
        (userspace, trunc): (&Userspace, Option<u32>),
        now: Nanos,
    ) -> bool {
        if self.free.is_empty() || !self.rate.pass(RATE, 0, now) {
            return false;
        }
        let Some(mut bytes) = self.free.pop() else { return false };
        let wanted = userspace.controller.map_or(Self::MAX_BYTES, |c| c.max_len.into());
        let trunc = trunc.map_or(usize::MAX, |len| len as usize);
        let most = wanted.min(trunc).min(Self::MAX_BYTES);
        packet.for_each_segment(&mut |segment| {
            let room = most - bytes.len();
            bytes.extend_from_slice(segment.get(..room).unwrap_or(segment));
        });
        let (userspace, len) = (*userspace, packet.len());
        self.waiting.push_back(UserspacePacket { in_port, userspace, len, at: now, bytes });
        true
    }

    /// Takes out the oldest packets, `max` at most.
    pub fn read(&mut self, max: usize) -> Vec<UserspacePacket> {
        let n = max.min(self.waiting.len());
        let read: Vec<_> = self.waiting.drain(..n).collect();
        self.free.extend(read.iter().map(|_| Vec::with_capacity(Self::MAX_BYTES)));
        read
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Controller;
    use crate::testing::MemPacket;

    #[test]
    fn the_queue_is_bounded_in_number_and_rate() {
        let mut queue = UserspaceQueue::default();
        let packet = MemPacket::new(&[7; 60]);
        let spec = Userspace { pid: 3, controller: None };
        let offer = |queue: &mut UserspaceQueue, ms| {
            let all = 0..1000;
            let now = Nanos::from_millis(ms);
            all.filter(|_| queue.offer(&packet, PortNo(2), (&spec, None), now)).count()
        };
        assert_eq!(offer(&mut queue, 1), 64);
        assert_eq!(queue.read(10).len(), 10);
        assert_eq!(offer(&mut queue, 1), 0, "room, but too many came lately");
        assert_eq!(offer(&mut queue, 6), 5, "five in five milliseconds");
        assert_eq!(queue.read(usize::MAX).len(), 59);
        assert_eq!(queue.read(1), []);
        assert_eq!(offer(&mut queue, 10_000), 64);
        assert_eq!(offer(&mut queue, 20_000), 0, "no room");
        let first = queue.read(1).pop().unwrap();
        let wanted = UserspacePacket {
            in_port: PortNo(2),
            userspace: spec,
            len: 60,
            at: Nanos::from_secs(10),
            bytes: vec![7; 60],
        };
        assert_eq!(first, wanted);
    }

    #[test]
    fn bytes_are_cut_to_what_is_wanted() {
        let mut queue = UserspaceQueue::default();
        let long = [1; 5000];
        let packet = MemPacket::of(&[&long[..], &long, &long]);
        let controller = Controller { max_len: 128, ..Controller::default() };
        let few = Userspace { pid: 0, controller: Some(controller) };
        let all = Userspace::default();
        for (spec, trunc) in [(&few, None), (&few, Some(60)), (&all, None), (&all, Some(6000))] {
            assert!(queue.offer(&packet, PortNo(1), (spec, trunc), Nanos(1)));
        }
        let lens: Vec<_> = queue.read(9).iter().map(|p| (p.len, p.bytes.len())).collect();
        assert_eq!(lens, [(15_000, 128), (15_000, 60), (15_000, 9216), (15_000, 6000)]);
    }
}
