//! Packets over real veth pairs through both halves of a socket: every one counted, every frame back.
//! Needs root; everything happens in namespaces of its own.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use support::{
    End, Port, Wire, assert_balanced, assert_idle, contents, eventually, in_mode, number, options,
    packet, umem,
};
use xvs_datapath::{DropReason, Nanos, Packet, RxQueue, TxQueue};
use xvs_netdev_afxdp::{
    BusyPoll, Device, FrameCache, NetdevOptions, Tunable, Umem, UmemConfig, XdpMode,
};

const LIMIT: Duration = Duration::from_secs(5);

/// Sends `n` packets of `len` bytes each way in bursts that no queue on the way overflows.
fn each_way(a: &mut End, b: &mut End, n: u32, len: usize) {
    for first in (0..n).step_by(50) {
        let burst = || (first..first + 50).map(|number| packet(number, len));
        assert_eq!((a.enqueue(burst()), b.enqueue(burst())), (50, 50));
        a.flush_all(LIMIT);
        b.flush_all(LIMIT);
        let expected: Vec<u32> = (first..first + 50).collect();
        assert_eq!(b.receive(), expected);
        assert_eq!(a.receive(), expected);
        assert_balanced(a.cache.umem());
    }
}

#[test]
fn ten_thousand_packets_each_way_are_all_counted() {
    for mode in [XdpMode::Native, XdpMode::Generic] {
        let wire = Wire::new("");
        let umem = umem(8192);
        let mut a = End::open(&wire.near, umem, in_mode("v1", mode));
        let mut b = End::open(&wire.far, umem, in_mode("e0", mode));
        assert_eq!((a.netdev.mode(), a.port.in_force.zero_copy), (mode, false));
        each_way(&mut a, &mut b, 10_000, 60);
        for end in [&mut a, &mut b] {
            end.reap_all(LIMIT);
            let (rx, tx) = (end.port.rx.stats(), end.port.tx.stats());
            assert_eq!((rx.packets.get(), rx.bytes.get()), (10_000, 600_000));
            assert_eq!((tx.packets.get(), tx.bytes.get()), (10_000, 600_000));
            assert_eq!((rx.bad_descriptors.get(), tx.bad_completions.get()), (0, 0));
            assert_eq!(end.port.drops.total(), 0);
            let kernel = end.port.kernel.read().unwrap();
            assert_eq!((kernel.rx_dropped, kernel.tx_invalid_descs), (0, 0));
        }
        a.close_all();
        b.close_all();
        assert_idle(umem);
    }
}

#[test]
fn packets_of_several_frames_go_through_whole() {
    for mode in [XdpMode::Native, XdpMode::Generic] {
        let wire = Wire::new("mtu 9000");
        let umem = umem(8192);
        let mut a = End::open(&wire.near, umem, in_mode("v1", mode));
        let mut b = End::open(&wire.far, umem, in_mode("e0", mode));
        each_way(&mut a, &mut b, 200, 9014);
        // One in the middle, byte for byte.
        let mut sent = packet(7, 9014);
        for (at, byte) in sent.iter_mut().enumerate().skip(50) {
            *byte = at.to_le_bytes()[0] ^ at.to_le_bytes()[1];
        }
        a.enqueue([sent.clone()]);
        a.flush_all(LIMIT);
        assert_eq!(b.port.rx.receive(&mut b.port.batch, &mut b.cache), 1);
        for packet in b.port.batch.drain() {
            assert_eq!(contents(&packet), sent);
            b.cache.free(packet);
        }
        assert_eq!(a.enqueue([packet(8, 9015)]), 1);
        assert_eq!((a.dropped(DropReason::Mtu), a.port.tx.queued()), (1, 0));
        a.close_all();
        b.close_all();
        assert_idle(umem);
    }
}

