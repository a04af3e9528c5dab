//! The kick protocol against the simulated kernel: named cases first, then random schedules.
#![allow(clippy::indexing_slicing, reason = "tests")]

use proptest::prelude::*;
use xvs_datapath::Nanos;

use super::sim::{Fault, Kind, Limits, Owner, Sim};
use super::{
    DOWN_BACK_OFF, EXTRA_CALLS, Kick, KickReport, MAX_BACK_OFF, MAX_BUSY, MAX_PAUSE, MIN_PAUSE,
    TxKernel, Verdict,
};

/// What 64 bytes cost the send buffer.
const SMALL: u64 = 768;

fn kick_for(sim: &Sim) -> Kick {
    Kick::new(sim.limits.budget)
}

fn later(now: Nanos, by: Nanos) -> Nanos {
    Nanos(now.0 + by.0)
}

/// A pass, with the bounds that hold for every pass.
fn pass(kick: &mut Kick, sim: &mut Sim) -> KickReport {
    let pending = sim.pending();
    let before = sim.calls;
    let report = kick.run(sim, sim.now);
    assert_eq!(u64::from(report.calls), sim.calls - before);
    assert!(report.calls <= pending.div_ceil(sim.limits.budget) + EXTRA_CALLS);
    assert!(report.busy_drops <= MAX_BUSY);
    if report.verdict == Verdict::Done {
        assert_eq!(sim.pending(), 0);
    }
    report
}

/// Passes whenever the protocol wants one, as a sleeping thread would, for `span`; the calls made.
fn sleep_through(kick: &mut Kick, sim: &mut Sim, span: Nanos) -> u64 {
    let (end, before) = (later(sim.now, span), sim.calls);
    let mut wakes = 0;
    while let Some(wake) = kick.next_wake(sim.now).filter(|&wake| wake <= end) {
        sim.advance(wake);
        pass(kick, sim);
        wakes += 1;
        assert!(wakes < 1_000_000, "a sleeping thread spins");
    }
    sim.advance(end);
    sim.calls - before
}

#[test]
fn nothing_pending_makes_no_call() {
    let mut sim = Sim::new(Limits::default());
    let mut kick = kick_for(&sim);
    assert_eq!(pass(&mut kick, &mut sim), KickReport::default());
    assert_eq!(kick.next_wake(sim.now), None);
}

#[test]
fn a_burst_leaves_in_one_pass_with_one_call_per_budget() {
    for (budget, calls) in [(32, 13), (512, 1)] {
        let mut sim = Sim::new(Limits { budget, ..Limits::default() });
        let mut kick = kick_for(&sim);
        assert_eq!(sim.enqueue(400, 1, SMALL), 400);
        let report = pass(&mut kick, &mut sim);
        assert_eq!(report.verdict, Verdict::Done);
        assert_eq!((report.calls, report.sent_descriptors), (calls, 400));
        assert_eq!(sim.delivered, 400);
        assert_eq!(kick.next_wake(sim.now), None);
    }
}

#[test]
fn a_full_send_buffer_blocks_until_completions_come() {
    let mut sim = Sim::new(Limits { packet_time: Some(10_000), ..Limits::default() });
    let mut kick = kick_for(&sim);
    sim.enqueue(1000, 1, SMALL);
    let report = pass(&mut kick, &mut sim);
    assert_eq!(report.verdict, Verdict::Blocked);
    assert_eq!(report.sent_descriptors, 278, "212992 bytes and the packet that crosses the limit");
    let calls = sim.calls;
    for _ in 0..1000 {
        pass(&mut kick, &mut sim);
    }
    assert_eq!(sim.calls, calls, "a pass without completions and before the timer makes no call");
    sim.advance(later(sim.now, Nanos(40_000)));
    assert_eq!(pass(&mut kick, &mut sim).calls, 0, "4 completions are not worth a call");
    assert_eq!(kick.next_wake(sim.now), Some(MIN_PAUSE), "the timer is");
    sleep_through(&mut kick, &mut sim, Nanos::from_millis(20));
    assert_eq!((sim.delivered, sim.pending()), (1000, 0));
}

#[test]
fn many_completions_rearm_before_the_timer() {
    let mut sim = Sim::new(Limits { packet_time: Some(1_000), ..Limits::default() });
    let mut kick = kick_for(&sim);
    sim.enqueue(1000, 1, SMALL);
    pass(&mut kick, &mut sim);
    sim.advance(Nanos(16_000));
    let report = pass(&mut kick, &mut sim);
    assert_eq!((report.calls, report.sent_descriptors), (1, 16));
}

