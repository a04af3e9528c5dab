//! Real sockets for tests: interfaces in namespaces of their own, opened as the daemon opens them.
//!
//! Needs root. IPv6 is off in the namespaces, so that only the tests' packets are on the wire and counts
//! are exact.
#![allow(dead_code, unreachable_pub, reason = "each test program uses a part")]
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use xvs_datapath::{DropCounters, DropReason, Nanos, Packet, PacketBatch, RxQueue, TxQueue};
use xvs_netdev_afxdp::{
    Drain, Error, FrameCache, InForce, Ledger, Netdev, NetdevOptions, Quarantine, SocketStats,
    Umem, UmemConfig, UmemGroups, XdpMode, XskPacket, XskRx, XskTx,
};
use xvs_tests::frame;
use xvs_tests::ns::Netns;
use xvs_tests::scratch::Scratch;

/// UDP port that marks the tests' packets.
pub const PORT: u16 = 5005;

/// Two namespaces joined by a veth pair: `v1` in `near`, `e0` in `far`, both up.
pub struct Wire {
    pub near: Netns,
    pub far: Netns,
    pub scratch: Scratch,
}

impl Wire {
    pub fn new(options: &str) -> Self {
        let scratch = Scratch::new().unwrap();
        let near = Netns::new(&scratch, "near").unwrap();
        let far = Netns::new(&scratch, "far").unwrap();
        for ns in [&near, &far] {
            ns.run("sysctl -qw net.ipv6.conf.all.disable_ipv6=1").unwrap();
            ns.run("sysctl -qw net.ipv6.conf.default.disable_ipv6=1").unwrap();
        }
        let wire = Self { near, far, scratch };
        wire.connect(options);
        wire
    }

    /// Makes the veth pair, also again after one of its ends was deleted.
    pub fn connect(&self, options: &str) {
        let peer = format!("type veth peer name e0 netns {} {options}", self.far.name());
        self.near.ip(&format!("link add v1 {options} {peer}")).unwrap();
        self.near.ip("link set v1 up").unwrap();
        self.far.ip("link set e0 up").unwrap();
    }

    /// A macvlan `m1` on `v1`, behind a queue that holds the packets with their socket charge as a
    /// slow device does: `tbf` are its parameters.
    pub fn slow(tbf: &str) -> Self {
        let wire = Self::new("");
        wire.near.ip("link add link v1 name m1 type macvlan mode passthru").unwrap();
        wire.near.ip("link set m1 up").unwrap();
        wire.near.run(&format!("tc qdisc add dev v1 root tbf {tbf}")).unwrap();
        wire
    }

    /// Packets that arrived at the far end's stack.
    pub fn arrived(&self) -> u64 {
        let text = self.far.run("cat /sys/class/net/e0/statistics/rx_packets").unwrap();
        text.trim().parse().unwrap()
    }
}

pub fn umem(frames: u32) -> &'static Umem {
    Umem::create(UmemConfig { frames, ..UmemConfig::default() }).unwrap()
}

