//! Packets larger than 1514 bytes: jumbo frames, and what senders leave to their devices to cut (cases 11, 14, 15).

use std::net::UdpSocket;
use std::time::Duration;

use nix::sys::socket::{setsockopt, sockopt::UdpGsoSegment};
use xvs_tests::{
    Error, Result, check,
    daemon::{Daemon, Setup},
    iperf::Iperf,
    ledger::Ledger,
    ping::Ping,
    rig::{C1, C2, C2_V6, Rig},
    udp::Flow,
    wait_until,
};

use crate::{
    runner::on,
    traffic::{check_checksums, make_vxlan},
    transmit::undisturbed,
};

/// Both kinds of XDP that a veth has.
const MODES: [&str; 2] = ["native", "generic"];

/// The ports of a rig in a mode.
fn setup(rig: &Rig, mode: &str) -> Setup {
    Setup::new(rig).each_port(&format!("xdp-mode = \"{mode}\""))
}

/// Both ends of both links.
fn set_mtus(rig: &Rig, mtu: u32) -> Result<()> {
    for (ns, interface) in [(&rig.c1, "e0"), (&rig.c2, "e0"), (&rig.dut, "v1"), (&rig.dut, "v2")] {
        ns.ip(&format!("link set {interface} mtu {mtu}"))?;
    }
    Ok(())
}

/// One TCP stream there and one back; each gets at least that much.
fn tcp_both_ways(rig: &Rig, to: &str, mbit_s: f64) -> Result<()> {
    for arguments in [&[][..], &["-R"]] {
        let tcp = Iperf::run(rig, to, 1, arguments)?;
        check!(tcp.mbit_s > mbit_s, "TCP {arguments:?} to {to}: {} Mbit/s", tcp.mbit_s);
    }
    check_checksums(rig)
}

/// How many more drops there are for a reason.
fn more(before: &Ledger, after: &Ledger, reason: &str) -> u64 {
    after.drops(reason) - before.drops(reason)
}

/// Sends numbered datagrams with "don't fragment", in order to be lost.
fn send_datagrams(rig: &Rig, size: usize, count: u32) -> Result<()> {
    let flow = Flow { to: format!("{C2}:7000"), size, rate_pps: 1000, count };
    let sent = xvs_tests::ns::join(flow.start(&rig.c1)?)?;
    check!(sent == count, "only {sent} datagrams of {size} bytes left the sender");
    Ok(())
}

/// Case 11: whole 64 KiB packets of the hosts arrive in generic mode.
pub(crate) fn what_is_left_to_be_cut_is_cut_in_generic_mode() -> Result<()> {
    on(Rig::pair, |rig| {
        let daemon = Daemon::start(rig, &setup(rig, "generic"))?;
        rig.wait_forwarding(Duration::from_secs(5))?;
        for to in [C2, C2_V6] {
            tcp_both_ways(rig, to, 300.0)?;
        }
        let ledger = daemon.balanced()?;
        let (segments, tx) = (ledger.packets("segments"), ledger.packets("tx"));
        check!(segments > tx / 2, "{segments} of {tx} packets come from cutting");
        for reason in ["mtu", "unsegmented", "no_frame", "tx_busy", "too_many_frames"] {
            check!(ledger.drops(reason) == 0, "{reason}: {}", ledger.drops(reason));
        }
        daemon.stop()
    })
}

/// Case 11: the same inside a tunnel whose own checksum is to be completed for each packet.
pub(crate) fn what_is_left_to_be_cut_in_a_tunnel_is_cut_too() -> Result<()> {
    for words in ["udpcsum", "noudpcsum"] {
        on(Rig::pair, |rig| {
            make_vxlan(rig, words)?;
            let daemon = Daemon::start(rig, &setup(rig, "generic"))?;
            tcp_both_ways(rig, "10.9.9.2", 200.0)?;
            let ledger = daemon.balanced()?;
            let (segments, tx) = (ledger.packets("segments"), ledger.packets("tx"));
            check!(segments > tx / 2, "{words}: {segments} of {tx} packets come from cutting");
            check!(ledger.drops("unsegmented") == 0, "{words}: {}", ledger.json());
            daemon.stop()
        })?;
    }
    Ok(())
}

