//! The transmit half against a kernel made of the other ends of its rings: what is counted, what comes back.
//! The socket is none, so that every call fails; progress is what the rings show.
#![allow(clippy::cast_possible_truncation, reason = "tests")]

use std::fs::File;

use proptest::prelude::*;
use xvs_datapath::Layers;
use xvs_datapath::testing::{Csum, PacketBuilder};

use xvs_tests::ns::Netns;
use xvs_tests::scratch::Scratch;

use super::*;
use crate::ring::tests::pair;
use crate::{Netdev, NetdevOptions, UmemConfig, UmemGroups};

const RING: u32 = 64;

struct Rig {
    half: XskTx,
    /// The kernel's ends of the rings.
    tx: Consumer<Desc>,
    completion: Producer<u64>,
    /// What the kernel took and has not completed.
    taken: Vec<u64>,
    cache: FrameCache,
    drops: DropCounters,
    now: Nanos,
}

fn rig(start: u32) -> Rig {
    let umem = Umem::create(UmemConfig { frames: 256, ..UmemConfig::default() }).unwrap();
    let (to_kernel, tx) = pair::<Desc>(RING, start);
    let (completion, from_kernel) = pair::<u64>(RING, start);
    let in_force = InForce { tx_budget: 32, tx_metadata: true, ..InForce::default() };
    let link = Arc::new(LinkState::new(true, 9000));
    let socket = Arc::new(Socket::new(File::open("/dev/null").unwrap().into()));
    let half = XskTx::new(umem, (to_kernel, from_kernel), &in_force, (link, socket)).unwrap();
    let cache = FrameCache::new(umem, 0);
    let drops = DropCounters::default();
    Rig { half, tx, completion, taken: Vec::new(), cache, drops, now: Nanos(0) }
}

impl Rig {
    /// Puts packets of `len` bytes into the ring; how many were made.
    fn enqueue(&mut self, n: usize, len: usize) -> u64 {
        let bytes = vec![0; len];
        let mut bin: Vec<_> = (0..n).map_while(|_| self.cache.packet(&bytes)).collect();
        let made = bin.len() as u64;
        self.half.enqueue(&mut bin, &mut self.cache, &self.drops, self.now);
        made
    }

    fn flush(&mut self) {
        self.now = Nanos(self.now.0 + 1_000_000);
        self.half.flush(&mut self.cache, &self.drops, self.now);
    }

    /// The kernel takes `n` descriptors.
    fn take(&mut self, n: u32) {
        let n = self.tx.available(u32::MAX).min(n);
        self.taken.extend((0..n).map(|at| self.tx.peek(at).addr));
        self.tx.release(n);
    }

    /// The kernel completes an address.
    fn complete(&mut self, addr: u64) {
        assert!(self.completion.push(addr), "more comes back than fits");
        self.completion.submit();
    }

    fn balance(&self) -> (u64, u64) {
        let ledger = self.cache.umem().ledger();
        (ledger.at_rest(), ledger.frames)
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Enqueue(usize, usize),
    Take(u32),
    /// Completes so many of what was taken, from this one on.
    Complete(usize, usize),
    /// Completes what is not this queue's.
    Lie(u64),
    Flush,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        (1..20usize, 60..12_000usize).prop_map(|(n, len)| Step::Enqueue(n, len)),
        (1..70u32).prop_map(Step::Take),
        (any::<usize>(), 1..70usize).prop_map(|(from, n)| Step::Complete(from, n)),
        prop_oneof![any::<u64>(), 0..256 * 4096u64].prop_map(Step::Lie),
        Just(Step::Flush),
    ];
    prop::collection::vec(step, 1..100)
}

