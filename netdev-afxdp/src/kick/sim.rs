//! A model of the kernel's copy-mode transmit path, for tests: it shows what `sendto` shows.
//!
//! It follows `__xsk_generic_xmit` of Linux 6.18: the budget counts descriptors, the completion ring
//! is reserved before a packet is built, and the send buffer is charged until the packet is delivered. The
//! consumer index becomes visible at the end of a call; before Linux 6.17 only when a packet was sent or
//! the cached descriptors are used up, so that it may lag behind an EBUSY or an invalid descriptor. Every frame has one owner; a frame
//! that is owned twice fails the test that drives the model.

use std::collections::VecDeque;

use xvs_datapath::Nanos;

use super::TxKernel;

/// Who has a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    User,
    TxRing,
    Kernel,
    CompletionRing,
}

/// One descriptor of the tx ring.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Desc {
    pub(crate) frame: usize,
    /// Bytes on the wire.
    pub(crate) len: u32,
    /// What it costs the send buffer.
    pub(crate) bytes: u64,
    /// More descriptors of the same packet follow.
    pub(crate) contd: bool,
    pub(crate) kind: Kind,
}

/// What the kernel thinks of a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Valid,
    /// Its address or length is out of range.
    Invalid,
    /// It asks for a checksum beyond the packet: the frame completes and its descriptor stays queued,
    /// EINVAL.
    BadChecksum,
}

/// The most descriptors of one packet: the head and MAX_SKB_FRAGS. The packet to which one more belongs
/// is dropped, and what follows counts as a new packet.
pub(crate) const MAX_DESCS: usize = 18;

/// What goes wrong once, at the next call or packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The call returns this and does nothing else.
    Errno(i32),
    /// The device queue is busy (NETDEV_TX_BUSY): the packet is given back, EAGAIN.
    DeviceBusy,
    /// The device drops the packet (NET_XMIT_DROP): it completes, EBUSY.
    DeviceDrop,
    /// Building the packet fails with this; it stays queued.
    NoMemory(i32),
    /// The call does nothing and returns 0, as on a queue that the device does not have.
    Deaf,
}

/// The limits of a simulated socket.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) n_frames: usize,
    pub(crate) ring: usize,
    pub(crate) completions: usize,
    pub(crate) budget: u32,
    pub(crate) sndbuf: u64,
    /// Time that the device needs for one packet; `None`: nothing is ever delivered.
    pub(crate) packet_time: Option<u64>,
}

impl Default for Limits {
    /// A fast device with the kernel's defaults.
    fn default() -> Self {
        Self {
            n_frames: 4096,
            ring: 2048,
            completions: 2048,
            budget: 32,
            sndbuf: 212_992,
            packet_time: Some(0),
        }
    }
}

/// A packet that the device has.
#[derive(Debug)]
struct InFlight {
    frames: Vec<usize>,
    bytes: u64,
    len: u64,
}

/// The simulated socket, its device and its user's frames.
#[derive(Debug)]
pub(crate) struct Sim {
    pub(crate) limits: Limits,
    pub(crate) owners: Vec<Owner>,
    /// Faults to come, the next first.
    pub(crate) faults: VecDeque<Fault>,
    /// While set, every call returns it.
    pub(crate) down: Option<i32>,
    /// The consumer index lags, as before Linux 6.17.
    pub(crate) lags: bool,
    /// Without it the device drops each packet.
    pub(crate) carrier: bool,
    /// While set, the device holds what it gets, and drops what is more than so many bytes.
    pub(crate) held: Option<u64>,
    pub(crate) now: Nanos,
    /// Packets that reached the wire.
    pub(crate) delivered: u64,
    /// Packets that the device dropped.
    pub(crate) dropped: u64,
    /// Calls so far.
    pub(crate) calls: u64,
    /// True once a call completed a frame that it keeps.
    pub(crate) poisoned: bool,
    ring: VecDeque<Desc>,
    /// Descriptors at the front of `ring` that the kernel used without showing it.
    hidden: usize,
    /// Descriptors of `ring` that the kernel has seen; never fewer than `hidden`.
    cached: usize,
    /// Descriptors of the packet that is being built.
    partial: Vec<Desc>,
    /// Places of the completion ring that are promised.
    reserved: usize,
    completed: VecDeque<usize>,
    in_flight: VecDeque<InFlight>,
    device_free_at: Nanos,
    charged: u64,
}