#[test]
fn a_slow_link_is_kept_full_with_few_calls() {
    // 1400-byte packets at 100 Mbit/s, polled every 2 µs for a second.
    let mut sim =
        Sim::new(Limits { packet_time: Some(112_000), n_frames: 2048, ..Limits::default() });
    let mut kick = kick_for(&sim);
    while sim.now < Nanos::from_secs(1) {
        if sim.pending() < 256 {
            sim.enqueue(256, 1, 2304);
        }
        pass(&mut kick, &mut sim);
        sim.advance(later(sim.now, Nanos(2_000)));
    }
    assert!(sim.delivered >= 8_900, "{} packets of 8928", sim.delivered);
    assert!(sim.calls < 10_000, "{} calls", sim.calls);
}

#[test]
fn a_kernel_that_never_completes_costs_a_call_per_millisecond() {
    let mut sim = Sim::new(Limits { packet_time: None, ..Limits::default() });
    let mut kick = kick_for(&sim);
    sim.enqueue(1000, 1, SMALL);
    pass(&mut kick, &mut sim);
    let calls = sleep_through(&mut kick, &mut sim, Nanos::from_secs(1));
    assert!((900..1100).contains(&calls), "{calls} calls");
    sim.limits.packet_time = Some(0);
    sleep_through(&mut kick, &mut sim, Nanos(10 * MAX_PAUSE.0));
    assert_eq!((sim.delivered, sim.pending()), (1000, 0));
}

#[test]
fn a_small_completion_ring_only_slows_down() {
    let mut sim = Sim::new(Limits { completions: 8, ..Limits::default() });
    let mut kick = kick_for(&sim);
    sim.enqueue(800, 1, SMALL);
    for _ in 0..100 {
        pass(&mut kick, &mut sim);
    }
    assert_eq!((sim.delivered, sim.pending()), (800, 0), "completions re-arm at once");
}

#[test]
fn a_deaf_queue_is_called_on_the_timer_only() {
    let mut sim = Sim::new(Limits::default());
    let mut kick = kick_for(&sim);
    sim.enqueue(10, 1, SMALL);
    sim.faults.extend([Fault::Deaf; 100]);
    let report = pass(&mut kick, &mut sim);
    assert_eq!((report.calls, report.verdict), (1, Verdict::Blocked));
    sleep_through(&mut kick, &mut sim, Nanos::from_millis(200));
    assert_eq!(sim.delivered, 10);
}

#[test]
fn ebusy_costs_one_packet_and_the_rest_goes_on() {
    let mut sim = Sim::new(Limits::default());
    let mut kick = kick_for(&sim);
    sim.enqueue(10, 1, SMALL);
    sim.faults.extend([Fault::DeviceDrop; 3]);
    let report = pass(&mut kick, &mut sim);
    assert_eq!((report.busy_drops, report.verdict), (3, Verdict::Done));
    assert_eq!((report.sent_descriptors, report.calls), (10, 4));
    assert_eq!((sim.delivered, sim.dropped), (7, 3));
    assert_eq!(sim.count(Owner::User), sim.limits.n_frames);
}

#[test]
fn a_single_dropped_packet_whose_index_lags_is_settled_in_the_same_pass() {
    let mut sim = Sim::new(Limits::default());
    let mut kick = kick_for(&sim);
    sim.lags = true;
    sim.enqueue(1, 1, SMALL);
    sim.faults.push_back(Fault::DeviceDrop);
    let report = pass(&mut kick, &mut sim);
    assert_eq!((report.busy_drops, report.sent_descriptors), (1, 1));
    assert_eq!((report.calls, report.verdict), (2, Verdict::Done));
}

#[test]
fn at_most_eight_ebusy_a_pass() {
    let mut sim = Sim::new(Limits::default());
    let mut kick = kick_for(&sim);
    sim.enqueue(20, 1, SMALL);
    sim.faults.extend([Fault::DeviceDrop; 20]);
    let report = pass(&mut kick, &mut sim);
    assert_eq!((report.busy_drops, report.verdict), (MAX_BUSY, Verdict::More));
    assert_eq!(kick.next_wake(sim.now), Some(sim.now));
    pass(&mut kick, &mut sim);
    pass(&mut kick, &mut sim);
    assert_eq!((sim.dropped, sim.pending()), (20, 0));
}