#[test]
fn small_frames_and_headroom_carry_the_same_packets() {
    for headroom in [0, 64, 1000] {
        let wire = Wire::new("mtu 3000");
        let config =
            UmemConfig { frames: 8192, frame_size: 2048, headroom, ..UmemConfig::default() };
        let umem = Umem::create(config).unwrap();
        let mut a = End::open(&wire.near, umem, in_mode("v1", XdpMode::Native));
        let mut b = End::open(&wire.far, umem, in_mode("e0", XdpMode::Native));
        for len in [60, 791, 793, 1500, 1793, 3014] {
            each_way(&mut a, &mut b, 100, len);
        }
        // The headroom is really there, and the first frame is as full as can be.
        a.enqueue([packet(0, 3014)]);
        a.flush_all(LIMIT);
        assert_eq!(b.port.rx.receive(&mut b.port.batch, &mut b.cache), 1);
        for mut packet in b.port.batch.drain() {
            assert_eq!(packet.head().len(), 2048 - 256 - headroom as usize);
            packet.push(256 - 24 + headroom as usize).unwrap();
            assert!(packet.push(1).is_err());
            b.cache.free(packet);
        }
        a.close_all();
        b.close_all();
        assert_idle(umem);
    }
}

#[test]
fn what_does_not_fit_the_tx_ring_is_dropped_one_by_one() {
    let wire = Wire::new("");
    let umem = umem(8192);
    let mut a = End::open(&wire.near, umem, NetdevOptions { tx_ring: 64, ..options("v1") });
    assert_eq!(a.enqueue((0..63).map(|n| packet(n, 60))), 63);
    assert_eq!(a.dropped(DropReason::TxFull), 0);
    assert_eq!(a.enqueue((63..74).map(|n| packet(n, 60))), 11);
    assert_eq!((a.port.tx.queued(), a.dropped(DropReason::TxFull)), (64, 10));
    assert_balanced(umem);
    a.flush_all(LIMIT);
    a.reap_all(LIMIT);
    assert_eq!((wire.arrived(), a.port.tx.stats().packets.get()), (64, 64));
    assert_eq!(a.enqueue((0..64).map(|n| packet(n, 60))), 64);
    assert_eq!(a.dropped(DropReason::TxFull), 10, "there is room again");
    a.flush_all(LIMIT);
    a.close_all();
    assert_idle(umem);
}

#[test]
fn a_packet_of_several_frames_fits_the_ring_whole_or_not_at_all() {
    let wire = Wire::new("mtu 9000");
    let umem = umem(8192);
    let mut a = End::open(&wire.near, umem, NetdevOptions { tx_ring: 64, ..options("v1") });
    // Three frames each: 21 packets are 63 frames.
    assert_eq!(a.enqueue((0..22).map(|n| packet(n, 9000))), 22);
    assert_eq!((a.port.tx.queued(), a.dropped(DropReason::TxFull)), (21, 1));
    assert_eq!(a.enqueue((22..24).map(|n| packet(n, 60))), 2);
    assert_eq!((a.port.tx.queued(), a.dropped(DropReason::TxFull)), (22, 2));
    a.flush_all(LIMIT);
    assert_eq!(wire.arrived(), 22);
    a.close_all();
    assert_idle(umem);
}

#[test]
fn the_tx_budget_is_what_one_call_takes() {
    let wire = Wire::new("");
    let umem = umem(8192);
    for (budget, expected) in [(Some(64), 64), (Some(32), 32), (Some(1024), 1024), (None, 256)] {
        let options = NetdevOptions { tx_budget: budget, ..options("v1") };
        let mut a = open_when_free(&wire, umem, options);
        assert_eq!((a.port.in_force.tx_budget, a.port.in_force.budget_supported), (expected, true));
        assert_eq!(a.enqueue((0..1024).map(|n| packet(n, 60))), 1024);
        a.flush();
        let stats = a.port.tx.stats();
        assert_eq!(a.port.tx.queued(), 0, "one pass sends all");
        assert_eq!(stats.max_per_kick.get(), u64::from(expected));
        assert_eq!(stats.kicks.get(), 1024 / u64::from(expected), "{stats:?}");
        a.close_all();
    }
    assert_idle(umem);
}

/// Opens `v1` again once the kernel has released the queue.
fn open_when_free(wire: &Wire, umem: &'static Umem, options: NetdevOptions<'static>) -> End {
    let ns = &wire.near;
    eventually("the queue is released", LIMIT, || {
        let bound = ns.enter(move || Ok(Device::find(options.name).unwrap().is_queue_bound(0)));
        bound.unwrap() == Some(false)
    });
    End::open(ns, umem, options)
}

