//! The receive half against a kernel made of the other ends of its rings, which may also lie.
#![allow(clippy::cast_possible_truncation, reason = "tests")]

use std::fs::File;

use proptest::prelude::*;
use xvs_datapath::MAX_FRAMES;

use super::*;
use crate::UmemConfig;
use crate::ring::tests::pair;

const RING: u32 = 64;

/// The other ends of the rings.
struct Kernel {
    rx: Producer<Desc>,
    fill: Consumer<u64>,
}

impl Kernel {
    /// An address from the fill ring.
    fn take(&mut self) -> Option<u64> {
        if self.fill.available(1) == 0 {
            return None;
        }
        let addr = self.fill.peek(0);
        self.fill.release(1);
        Some(addr)
    }

    /// Puts a descriptor into the rx ring, for all to see.
    fn give(&mut self, desc: Desc) {
        assert!(self.rx.push(desc));
        self.rx.submit();
    }
}

struct Rig {
    half: XskRx,
    kernel: Kernel,
    cache: FrameCache,
    batch: PacketBatch<XskPacket>,
}

fn rig(start: u32) -> Rig {
    let config = UmemConfig { frames: 256, ..UmemConfig::default() };
    let umem = Umem::create(config).unwrap();
    let ((rx, to_half), (fill, from_half)) = (pair::<Desc>(RING, start), pair::<u64>(RING, start));
    let socket = Arc::new(Socket::new(File::open("/dev/null").unwrap().into()));
    let filled = Filled::none(umem).unwrap();
    let half = XskRx::new((to_half, fill), filled, &InForce::default(), socket);
    let kernel = Kernel { rx, fill: from_half };
    let mut rig = Rig { half, kernel, cache: FrameCache::new(umem, 0), batch: PacketBatch::new(8) };
    rig.half.refill(&mut rig.cache);
    rig
}

impl Rig {
    /// The lengths of the packets that one call gives.
    fn receive(&mut self) -> Vec<usize> {
        self.half.receive(&mut self.batch, &mut self.cache);
        let lengths = self.batch.as_slice().iter().map(Packet::len).collect();
        for packet in self.batch.drain() {
            self.cache.free(packet);
        }
        lengths
    }

    fn balance(&self) -> (u64, u64) {
        let ledger = self.cache.umem().ledger();
        (ledger.at_rest(), ledger.frames)
    }
}

/// One descriptor, good.
fn good(addr: u64, len: u32, more: bool) -> Desc {
    Desc { addr: addr + 256, len, options: if more { Desc::CONTINUED } else { 0 } }
}

#[derive(Clone, Debug)]
enum Step {
    /// A packet of so many descriptors, of which one may be spoilt in some way.
    Packet(u32, Option<(u32, Spoilt)>),
    Receive,
}

#[derive(Clone, Copy, Debug)]
enum Spoilt {
    /// An address that never was lent, or lies nowhere.
    Wild(u64),
    /// Longer than what is left of the frame.
    Long,
    Empty,
    /// Data where the metadata would be.
    Early,
}

fn steps(max_frames: u32) -> impl Strategy<Value = Vec<Step>> {
    let spoilt = prop_oneof![
        any::<u64>().prop_map(|addr| Spoilt::Wild(addr | 1 << 40)),
        Just(Spoilt::Wild(255 * 4096 + 300)),
        Just(Spoilt::Wild(256 * 4096)),
        Just(Spoilt::Long),
        Just(Spoilt::Empty),
        Just(Spoilt::Early),
    ];
    let spoilt = prop::option::weighted(0.2, (0..max_frames, spoilt));
    let packet = (1..=max_frames, spoilt).prop_map(|(n, spoilt)| Step::Packet(n, spoilt));
    prop::collection::vec(prop_oneof![2 => packet, 1 => Just(Step::Receive)], 1..80)
}

fn spoil(desc: Desc, how: Spoilt) -> Desc {
    match how {
        Spoilt::Wild(addr) => Desc { addr, ..desc },
        Spoilt::Long => Desc { len: 4096 - 256 + 1, ..desc },
        Spoilt::Empty => Desc { len: 0, ..desc },
        Spoilt::Early => Desc { addr: desc.addr - 256 + 23, ..desc },
    }
}

proptest! {
    /// Whatever the kernel says, in whatever portions: good packets come out whole and in order, the others
    /// are counted once each, and every frame is somewhere.
    #[test]
    fn every_descriptor_is_a_packet_or_counted(
        steps in prop_oneof![steps(3), steps(22)],
        start in prop_oneof![Just(0), Just(u32::MAX - 30), any::<u32>()],
    ) {
        let mut rig = rig(start);
        let (mut expected, mut received) = (Vec::new(), Vec::new());
        let (mut too_many, mut bad) = (0, 0);
        for step in steps {
            let Step::Packet(n, spoilt) = step else {
                received.extend(rig.receive());
                prop_assert_eq!(rig.balance(), (256, 256));
                continue;
            };
            let mut length = 0;
            for at in 0..n {
                // A kernel without frames waits; one whose packet waits for its end gets more.
                let mut addr = rig.kernel.take();
                for _ in 0..20 {
                    if addr.is_none() {
                        received.extend(rig.receive());
                        addr = rig.kernel.take();
                    }
                }
                let Some(addr) = addr else { return Ok(()) };
                let mut desc = good(addr, 100 + at, at + 1 < n);
                length += desc.len as usize;
                if let Some((_, how)) = spoilt.filter(|&(which, _)| which == at) {
                    desc = spoil(desc, how);
                }
                rig.kernel.give(desc);
            }
            let spoilt = spoilt.filter(|&(which, _)| which < n);
            if n as usize > MAX_FRAMES {
                too_many += 1;
                // Thrown away unseen, but for addresses that are nobody's.
                bad += u64::from(matches!(spoilt, Some((_, Spoilt::Wild(_)))));
            } else if spoilt.is_some() {
                bad += 1;
            } else {
                expected.push(length);
            }
        }
        for _ in 0..20 {
            received.extend(rig.receive());
        }
        prop_assert_eq!(&received, &expected);
        let stats = rig.half.stats();
        prop_assert_eq!(stats.too_many_frames.get(), too_many);
        prop_assert_eq!(stats.packets.get(), expected.len() as u64 + too_many);
        prop_assert_eq!(stats.bad_descriptors.get(), bad);
        prop_assert_eq!(rig.balance(), (256, 256));
        // Closing finds the frames that wild addresses left with the kernel, too.
        let Rig { half, kernel, cache, .. } = rig;
        let umem = cache.umem();
        let quarantine = half.close();
        drop(kernel);
        quarantine.reclaim().unwrap();
        drop(cache);
        prop_assert_eq!(umem.ledger().pool, 256);
    }
}