#[test]
fn a_busy_device_blocks() {
    let mut sim = Sim::new(Limits::default());
    let mut kick = kick_for(&sim);
    sim.enqueue(10, 3, SMALL);
    sim.faults.push_back(Fault::DeviceBusy);
    let report = pass(&mut kick, &mut sim);
    assert_eq!((report.calls, report.again, report.verdict), (1, 1, Verdict::Blocked));
    assert_eq!(sim.count(Owner::TxRing), 30, "the packet was given back");
    sleep_through(&mut kick, &mut sim, MAX_PAUSE);
    assert_eq!(sim.delivered, 10);
}

#[test]
fn descriptors_behind_an_invalid_one_leave_in_the_same_pass() {
    let mut sim = Sim::new(Limits::default());
    let mut kick = kick_for(&sim);
    sim.enqueue_invalid();
    sim.enqueue(5, 1, SMALL);
    sim.enqueue_invalid();
    sim.enqueue(5, 1, SMALL);
    let report = pass(&mut kick, &mut sim);
    assert_eq!((report.verdict, report.sent_descriptors), (Verdict::Done, 12));
    assert_eq!(sim.delivered, 10);
}

#[test]
fn down_keeps_the_descriptors_and_backs_off() {
    let mut sim = Sim::new(Limits::default());
    let mut kick = kick_for(&sim);
    sim.enqueue(100, 1, SMALL);
    sim.down = Some(libc::ENETDOWN);
    let report = pass(&mut kick, &mut sim);
    assert_eq!((report.calls, report.verdict), (1, Verdict::Down));
    assert_eq!(kick.next_wake(sim.now), Some(DOWN_BACK_OFF));
    let calls = sleep_through(&mut kick, &mut sim, Nanos::from_secs(5));
    assert!(calls < 60, "{calls} calls in 5 s");
    sim.down = None;
    sleep_through(&mut kick, &mut sim, MAX_BACK_OFF);
    assert_eq!((sim.delivered, sim.pending()), (100, 0));
}

#[test]
fn every_other_errno_is_kept_counted_and_retried() {
    for errno in (1..134).filter(|errno| {
        ![libc::EAGAIN, libc::EBUSY, libc::EINVAL, libc::ENXIO, libc::ENODEV, libc::ENETDOWN]
            .contains(errno)
    }) {
        let mut sim = Sim::new(Limits::default());
        let mut kick = kick_for(&sim);
        sim.enqueue(100, 1, SMALL);
        sim.down = Some(errno);
        let report = pass(&mut kick, &mut sim);
        assert_eq!(report.errors, report.calls);
        assert_eq!(report.verdict, Verdict::Failed(errno));
        assert_eq!(sim.count(Owner::TxRing), 100);
        sim.down = None;
        sleep_through(&mut kick, &mut sim, MAX_BACK_OFF);
        assert_eq!(sim.delivered, 100, "errno {errno}");
    }
}

#[test]
fn an_interrupted_call_is_repeated_at_once() {
    let mut sim = Sim::new(Limits::default());
    let mut kick = kick_for(&sim);
    sim.enqueue(100, 1, SMALL);
    sim.faults.extend([Fault::Errno(libc::EINTR); 3]);
    let report = pass(&mut kick, &mut sim);
    assert_eq!((report.errors, report.verdict), (3, Verdict::Done));
}

#[test]
fn memory_shortage_while_building_keeps_the_packet() {
    let mut sim = Sim::new(Limits::default());
    let mut kick = kick_for(&sim);
    sim.enqueue(10, 2, SMALL);
    sim.faults.push_back(Fault::NoMemory(libc::ENOBUFS));
    assert_eq!(pass(&mut kick, &mut sim).verdict, Verdict::Failed(libc::ENOBUFS));
    sleep_through(&mut kick, &mut sim, MAX_BACK_OFF);
    assert_eq!(sim.delivered, 10);
}