#[test]
fn each_completion_that_is_none_is_counted_and_no_frame_comes_of_it() {
    let mut rig = rig(0);
    let stats = rig.half.stats();
    assert_eq!(rig.enqueue(3, 60), 3);
    rig.take(3);
    rig.flush();
    let [first, second, third] = rig.taken[..] else { panic!("{:?}", rig.taken) };
    let free = rig.cache.take().unwrap().into_index();
    let unlent = u64::from(free) * 4096;
    // The second time it is not lent any more, and the last two never were.
    for addr in [first, first, unlent, 1 << 40] {
        rig.complete(addr);
    }
    rig.flush();
    assert_eq!((stats.bad_completions.get(), stats.kernel_frames.get()), (3, 2));
    for addr in [second, third] {
        rig.complete(addr);
    }
    rig.flush();
    assert_eq!((stats.bad_completions.get(), stats.kernel_frames.get()), (3, 0));
    rig.cache.put(crate::frame::Frame::claim(free));
    let (at_rest, frames) = rig.balance();
    assert_eq!(at_rest, frames);
}

proptest! {
    /// Each packet is queued, sent or dropped, and each frame somewhere, whatever comes back and when.
    #[test]
    fn every_packet_is_counted_once_and_every_frame_is_somewhere(
        steps in steps(), start in prop_oneof![Just(0), Just(u32::MAX - 30), any::<u32>()],
    ) {
        let mut rig = rig(start);
        let (stats, mut made, mut lies) = (rig.half.stats(), 0, 0);
        for step in steps {
            match step {
                Step::Enqueue(n, len) => made += rig.enqueue(n, len),
                Step::Take(n) => rig.take(n),
                Step::Complete(from, n) => for _ in 0..n.min(rig.taken.len()) {
                    let addr = rig.taken.swap_remove(from % rig.taken.len());
                    rig.complete(addr);
                },
                // A kernel that lies within what is lent cannot be told from one that is quick.
                Step::Lie(addr) if addr >= 256 * 4096 => {
                    // A queue to which nothing is lent does not look.
                    let looks = rig.half.side.lent.count() > 0;
                    if looks && rig.completion.free(u32::MAX) > RING / 2 {
                        rig.complete(addr);
                        lies += 1;
                        rig.flush();
                    }
                }
                Step::Lie(_) => {}
                Step::Flush => rig.flush(),
            }
            prop_assert_eq!(rig.balance(), (256, 256));
            prop_assert_eq!(stats.packets.get() + rig.drops.total() + rig.half.queued() as u64, made);
            prop_assert!(stats.bad_completions.get() <= lies);
        }
        let Rig { half, cache, mut taken, drops, mut completion, .. } = rig;
        // What was taken and not seen yet is counted at the end.
        let (umem, mut cache) = (cache.umem(), cache);
        if let Some(addr) = taken.pop() {
            prop_assert!(completion.push(addr));
            completion.submit();
        }
        let left = half.close(&mut cache, &drops);
        prop_assert_eq!(stats.packets.get() + drops.total(), made);
        let ledger = umem.ledger();
        prop_assert_eq!((ledger.at_rest(), ledger.quarantined), (256, u64::from(left.count())));
        left.reclaim().unwrap();
        drop(cache);
        prop_assert_eq!(umem.ledger().pool, 256);
    }
}

