//! The life of real sockets: busy queues, failed opens, closing with frames in flight, devices that vanish,
//! change or refuse. Needs root; everything happens in namespaces of its own.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::sync::Arc;
use std::time::Duration;

use support::{
    End, Wire, assert_balanced, assert_idle, eventually, in_mode, open, options, packet, umem,
};
use xvs_datapath::{DropReason, Nanos, QueueId, RxQueue, TxQueue};
use xvs_netdev_afxdp::{
    Device, Drain, Error, FrameCache, LinkState, Mode, NetdevOptions, Umem, UmemGroup, UmemGroups,
    Verdict, XdpMode, Xsk, XskConfig,
};
use xvs_tests::ns::Netns;
use xvs_tests::raw::RawSocket;

const LIMIT: Duration = Duration::from_secs(5);

/// A socket on a queue without any program.
fn bind(ns: &Netns, mut group: UmemGroup, queue: u32) -> (UmemGroup, Result<Xsk, Error>) {
    ns.enter(move || {
        let device = Device::find("v1").unwrap();
        let config = XskConfig {
            port: device.name,
            ifindex: device.ifindex,
            queue: QueueId(queue),
            n_tx_queues: None,
            rx_ring: 64,
            tx_ring: 64,
            tx_budget: None,
            sndbuf: None,
            xmit_batch: 0,
            busy_poll: None,
            mtu: device.mtu,
        };
        let xsk = group.open(&config, Arc::new(LinkState::new(true, device.mtu)));
        Ok((group, xsk))
    })
    .unwrap()
}

fn is_bound(ns: &Netns, queue: u32) -> Option<bool> {
    ns.enter(move || Ok(Device::find("v1").unwrap().is_queue_bound(queue))).unwrap()
}

#[test]
fn a_second_binder_is_told_which_queue_is_taken_and_what_to_do() {
    let wire = Wire::new("");
    let (ours, theirs) = (umem(256), umem(256));
    let (group, first) = bind(&wire.near, UmemGroup::new(ours, Mode::Copy, true), 0);
    let first = first.unwrap();
    let (group, beyond) = bind(&wire.near, group, 9);
    assert!(matches!(beyond.unwrap_err(), Error::NoSuchQueue { queue: 9, .. }));
    // Once over the same packet memory, once over another as in another process.
    let (_, same) = bind(&wire.near, group, 0);
    let (_, other) = bind(&wire.near, UmemGroup::new(theirs, Mode::Copy, true), 0);
    for error in [same.unwrap_err(), other.unwrap_err()] {
        assert!(matches!(error, Error::QueueBusy { queue: 0, .. }), "{error}");
        let text = error.to_string();
        assert!(text.contains("queue 0 of v1") && text.contains("stop whoever has it"), "{text}");
    }
    assert_ne!(is_bound(&wire.near, 0), Some(false));
    drop(first);
    assert_idle(ours);
    assert_idle(theirs);
    let mut group = Some(UmemGroup::new(theirs, Mode::Copy, true));
    eventually("the queue comes free", LIMIT, || {
        let (back, xsk) = bind(&wire.near, group.take().unwrap(), 0);
        group = Some(back);
        xsk.is_ok()
    });
}

#[test]
fn an_open_that_fails_half_way_leaves_nothing() {
    let wire = Wire::new("numrxqueues 4 numtxqueues 4");
    wire.near.run("ethtool -L v1 rx 4 tx 4").unwrap();
    let (ours, theirs) = (umem(8192), umem(256));
    let (_, theirs_on_2) = bind(&wire.near, UmemGroup::new(theirs, Mode::Copy, true), 2);
    let theirs_on_2 = theirs_on_2.unwrap();
    let mut groups = Some(UmemGroups::new(ours));
    let all = NetdevOptions { n_rxq: 4, ..options("v1") };
    let mut again = || {
        let (back, opened) = open(&wire.near, groups.take().unwrap(), all);
        groups = Some(back);
        opened
    };
    for _ in 0..3 {
        let error = again().map(|_| ()).unwrap_err();
        assert!(matches!(error, Error::QueueBusy { queue: 0..=2, .. }), "{error}");
        assert_idle(ours);
        let link = wire.near.ip("-d link show dev v1").unwrap();
        assert!(!link.contains("xdp"), "the program is taken off: {link}");
    }
    drop(theirs_on_2);
    let mut opened = None;
    eventually("all queues come free", LIMIT, || {
        opened = again().ok();
        opened.is_some()
    });
    let (_netdev, ports) = opened.unwrap();
    assert_eq!(ports.iter().map(|port| port.queue).collect::<Vec<_>>(), [0, 1, 2, 3]);
    assert_eq!(ours.ledger().halves, 8);
}