/// Case 14.
pub(crate) fn jumbo_frames_pass_in_every_mode() -> Result<()> {
    for mode in MODES {
        on(Rig::pair, |rig| {
            set_mtus(rig, 9000)?;
            let daemon = Daemon::start(rig, &setup(rig, mode))?;
            let ping = Ping::new(&rig.c1, C2).size(8972).count(20).interval_s(0.02);
            let lost = ping.run(&rig.scratch)?.lost();
            check!(lost == 0, "{mode}: {lost} pings of 9000 bytes lost");
            tcp_both_ways(rig, C2, 300.0)?;
            tcp_both_ways(rig, C2_V6, 300.0)?;
            let ledger = daemon.balanced()?;
            for reason in ["mtu", "unsegmented", "no_frame", "tx_busy", "too_many_frames"] {
                check!(ledger.drops(reason) == 0, "{mode}: {reason}: {}", ledger.drops(reason));
            }
            daemon.stop()
        })?;
    }
    Ok(())
}

/// Case 14: a packet of 18 frames passes; an MTU whose packets need 19 is refused, naming the largest, and the
/// port binds again by itself once it is lowered.
pub(crate) fn an_mtu_of_19_frames_is_refused() -> Result<()> {
    const MAX: u32 = 18 * (2048 - 256 - 128) - 18;
    on(Rig::pair, |rig| {
        set_mtus(rig, MAX)?;
        let mut setup = setup(rig, "native");
        setup.umem = "frames = 16384\nframe-size = 2048".to_owned();
        let daemon = Daemon::start(rig, &setup)?;
        let pass = |daemon: &Daemon| {
            rig.wait_forwarding(Duration::from_secs(5))?;
            let ping = Ping::new(&rig.c1, C2).size(MAX - 28).count(10).interval_s(0.02);
            check!(ping.run(&rig.scratch)?.lost() == 0, "packets of 18 frames are lost");
            daemon.balanced().map(drop)
        };
        pass(&daemon)?;
        rig.dut.ip(&format!("link set v1 mtu {}", MAX + 1))?;
        let text = wait_until("a refusal", Duration::from_secs(5), || {
            let text = daemon.ctl_text(&["port", "show", "v1"])?;
            Ok(text.contains("18 frame").then_some(text))
        })?;
        check!(text.contains(&format!("lower it to {MAX}")), "{text}");
        rig.dut.ip(&format!("link set v1 mtu {MAX}"))?;
        pass(&daemon)?;
        daemon.stop()
    })
}

/// With the smallest frames a packet of 64 KiB has 40, more than can be sent as one packet.
pub(crate) fn what_is_left_to_be_cut_may_have_more_frames_than_a_packet() -> Result<()> {
    on(Rig::pair, |rig| {
        let mut setup = setup(rig, "generic");
        setup.umem = "frames = 16384\nframe-size = 2048".to_owned();
        let daemon = Daemon::start(rig, &setup)?;
        rig.wait_forwarding(Duration::from_secs(5))?;
        tcp_both_ways(rig, C2, 300.0)?;
        let drops = daemon.balanced()?.drops("too_many_frames");
        check!(drops == 0, "too_many_frames: {drops}");
        daemon.stop()
    })
}

/// Case 15: never truncated, always counted; TCP goes on, as the receiver tells its largest segment.
pub(crate) fn what_exceeds_the_output_mtu_is_counted() -> Result<()> {
    for mode in MODES {
        on(Rig::pair, |rig| {
            rig.c1.ip("link set e0 mtu 9000")?;
            rig.dut.ip("link set v1 mtu 9000")?;
            let daemon = Daemon::start(rig, &setup(rig, mode))?;
            rig.wait_forwarding(Duration::from_secs(5))?;
            let before = daemon.balanced()?;
            send_datagrams(rig, 8000, 50)?;
            let after = daemon.balanced()?;
            let dropped = more(&before, &after, "mtu");
            check!(dropped == 50, "{mode}: 50 datagrams of 8000 bytes, {dropped} drops");
            tcp_both_ways(rig, C2, 300.0)?;
            daemon.stop()
        })?;
    }
    Ok(())
}

/// The size of the datagrams in a UDP packet that is left to be cut is not visible to XDP.
pub(crate) fn udp_left_to_be_cut_is_counted() -> Result<()> {
    on(Rig::pair, |rig| {
        let daemon = Daemon::start(rig, &setup(rig, "generic"))?;
        rig.wait_forwarding(Duration::from_secs(5))?;
        let before = daemon.balanced()?;
        let sender = rig.c1.enter(|| UdpSocket::bind((C1, 0)).map_err(Error::io("bind")))?;
        setsockopt(&sender, UdpGsoSegment, &1400).map_err(Error::io("set UDP_SEGMENT"))?;
        for _ in 0..20 {
            sender.send_to(&[7; 14_000], (C2, 7000)).map_err(Error::io("send"))?;
        }
        let dropped = more(&before, &daemon.balanced()?, "unsegmented");
        check!(dropped == 20, "20 packets of ten datagrams, {dropped} drops");
        daemon.stop()
    })
}

