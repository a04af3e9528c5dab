//! The simulated kernel against the real one: the same random schedules, step by step, on real sockets.
//!
//! Two rigs: a veth pair, and a macvlan over a veth whose queue holds packets with their socket charge as a
//! slow link does. Time is a number here as there, and the queue holds or lets go when told to, so that each
//! pass must do exactly the same on both: calls, descriptors, drops, errors, verdict and next wake-up.
//! Needs root.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::fs::File;
use std::io::{Read, Seek};
use std::time::{Duration, Instant};

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use xvs_datapath::{Nanos, Packet, QueueId};
use xvs_tests::ns::Netns;
use xvs_tests::raw::RawSocket;
use xvs_tests::scratch::Scratch;

use super::sim::{Kind, Limits, MAX_DESCS, Owner, Sim};
use super::{EXTRA_CALLS, Kick, KickReport, MAX_BUSY, TxKernel, Verdict};
use crate::abi::Desc;
use crate::bind::{Features, Parts};
use crate::ring::{Consumer, Producer};
use crate::socket::Socket;
use crate::xsk::{Mode, XskConfig};
use crate::{Device, FrameCache, Umem, UmemConfig, sys};

/// Frames of a schedule's packet memory.
const FRAMES: u32 = 1024;
/// Where the data lies in its frame: behind room for a checksum request.
const OFFSET: u64 = 64;
/// What each further descriptor of a packet is charged.
const PAGE: u64 = 4096;
/// A queue that holds lets packets go until this is used up, which is done at once.
const TOKENS: usize = 2000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Link {
    Pair,
    Slow,
}

/// One step of a schedule.
#[derive(Clone, Debug)]
enum Op {
    /// So many packets of so many descriptors of so many bytes.
    Enqueue(usize, usize, u32),
    /// A packet whose last descriptor is invalid.
    Invalid(usize),
    Advance(u64),
    Pass,
    Up(bool),
    /// The other end is there, or not. Only on the pair.
    Carrier(bool),
    /// The queue holds what comes, and drops what is more than so many bytes. Only on the slow link.
    Hold(u64),
    Release,
}

/// How the last schedule over a socket ends.
#[derive(Clone, Copy, Debug)]
enum End {
    /// With a checksum request beyond the packet.
    Broken,
    /// The device is deleted.
    Unbound,
}

/// A socket whose rings are driven by the kick protocol alone.
struct Real {
    tx: Producer<Desc>,
    completion: Consumer<u64>,
    /// The kernel has the frame.
    lent: Vec<bool>,
    socket: std::sync::Arc<Socket>,
}

impl Real {
    fn push(&mut self, packet: &[(u32, u64, Kind)]) -> bool {
        let free = (0..self.lent.len()).filter(|&frame| !self.lent[frame]);
        let free: Vec<usize> = free.take(packet.len()).collect();
        let n = u32::try_from(packet.len()).unwrap();
        if free.len() < packet.len() || self.tx.free(n) < n {
            return false;
        }
        for (at, (frame, &(len, _, kind))) in (1..).zip(free.into_iter().zip(packet)) {
            self.lent[frame] = true;
            let more = if at < packet.len() { Desc::CONTINUED } else { 0 };
            let addr = frame as u64 * 4096 + OFFSET;
            let (len, kind) = match kind {
                Kind::Valid => (len, 0),
                Kind::Invalid => (4096, 0),
                Kind::BadChecksum => (len, Desc::METADATA),
            };
            assert!(self.tx.push(Desc { addr, len, options: more | kind }));
        }
        self.tx.submit();
        true
    }
}

impl TxKernel for Real {
    fn pending(&self) -> u32 {
        self.tx.index().wrapping_sub(self.tx.consumed())
    }

    fn reap(&mut self) -> u32 {
        let n = self.completion.available(u32::MAX);
        for at in 0..n {
            let frame = usize::try_from(self.completion.peek(at) / 4096).unwrap();
            assert!(std::mem::take(&mut self.lent[frame]), "frame {frame} came back twice");
        }
        self.completion.release(n);
        n
    }

    fn send(&mut self) -> Result<(), i32> {
        use std::os::fd::AsFd;
        sys::kick_tx(self.socket.as_fd())
    }
}

/// The namespaces, and what reaches into them.
struct Wire {
    near: Netns,
    far: Netns,
    link: Link,
    /// Sends beside the AF_XDP socket through the queue of the slow link.
    beside: RawSocket,
    /// Counters of the far end.
    counters: File,
    _scratch: Scratch,
}