/// What the tests ask for unless they say otherwise.
pub fn options(name: &'static str) -> NetdevOptions<'static> {
    NetdevOptions { rx_ring: 1024, tx_ring: 1024, ..NetdevOptions::new(name) }
}

/// `options` in one mode.
pub fn in_mode(name: &'static str, mode: XdpMode) -> NetdevOptions<'static> {
    NetdevOptions { mode: Some(mode), ..options(name) }
}

/// Opens an interface in a namespace, each queue with both halves. The group goes in and comes out, as the call is made in a thread.
pub fn open(
    ns: &Netns,
    mut groups: UmemGroups,
    options: NetdevOptions<'static>,
) -> (UmemGroups, Result<(Netdev, Vec<Port>), Error>) {
    ns.enter(move || {
        let options = NetdevOptions { n_txq: options.n_rxq, ..options };
        let opened = Netdev::open(&mut groups, &options).map(|(netdev, sockets)| {
            let ports = sockets.into_iter().map(|(queue, xsk)| Port {
                queue: queue.0,
                rx: xsk.rx.unwrap(),
                tx: xsk.tx.unwrap(),
                kernel: xsk.stats,
                in_force: xsk.in_force,
                drops: DropCounters::default(),
                batch: PacketBatch::new(64),
            });
            (netdev, ports.collect())
        });
        Ok((groups, opened))
    })
    .unwrap()
}

/// Both halves of one socket, and what its owner keeps beside them.
pub struct Port {
    pub queue: u32,
    pub rx: XskRx,
    pub tx: XskTx,
    pub kernel: SocketStats,
    pub in_force: InForce,
    pub drops: DropCounters,
    pub batch: PacketBatch<XskPacket>,
}

/// An interface with one queue, in traffic.
pub struct End {
    pub netdev: Netdev,
    pub port: Port,
    pub cache: FrameCache,
    start: Instant,
}

impl End {
    /// Opens it over a packet memory of its own registration.
    pub fn open(ns: &Netns, umem: &'static Umem, options: NetdevOptions<'static>) -> Self {
        let (_, opened) = open(ns, UmemGroups::new(umem), options);
        let (netdev, mut ports) = opened.unwrap();
        let mut cache = FrameCache::new(umem, FrameCache::DEFAULT_LIMIT);
        let mut port = ports.pop().unwrap();
        port.rx.refill(&mut cache);
        netdev.enter().unwrap();
        Self { netdev, port, cache, start: Instant::now() }
    }

    pub fn now(&self) -> Nanos {
        Nanos(u64::try_from(self.start.elapsed().as_nanos()).unwrap())
    }

    /// Puts frames into the tx ring; how many were made, as frames may be short.
    pub fn enqueue(&mut self, frames: impl IntoIterator<Item = Vec<u8>>) -> u64 {
        let mut bin: Vec<_> =
            frames.into_iter().map_while(|bytes| self.cache.packet(&bytes)).collect();
        let n = bin.len() as u64;
        let now = self.now();
        self.port.tx.enqueue(&mut bin, &mut self.cache, &self.port.drops, now);
        assert!(bin.is_empty());
        n
    }

    /// One pass of the transmit half.
    pub fn flush(&mut self) {
        let now = self.now();
        self.port.tx.flush(&mut self.cache, &self.port.drops, now);
    }

    /// Passes until the tx ring is empty, as often as the queue itself asks to be called.
    pub fn flush_all(&mut self, limit: Duration) {
        let end = Instant::now() + limit;
        self.flush();
        while self.port.tx.queued() > 0 {
            assert!(Instant::now() < end, "stalled: {:?}", self.port.tx);
            let wake = self.port.tx.next_wake(self.now()).unwrap();
            std::thread::sleep(Duration::from_nanos(wake.since(self.now()).0));
            self.flush();
        }
    }

    /// Passes until all frames that the kernel had to send came back.
    pub fn reap_all(&mut self, limit: Duration) {
        let end = Instant::now() + limit;
        let stats = self.port.tx.stats();
        self.flush();
        while stats.queued_frames.get() + stats.kernel_frames.get() > 0 {
            assert!(Instant::now() < end, "not completed: {stats:?}");
            std::thread::sleep(Duration::from_micros(200));
            self.flush();
        }
    }

    /// The numbers of the tests' packets that are there now.
    pub fn receive(&mut self) -> Vec<u32> {
        let mut numbers = Vec::new();
        while self.port.rx.receive(&mut self.port.batch, &mut self.cache) > 0 {
            for packet in self.port.batch.drain() {
                numbers.push(number(&contents(&packet)));
                self.cache.free(packet);
            }
        }
        numbers
    }

    pub fn dropped(&self, reason: DropReason) -> u64 {
        self.port.drops.get(reason)
    }

    /// Closes both halves; what the kernel still had of each, and the counters of what was dropped.
    pub fn close(self) -> (Vec<Drain>, DropCounters) {
        let Self { netdev, port, mut cache, .. } = self;
        netdev.leave();
        let Port { rx, tx, drops, queue, .. } = port;
        let halves: [Quarantine; 2] = [rx.close(), tx.close(&mut cache, &drops)];
        let drains = halves.map(|half| netdev.drain(xvs_datapath::QueueId(queue), half));
        (Vec::from(drains), drops)
    }

    /// Closes it and takes all frames back.
    pub fn close_all(self) {
        for drain in &mut self.close().0 {
            assert!(drain.reclaim(), "veth has copied everything");
        }
    }
}

/// An Ethernet frame with a UDP datagram of `len` bytes in all, with a number in it.
pub fn packet(number: u32, len: usize) -> Vec<u8> {
    let mut payload = vec![0; len.max(46) - 42];
    payload[..4].copy_from_slice(&number.to_be_bytes());
    let (from, to) = (Ipv4Addr::new(10, 5, 5, 1), Ipv4Addr::new(10, 5, 5, 2));
    let udp = frame::udp((from, PORT), (to, PORT), &payload);
    frame::ethernet([0xff; 6], [2, 0, 0, 0, 0, 9], 0x0800, &frame::ipv4(from, to, 17, &udp))
}

/// The number in a frame of [`packet`].
pub fn number(frame: &[u8]) -> u32 {
    assert_eq!(frame[36..38], PORT.to_be_bytes(), "a stray packet: {frame:x?}");
    u32::from_be_bytes(frame[42..46].try_into().unwrap())
}

pub fn contents(packet: &XskPacket) -> Vec<u8> {
    let mut all = Vec::with_capacity(packet.len());
    packet.for_each_segment(&mut |bytes| all.extend_from_slice(bytes));
    all
}

/// Every frame is somewhere, and nothing is left of closed sockets.
pub fn assert_balanced(umem: &Umem) {
    let ledger = umem.ledger();
    assert_eq!(ledger.at_rest(), ledger.frames, "{ledger:?}");
}

/// All is in the pool and no socket is known any more.
pub fn assert_idle(umem: &Umem) {
    let frames = u64::from(umem.frames());
    assert_eq!(umem.ledger(), Ledger { frames, pool: frames, ..Ledger::default() });
}

/// Asks `probe` until it holds.
pub fn eventually(what: &str, limit: Duration, mut probe: impl FnMut() -> bool) {
    let end = Instant::now() + limit;
    while !probe() {
        assert!(Instant::now() < end, "{what}: not within {limit:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