#[test]
fn packets_larger_than_the_link_brings_are_marked_where_such_arrive() {
    let mut rig = rig(0);
    let marks = |rig: &mut Rig| {
        for len in [1522, 1523] {
            let addr = rig.kernel.take().unwrap();
            rig.kernel.give(good(addr, len, false));
        }
        rig.half.receive(&mut rig.batch, &mut rig.cache);
        let marks: Vec<_> = rig.batch.as_slice().iter().map(XskPacket::own_mtu).collect();
        rig.batch.drain().for_each(|packet| rig.cache.free(packet));
        marks
    };
    assert_eq!(marks(&mut rig), [None, None]);
    let link = Arc::new(LinkState::new(true, 1500));
    rig.half.mark_uncut(Arc::clone(&link));
    assert_eq!(marks(&mut rig), [None, Some(1500)]);
    link.set_mtu(3000);
    assert_eq!(marks(&mut rig), [None, None]);
    assert_eq!(rig.balance(), (256, 256));
}

#[test]
fn an_address_given_twice_makes_one_packet() {
    let mut rig = rig(0);
    let addr = rig.kernel.take().unwrap();
    for _ in 0..3 {
        rig.kernel.give(good(addr, 60, false));
    }
    assert_eq!(rig.receive(), [60]);
    assert_eq!(rig.half.stats().bad_descriptors.get(), 2);
    assert_eq!(rig.balance(), (256, 256));
}

#[test]
fn each_bad_descriptor_of_a_packet_is_counted() {
    let mut rig = rig(0);
    let addr = rig.kernel.take().unwrap();
    let wild = Desc { addr: u64::MAX, len: 60, options: Desc::CONTINUED };
    rig.kernel.give(wild);
    rig.kernel.give(good(addr, 60, true));
    rig.kernel.give(Desc { options: 0, ..wild });
    assert!(rig.receive().is_empty());
    let stats = rig.half.stats();
    assert_eq!((stats.bad_descriptors.get(), stats.packets.get()), (2, 0));
    assert_eq!(rig.balance(), (256, 256));
}

#[test]
fn a_producer_index_gone_wild_does_no_harm() {
    let mut rig = rig(0);
    let addr = rig.kernel.take().unwrap();
    for _ in 0..RING {
        rig.kernel.give(Desc { addr, len: u32::MAX, options: Desc::CONTINUED });
    }
    for _ in 0..100 {
        assert!(rig.receive().is_empty());
    }
    assert_eq!(rig.balance(), (256, 256));
}

#[test]
fn the_fill_ring_is_topped_up_as_soon_as_there_are_frames() {
    let mut rig = rig(0);
    let mut taken: Vec<_> = std::iter::from_fn(|| rig.cache.take()).collect();
    assert_eq!(rig.half.stats().filled.get(), u64::from(RING));
    for _ in 0..RING {
        let addr = rig.kernel.take().unwrap();
        rig.kernel.give(good(addr, 60, false));
    }
    let mut held = Vec::new();
    while rig.half.receive(&mut rig.batch, &mut rig.cache) > 0 {
        held.extend(rig.batch.drain());
    }
    assert_eq!((held.len(), rig.half.stats().filled.get()), (RING as usize, 0));
    rig.cache.put(taken.pop().unwrap());
    assert!(rig.receive().is_empty());
    assert_eq!(rig.half.stats().filled.get(), 1);
    rig.cache.free_all(&mut held);
    rig.half.refill(&mut rig.cache);
    assert_eq!(rig.half.stats().filled.get(), u64::from(RING));
    taken.into_iter().for_each(|frame| rig.cache.put(frame));
    assert_eq!(rig.balance(), (256, 256));
}

#[test]
fn frames_filled_before_the_bind_are_counted_and_come_back() {
    let umem = Umem::create(UmemConfig { frames: 256, ..UmemConfig::default() }).unwrap();
    let (mut ring, mut kernel) = pair::<u64>(RING, 0);
    let mut filled = Filled::none(umem).unwrap();
    filled.fill(&mut ring, RING);
    assert_eq!(kernel.available(u32::MAX), RING);
    assert_eq!(umem.ledger().filled, u64::from(RING));
    assert_eq!(umem.ledger().at_rest(), 256);
    filled.undo();
    assert_eq!((umem.ledger().pool, umem.ledger().halves), (256, 0));
}