#[test]
fn an_unbound_socket_is_drained_and_never_called_again() {
    for errno in [libc::ENXIO, libc::ENODEV] {
        let mut sim = Sim::new(Limits { packet_time: Some(1_000), ..Limits::default() });
        let mut kick = kick_for(&sim);
        sim.enqueue(20, 1, SMALL);
        pass(&mut kick, &mut sim);
        sim.enqueue(20, 1, SMALL);
        sim.down = Some(errno);
        assert_eq!(pass(&mut kick, &mut sim).verdict, Verdict::Unbound);
        assert_eq!(kick.next_wake(sim.now), None);
        sim.advance(Nanos::from_millis(1));
        let report = pass(&mut kick, &mut sim);
        assert_eq!((report.calls, report.completed), (0, 20));
        assert_eq!(report.verdict, Verdict::Unbound);
    }
}

#[test]
fn a_broken_socket_is_never_touched_again() {
    let mut sim = Sim::new(Limits::default());
    let mut kick = kick_for(&sim);
    sim.enqueue(10, 1, SMALL);
    assert!(sim.push(&[(60, SMALL, Kind::BadChecksum)]));
    sim.enqueue(10, 1, SMALL);
    assert_eq!(pass(&mut kick, &mut sim).verdict, Verdict::Broken);
    for _ in 0..10 {
        assert_eq!(pass(&mut kick, &mut sim).verdict, Verdict::Broken);
    }
    assert_eq!(kick.next_wake(sim.now), None);
}

/// A kernel that works on the ring by itself, as a zero-copy driver does.
struct Driver {
    pending: u32,
    needs_kick: bool,
    calls: u32,
}

impl TxKernel for Driver {
    fn pending(&self) -> u32 {
        self.pending
    }

    fn reap(&mut self) -> u32 {
        0
    }

    fn send(&mut self) -> Result<(), i32> {
        self.calls += 1;
        self.needs_kick = false;
        Ok(())
    }

    fn needs_kick(&self) -> bool {
        self.needs_kick
    }
}

#[test]
fn a_working_driver_is_not_called() {
    let mut driver = Driver { pending: 64, needs_kick: true, calls: 0 };
    let mut kick = Kick::new(32);
    assert_eq!(kick.run(&mut driver, Nanos(0)).verdict, Verdict::Blocked);
    assert_eq!(kick.run(&mut driver, Nanos(100_000)).verdict, Verdict::Blocked);
    assert_eq!(driver.calls, 1);
    driver.needs_kick = true;
    kick.run(&mut driver, Nanos(10_000_000));
    assert_eq!(driver.calls, 2, "it stopped with descriptors left");
    driver.pending = 0;
    assert_eq!(kick.run(&mut driver, Nanos(10_000_001)).verdict, Verdict::Done);
    driver.pending = 1;
    driver.needs_kick = true;
    kick.run(&mut driver, Nanos(10_000_002));
    assert_eq!(driver.calls, 3, "an idle queue waits for nothing");
}

/// One step of a random schedule.
#[derive(Clone, Debug)]
enum Op {
    Enqueue { n: usize, n_descs: usize, bytes: u64 },
    EnqueueInvalid,
    Advance(u64),
    Fault(Fault),
    Down(Option<i32>),
    Carrier(bool),
    Hold(Option<u64>),
    PacketTime(Option<u64>),
    Pass,
}

fn fault() -> impl Strategy<Value = Fault> {
    prop_oneof![
        prop::sample::select(vec![libc::EINTR, libc::ENOBUFS, libc::ENETDOWN, libc::EPERM])
            .prop_map(Fault::Errno),
        (1..134i32)
            .prop_filter("kept errors only", |e| ![
                libc::EINVAL,
                libc::ENXIO,
                libc::ENODEV,
                libc::EBUSY
            ]
            .contains(e))
            .prop_map(Fault::Errno),
        Just(Fault::DeviceBusy),
        Just(Fault::DeviceDrop),
        Just(Fault::NoMemory(libc::ENOMEM)),
        Just(Fault::Deaf),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => (1..300usize, 1..=19usize, 512..4096u64)
            .prop_map(|(n, n_descs, bytes)| Op::Enqueue { n: n.div_ceil(n_descs), n_descs, bytes }),
        1 => Just(Op::EnqueueInvalid),
        3 => (0..2_000_000u64).prop_map(Op::Advance),
        2 => fault().prop_map(Op::Fault),
        1 => prop::option::of(Just(libc::ENETDOWN)).prop_map(Op::Down),
        1 => any::<bool>().prop_map(Op::Carrier),
        1 => prop::option::of(0..200_000u64).prop_map(Op::Hold),
        1 => prop::option::weighted(0.8, 0..200_000u64).prop_map(Op::PacketTime),
        6 => Just(Op::Pass),
    ]
}