#[test]
fn closing_brings_every_frame_back_and_counts_every_packet() {
    for mode in [XdpMode::Native, XdpMode::Generic] {
        let wire = Wire::new("");
        let umem = umem(4096);
        let mut a = End::open(&wire.near, umem, in_mode("v1", mode));
        a.enqueue((0..300).map(|n| packet(n, 60)));
        a.flush_all(LIMIT);
        assert_eq!(a.enqueue((0..200).map(|n| packet(n, 60))), 200);
        let (rx, tx) = (a.port.rx.stats(), a.port.tx.stats());
        let (kernel, now) = (a.port.kernel.clone(), a.now());
        // One half after the other: the first waits for the second.
        a.netdev.leave();
        let queue = QueueId(0);
        let End { netdev, port, mut cache, .. } = a;
        let received = port.rx.close();
        assert_eq!((received.count(), rx.filled.get()), (1024, 0));
        assert_eq!(umem.ledger().quarantined, 1024);
        let mut received = netdev.drain(queue, received);
        assert!(!received.reclaim(), "the other half is open");
        assert_balanced(umem);
        let sent = port.tx.close(&mut cache, &port.drops);
        assert_eq!(port.drops.get(DropReason::TxFlushed), 200, "{now:?}");
        assert_eq!((tx.packets.get(), tx.queued.get(), tx.queued_frames.get()), (300, 0, 0));
        assert_eq!(sent.count(), 200);
        assert_balanced(umem);
        assert_eq!(kernel.read(), None, "the socket is closed");
        for mut drain in [received, netdev.drain(queue, sent)] {
            assert!(drain.reclaim());
        }
        drop(cache);
        assert_idle(umem);
        assert_eq!(wire.arrived(), 300);
    }
}

#[test]
fn a_socket_without_frames_leaves_no_number_behind() {
    let wire = Wire::new("");
    let umem = umem(256);
    for round in 0..20 {
        let mut group = Some(UmemGroup::new(umem, Mode::Copy, true));
        let mut xsk = None;
        eventually("the queue comes free", LIMIT, || {
            let (back, bound) = bind(&wire.near, group.take().unwrap(), 0);
            group = Some(back);
            xsk = bound.ok();
            xsk.is_some()
        });
        let Xsk { rx, tx, .. } = xsk.unwrap();
        assert_eq!(umem.ledger().halves, 2);
        if round % 2 == 0 {
            // Closed, and what is quarantined, which is nothing, forgotten or reclaimed.
            let rx = rx.unwrap().close();
            drop(tx);
            assert_eq!(rx.reclaim().unwrap(), 0);
        } else {
            drop(rx.unwrap().close());
        }
    }
    assert_idle(umem);
}

/// Tries to take frames back as the daemon does, from the port's namespace; what still waits.
fn reclaim(ns: &Netns, mut drains: Vec<Drain>) -> Vec<Drain> {
    ns.enter(move || {
        drains.retain_mut(|drain| !drain.reclaim());
        Ok(drains)
    })
    .unwrap()
}

#[test]
fn frames_in_a_devices_queue_are_kept_until_the_queue_is_unbound() {
    // Of a device that is down the kernel does not tell whether a queue is bound.
    for state in ["up", "down"] {
        let wire = Wire::slow("rate 8kbit burst 5k limit 8m");
        let umem = umem(4096);
        let mut a = End::open(&wire.near, umem, in_mode("m1", XdpMode::Generic));
        a.enqueue((0..500).map(|n| packet(n, 1000)));
        a.flush();
        let taken = a.port.tx.stats().packets.get();
        assert!(taken >= 60, "{taken} packets went to the kernel");
        let (drains, drops) = a.close();
        assert_eq!((drops.total(), drops.get(DropReason::TxFlushed)), (500 - taken, 500 - taken));
        let drains = reclaim(&wire.near, drains);
        assert_eq!(drains.len(), 2, "the device has the packets");
        assert!(umem.ledger().quarantined >= 1024 + taken - 6, "{:?}", umem.ledger());
        assert_balanced(umem);
        wire.near.ip("link set m1 down").unwrap();
        wire.near.ip("link set m1 name n1").unwrap();
        wire.near.ip(&format!("link set n1 {state}")).unwrap();
        let mut drains = reclaim(&wire.near, drains);
        assert_eq!(drains.len(), 2, "another name changes nothing");
        wire.near.run("tc qdisc del dev v1 root").unwrap();
        eventually("the kernel lets go", LIMIT, || {
            drains = reclaim(&wire.near, std::mem::take(&mut drains));
            drains.is_empty()
        });
        assert_idle(umem);
    }
}