impl Wire {
    fn new(link: Link) -> Self {
        let scratch = Scratch::new().unwrap();
        let near = Netns::new(&scratch, "near").unwrap();
        let far = Netns::new(&scratch, "far").unwrap();
        for ns in [&near, &far] {
            ns.run("sysctl -qw net.ipv6.conf.all.disable_ipv6=1").unwrap();
            ns.run("sysctl -qw net.ipv6.conf.default.disable_ipv6=1").unwrap();
        }
        near.ip(&format!("link add v1 type veth peer name e0 netns {}", far.name())).unwrap();
        near.ip("link set v1 up mtu 9000").unwrap();
        far.ip("link set e0 up mtu 9000").unwrap();
        if link == Link::Slow {
            near.ip("link add link v1 name m1 type macvlan mode passthru").unwrap();
            near.ip("link set m1 up mtu 9000").unwrap();
        }
        let beside = near.enter(|| RawSocket::open("v1")).unwrap();
        let counters = far.enter(|| Ok(File::open("/proc/thread-self/net/dev").unwrap())).unwrap();
        let wire = Self { near, far, link, beside, counters, _scratch: scratch };
        if link == Link::Slow {
            wire.queue("add", OPEN);
        }
        wire
    }

    fn device(&self) -> &'static str {
        if self.link == Link::Pair { "v1" } else { "m1" }
    }

    fn queue(&self, verb: &str, tbf: &str) {
        self.near.run(&format!("tc qdisc {verb} dev v1 root tbf {tbf}")).unwrap();
    }

    /// Packets that arrived at the far end.
    fn arrived(&mut self) -> u64 {
        let mut text = String::new();
        self.counters.rewind().unwrap();
        self.counters.read_to_string(&mut text).unwrap();
        let line = text.lines().find_map(|line| line.trim_start().strip_prefix("e0:")).unwrap();
        line.split_ascii_whitespace().nth(1).unwrap().parse().unwrap()
    }

    /// Opens a socket that only sends, and asks for a checksum beyond the packet in each frame.
    fn socket(&self, limits: &Limits) -> Real {
        let umem = Umem::create(UmemConfig { frames: FRAMES, ..UmemConfig::default() }).unwrap();
        let mut cache = FrameCache::new(umem, 0);
        let request = [&2u64.to_ne_bytes()[..], &60u16.to_ne_bytes(), &6u16.to_ne_bytes()].concat();
        let packets: Vec<_> = (0..FRAMES)
            .map(|_| {
                let mut packet = cache.packet(&[0; 60]).unwrap();
                packet.push(256 - usize::try_from(OFFSET).unwrap()).unwrap();
                packet.metadata_mut()[..12].copy_from_slice(&request);
                packet
            })
            .collect();
        packets.into_iter().for_each(|packet| cache.free(packet));
        let device = self.device();
        let (tx_ring, budget) = (u32::try_from(limits.ring).unwrap(), limits.budget);
        let sndbuf = u32::try_from(limits.sndbuf).unwrap();
        let parts = self.near.enter(move || {
            let config = XskConfig {
                port: device.to_owned(),
                ifindex: Device::find(device).unwrap().ifindex,
                queue: QueueId(0),
                n_tx_queues: None,
                rx_ring: 0,
                tx_ring,
                tx_budget: Some(budget),
                sndbuf: Some(sndbuf),
                xmit_batch: 0,
                busy_poll: None,
                mtu: 9000,
            };
            let features = Features { multi_buffer: true, tx_metadata: true };
            let end = Instant::now() + Duration::from_secs(10);
            loop {
                // The queue of a socket that was closed is free a little later.
                match Parts::bind((umem, Mode::Copy), &config, None, features, &mut |_| ()) {
                    Ok(parts) => return Ok(parts),
                    Err(_) if Instant::now() < end => std::thread::sleep(Duration::from_millis(5)),
                    Err(_) => panic!("cannot bind to {device}"),
                }
            }
        });
        let Parts { tx, completion, socket, in_force, .. } = parts.unwrap();
        assert_eq!((in_force.tx_budget, in_force.sndbuf), (budget, sndbuf), "{in_force:?}");
        Real { tx: tx.unwrap(), completion, lent: vec![false; FRAMES as usize], socket }
    }
}

/// A queue that lets everything go at once.
const OPEN: &str = "rate 10gbit burst 10m limit 100m";

/// The kernel has a cache of its own for small heads of packets.
const SMALL_HEAD: u64 = 576;

/// What a packet's first descriptor is charged: the kernel's struct sk_buff and one allocation for 64 bytes of
/// headroom, data and struct skb_shared_info.
fn truesize(len: u32) -> u64 {
    let data = (64 + u64::from(len)).next_multiple_of(64) + 320;
    256 + if data <= SMALL_HEAD { SMALL_HEAD } else { data.next_power_of_two() }
}

