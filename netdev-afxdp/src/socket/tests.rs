//! Each of the kernel's counters rises when what it counts is provoked; a correct port provokes few of them,
//! so raw rings do. Needs root.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use xvs_datapath::QueueId;
use xvs_tests::ns::Netns;
use xvs_tests::raw::RawSocket;
use xvs_tests::scratch::Scratch;

use super::{KernelStats, SocketStats};
use crate::abi::Desc;
use crate::bind::{Features, Parts};
use crate::xsk::{Mode, XskConfig};
use crate::{Attach, AttachMode, Device, RedirectProgram, Umem, UmemConfig, sys};

const RING: u32 = 64;
/// An address beyond the packet memory.
const BEYOND: u64 = 1 << 40;

/// A frame that nobody answers.
const FRAME: [u8; 60] = [0xff; 60];

struct Rig {
    parts: Parts,
    program: RedirectProgram,
    sender: RawSocket,
    next: u64,
    _spaces: (Netns, Netns, Scratch),
}

impl Rig {
    /// A socket without frames to receive into.
    fn new() -> Self {
        let scratch = Scratch::new().unwrap();
        let (near, far) =
            (Netns::new(&scratch, "near").unwrap(), Netns::new(&scratch, "far").unwrap());
        near.ip(&format!("link add v1 type veth peer name e0 netns {}", far.name())).unwrap();
        // Nobody else sends.
        far.run("sysctl -qw net.ipv6.conf.all.disable_ipv6=1").unwrap();
        far.run("sysctl -qw net.ipv6.conf.default.disable_ipv6=1").unwrap();
        near.ip("link set v1 up").unwrap();
        far.ip("link set e0 up").unwrap();
        let sender = far.enter(|| RawSocket::open("e0")).unwrap();
        let (parts, program) = near
            .enter(|| {
                let device = Device::find("v1").unwrap();
                let program = RedirectProgram::attach(&Attach {
                    ifindex: device.ifindex,
                    port: "v1",
                    mode: AttachMode::Native,
                    n_queues: 1,
                    frags: false,
                    tags: false,
                    force: false,
                });
                let config = XskConfig {
                    port: "v1".to_owned(),
                    ifindex: device.ifindex,
                    queue: QueueId(0),
                    n_tx_queues: None,
                    rx_ring: RING,
                    tx_ring: RING,
                    tx_budget: None,
                    sndbuf: None,
                    xmit_batch: 0,
                    busy_poll: None,
                    mtu: device.mtu,
                };
                let umem = Umem::create(UmemConfig { frames: 256, ..UmemConfig::default() });
                let features = Features { multi_buffer: false, tx_metadata: false };
                let parts =
                    Parts::bind((umem.unwrap(), Mode::Copy), &config, None, features, &mut |_| ());
                Ok((parts.ok().unwrap(), program.unwrap()))
            })
            .unwrap();
        program.set(0, parts.socket.as_fd()).unwrap();
        Self { parts, program, sender, next: 0, _spaces: (near, far, scratch) }
    }

    /// Lends so many frames to receive into.
    fn fill(&mut self, n: u32) {
        for _ in 0..n {
            assert!(self.parts.fill.push(self.next * 4096), "the fill ring is full");
            self.next += 1;
        }
        self.parts.fill.submit();
    }

    /// Sends so many packets to the socket.
    fn send(&self, n: u32) {
        for _ in 0..n {
            assert!(self.sender.send(&FRAME).unwrap());
        }
    }

    fn kick(&mut self, desc: Desc) {
        let tx = self.parts.tx.as_mut().unwrap();
        assert!(tx.push(desc));
        tx.submit();
        let _ = sys::kick_tx(self.parts.socket.as_fd());
    }

    /// Waits until a counter is what it should be.
    fn counts(&self, of: fn(&KernelStats) -> u64, wanted: u64) {
        let stats = SocketStats::of(&self.parts.socket);
        let end = Instant::now() + Duration::from_secs(2);
        loop {
            let found = stats.read().unwrap();
            if of(&found) == wanted {
                return;
            }
            assert!(Instant::now() < end, "{wanted} wanted: {found:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

#[test]
fn packets_without_a_frame_and_without_a_place_in_the_ring() {
    let mut rig = Rig::new();
    // The first finds the fill ring empty.
    rig.send(3);
    rig.counts(|stats| stats.rx_dropped, 3);
    rig.counts(|stats| stats.rx_fill_ring_empty_descs, 3);
    // As many as the rx ring has entries are received, then it is full though frames are there.
    rig.fill(RING);
    rig.send(RING);
    let rx = rig.parts.rx.as_mut().unwrap();
    let end = Instant::now() + Duration::from_secs(2);
    while rx.available(RING) < RING {
        assert!(Instant::now() < end, "{} arrived", rx.available(RING));
    }
    rig.fill(10);
    rig.send(5);
    rig.counts(|stats| stats.rx_ring_full, 5);
    rig.counts(|stats| stats.rx_dropped, 3);
    rig.program.clear(0).unwrap();
}

#[test]
fn addresses_that_are_none() {
    let mut rig = Rig::new();
    assert!(rig.parts.fill.push(BEYOND));
    rig.parts.fill.submit();
    rig.send(1);
    rig.counts(|stats| stats.rx_dropped, 1);
    // Linux 6.18 shows the invalid ones of the rx ring here, of which there are none, not those of the fill ring.
    let shown = SocketStats::of(&rig.parts.socket).read().unwrap().rx_invalid_descs;
    assert!(shown <= 1, "{shown}");
    rig.kick(Desc { addr: BEYOND, len: 60, options: 0 });
    rig.counts(|stats| stats.tx_invalid_descs, 1);
    // Longer than the frame.
    rig.kick(Desc { addr: 64, len: 4096, options: 0 });
    rig.counts(|stats| stats.tx_invalid_descs, 2);
}

#[test]
fn calls_with_nothing_to_send() {
    let mut rig = Rig::new();
    let empty = |rig: &Rig| SocketStats::of(&rig.parts.socket).read().unwrap().tx_ring_empty_descs;
    let before = empty(&rig);
    sys::kick_tx(rig.parts.socket.as_fd()).unwrap();
    assert!(empty(&rig) > before);
    rig.kick(Desc { addr: 64, len: 60, options: 0 });
    assert_eq!(Arc::strong_count(&rig.parts.socket), 1);
}
