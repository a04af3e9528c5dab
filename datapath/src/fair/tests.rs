//! The fair queue with packets in memory.
#![allow(clippy::indexing_slicing, reason = "tests")]

use std::collections::{HashMap, VecDeque};
use std::net::Ipv4Addr;

use proptest::prelude::*;

use super::*;
use crate::testing::{MemPacket, MemPool, PacketBuilder};
use crate::{MacAddr, PortNo, extract};

const QUANTUM: u32 = 1514;
const A: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const B: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);

fn queue(capacity: u32) -> FairQueue<MemPacket> {
    FairQueue::new(capacity, QUANTUM, 7)
}

/// A UDP packet of flow `flow` with a payload of `len` bytes that begins with `number`.
fn packet(pool: &MemPool, flow: u16, number: u32, len: usize) -> MemPacket {
    let mut payload = vec![0; len.max(4)];
    payload[..4].copy_from_slice(&number.to_be_bytes());
    let bytes = PacketBuilder::eth(A, B)
        .ipv4(Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2))
        .udp(1000 + flow, 7000)
        .payload(&payload)
        .build();
    let mut packet = pool.packet(&bytes).unwrap();
    extract(&mut packet, PortNo(1)).unwrap();
    packet
}

/// Flow and number of a packet.
fn identity(packet: &MemPacket) -> (u16, u32) {
    let head = packet.head();
    (wire::be16(head, 34).unwrap() - 1000, wire::be32(head, 42).unwrap())
}

/// Serves the queue at `bytes_per_ms` for `ms`, while `offer` adds packets every millisecond.
fn serve(
    queue: &mut FairQueue<MemPacket>,
    pool: &MemPool,
    (bytes_per_ms, ms): (i64, u64),
    mut offer: impl FnMut(&mut FairQueue<MemPacket>, u64),
) -> (Vec<(u64, MemPacket)>, usize) {
    let (mut sent, mut dropped, mut credit) = (Vec::new(), 0, 0);
    for at in 1..=ms {
        offer(queue, at);
        credit += bytes_per_ms;
        while credit > 0 {
            let drop = |packet| {
                pool.free(packet);
                dropped += 1;
            };
            let Some(packet) = queue.pop(Nanos::from_millis(at), drop) else {
                credit = 0;
                break;
            };
            credit -= i64::try_from(packet.len()).unwrap();
            sent.push((at, packet));
        }
    }
    (sent, dropped)
}

/// Adds a packet; whoever has most gives when the queue is full.
fn add(queue: &mut FairQueue<MemPacket>, pool: &MemPool, packet: MemPacket, now: Nanos) {
    if let Err(packet) = queue.push(packet, now) {
        pool.free(queue.shed().unwrap());
        queue.push(packet, now).unwrap();
    }
}

#[test]
fn a_sparse_flow_overtakes_bulk() {
    let (pool, mut queue) = (MemPool::default(), queue(2048));
    for n in 0..1000 {
        queue.push(packet(&pool, 1, n, 1400), Nanos(1)).unwrap();
    }
    pool.free(queue.pop(Nanos(2), |_| ()).unwrap());
    queue.push(packet(&pool, 2, 0, 60), Nanos(3)).unwrap();
    let first: Vec<_> = (0..3)
        .map(|_| {
            let packet = queue.pop(Nanos(4), |_| ()).unwrap();
            let id = identity(&packet);
            pool.free(packet);
            id.0
        })
        .collect();
    assert!(first.contains(&2), "{first:?}");
    queue.drain().for_each(|packet| pool.free(packet));
    assert_eq!((pool.alive(), pool.leaked()), (0, 0));
}

#[test]
fn arp_and_neighbour_discovery_overtake_bulk() {
    let (pool, mut queue) = (MemPool::default(), queue(2048));
    for n in 0..100 {
        queue.push(packet(&pool, 1, n, 1400), Nanos(1)).unwrap();
    }
    let (sender, target) = ((A, Ipv4Addr::LOCALHOST), (B, Ipv4Addr::LOCALHOST));
    let arp = PacketBuilder::eth(A, B).arp(1, sender, target).build();
    let mut arp = pool.packet(&arp).unwrap();
    extract(&mut arp, PortNo(1)).unwrap();
    queue.push(arp, Nanos(1)).unwrap();
    let first = [
        queue.pop(Nanos(2), |_| ()).unwrap(),
        queue.pop(Nanos(2), |_| ()).unwrap(),
        queue.pop(Nanos(2), |_| ()).unwrap(),
    ];
    assert!(first.iter().any(|packet| packet.head()[12..14] == [8, 6]));
    first.into_iter().chain(queue.drain()).for_each(|packet| pool.free(packet));
    assert_eq!(pool.alive(), 0);
}

#[test]
fn two_bulk_flows_share_by_bytes_whatever_they_offer_and_however_long_their_packets_are() {
    let (pool, mut queue) = (MemPool::default(), queue(1000));
    let offer = |queue: &mut FairQueue<MemPacket>, at: u64| {
        for n in 0..30 {
            add(queue, &pool, packet(&pool, 1, n, 1400), Nanos::from_millis(at));
        }
        for n in 0..60 {
            add(queue, &pool, packet(&pool, 2, n, 400), Nanos::from_millis(at));
        }
    };
    let (sent, _) = serve(&mut queue, &pool, (12_500, 2000), offer);
    let mut bytes = HashMap::new();
    for (_, packet) in sent {
        *bytes.entry(identity(&packet).0).or_insert(0) += packet.len();
        pool.free(packet);
    }
    let share = bytes[&1] * 100 / (bytes[&1] + bytes[&2]);
    assert!((45..=55).contains(&share), "{bytes:?}");
    queue.drain().for_each(|packet| pool.free(packet));
    assert_eq!((pool.alive(), pool.leaked()), (0, 0));
}