#[test]
fn a_device_that_is_deleted_ends_its_sockets_and_frees_their_frames() {
    let wire = Wire::new("");
    let umem = umem(4096);
    for (command, name) in [("link del v1", "deleted"), ("link set v1 netns FAR", "moved")] {
        let mut a = End::open(&wire.near, umem, options("v1"));
        a.enqueue((0..10).map(|n| packet(n, 60)));
        a.flush_all(LIMIT);
        wire.near.ip(&command.replace("FAR", wire.far.name())).unwrap();
        assert_eq!(a.enqueue((0..10).map(|n| packet(n, 60))), 10);
        a.flush();
        assert_eq!(a.port.tx.verdict(), Verdict::Unbound, "{name}");
        assert_eq!(a.port.tx.stats().stopped.get(), 1);
        assert_eq!(a.port.tx.next_wake(a.now()), None, "nothing to wait for");
        let kicks = a.port.tx.stats().kicks.get();
        assert_eq!(a.enqueue((0..5).map(|n| packet(n, 60))), 5);
        a.flush();
        assert_eq!(a.dropped(DropReason::PortDown), 5);
        assert_eq!(a.port.tx.stats().kicks.get(), kicks, "no call is made any more");
        assert!(a.receive().is_empty());
        let (drains, drops) = a.close();
        assert_eq!(drops.get(DropReason::TxFlushed), 10);
        assert_eq!((drops.total(), drains.len()), (15, 2));
        for mut drain in drains {
            assert!(drain.reclaim(), "{name}");
        }
        assert_idle(umem);
        if name == "deleted" {
            wire.connect("");
        }
    }
}

#[test]
fn a_group_outlives_devices_that_its_members_were_bound_to() {
    let wire = Wire::new("");
    let umem = umem(4096);
    let (groups, first) = open(&wire.near, UmemGroups::new(umem), options("v1"));
    let first = first.unwrap();
    wire.near.ip("link del v1").unwrap();
    wire.connect("");
    let (groups, second) = open(&wire.near, groups, options("v1"));
    let second = second.unwrap();
    assert_eq!(umem.ledger().halves, 4);
    // And one that joins a living member, on another device.
    let (_, third) = open(&wire.far, groups, options("e0"));
    let third = third.unwrap();
    drop((first, second, third));
    assert_idle(umem);
}

#[test]
fn a_rename_changes_nothing_and_down_keeps_what_is_queued() {
    let wire = Wire::new("");
    let umem = umem(4096);
    let mut a = End::open(&wire.near, umem, options("v1"));
    wire.near.ip("link set v1 down").unwrap();
    wire.near.ip("link set v1 name w1").unwrap();
    a.enqueue((0..10).map(|n| packet(n, 60)));
    a.flush();
    assert_eq!((a.port.tx.verdict(), a.port.tx.queued()), (Verdict::Down, 10));
    let kicks = a.port.tx.stats().kicks.get();
    for _ in 0..1000 {
        a.flush();
    }
    assert!(a.port.tx.stats().kicks.get() <= kicks + 1, "it waits for its timer");
    wire.near.ip("link set w1 up").unwrap();
    a.flush_all(LIMIT);
    assert_eq!((wire.arrived(), a.port.drops.total()), (10, 0));
    a.close_all();
    assert_idle(umem);
}