/// A TCP or UDP packet of 6000 bytes of payload from a port whose MTU is 1500; to one of 9000.
fn oversized(rig: &mut Rig, tcp: bool, csum: Csum) -> u64 {
    let ip = PacketBuilder::new().ipv4([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
    let transport = if tcp { ip.tcp(1, 2) } else { ip.udp(1, 2) };
    let bytes = transport.payload_len(6000).csum(csum).build();
    let mut packet = rig.cache.packet(&bytes).unwrap();
    packet.set_layers(Layers { l3: 14, l4: 34 });
    packet.exceeds(1500);
    rig.half.enqueue(&mut vec![packet], &mut rig.cache, &rig.drops, Nanos(0));
    rig.half.stats().queued.get()
}

#[test]
fn what_exceeds_its_own_mtu_is_cut_or_refused_only_if_it_was_left_to_be_cut() {
    let mut rig = rig(0);
    assert_eq!(oversized(&mut rig, true, Csum::Partial), 5);
    assert_eq!(rig.half.stats().segments.get(), 4);
    assert_eq!(oversized(&mut rig, true, Csum::Full), 6);
    assert_eq!(oversized(&mut rig, false, Csum::Full), 7);
    assert_eq!(oversized(&mut rig, false, Csum::Partial), 7);
    assert_eq!((rig.drops.get(DropReason::Unsegmented), rig.drops.total()), (1, 1));
    rig.half.side.link.set_mtu(1400);
    assert_eq!(oversized(&mut rig, true, Csum::Partial), 12);
    assert_eq!(oversized(&mut rig, true, Csum::Full), 12);
    assert_eq!((rig.drops.get(DropReason::Mtu), rig.half.stats().segments.get()), (1, 8));
    let taken: Vec<_> = std::iter::from_fn(|| rig.cache.take()).collect();
    assert_eq!(rig.balance().0, 256 - taken.len() as u64);
    taken.into_iter().for_each(|frame| rig.cache.put(frame));
    assert_eq!(rig.balance(), (256, 256));
}

#[test]
fn segments_for_which_frames_are_short_are_not_begun() {
    let mut rig = rig(0);
    let mut held: Vec<_> = std::iter::from_fn(|| rig.cache.take()).collect();
    (0..6).for_each(|_| rig.cache.put(held.pop().unwrap()));
    // Two frames are the packet's, four are left, five are needed.
    assert_eq!(oversized(&mut rig, true, Csum::Partial), 0);
    assert_eq!((rig.drops.get(DropReason::NoFrame), rig.half.stats().segments.get()), (1, 0));
    rig.cache.put(held.pop().unwrap());
    assert_eq!(oversized(&mut rig, true, Csum::Partial), 5);
    held.into_iter().for_each(|frame| rig.cache.put(frame));
    assert_eq!(rig.balance(), (256, 256));
}

#[test]
fn a_frame_completed_twice_comes_back_once() {
    let mut rig = rig(0);
    rig.enqueue(2, 60);
    rig.take(2);
    let addr = rig.taken[0];
    for _ in 0..3 {
        rig.complete(addr);
    }
    rig.flush();
    assert_eq!(rig.half.stats().bad_completions.get(), 2);
    assert_eq!(rig.half.stats().kernel_frames.get(), 1);
    assert_eq!(rig.balance(), (256, 256));
}

#[test]
fn a_call_that_fails_is_repeated_by_timer_and_costs_nothing() {
    let mut rig = rig(0);
    rig.enqueue(5, 60);
    let stats = rig.half.stats();
    for _ in 0..10 {
        rig.half.flush(&mut rig.cache, &rig.drops, Nanos(5));
    }
    assert_eq!((stats.kicks.get(), stats.errors.get(), rig.half.queued()), (1, 1, 5));
    assert_eq!(rig.half.verdict(), Verdict::Failed(libc::ENOTSOCK));
    let wake = rig.half.next_wake(Nanos(5)).unwrap();
    rig.half.flush(&mut rig.cache, &rig.drops, wake);
    assert_eq!(stats.kicks.get(), 2);
    rig.half.side.link.set_carrier(false);
    let later = Nanos(wake.0 + 1_000_000_000);
    rig.half.flush(&mut rig.cache, &rig.drops, later);
    assert_eq!(stats.kicks.get(), 2, "no call without carrier");
    assert!(rig.half.next_wake(later).unwrap() > later, "and no spinning");
}

#[test]
fn a_queue_with_completions_open_is_drained_without_a_call() {
    let mut rig = rig(0);
    rig.enqueue(RING as usize, 60);
    rig.take(RING);
    rig.flush();
    let stats = rig.half.stats();
    assert_eq!((stats.kicks.get(), stats.kernel_frames.get()), (0, u64::from(RING)));
    assert_eq!(rig.enqueue(1, 60), 1);
    assert_eq!(rig.drops.get(DropReason::TxFull), 1, "it could not come back");
    for addr in std::mem::take(&mut rig.taken) {
        rig.complete(addr);
    }
    rig.flush();
    assert_eq!((stats.kicks.get(), stats.kernel_frames.get()), (0, 0));
    assert_eq!((stats.packets.get(), rig.half.queued()), (u64::from(RING), 0));
}

#[test]
fn a_checksum_request_lies_before_the_packet_and_only_there() {
    let mut rig = rig(0);
    // IPv4 and UDP whose checksum is the pseudo-header's sum.
    let mut bytes = vec![0; 62];
    bytes[12..14].copy_from_slice(&[8, 0]);
    bytes[14..18].copy_from_slice(&[0x45, 0, 0, 48]);
    bytes[23] = 17;
    bytes[26..34].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
    bytes[38..40].copy_from_slice(&[0, 28]);
    let sum: u32 = 0x0a00 + 1 + 0x0a00 + 2 + 17 + 28;
    bytes[40..42].copy_from_slice(&(sum as u16).to_be_bytes());
    let mut bin = Vec::new();
    for _ in 0..2 {
        let mut packet = rig.cache.packet(&bytes).unwrap();
        packet.set_layers(Layers { l3: 14, l4: 34 });
        packet.metadata_mut().fill(0xff);
        bin.push(packet);
        // The next is without.
        bytes[41] ^= 1;
    }
    rig.half.enqueue(&mut bin, &mut rig.cache, &rig.drops, Nanos(0));
    let stats = rig.half.stats();
    assert_eq!((stats.csum_requests.get(), stats.csum_software.get()), (1, 0));
    assert_eq!(rig.tx.available(2), 2);
    assert_eq!((rig.tx.peek(0).options, rig.tx.peek(1).options), (Desc::METADATA, 0));
    assert_eq!((rig.tx.peek(0).len, rig.tx.peek(0).addr % 4096), (62, 256));
    rig.take(2);
    let addr = rig.taken[0];
    rig.complete(addr);
    rig.flush();
    // The frame is at hand again, as it was.
    let frame = rig.cache.take().unwrap();
    let mut packet = XskPacket::new(rig.cache.umem(), frame, 256, 62).unwrap();
    let expected = [&2u64.to_ne_bytes()[..], &34u16.to_ne_bytes(), &6u16.to_ne_bytes()].concat();
    assert_eq!(packet.metadata_mut()[..12], expected);
    assert_eq!(packet.metadata_mut()[12..], [0; 12]);
    rig.cache.free(packet);
}

#[test]
fn a_real_kernel_that_refuses_a_request_for_good_is_left_alone() {
    let scratch = Scratch::new().unwrap();
    let ns = Netns::new(&scratch, "broken").unwrap();
    ns.ip("link add v1 type veth peer name v2").unwrap();
    ns.ip("link set v1 up").unwrap();
    ns.ip("link set v2 up").unwrap();
    let umem = Umem::create(UmemConfig { frames: 256, ..UmemConfig::default() }).unwrap();
    let options = NetdevOptions { rx_ring: 64, tx_ring: 64, ..NetdevOptions::new("v1") };
    let opened = ns.enter(move || Ok(Netdev::open(&mut UmemGroups::new(umem), &options).unwrap()));
    let (_netdev, mut sockets) = opened.unwrap();
    let xsk = sockets.remove(0).1;
    let (rx, mut half) = (xsk.rx.unwrap(), xsk.tx.unwrap());
    let (mut cache, drops) = (FrameCache::new(umem, 0), DropCounters::default());

    // What finish_checksum never makes: a checksum beyond the packet.
    let mut packet = cache.packet(&[0; 60]).unwrap();
    let request = [&2u64.to_ne_bytes()[..], &60u16.to_ne_bytes(), &6u16.to_ne_bytes()].concat();
    packet.metadata_mut()[..12].copy_from_slice(&request);
    packet.into_frames(|frame| {
        let addr = half.side.lent.lend(frame) + u64::from(umem.rx_offset());
        assert!(half.side.tx.push(Desc { addr, len: 60, options: Desc::METADATA }));
    });
    half.side.count.queued += 1;
    let mut bin = vec![cache.packet(&[0; 60]).unwrap(), cache.packet(&[0; 60]).unwrap()];
    half.enqueue(&mut bin, &mut cache, &drops, Nanos(0));

    let stats = half.stats();
    for pass in 0..10 {
        half.flush(&mut cache, &drops, Nanos(pass * 1_000_000_000));
        assert_eq!((half.verdict(), stats.kicks.get()), (Verdict::Broken, 1), "pass {pass}");
    }
    assert_eq!((stats.stopped.get(), stats.packets.get(), half.queued()), (1, 0, 3));
    let left = half.close(&mut cache, &drops);
    assert_eq!((drops.get(DropReason::TxFlushed), left.count()), (3, 3));
    drop(rx);
    assert_eq!(left.reclaim().unwrap(), 3);
    drop(cache);
    assert_eq!((umem.ledger().pool, umem.ledger().halves), (256, 0));
}

/// A ring with packets of these many descriptors, each of 10 bytes; its other end.
fn ring_of(packets: &[u32]) -> (Producer<Desc>, Consumer<Desc>, Count) {
    let (mut producer, consumer) = pair::<Desc>(RING, u32::MAX - 3);
    let count = Count { index: producer.index(), ..Count::default() };
    for &n in packets {
        for at in 1..=n {
            let options = if at < n { Desc::CONTINUED } else { 0 };
            assert!(producer.push(Desc { addr: 0, len: 10, options }));
        }
    }
    producer.submit();
    (producer, consumer, Count { queued: packets.len() as u32, ..count })
}

fn taken(packets: u32, bytes: u64, dropped: u32) -> Taken {
    Taken { packets, bytes, dropped }
}

#[test]
fn a_drop_is_the_last_packet_that_the_call_took() {
    let (producer, mut kernel, mut count) = ring_of(&[1, 1, 2]);
    kernel.release(4);
    assert_eq!(count.advance(&producer, true), taken(2, 20, 1));
    assert_eq!((count.queued, count.owed_drops), (0, 0));
}

#[test]
fn drops_that_are_not_published_are_the_first_of_what_is() {
    let (producer, mut kernel, mut count) = ring_of(&[2, 1, 1, 3]);
    for _ in 0..2 {
        assert_eq!(count.advance(&producer, true), taken(0, 0, 0));
    }
    assert_eq!((count.queued, count.owed_drops), (4, 2));
    kernel.release(4);
    assert_eq!(count.advance(&producer, false), taken(1, 10, 2));
    kernel.release(3);
    assert_eq!(count.advance(&producer, true), taken(0, 0, 1));
    assert_eq!((count.queued, count.owed_drops), (0, 0));
}

#[test]
fn a_packet_counts_when_its_last_descriptor_is_taken() {
    let (producer, mut kernel, mut count) = ring_of(&[3, 1]);
    kernel.release(2);
    assert_eq!(count.advance(&producer, false), taken(0, 0, 0));
    // Given back in the middle, and taken again.
    kernel.release(2u32.wrapping_neg());
    assert_eq!(count.advance(&producer, false), taken(0, 0, 0));
    kernel.release(3);
    assert_eq!(count.advance(&producer, false), taken(1, 30, 0));
    kernel.release(1);
    assert_eq!(count.advance(&producer, false), taken(1, 10, 0));
    assert_eq!(count.queued, 0);
}
