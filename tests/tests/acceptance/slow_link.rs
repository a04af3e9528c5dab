//! Beside an overload of the slow link, what is sparse is neither lost nor late, and bulk shares fairly.

use std::time::Duration;

use xvs_tests::{
    Error, Result, check,
    daemon::{Daemon, Setup},
    ns,
    ping::Ping,
    rig::{C2, Rig},
    udp::{Flow, Received, Receiver},
};

use crate::{number, runner::on, transmit::undisturbed};

/// Frames of 1442 bytes that the link carries in a second.
const LINK_PPS: usize = 100_000_000 / 8 / 1442;

/// Starts daemon and rig, and waits until packets pass.
fn with_daemon(test: impl Fn(&Rig, &Daemon) -> Result<()>) -> Result<()> {
    on(Rig::slow_link, |rig| {
        let daemon = Daemon::start(rig, &Setup::new(rig))?;
        rig.wait_forwarding(Duration::from_secs(5))?;
        undisturbed(|| test(rig, &daemon))?;
        daemon.stop()
    })
}

/// Offers 400 Mbit/s from port to port for `seconds`; the receiver gets it on UDP port 7000.
fn overload(rig: &Rig, seconds: u32) -> Result<std::thread::JoinHandle<Result<u32>>> {
    Flow::bulk(&format!("{C2}:7000"), 400, seconds).start(&rig.c1)
}

/// Waits for the second second of an overload: then queues and limits have settled.
fn settle() {
    std::thread::sleep(Duration::from_secs(1));
}

/// Cases 2 and 4: a ping beside 400 Mbit/s is not lost and takes less than 15 ms, the link is full, and the
/// daemon makes few calls.
pub(crate) fn a_ping_overtakes_an_overload() -> Result<()> {
    with_daemon(|rig, daemon| {
        let calls = || Ok::<_, Error>(number(&daemon.port("m2")?, "/kicks/calls"));
        let receiver = Receiver::start(&rig.c2, 7000)?;
        let bulk = overload(rig, 4)?;
        settle();
        let before = calls()?;
        let ping = Ping::new(&rig.c1, C2).count(50).interval_s(0.04).run(&rig.scratch)?;
        let made = calls()? - before;
        ns::join(bulk)?;
        let arrived = receiver.stop()?.numbers.len();
        check!(ping.lost() == 0, "{} of 50 pings lost", ping.lost());
        let median = ping.median_ms();
        check!(median < 15.0, "the median ping takes {median} ms");
        check!(made < 2 * 20_000, "{made} calls in 2 s");
        check!(arrived * 100 >= LINK_PPS * 4 * 95, "{arrived} packets in 4 s");
        Ok(())
    })
}

/// A sparse flow, one packet every 10 ms, beside the overload: none lost, 99 of 100 within 15 ms.
pub(crate) fn a_sparse_flow_is_neither_lost_nor_late() -> Result<()> {
    with_daemon(|rig, _| {
        let (bulk_in, sparse_in) =
            (Receiver::start(&rig.c2, 7000)?, Receiver::start(&rig.c2, 7001)?);
        let bulk = overload(rig, 5)?;
        settle();
        let to = format!("{C2}:7001");
        let sent = ns::join(Flow { to, size: 100, rate_pps: 100, count: 300 }.start(&rig.c1)?)?;
        let sparse: Received = sparse_in.stop()?;
        ns::join(bulk)?;
        bulk_in.stop()?;
        let arrived = sparse.numbers.len();
        check!(arrived == sent as usize, "{arrived} of {sent} arrived");
        let (p50, p99) = (sparse.latency_us(50), sparse.latency_us(99));
        check!(p99 < 15_000, "half within {p50} µs, 99 % within {p99} µs");
        Ok(())
    })
}

/// Two bulk flows, one offering three times as much as the other, share within 60:40.
pub(crate) fn bulk_flows_share_evenly() -> Result<()> {
    with_daemon(|rig, _| {
        let receivers = (Receiver::start(&rig.c2, 7000)?, Receiver::start(&rig.c2, 7001)?);
        let flows = (
            Flow::bulk(&format!("{C2}:7000"), 300, 4).start(&rig.c1)?,
            Flow::bulk(&format!("{C2}:7001"), 100, 4).start(&rig.c1)?,
        );
        ns::join(flows.0)?;
        ns::join(flows.1)?;
        let a = receivers.0.stop()?.numbers.len();
        let b = receivers.1.stop()?.numbers.len();
        check!((a + b) * 100 >= LINK_PPS * 4 * 95, "{a} and {b} packets in 4 s");
        let share = a.max(b) * 100 / (a + b);
        check!(share <= 60, "{a} and {b} packets: {share} %");
        Ok(())
    })
}