#[test]
fn without_carrier_packets_are_dropped_here_and_with_a_stale_one_by_the_kernel() {
    let wire = Wire::new("");
    let umem = umem(4096);
    let mut a = End::open(&wire.near, umem, options("v1"));
    wire.far.ip("link set e0 down").unwrap();
    // The main thread has not noticed yet: each call costs a packet, and says so.
    assert_eq!(a.enqueue((0..20).map(|n| packet(n, 60))), 20);
    a.flush();
    let stats = a.port.tx.stats();
    assert_eq!((stats.ebusy.get(), stats.kicks.get()), (8, 8), "at most 8 in one pass");
    a.flush();
    a.flush();
    assert_eq!((stats.ebusy.get(), a.port.tx.queued()), (20, 0), "{stats:?}");
    assert_eq!((a.dropped(DropReason::TxBusy), stats.packets.get()), (20, 0));

    // Queued when the news comes: it waits. New packets are dropped without a call.
    a.enqueue((0..3).map(|n| packet(n, 60)));
    a.netdev.link().set_carrier(false);
    a.enqueue((3..10).map(|n| packet(n, 60)));
    let kicks = stats.kicks.get();
    for _ in 0..100 {
        a.flush();
    }
    assert_eq!((a.dropped(DropReason::NoCarrier), a.port.tx.queued()), (7, 3));
    assert_eq!(stats.kicks.get(), kicks);
    wire.far.ip("link set e0 up").unwrap();
    a.netdev.link().set_carrier(true);
    a.flush_all(LIMIT);
    assert_eq!((wire.arrived(), stats.packets.get()), (3, 3));
    assert_eq!(a.port.drops.total(), 27);
    a.close_all();
    assert_idle(umem);
}

#[test]
fn a_device_queue_that_refuses_costs_one_counted_packet_each() {
    // Room for a few packets, the rest is refused (NET_XMIT_DROP).
    let wire = Wire::slow("rate 1mbit burst 2k limit 10k");
    let umem = umem(4096);
    let mut a = End::open(&wire.near, umem, in_mode("m1", XdpMode::Generic));
    let mut made = 0;
    for _ in 0..20 {
        made += a.enqueue((0..50).map(|n| packet(n, 1000)));
        a.flush_all(LIMIT);
    }
    a.reap_all(LIMIT);
    let stats = a.port.tx.stats();
    assert_eq!(made, 1000);
    assert!(stats.ebusy.get() > 500, "{stats:?}");
    assert_eq!(a.dropped(DropReason::TxBusy), stats.ebusy.get());
    assert_eq!(stats.packets.get() + stats.ebusy.get(), made);
    eventually("what was sent arrives", LIMIT, || wire.arrived() == stats.packets.get());
    assert_eq!(a.port.drops.total(), stats.ebusy.get());
    drop(a);
}

#[test]
fn a_slow_device_is_waited_for_by_timer_and_loses_nothing() {
    let wire = Wire::slow("rate 50mbit burst 5k limit 8m");
    let umem = umem(4096);
    let options = NetdevOptions { sndbuf: Some(50_000), ..in_mode("m1", XdpMode::Generic) };
    let mut a = End::open(&wire.near, umem, options);
    // Too few to wait so long that some are dropped.
    assert_eq!(a.enqueue((0..300).map(|n| packet(n, 1400))), 300);
    a.flush();
    let stats = a.port.tx.stats();
    assert!(stats.eagain.get() > 0 && a.port.tx.queued() > 0, "the buffer is full: {stats:?}");
    // Nothing but the queue's own wish to be called again drives it.
    let now = a.now();
    let wake = a.port.tx.next_wake(now).unwrap();
    assert!(wake.since(now).0 <= 1_000_000, "{wake:?} at {now:?}");
    a.flush_all(LIMIT);
    a.reap_all(LIMIT);
    eventually("all arrives", LIMIT, || wire.arrived() == 300);
    assert_eq!((stats.packets.get(), a.port.drops.total()), (300, 0));
    assert!(stats.kicks.get() < 450, "far from one call per packet and pass: {stats:?}");
    // After silence the first packet leaves at once.
    a.enqueue([packet(1, 60)]);
    a.flush();
    assert_eq!(a.port.tx.queued(), 0);
    drop(a);
}