impl Sim {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            limits,
            owners: vec![Owner::User; limits.n_frames],
            faults: VecDeque::new(),
            down: None,
            lags: false,
            carrier: true,
            held: None,
            now: Nanos(0),
            delivered: 0,
            dropped: 0,
            calls: 0,
            poisoned: false,
            ring: VecDeque::new(),
            hidden: 0,
            cached: 0,
            partial: Vec::new(),
            reserved: 0,
            completed: VecDeque::new(),
            in_flight: VecDeque::new(),
            device_free_at: Nanos(0),
            charged: 0,
        }
    }

    /// Queues packets of `n_descs` descriptors each until `n` are queued, the ring is full or no
    /// frame is free; how many packets were queued.
    pub(crate) fn enqueue(&mut self, n: usize, n_descs: usize, bytes: u64) -> usize {
        let packet = vec![(60, bytes, Kind::Valid); n_descs];
        (0..n).take_while(|_| self.push(&packet)).count()
    }

    /// Queues one descriptor that the kernel will refuse.
    pub(crate) fn enqueue_invalid(&mut self) {
        self.push(&[(60, 768, Kind::Invalid)]);
    }

    /// Queues a packet: of each descriptor its bytes on the wire, its cost and its kind. False when the
    /// ring is full or no frame is free.
    pub(crate) fn push(&mut self, packet: &[(u32, u64, Kind)]) -> bool {
        let n_descs = packet.len();
        let free = (0..self.owners.len()).filter(|&frame| self.owners[frame] == Owner::User);
        let free: Vec<usize> = free.take(n_descs).collect();
        if free.len() < n_descs || self.ring.len() + n_descs > self.limits.ring {
            return false;
        }
        for (at, (frame, &(len, bytes, kind))) in (1..).zip(free.into_iter().zip(packet)) {
            self.owners[frame] = Owner::TxRing;
            self.ring.push_back(Desc { frame, len, bytes, contd: at < n_descs, kind });
        }
        true
    }

    /// How many frames `owner` has.
    pub(crate) fn count(&self, owner: Owner) -> usize {
        self.owners.iter().filter(|&&o| o == owner).count()
    }

    /// Lets time pass: the device delivers what it can, one packet after the other.
    pub(crate) fn advance(&mut self, to: Nanos) {
        self.now = self.now.max(to);
        if self.held.is_some() {
            return;
        }
        let Some(packet_time) = self.limits.packet_time else { return };
        while !self.in_flight.is_empty() {
            let done_at = Nanos(self.device_free_at.0.saturating_add(packet_time));
            if done_at > self.now {
                return;
            }
            self.device_free_at = done_at;
            self.deliver_one();
        }
        self.device_free_at = self.now;
    }

    /// The first packet in flight leaves; its completions become visible.
    fn deliver_one(&mut self) {
        if let Some(packet) = self.in_flight.pop_front() {
            self.delivered += 1;
            self.charged -= packet.bytes;
            self.complete(&packet.frames);
        }
    }

    fn complete(&mut self, frames: &[usize]) {
        for &frame in frames {
            assert_eq!(self.owners[frame], Owner::Kernel, "frame {frame} completed twice");
            self.owners[frame] = Owner::CompletionRing;
            assert!(self.reserved > 0, "completion without a reserved place");
            self.reserved -= 1;
            self.completed.push_back(frame);
        }
    }

    /// Makes what was used visible in the consumer index.
    fn publish(&mut self) {
        self.ring.drain(..self.hidden);
        self.cached -= self.hidden;
        self.hidden = 0;
    }

    /// The next descriptor, valid or not; looks at the producer when the seen ones are used up.
    fn peek(&mut self) -> Option<Desc> {
        if self.hidden == self.cached {
            self.publish();
            self.cached = self.ring.len();
        }
        self.ring.get(self.hidden).filter(|_| self.hidden < self.cached).copied()
    }

    fn use_desc(&mut self, desc: &Desc) {
        assert_eq!(self.owners[desc.frame], Owner::TxRing, "frame {} sent twice", desc.frame);
        self.owners[desc.frame] = Owner::Kernel;
        self.hidden += 1;
    }

    /// Gives a packet back to the ring. Of one that was split over two calls, the kernel has shown a
    /// part as consumed: the consumer index goes backwards.
    fn cancel(&mut self, descs: &[Desc]) {
        let shown = descs.len().saturating_sub(self.hidden);
        for desc in descs[..shown].iter().rev() {
            self.ring.push_front(*desc);
        }
        self.cached += shown;
        self.hidden = (self.hidden + shown) - descs.len();
        self.reserved -= descs.len();
        for desc in descs {
            self.owners[desc.frame] = Owner::TxRing;
        }
    }

    /// One call: the kernel's loop.
    fn transmit(&mut self, sent: &mut bool) -> Result<(), i32> {
        let mut budget = self.limits.budget;
        while let Some(desc) = self.peek() {
            if desc.kind == Kind::Invalid {
                return self.refuse(&desc);
            }
            if budget == 0 || self.is_completion_ring_full() {
                return Err(libc::EAGAIN);
            }
            budget -= 1;
            if self.partial.is_empty() && self.charged >= self.limits.sndbuf {
                return Err(libc::EAGAIN);
            }
            self.build_fault(&desc)?;
            self.reserved += 1;
            self.use_desc(&desc);
            self.partial.push(desc);
            if self.partial.len() > MAX_DESCS {
                self.drop_partial();
                continue;
            }
            if !desc.contd {
                self.hand_to_device(sent)?;
            }
        }
        Ok(())
    }

    /// An invalid descriptor ends the call with 0; it, and the packet it belongs to, complete.
    fn refuse(&mut self, desc: &Desc) -> Result<(), i32> {
        if self.is_completion_ring_full() {
            return Err(libc::EAGAIN);
        }
        self.reserved += 1;
        self.use_desc(desc);
        self.partial.push(*desc);
        self.drop_partial();
        Ok(())
    }

    fn is_completion_ring_full(&self) -> bool {
        self.reserved + self.completed.len() >= self.limits.completions
    }

    /// The packet that is being built completes unsent.
    fn drop_partial(&mut self) {
        let frames: Vec<usize> = self.partial.drain(..).map(|d| d.frame).collect();
        self.complete(&frames);
    }

    fn build_fault(&mut self, desc: &Desc) -> Result<(), i32> {
        if let Some(Fault::NoMemory(errno)) = self.faults.front().copied() {
            self.faults.pop_front();
            return Err(errno);
        }
        if desc.kind == Kind::BadChecksum {
            self.poisoned = true;
            self.completed.push_back(desc.frame);
            return Err(libc::EINVAL);
        }
        Ok(())
    }

    fn hand_to_device(&mut self, sent: &mut bool) -> Result<(), i32> {
        let descs: Vec<Desc> = self.partial.drain(..).collect();
        match self.faults.front().copied() {
            Some(Fault::DeviceBusy) => {
                self.faults.pop_front();
                self.cancel(&descs);
                return Err(libc::EAGAIN);
            }
            Some(Fault::DeviceDrop) => {
                self.faults.pop_front();
                return self.device_drop(&descs);
            }
            _ => {}
        }
        let len = descs.iter().map(|d| u64::from(d.len)).sum();
        let backlog: u64 = self.in_flight.iter().map(|packet| packet.len).sum();
        if !self.carrier || self.held.is_some_and(|limit| backlog + len > limit) {
            return self.device_drop(&descs);
        }
        let bytes = descs.iter().map(|d| d.bytes).sum();
        self.charged += bytes;
        if self.in_flight.is_empty() {
            self.device_free_at = self.now;
        }
        let frames = descs.iter().map(|d| d.frame).collect();
        self.in_flight.push_back(InFlight { frames, bytes, len });
        *sent = true;
        self.advance(self.now);
        Ok(())
    }

    /// The device drops a packet: it completes, and the call says so.
    fn device_drop(&mut self, descs: &[Desc]) -> Result<(), i32> {
        self.dropped += 1;
        let frames: Vec<usize> = descs.iter().map(|d| d.frame).collect();
        self.complete(&frames);
        Err(libc::EBUSY)
    }
}

impl TxKernel for Sim {
    fn pending(&self) -> u32 {
        u32::try_from(self.ring.len()).unwrap()
    }

    fn reap(&mut self) -> u32 {
        assert!(!self.poisoned, "completions were read after EINVAL");
        let n = self.completed.len();
        for frame in self.completed.drain(..) {
            assert_eq!(self.owners[frame], Owner::CompletionRing, "frame {frame} came back twice");
            self.owners[frame] = Owner::User;
        }
        u32::try_from(n).unwrap()
    }

    fn send(&mut self) -> Result<(), i32> {
        assert!(!self.poisoned, "a call after EINVAL");
        assert!(!self.ring.is_empty(), "a call with nothing pending");
        self.calls += 1;
        if let Some(errno) = self.down {
            return Err(errno);
        }
        match self.faults.front().copied() {
            Some(Fault::Errno(errno)) => {
                self.faults.pop_front();
                return Err(errno);
            }
            Some(Fault::Deaf) => {
                self.faults.pop_front();
                return Ok(());
            }
            _ => {}
        }
        let mut sent = false;
        let outcome = self.transmit(&mut sent);
        if sent || !self.lags {
            self.publish();
        }
        outcome
    }
}