#[test]
fn a_standing_queue_is_thinned_and_a_short_one_is_not() {
    // 110 % of the link: the queue would grow for ever.
    let (pool, mut bulk) = (MemPool::default(), queue(100_000));
    let (mut n, mut credit) = (0, 0);
    let offer = |queue: &mut FairQueue<MemPacket>, at: u64| {
        credit += 13_750;
        while credit > 0 {
            credit -= 1442;
            queue.push(packet(&pool, 1, n, 1400), Nanos::from_millis(at)).unwrap();
            n += 1;
        }
    };
    let (sent, dropped) = serve(&mut bulk, &pool, (12_500, 5000), offer);
    assert!(dropped > 50, "{dropped} dropped of {n}");
    let numbers: Vec<_> = sent.iter().map(|(_, packet)| identity(packet).1).collect();
    assert!(numbers.is_sorted(), "the order of a flow");
    sent.into_iter().map(|(_, packet)| packet).chain(bulk.drain()).for_each(|p| pool.free(p));

    // 90 % of the link: nothing waits, nothing is dropped.
    let (mut calm, mut credit) = (queue(100), 0);
    let offer = |queue: &mut FairQueue<MemPacket>, at: u64| {
        credit += 11_250;
        while credit > 0 {
            credit -= 1442;
            queue.push(packet(&pool, 1, 0, 1400), Nanos::from_millis(at)).unwrap();
        }
    };
    let (sent, dropped) = serve(&mut calm, &pool, (12_500, 5000), offer);
    assert_eq!(dropped, 0);
    sent.into_iter().map(|(_, packet)| packet).chain(calm.drain()).for_each(|p| pool.free(p));
    assert_eq!((pool.alive(), pool.leaked()), (0, 0));
}

#[test]
fn who_has_most_gives() {
    let (pool, mut queue) = (MemPool::default(), queue(100));
    for n in 0..90 {
        queue.push(packet(&pool, 1, n, 1400), Nanos(1)).unwrap();
    }
    for n in 0..10 {
        queue.push(packet(&pool, 2 + (n % 5) as u16, n, 60), Nanos(1)).unwrap();
    }
    for n in 0..50 {
        let new = packet(&pool, 9, n, 60);
        let new = queue.push(new, Nanos(2)).unwrap_err();
        let given = queue.shed().unwrap();
        assert_eq!(identity(&given), (1, n), "its oldest");
        pool.free(given);
        queue.push(new, Nanos(2)).unwrap();
    }
    assert_eq!((queue.len(), queue.n_frames()), (100, 100));
    queue.drain().for_each(|packet| pool.free(packet));
    assert!(queue.is_empty() && queue.shed().is_none() && queue.pop(Nanos(3), |_| ()).is_none());
    assert_eq!((pool.alive(), pool.leaked()), (0, 0));
}

#[test]
fn without_capacity_nothing_goes_in() {
    let (pool, mut queue) = (MemPool::default(), queue(0));
    pool.free(queue.push(packet(&pool, 1, 0, 60), Nanos(1)).unwrap_err());
    assert!(queue.shed().is_none());
}

#[derive(Clone, Debug)]
enum Op {
    Push(u16, usize),
    Pop,
    Shed,
    Wait(u64),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => (0..12u16, 4..3000usize).prop_map(|(flow, len)| Op::Push(flow, len)),
        3 => Just(Op::Pop),
        1 => Just(Op::Shed),
        1 => (0..200u64).prop_map(Op::Wait),
    ]
}

proptest! {
    /// What goes in comes out once, each flow in its order, and the sums are right at any time.
    #[test]
    fn nothing_is_lost_or_overtaken(ops in prop::collection::vec(op(), 1..400), capacity in 0..60u32) {
        let (pool, mut queue) = (MemPool::default(), queue(capacity));
        let mut model: HashMap<u16, VecDeque<u32>> = HashMap::new();
        let (mut now, mut number) = (Nanos(1), 0);
        for op in ops {
            let mut gone = Vec::new();
            match op {
                Op::Push(flow, len) => {
                    number += 1;
                    match queue.push(packet(&pool, flow, number, len), now) {
                        Ok(()) => model.entry(flow).or_default().push_back(number),
                        Err(packet) => {
                            prop_assert_eq!(queue.len(), capacity as usize);
                            pool.free(packet);
                        }
                    }
                }
                Op::Pop => {
                    let packet = queue.pop(now, |packet| gone.push(packet));
                    gone.extend(packet);
                }
                Op::Shed => gone.extend(queue.shed()),
                Op::Wait(ms) => now = Nanos(now.0 + ms * 1_000_000),
            }
            for packet in gone {
                let (flow, number) = identity(&packet);
                // Flows that share a bucket are still each in order.
                prop_assert_eq!(model.get_mut(&flow).and_then(VecDeque::pop_front), Some(number));
                pool.free(packet);
            }
            let waiting: usize = model.values().map(VecDeque::len).sum();
            prop_assert_eq!((queue.len(), queue.n_frames(), pool.alive()), (waiting, waiting, waiting));
        }
        let rest = queue.len();
        let mut out = 0;
        while let Some(packet) = queue.pop(now, |packet| { out += 1; pool.free(packet); }) {
            out += 1;
            pool.free(packet);
        }
        prop_assert_eq!((out, pool.alive(), pool.leaked()), (rest, 0, 0));
        prop_assert_eq!((queue.n_bytes, queue.n_active), (0, 0));
    }
}
