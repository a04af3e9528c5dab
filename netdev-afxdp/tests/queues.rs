//! Which sockets a port with several queues has: some receive and send, some do one of both.
//! Needs root; everything happens in namespaces of its own.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::time::Duration;

use support::{Wire, assert_idle, contents, eventually, number, options, packet, umem};
use xvs_datapath::{DropCounters, Nanos, PacketBatch, QueueId, RxQueue, TxQueue};
use xvs_netdev_afxdp::{
    Device, Error, FrameCache, Netdev, NetdevOptions, Umem, UmemGroups, Xsk, XskRx,
};
use xvs_tests::ns::Netns;

const LIMIT: Duration = Duration::from_secs(5);

type Opened = Result<(Netdev, Vec<(QueueId, Xsk)>), Error>;

fn open(ns: &Netns, umem: &'static Umem, options: NetdevOptions<'static>) -> Opened {
    ns.enter(move || Ok(Netdev::open(&mut UmemGroups::new(umem), &options))).unwrap()
}

/// Queue, whether it receives, whether it sends: of each socket.
fn kinds(sockets: &[(QueueId, Xsk)]) -> Vec<(u32, bool, bool)> {
    sockets.iter().map(|(queue, xsk)| (queue.0, xsk.rx.is_some(), xsk.tx.is_some())).collect()
}

/// Opens a port and closes it again; its sockets' kinds.
fn try_open(wire: &Wire, options: NetdevOptions<'static>) -> Vec<(u32, bool, bool)> {
    let umem = umem(64);
    let mut found = Vec::new();
    eventually("the queues come free", LIMIT, || {
        match open(&wire.near, umem, options) {
            Ok((_, sockets)) => found = kinds(&sockets),
            Err(Error::QueueBusy { .. }) => return false,
            Err(error) => panic!("{error}"),
        }
        true
    });
    assert_idle(umem);
    found
}

const BOTH: (bool, bool) = (true, true);

fn with((rx, tx): (bool, bool), queues: impl IntoIterator<Item = u32>) -> Vec<(u32, bool, bool)> {
    queues.into_iter().map(|queue| (queue, rx, tx)).collect()
}

#[test]
fn sockets_that_only_send_or_only_receive_make_up_the_wanted_numbers() {
    let wire = Wire::new("numrxqueues 4 numtxqueues 4");
    let wanted = |n_rxq, n_txq| NetdevOptions { n_rxq, n_txq, ..options("v1") };
    let (rx_only, tx_only) = ((true, false), (false, true));
    assert_eq!(try_open(&wire, wanted(1, 1)), with(BOTH, [0]));
    assert_eq!(try_open(&wire, wanted(1, 3)), [with(BOTH, [0]), with(tx_only, [1, 2])].concat());
    assert_eq!(try_open(&wire, wanted(4, 2)), [with(BOTH, [0, 1]), with(rx_only, [2, 3])].concat());
    // No more than there are.
    assert_eq!(try_open(&wire, wanted(2, 9)), [with(BOTH, [0, 1]), with(tx_only, [2, 3])].concat());
    let from = NetdevOptions { start_queue: 2, ..wanted(1, 3) };
    assert_eq!(try_open(&wire, from), [with(BOTH, [2]), with(tx_only, [3])].concat());
}

#[test]
fn fewer_tx_queues_than_rx_queues() {
    let wire = Wire::new("numrxqueues 4 numtxqueues 1");
    let wanted = NetdevOptions { n_rxq: 4, n_txq: 4, ..options("v1") };
    let expected = [with(BOTH, [0]), with((true, false), [1, 2, 3])].concat();
    assert_eq!(try_open(&wire, wanted), expected);
    for (start_queue, n_rxq) in [(1, 1), (0, 5)] {
        let beyond = NetdevOptions { start_queue, n_rxq, ..options("v1") };
        let error = open(&wire.near, umem(64), beyond).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains("v1 has 4 rx and 1 tx queues"), "{error}");
    }
}