fn limits() -> impl Strategy<Value = Limits> {
    (18..128u32, 64..1024usize, 19..1024usize, 4_096..300_000u64, 0..200_000u64).prop_map(
        |(budget, ring, completions, sndbuf, packet_time)| Limits {
            n_frames: 512,
            ring,
            completions,
            budget,
            sndbuf,
            packet_time: Some(packet_time),
        },
    )
}

/// Does one step, with the bounds that hold for every pass.
fn step(kick: &mut Kick, sim: &mut Sim, op: Op) {
    match op {
        Op::Enqueue { n, n_descs, bytes } => {
            sim.enqueue(n, n_descs, bytes);
        }
        Op::EnqueueInvalid => sim.enqueue_invalid(),
        Op::Advance(by) => sim.advance(later(sim.now, Nanos(by))),
        Op::Fault(fault) => sim.faults.push_back(fault),
        Op::Down(errno) => sim.down = errno,
        Op::Carrier(on) => sim.carrier = on,
        Op::Hold(limit) => sim.held = limit,
        Op::PacketTime(time) => sim.limits.packet_time = time,
        Op::Pass => {
            let report = pass(kick, sim);
            if report.verdict == Verdict::Blocked {
                let at_once = pass(kick, sim);
                assert!(at_once.calls == 0 || report.completed > 0, "busy retry");
            }
        }
    }
}

/// Nothing goes wrong any more.
fn heal(sim: &mut Sim) {
    sim.faults.clear();
    sim.down = None;
    sim.carrier = true;
    sim.held = None;
    sim.limits.packet_time = Some(1_000);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever happens on the way, once the faults end everything queued leaves without new
    /// packets, every frame comes back once, and no pass breaks its bounds.
    #[test]
    fn everything_sendable_is_sent(
        limits in limits(), lags in any::<bool>(), ops in prop::collection::vec(op(), 1..60),
    ) {
        let mut sim = Sim::new(limits);
        sim.lags = lags;
        let mut kick = kick_for(&sim);
        for op in ops {
            step(&mut kick, &mut sim, op);
        }
        heal(&mut sim);
        pass(&mut kick, &mut sim);
        sleep_through(&mut kick, &mut sim, Nanos::from_secs(2));
        pass(&mut kick, &mut sim);
        prop_assert_eq!(sim.pending(), 0);
        prop_assert_eq!(sim.count(Owner::User), sim.limits.n_frames);
    }

    /// A socket that is unbound, or that the kernel refuses for good, at any point: it is not called again,
    /// what the kernel had comes back in the first case and nothing is read in the second.
    #[test]
    fn a_stopped_socket_is_left_alone(
        limits in limits(),
        errno in prop::sample::select(vec![libc::ENXIO, libc::ENODEV, libc::EINVAL]),
        ops in prop::collection::vec(op(), 1..30), more in prop::collection::vec(op(), 1..30),
    ) {
        let mut sim = Sim::new(limits);
        let mut kick = kick_for(&sim);
        for op in ops {
            step(&mut kick, &mut sim, op);
        }
        heal(&mut sim);
        if errno == libc::EINVAL {
            pass(&mut kick, &mut sim);
            sleep_through(&mut kick, &mut sim, Nanos::from_secs(2));
            prop_assert!(sim.push(&[(60, SMALL, Kind::BadChecksum)]));
        } else {
            sim.enqueue(1, 1, SMALL);
            sim.down = Some(errno);
        }
        pass(&mut kick, &mut sim);
        sleep_through(&mut kick, &mut sim, MAX_BACK_OFF);
        let wanted = if errno == libc::EINVAL { Verdict::Broken } else { Verdict::Unbound };
        prop_assert_eq!(pass(&mut kick, &mut sim).verdict, wanted);
        let calls = sim.calls;
        for op in more {
            step(&mut kick, &mut sim, op);
            sim.advance(later(sim.now, MAX_BACK_OFF));
        }
        heal(&mut sim);
        sim.advance(later(sim.now, Nanos::from_secs(2)));
        prop_assert_eq!(pass(&mut kick, &mut sim).verdict, wanted);
        prop_assert_eq!((sim.calls, kick.next_wake(sim.now)), (calls, None));
        if wanted == Verdict::Unbound {
            prop_assert_eq!(sim.count(Owner::CompletionRing), 0);
        }
    }
}