#[test]
fn a_queue_that_stands_is_thinned_and_one_that_is_full_gives_its_oldest() {
    let wire = Wire::slow("rate 20mbit burst 5k limit 8m");
    let umem = umem(4096);
    let mut a = End::open(&wire.near, umem, in_mode("m1", XdpMode::Generic));
    // A ring of 1024: 200 too many, and the rest takes more than half a second.
    assert_eq!(a.enqueue((0..1224).map(|n| packet(n, 1400))), 1224);
    assert_eq!(a.dropped(DropReason::TxFull), 200);
    a.flush_all(LIMIT);
    a.reap_all(LIMIT);
    let (late, sent) = (a.dropped(DropReason::TxLate), a.port.tx.stats().packets.get());
    assert!((3..200).contains(&late), "{late} dropped for waiting too long");
    assert_eq!((sent + late, a.port.drops.total()), (1024, 200 + late));
    eventually("what was sent arrives", LIMIT, || wire.arrived() == sent);
    assert_balanced(umem);
}

#[test]
fn a_changed_mtu_holds_from_the_next_packet_on() {
    let wire = Wire::new("");
    let umem = umem(4096);
    let mut a = End::open(&wire.near, umem, in_mode("v1", XdpMode::Native));
    a.enqueue([packet(0, 1514), packet(1, 1515)]);
    assert_eq!((a.port.tx.queued(), a.dropped(DropReason::Mtu)), (1, 1));
    wire.near.ip("link set v1 mtu 9000").unwrap();
    wire.far.ip("link set e0 mtu 9000").unwrap();
    a.netdev.link().set_mtu(9000);
    a.enqueue([packet(2, 9014), packet(3, 9015)]);
    assert_eq!((a.port.tx.queued(), a.dropped(DropReason::Mtu)), (2, 2));
    wire.far.ip("link set e0 mtu 600").unwrap();
    wire.near.ip("link set v1 mtu 600").unwrap();
    a.netdev.link().set_mtu(600);
    a.enqueue([packet(4, 614), packet(5, 615)]);
    assert_eq!((a.port.tx.queued(), a.dropped(DropReason::Mtu)), (3, 3));
    a.flush_all(LIMIT);
    a.reap_all(LIMIT);
    // Two were queued when they still fitted; the kernel refuses them, and says so.
    assert_eq!(a.port.tx.stats().packets.get(), 1);
    assert_eq!((wire.arrived(), a.dropped(DropReason::TxBusy)), (1, 2));
    a.close_all();
    assert_idle(umem);
}

#[test]
fn packets_of_queues_without_socket_pass_to_the_stack_and_are_counted() {
    // A veth without NAPI, as in generic mode, leaves the sender's queue noted, which the kernel reads
    // as the receive queue plus one.
    for (mode, start_queue) in [(XdpMode::Native, 1), (XdpMode::Generic, 0)] {
        let wire = Wire::new("numrxqueues 4 numtxqueues 4");
        wire.near.run("ethtool -L v1 rx 4 tx 4").unwrap();
        wire.far.run("ethtool -L e0 rx 4 tx 4").unwrap();
        let stack = wire.near.enter(|| RawSocket::open("v1")).unwrap();
        let umem = umem(8192);
        let wanted = NetdevOptions { start_queue, n_rxq: 2, ..in_mode("v1", mode) };
        let (groups, opened) = open(&wire.near, UmemGroups::new(umem), wanted);
        let (netdev, mut ports) = opened.unwrap();
        // What a socket sends on a queue arrives on the same queue of the peer.
        let (_, source) =
            open(&wire.far, groups, NetdevOptions { n_rxq: 4, ..in_mode("e0", mode) });
        let (_far, mut source) = source.unwrap();
        let mut cache = FrameCache::new(umem, 0);
        for port in &mut ports {
            port.rx.refill(&mut cache);
        }
        let mut send = |queue: usize| {
            let (port, now) = (&mut source[queue], Nanos(1));
            let mut bin: Vec<_> = (0..5).map(|n| cache.packet(&packet(n, 60)).unwrap()).collect();
            port.tx.enqueue(&mut bin, &mut cache, &port.drops, now);
            port.tx.flush(&mut cache, &port.drops, now);
            let before = netdev.unbound_packets().unwrap();
            let received: Vec<_> = ports
                .iter_mut()
                .map(|port| {
                    let n = port.rx.receive(&mut port.batch, &mut cache);
                    port.batch.drain().for_each(|packet| cache.free(packet));
                    n
                })
                .collect();
            let mut passed = 0;
            while stack.receive(Duration::from_millis(30), |_| true).unwrap().is_some() {
                passed += 1;
            }
            assert_eq!(netdev.unbound_packets().unwrap(), before);
            (received[0], received[1], passed, before)
        };
        assert_eq!(send(1), (0, 0, 5, 5), "before enter everything passes");
        netdev.enter().unwrap();
        if mode == XdpMode::Native {
            assert_eq!(send(0), (0, 0, 5, 10));
            assert_eq!(send(1), (5, 0, 0, 10));
            assert_eq!(send(2), (0, 5, 0, 10));
        } else {
            assert_eq!(send(0), (5, 0, 0, 5));
            assert_eq!(send(2), (0, 5, 0, 5));
            assert_eq!(send(3), (0, 0, 5, 10));
        }
        netdev.leave();
        let passed = netdev.unbound_packets().unwrap();
        assert_eq!(send(2), (0, 0, 5, passed + 5), "after leave everything passes");
        drop(cache);
        assert_balanced(umem);
    }
}