#[test]
fn a_further_queue_of_somebody_else_is_passed_over() {
    let wire = Wire::new("numrxqueues 4 numtxqueues 4");
    let other = NetdevOptions { start_queue: 1, ..options("v1") };
    let (netdev, theirs) = open(&wire.near, umem(64), other).unwrap();
    // The program goes, so that another may come; the socket stays bound.
    drop(netdev);
    let wanted = |n_txq| NetdevOptions { n_txq, ..options("v1") };
    let (netdev, sockets) = open(&wire.near, umem(64), wanted(3)).unwrap();
    let tx_only = (false, true);
    assert_eq!(kinds(&sockets), [with(BOTH, [0]), with(tx_only, [2, 3])].concat());
    drop((netdev, sockets));
    eventually("the queues come free", LIMIT, || {
        let device = wire.near.enter(|| Ok(Device::find("v1").unwrap())).unwrap();
        let bound = |queue| {
            wire.near.enter({
                let device = device.clone();
                move || Ok(device.is_queue_bound(queue))
            })
        };
        [0, 2, 3].iter().all(|&queue| bound(queue).unwrap() == Some(false))
    });
    let error = open(&wire.near, umem(64), wanted(4)).map(|_| ()).unwrap_err();
    assert!(matches!(error, Error::QueueBusy { queue: 1, .. }), "{error}");
    eventually("fewer are enough", LIMIT, || {
        let share = NetdevOptions { share_busy: true, ..wanted(4) };
        match open(&wire.near, umem(64), share) {
            Ok((_, sockets)) => kinds(&sockets).len() == 3,
            Err(Error::QueueBusy { .. }) => false,
            Err(error) => panic!("{error}"),
        }
    });
    drop(theirs);
}

/// The numbers of the tests' packets that are there now.
fn receive(rx: &mut XskRx, cache: &mut FrameCache) -> Vec<u32> {
    let mut batch = PacketBatch::new(64);
    rx.receive(&mut batch, cache);
    batch
        .drain()
        .map(|packet| {
            let number = number(&contents(&packet));
            cache.free(packet);
            number
        })
        .collect()
}

#[test]
fn what_a_socket_that_only_sends_sends_leaves_on_its_queue() {
    let wire = Wire::new("numrxqueues 4 numtxqueues 4");
    let umem = umem(8192);
    let mut cache = FrameCache::new(umem, FrameCache::DEFAULT_LIMIT);
    let sends = NetdevOptions { n_txq: 4, ..options("v1") };
    let (near, sockets) = open(&wire.near, umem, sends).unwrap();
    let receives = NetdevOptions { n_rxq: 4, ..options("e0") };
    let (far, receivers) = open(&wire.far, umem, receives).unwrap();
    let mut receivers: Vec<_> =
        receivers.into_iter().map(|(queue, xsk)| (queue, xsk.rx.unwrap(), xsk.tx)).collect();
    receivers.iter_mut().for_each(|(_, rx, _)| rx.refill(&mut cache));
    near.enter().unwrap();
    far.enter().unwrap();
    let (drops, now) = (DropCounters::default(), Nanos(1));
    let mut senders: Vec<_> =
        sockets.into_iter().map(|(queue, xsk)| (queue, xsk.tx.unwrap(), xsk.rx)).collect();
    for (queue, tx, _) in &mut senders {
        let mut bin: Vec<_> =
            (0..10).map(|n| cache.packet(&packet(queue.0 * 10 + n, 60)).unwrap()).collect();
        tx.enqueue(&mut bin, &mut cache, &drops, now);
        tx.flush(&mut cache, &drops, now);
    }
    for (queue, rx, _) in &mut receivers {
        let mut numbers = Vec::new();
        eventually("all arrive on the queue they left by", LIMIT, || {
            numbers.extend(receive(rx, &mut cache));
            numbers.len() == 10
        });
        assert_eq!(numbers, (queue.0 * 10..queue.0 * 10 + 10).collect::<Vec<_>>());
    }
    assert_eq!(drops.total(), 0);
    near.leave();
    far.leave();
    let mut halves = Vec::new();
    for (queue, tx, rx) in senders {
        halves.push(near.drain(queue, tx.close(&mut cache, &drops)));
        halves.extend(rx.map(|rx| near.drain(queue, rx.close())));
    }
    for (queue, rx, tx) in receivers {
        halves.push(far.drain(queue, rx.close()));
        halves.extend(tx.map(|tx| far.drain(queue, tx.close(&mut cache, &drops))));
    }
    assert!(halves.iter_mut().all(|half| half.reclaim()), "veth has copied everything");
    drop(cache);
    assert_idle(umem);
}