/// A packet of `n` descriptors of `len` bytes.
fn packet(n: usize, len: u32, last: Kind) -> Vec<(u32, u64, Kind)> {
    let mut packet = vec![(len, PAGE, Kind::Valid); n];
    packet[0].1 = truesize(len);
    packet[n - 1].2 = last;
    packet
}

/// Both kernels, and the protocol on each.
struct Both {
    wire: Wire,
    real: Real,
    sim: Sim,
    kick_real: Kick,
    kick_sim: Kick,
    now: Nanos,
    /// Arrived at the far end before, or sent beside.
    others: u64,
    /// Calls that said EAGAIN, packets that the device dropped, other errors, blocked passes.
    seen: [u32; 4],
    log: Vec<String>,
}

impl Both {
    fn new(mut wire: Wire, limits: Limits) -> Self {
        let real = wire.socket(&limits);
        let others = wire.arrived();
        let kick = Kick::new(limits.budget);
        let sim = Sim::new(limits);
        let log = vec![format!("{limits:?}")];
        Self {
            wire,
            real,
            sim,
            kick_real: kick.clone(),
            kick_sim: kick,
            now: Nanos(0),
            others,
            seen: [0; 4],
            log,
        }
    }

    fn push(&mut self, packet: &[(u32, u64, Kind)]) {
        let (real, sim) = (self.real.push(packet), self.sim.push(packet));
        assert_eq!(real, sim, "room in the ring: {:#?}", self.log);
    }

    /// One pass on each.
    fn pass(&mut self) -> KickReport {
        let pending = self.sim.pending();
        self.sim.now = self.now;
        let sim = self.kick_sim.run(&mut self.sim, self.now);
        let real = self.kick_real.run(&mut self.real, self.now);
        self.log.push(format!("{sim:?}, {} pending", self.sim.pending()));
        assert_eq!(real, sim, "a pass at {:?}: {:#?}", self.now, self.log);
        assert_eq!(self.real.pending(), self.sim.pending(), "pending: {:#?}", self.log);
        assert_eq!(self.kick_real.next_wake(self.now), self.kick_sim.next_wake(self.now));
        assert!(sim.calls <= pending.div_ceil(self.sim.limits.budget) + EXTRA_CALLS);
        assert!(sim.busy_drops <= MAX_BUSY);
        if sim.verdict == Verdict::Blocked && sim.calls > 0 {
            assert!(self.kick_sim.next_wake(self.now) != Some(self.now) || sim.completed > 0);
        }
        let blocked = u32::from(sim.verdict == Verdict::Blocked);
        let new = [sim.again, sim.busy_drops, sim.errors, blocked];
        self.seen.iter_mut().zip(new).for_each(|(sum, n)| *sum += n);
        sim
    }

    fn step(&mut self, op: &Op) {
        self.log.push(format!("{op:?}"));
        match *op {
            Op::Enqueue(n, n_descs, len) => {
                let packet = packet(n_descs, len, Kind::Valid);
                (0..n).for_each(|_| self.push(&packet));
            }
            Op::Invalid(n_descs) => self.push(&packet(n_descs, 60, Kind::Invalid)),
            Op::Advance(by) => self.now.0 += by,
            Op::Pass => {
                self.pass();
            }
            Op::Up(up) => {
                let errno = (!up).then_some(libc::ENETDOWN);
                if errno != self.sim.down {
                    self.sim.down = errno;
                    let to = if up { "up" } else { "down" };
                    self.wire.near.ip(&format!("link set {} {to}", self.wire.device())).unwrap();
                }
            }
            Op::Carrier(on) => {
                if self.wire.link == Link::Pair && self.sim.carrier != on {
                    self.sim.carrier = on;
                    let to = if on { "up" } else { "down" };
                    self.wire.far.ip(&format!("link set e0 {to}")).unwrap();
                }
            }
            Op::Hold(limit) => {
                if self.wire.link == Link::Slow {
                    self.release();
                    let tbf = format!("rate 8bit burst {TOKENS}b limit {limit}");
                    self.wire.queue("change", &tbf);
                    assert!(self.wire.beside.send(&[0; TOKENS - 1]).unwrap());
                    self.others += 1;
                    self.sim.held = Some(limit);
                }
            }
            Op::Release => self.release(),
        }
        self.settle();
    }

    fn release(&mut self) {
        if self.sim.held.take().is_some() {
            self.sim.advance(self.now);
            self.wire.queue("change", OPEN);
            // A queue looks at what it has when something comes.
            assert!(self.wire.beside.send(&[0; 60]).unwrap());
            self.others += 1;
            self.settle();
        }
    }