#[test]
fn the_fastest_mode_that_works_is_taken_and_says_why_no_faster_one() {
    let wire = Wire::slow("rate 10mbit burst 5k limit 1m");
    let umem = umem(4096);
    let (groups, plain) = open(&wire.far, UmemGroups::new(umem), options("e0"));
    let plain = plain.unwrap().0;
    assert_eq!(plain.mode(), XdpMode::Native);
    let why = plain.stepped_down().unwrap();
    assert!(why.contains("native is in use") && why.contains("no zero-copy"), "{why}");
    let (groups, macvlan) = open(&wire.near, groups, options("m1"));
    let macvlan = macvlan.unwrap().0;
    assert_eq!(macvlan.mode(), XdpMode::Generic);
    let why = macvlan.stepped_down().unwrap();
    assert!(why.contains("generic is in use") && why.contains("m1 refuses"), "{why}");
    // An explicit mode is not traded for another.
    drop(macvlan);
    let (_, native) = open(&wire.near, groups, in_mode("m1", XdpMode::Native));
    let error = native.map(|_| ()).unwrap_err();
    assert!(matches!(error, Error::AttachRefused { .. }), "{error}");
}

#[test]
fn values_that_cannot_be_are_refused_before_the_kernel_sees_them() {
    let wire = Wire::new("");
    let memory: &'static Umem = umem(256);
    let refuse = |change: fn(&mut NetdevOptions<'static>)| {
        let mut options = options("v1");
        change(&mut options);
        let (_, opened) = open(&wire.near, UmemGroups::new(memory), options);
        let error = opened.map(|_| ()).unwrap_err();
        assert_idle(memory);
        error
    };
    assert!(matches!(refuse(|o| o.rx_ring = 100), Error::RingSize { ring: "rx", size: 100 }));
    assert!(matches!(refuse(|o| o.tx_ring = 32), Error::RingSize { ring: "tx", size: 32 }));
    assert!(matches!(refuse(|o| o.tx_ring = 65536), Error::RingSize { ring: "tx", .. }));
    assert!(matches!(refuse(|o| o.tx_budget = Some(31)), Error::TxBudget { budget: 31, .. }));
    assert!(matches!(refuse(|o| o.tx_budget = Some(1025)), Error::TxBudget { .. }));
    assert!(matches!(refuse(|o| o.n_rxq = 2), Error::TooFewQueues { wanted: 2, rx: 1, tx: 1, .. }));
    assert!(matches!(refuse(|o| o.name = "v9"), Error::NoSuchInterface { .. }));
    let zero_copy = refuse(|o| o.mode = Some(XdpMode::ZeroCopy));
    assert!(matches!(zero_copy, Error::NoZeroCopy { queue: 0, .. }), "{zero_copy}");
}

#[test]
fn the_largest_send_buffer_that_can_be_asked_for_is_in_force() {
    let wire = Wire::new("");
    for sndbuf in [u32::MAX, i32::MAX.unsigned_abs()] {
        let umem = umem(2048);
        let options = NetdevOptions { sndbuf: Some(sndbuf), ..options("v1") };
        let mut a = None;
        eventually("the queue comes free", LIMIT, || {
            let (_, opened) = open(&wire.near, UmemGroups::new(umem), options);
            a = opened.ok();
            a.is_some()
        });
        let (_, ports) = a.unwrap();
        assert!(ports[0].in_force.sndbuf > 2_000_000_000, "{:?}", ports[0].in_force);
    }
}