/// A lower MTU is in force at once, under traffic and without binding again; and so is the old one again.
pub(crate) fn a_lowered_mtu_is_followed() -> Result<()> {
    on(Rig::pair, |rig| {
        set_mtus(rig, 9000)?;
        let daemon = Daemon::start(rig, &setup(rig, "native"))?;
        rig.wait_forwarding(Duration::from_secs(5))?;
        let known = |mtu| {
            wait_until("the new MTU", Duration::from_secs(3), || {
                Ok((crate::number(&daemon.port("v2")?, "/mtu") == mtu).then_some(()))
            })
        };
        let tcp = Iperf::start(rig, C2, 4, &[])?;
        std::thread::sleep(Duration::from_millis(700));
        rig.dut.ip("link set v2 mtu 3000")?;
        known(3000)?;
        let before = daemon.ledger()?;
        send_datagrams(rig, 4000, 50)?;
        let dropped = more(&before, &daemon.ledger()?, "mtu");
        check!(dropped >= 50, "50 datagrams of 4000 bytes, {dropped} drops");
        rig.dut.ip("link set v2 mtu 9000")?;
        known(9000)?;
        let last = tcp.finish()?.seconds_mbit_s.into_iter().rev().take(2).fold(0.0, f64::max);
        check!(last > 100.0, "TCP does not go on: {last} Mbit/s");
        let before = daemon.balanced()?;
        let ping = Ping::new(&rig.c1, C2).size(8972).count(10).interval_s(0.02);
        check!(ping.run(&rig.scratch)?.lost() == 0, "9000 bytes do not pass again");
        check!(more(&before, &daemon.balanced()?, "mtu") == 0, "drops at the old MTU");
        daemon.stop()
    })
}

/// TCP fills the slow link beside a ping of as large packets, which waits for few of them.
fn tcp_beside_a_ping(rig: &Rig, daemon: &Daemon, size: u32) -> Result<Ledger> {
    rig.wait_forwarding(Duration::from_secs(5))?;
    let before = daemon.balanced()?;
    let tcp = Iperf::start(rig, C2, 4, &[])?;
    std::thread::sleep(Duration::from_secs(1));
    let ping = Ping::new(&rig.c1, C2).size(size).count(30).interval_s(0.08).run(&rig.scratch)?;
    let mbit_s = tcp.finish()?.mbit_s;
    check!(mbit_s > 80.0, "TCP gets {mbit_s} Mbit/s of 100");
    check!(ping.lost() == 0, "{} of 30 pings lost", ping.lost());
    check!(ping.median_ms() < 25.0, "the median ping takes {} ms", ping.median_ms());
    check_checksums(rig)?;
    let after = daemon.balanced()?;
    for reason in ["mtu", "unsegmented", "no_frame", "tx_busy", "tx_full"] {
        check!(more(&before, &after, reason) == 0, "{reason}: {}", after.json());
    }
    Ok(after)
}

/// Jumbo frames wait in the fair queue as others do.
pub(crate) fn jumbo_frames_share_a_slow_link() -> Result<()> {
    on(Rig::slow_link, |rig| {
        set_mtus(rig, 9000)?;
        rig.dut.ip("link set m2 mtu 9000")?;
        let daemon = Daemon::start(rig, &Setup::new(rig))?;
        undisturbed(|| tcp_beside_a_ping(rig, &daemon, 8972).map(drop))?;
        daemon.stop()
    })
}

/// So do the many segments of a packet that was cut.
pub(crate) fn segments_share_a_slow_link() -> Result<()> {
    on(Rig::slow_link, |rig| {
        let mut setup = Setup::new(rig);
        "xdp-mode = \"generic\"".clone_into(&mut setup.ports[0].lines);
        let daemon = Daemon::start(rig, &setup)?;
        undisturbed(|| {
            let ledger = tcp_beside_a_ping(rig, &daemon, 1472)?;
            let (segments, tx) = (ledger.packets("segments"), ledger.packets("tx"));
            check!(segments > tx / 4, "{segments} of {tx} packets come from cutting");
            Ok(())
        })?;
        daemon.stop()
    })
}