    /// What left the simulated device arrives at the real far end, and then comes back.
    fn settle(&mut self) {
        let expected = self.sim.delivered + self.others;
        let completed = self.sim.count(Owner::CompletionRing);
        let end = Instant::now() + Duration::from_secs(2);
        loop {
            let arrived = self.wire.arrived();
            let back = self.real.completion.available(u32::MAX) as usize;
            // A pass says what is wrong with completions.
            if arrived == expected && (back >= completed || Instant::now() > end) {
                return;
            }
            let late = arrived > expected || Instant::now() > end;
            assert!(!late, "{arrived} arrived, expected {expected}: {:#?}", self.log);
            std::thread::yield_now();
        }
    }

    /// Nothing goes wrong any more: all that is queued leaves without new packets.
    fn finish(&mut self) {
        for op in [Op::Up(true), Op::Carrier(true), Op::Release, Op::Pass] {
            self.step(&op);
        }
        for wakes in 0.. {
            let Some(wake) = self.kick_sim.next_wake(self.now) else { break };
            assert!(wakes < 1000, "it spins: {:#?}", self.log);
            self.now = wake;
            self.pass();
            self.settle();
        }
        self.pass();
        let home = self.real.lent.iter().filter(|&&lent| !lent).count();
        assert_eq!((self.real.pending(), home), (0, FRAMES as usize), "{:#?}", self.log);
        assert_eq!((self.sim.pending(), self.sim.count(Owner::User)), (0, home));
        self.log.truncate(1);
    }

    /// The last of the socket.
    fn end(mut self, end: End) {
        self.push(&packet(1, 60, Kind::Valid));
        let verdict = match end {
            End::Broken => {
                self.push(&packet(1, 60, Kind::BadChecksum));
                self.push(&packet(1, 60, Kind::Valid));
                Verdict::Broken
            }
            End::Unbound => {
                self.wire.near.ip(&format!("link del {}", self.wire.device())).unwrap();
                self.sim.down = Some(libc::ENXIO);
                Verdict::Unbound
            }
        };
        for _ in 0..3 {
            assert_eq!(self.pass().verdict, verdict);
            self.now.0 += 1_000_000_000;
        }
    }
}

fn op(link: Link) -> impl Strategy<Value = Op> {
    let enqueue = prop_oneof![
        4 => (1..100usize, Just(1), 60..1500u32),
        2 => (1..300usize, Just(1), Just(60)),
        2 => (1..20usize, 2..=MAX_DESCS, 60..100u32),
        1 => (Just(1), Just(MAX_DESCS + 1), 60..100u32),
    ];
    let (pair, slow) = if link == Link::Pair { (1, 0) } else { (0, 2) };
    prop_oneof![
        12 => enqueue.prop_map(|(n, n_descs, len)| Op::Enqueue(n, n_descs, len)),
        2 => (1..4usize).prop_map(Op::Invalid),
        6 => (0..2_000_000u64).prop_map(Op::Advance),
        16 => Just(Op::Pass),
        1 => any::<bool>().prop_map(Op::Up),
        pair => any::<bool>().prop_map(Op::Carrier),
        slow => prop_oneof![3 => Just(10_000_000), 1 => 2_000..100_000u64].prop_map(Op::Hold),
        slow => Just(Op::Release),
    ]
}

fn limits() -> impl Strategy<Value = Limits> {
    (prop::sample::select(vec![64u32, 128, 256]), 5_000..300_000u64, 0..100u32).prop_map(
        |(ring, sndbuf, share)| Limits {
            n_frames: FRAMES as usize,
            ring: ring as usize,
            completions: ring as usize,
            budget: 32 + (ring - 32) * share / 100,
            sndbuf: sndbuf & !1,
            packet_time: Some(0),
        },
    )
}

/// Runs so many schedules, 50 over each socket.
fn agree(link: Link, schedules: usize) {
    let (mut runner, mut seen) = (TestRunner::deterministic(), Vec::new());
    for end in [End::Broken, End::Unbound].into_iter().cycle().take(schedules / 50) {
        let limits = limits().new_tree(&mut runner).unwrap().current();
        let mut both = Both::new(Wire::new(link), limits);
        for _ in 0..50 {
            let ops = prop::collection::vec(op(link), 1..20);
            for op in ops.new_tree(&mut runner).unwrap().current() {
                both.step(&op);
            }
            both.finish();
        }
        seen.push(both.seen);
        both.end(end);
    }
    // What the schedules are for did happen. Nothing blocks on a pair.
    for at in 0..if link == Link::Pair { 3 } else { 4 } {
        assert!(seen.iter().any(|seen| seen[at] > 0), "{seen:?}");
    }
}

#[test]
fn five_hundred_schedules_on_a_pair() {
    agree(Link::Pair, 500);
}

#[test]
fn five_hundred_schedules_on_a_slow_link() {
    agree(Link::Slow, 500);
}