#[test]
fn the_send_buffer_holds_a_full_ring_even_if_nothing_leaves() {
    for (mtu, len) in [(1500, 1514), (1500, 60), (3400, 3414)] {
        let wire = Wire::slow("rate 10gbit burst 1m limit 8m");
        wire.near.ip(&format!("link set v1 mtu {mtu}")).unwrap();
        wire.near.ip(&format!("link set m1 mtu {mtu}")).unwrap();
        let umem = umem(4096);
        let options = NetdevOptions { tx_budget: Some(1024), ..in_mode("m1", XdpMode::Generic) };
        let mut a = End::open(&wire.near, umem, options);
        let in_force = a.port.in_force;
        assert!(in_force.sndbuf >= in_force.sndbuf_full_ring(), "{in_force:?}");
        let stats = a.port.tx.stats();
        // A link that was fast may have all of the ring when it becomes slow.
        while stats.limit_bytes.get() <= 1024 * len as u64 {
            assert_eq!(a.enqueue((0..1024).map(|n| packet(n, len))), 1024);
            a.flush_all(LIMIT);
            a.reap_all(LIMIT);
        }
        wire.near.run("tc qdisc change dev v1 root tbf rate 8kbit burst 5k limit 8m").unwrap();
        assert_eq!(a.enqueue((0..1024).map(|n| packet(n, len))), 1024);
        a.flush();
        assert_eq!((a.port.tx.queued(), stats.eagain.get()), (0, 0), "{len}: {stats:?}");
        assert!(stats.kernel_frames.get() > 900, "they wait in the device's queue");
        assert_balanced(umem);
    }
}

#[test]
fn without_frames_packets_are_lost_but_never_the_traffic() {
    for mode in [XdpMode::Native, XdpMode::Generic] {
        let wire = Wire::new("");
        let (large, small) = (umem(4096), umem(64));
        let mut a = End::open(&wire.near, large, in_mode("v1", mode));
        let mut b =
            End::open(&wire.far, small, NetdevOptions { rx_ring: 64, ..in_mode("e0", mode) });
        assert_eq!(b.enqueue([packet(0, 60)]), 0, "all frames are with the kernel");
        assert_balanced(small);
        for round in 0..20u32 {
            let mut held = Vec::new();
            for burst in 0..4 {
                let first = round * 100 + burst * 25;
                a.enqueue((first..first + 25).map(|n| packet(n, 60)));
                a.flush_all(LIMIT);
                while b.port.rx.receive(&mut b.port.batch, &mut b.cache) > 0 {
                    held.extend(b.port.batch.drain());
                }
            }
            assert_eq!(held.len(), 64, "as many as there are frames");
            assert_eq!(number(&contents(&held[63])), round * 100 + 63, "the first ones");
            b.cache.free_all(&mut held);
            assert!(b.receive().is_empty(), "refills");
        }
        let kernel = b.port.kernel.read().unwrap();
        assert_eq!(b.port.rx.stats().packets.get(), 20 * 64);
        assert_eq!(kernel.rx_dropped, 20 * 36, "{kernel:?}");
        assert_eq!(kernel.rx_fill_ring_empty_descs, 20 * 36, "{kernel:?}");
        a.close_all();
        b.close_all();
        assert_idle(large);
        assert_idle(small);
    }
}

#[test]
fn a_packet_of_another_memory_is_copied_and_both_balance() {
    let wire = Wire::new("");
    let (here, there) = (umem(4096), umem(4096));
    let mut a = End::open(&wire.near, here, options("v1"));
    let mut cache = FrameCache::new(there, 0);
    let mut bin: Vec<_> = (0..100).map(|n| cache.packet(&packet(n, 60)).unwrap()).collect();
    let now = a.now();
    a.port.tx.enqueue(&mut bin, &mut cache, &a.port.drops, now);
    a.port.tx.flush(&mut cache, &a.port.drops, now);
    assert_eq!((a.port.tx.queued(), wire.arrived()), (0, 100));
    assert_eq!(a.port.tx.stats().foreign_copies.get(), 100);
    assert_balanced(here);
    drop(cache);
    assert_idle(there);
    a.close_all();
    assert_idle(here);
}

