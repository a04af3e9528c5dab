//! A model of the kernel's copy-mode transmit path, for tests: it shows what `sendto` shows.
//!
//! It follows `__xsk_generic_xmit` of Linux 6.18: the budget counts descriptors, the completion ring
//! is reserved before a packet is built, the send buffer is charged until the packet is delivered, and
//! the consumer index becomes visible only when a packet was sent or the cached descriptors are used up,
//! so that it may lag behind an EBUSY or an invalid descriptor. Every frame has one owner; a frame
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
    /// What the packet costs the send buffer.
    pub(crate) bytes: u64,
    /// More descriptors of the same packet follow.
    pub(crate) contd: bool,
    pub(crate) valid: bool,
}

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
    /// A bad checksum request: the frame completes and its descriptor stays queued, EINVAL.
    BadChecksum,
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
        for done in 0..n {
            let free: Vec<usize> = (0..self.owners.len())
                .filter(|&frame| self.owners[frame] == Owner::User)
                .take(n_descs)
                .collect();
            if free.len() < n_descs || self.ring.len() + n_descs > self.limits.ring {
                return done;
            }
            for (i, frame) in free.into_iter().enumerate() {
                self.owners[frame] = Owner::TxRing;
                let contd = i + 1 < n_descs;
                self.ring.push_back(Desc { frame, bytes, contd, valid: true });
            }
        }
        n
    }

    /// Queues one descriptor that the kernel will refuse.
    pub(crate) fn enqueue_invalid(&mut self) {
        if self.enqueue(1, 1, 768) == 1
            && let Some(desc) = self.ring.back_mut()
        {
            desc.valid = false;
        }
    }

    /// How many frames `owner` has.
    pub(crate) fn count(&self, owner: Owner) -> usize {
        self.owners.iter().filter(|&&o| o == owner).count()
    }

    /// Lets time pass: the device delivers what it can, one packet after the other.
    pub(crate) fn advance(&mut self, to: Nanos) {
        self.now = self.now.max(to);
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
            if !desc.valid {
                return self.refuse(&desc);
            }
            if budget == 0 || self.reserved + self.completed.len() >= self.limits.completions {
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
            if !desc.contd {
                self.hand_to_device(sent)?;
            }
        }
        Ok(())
    }

    /// An invalid descriptor ends the call with 0; it, and the packet it belongs to, complete.
    fn refuse(&mut self, desc: &Desc) -> Result<(), i32> {
        self.reserved += 1;
        self.use_desc(desc);
        self.partial.push(*desc);
        let frames: Vec<usize> = self.partial.drain(..).map(|d| d.frame).collect();
        self.complete(&frames);
        Ok(())
    }

    fn build_fault(&mut self, desc: &Desc) -> Result<(), i32> {
        match self.faults.front().copied() {
            Some(Fault::NoMemory(errno)) => {
                self.faults.pop_front();
                Err(errno)
            }
            Some(Fault::BadChecksum) => {
                self.faults.pop_front();
                self.poisoned = true;
                self.completed.push_back(desc.frame);
                Err(libc::EINVAL)
            }
            _ => Ok(()),
        }
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
                self.dropped += 1;
                let frames: Vec<usize> = descs.iter().map(|d| d.frame).collect();
                self.complete(&frames);
                return Err(libc::EBUSY);
            }
            _ => {}
        }
        let bytes = descs.iter().map(|d| d.bytes).sum();
        self.charged += bytes;
        if self.in_flight.is_empty() {
            self.device_free_at = self.now;
        }
        self.in_flight
            .push_back(InFlight { frames: descs.iter().map(|d| d.frame).collect(), bytes });
        *sent = true;
        self.advance(self.now);
        Ok(())
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
        if sent {
            self.publish();
        }
        outcome
    }
}