#[test]
fn halves_in_threads_of_their_own_share_the_memory() {
    const PACKETS: u64 = 30_000;
    let wire = Wire::new("");
    let umem = umem(4096);
    let mut ends = [("v1", &wire.near), ("e0", &wire.far)]
        .map(|(name, ns)| End::open(ns, umem, in_mode(name, XdpMode::Native)));
    for end in &mut ends {
        end.cache.give_back();
    }
    let done = AtomicUsize::new(0);
    let counts = std::thread::scope(|scope| {
        let threads: Vec<_> = ends
            .each_mut()
            .map(|end| {
                let Port { rx, tx, batch, drops, .. } = &mut end.port;
                let done = &done;
                let sender = scope.spawn(move || {
                    let mut cache = FrameCache::new(umem, 0);
                    let (start, mut sent) = (Instant::now(), 0);
                    while sent < PACKETS || tx.queued() > 0 {
                        let now = Nanos(u64::try_from(start.elapsed().as_nanos()).unwrap());
                        let mut bin: Vec<_> = (0..32.min(PACKETS - sent))
                            .map_while(|_| cache.packet(&packet(7, 60)))
                            .collect();
                        sent += bin.len() as u64;
                        tx.enqueue(&mut bin, &mut cache, drops, now);
                        tx.flush(&mut cache, drops, now);
                        assert!(start.elapsed() < Duration::from_secs(30), "stalled: {tx:?}");
                    }
                    done.fetch_add(1, Ordering::Relaxed);
                    (tx.stats().packets.get(), drops.total())
                });
                let receiver = scope.spawn(move || {
                    let (mut cache, mut idle) = (FrameCache::new(umem, 0), 0);
                    while done.load(Ordering::Relaxed) < 2 || idle < 100 {
                        idle = if rx.receive(batch, &mut cache) > 0 { 0 } else { idle + 1 };
                        for packet in batch.drain() {
                            assert_eq!(number(&contents(&packet)), 7);
                            cache.free(packet);
                        }
                        if idle > 0 {
                            std::thread::sleep(Duration::from_micros(50));
                        }
                    }
                    rx.stats().packets.get()
                });
                (sender, receiver)
            })
            .into_iter()
            .collect();
        threads
            .into_iter()
            .map(|(sender, receiver)| (sender.join().unwrap(), receiver.join().unwrap()))
            .collect::<Vec<_>>()
    });
    for (at, &((sent, dropped), received)) in counts.iter().enumerate() {
        assert_eq!(sent + dropped, PACKETS);
        let stats = ends[at].port.rx.stats();
        assert_eq!((received, stats.bad_descriptors.get()), (stats.packets.get(), 0));
        let lost = ends[at].port.kernel.read().unwrap().rx_dropped;
        let ((sent, _), _) = counts[1 - at];
        assert!(received > 0 && received + lost <= sent, "{counts:?}, {lost}");
    }
    for end in &mut ends {
        end.reap_all(LIMIT);
    }
    assert_balanced(umem);
    for end in ends {
        end.close_all();
    }
    assert_idle(umem);
}

#[test]
fn what_the_kernel_makes_of_batched_sends_and_busy_polling_is_reported() {
    let wire = Wire::new("");
    let busy_poll = Some(BusyPoll { us: 20, budget: 16, prefer: true });
    let wanted = NetdevOptions { xmit_batch: 64, tx_budget: Some(32), busy_poll, ..options("v1") };
    let mut a = End::open(&wire.near, umem(2048), wanted);
    let in_force = a.port.in_force;
    // A batch is never larger than the budget.
    assert!(
        matches!(in_force.xmit_batch, Tunable::InForce(32) | Tunable::Unsupported),
        "{in_force:?}"
    );
    assert_eq!(in_force.busy_poll_us, Tunable::InForce(20));
    assert_eq!(in_force.busy_poll_budget, Tunable::InForce(16));
    assert_eq!(in_force.prefer_busy_poll, Tunable::InForce(1));
    let mut b = End::open(&wire.far, umem(2048), options("e0"));
    assert_eq!(b.port.in_force.busy_poll_us, Tunable::Off);
    b.enqueue((0..100).map(|number| packet(number, 60)));
    b.flush_all(LIMIT);
    let mut numbers = Vec::new();
    eventually("all arrive", LIMIT, || {
        numbers.extend(a.receive());
        numbers.len() == 100
    });
    a.receive();
    assert!(a.port.rx.stats().wakeups.get() > 0, "an empty ring polls the device");
    b.receive();
    assert_eq!(b.port.rx.stats().wakeups.get(), 0);
    a.close_all();
    b.close_all();
}
