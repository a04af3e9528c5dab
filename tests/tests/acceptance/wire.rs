//! Whatever is on the wire ends in one counted outcome: never a panic, never a lost frame (case 26).

use std::net::Ipv4Addr;
use std::time::Duration;

use xvs_datapath::{MacAddr, testing::PacketBuilder};
use xvs_tests::{
    Error, Result, check,
    daemon::{Daemon, Setup},
    frame,
    raw::RawSocket,
    rig::{C1_MAC, C2, C2_MAC, Rig},
};

use crate::{Random, number, runner::on};

/// Addresses of the hosts.
const A: Ipv4Addr = Ipv4Addr::new(10, 1, 1, 1);
const B: Ipv4Addr = Ipv4Addr::new(10, 1, 1, 2);

/// Frames that are right at the beginning and cut, or changed in a byte, somewhere.
fn broken(random: &mut Random) -> Vec<u8> {
    let udp = frame::ipv4(A, B, 17, &frame::udp((A, 1), (B, 2), &[0; 64]));
    let tcp = frame::ipv4(A, B, 6, &frame::tcp((A, 1), (B, 2), &[0; 64]));
    let tagged = [&[0, 7, 8, 0][..], &udp].concat();
    let mut packet = match random.below(8) {
        0 => frame::ethernet(C2_MAC, C1_MAC, 0x0800, &tcp),
        1 => frame::ethernet(C2_MAC, C1_MAC, 0x8100, &tagged),
        2 => frame::ethernet(C2_MAC, C1_MAC, 0x86dd, &random.bytes(200)),
        3 => frame::ethernet([0xff; 6], C1_MAC, 0x0806, &random.bytes(40)),
        4 => frame::ethernet(C2_MAC, C1_MAC, random.u16(), &random.bytes(1500)),
        5 => random.bytes(1514),
        _ => frame::ethernet(C2_MAC, C1_MAC, 0x0800, &udp),
    };
    let place = random.below(packet.len());
    packet[place] = random.u16().to_le_bytes()[0];
    packet.truncate(14.max(random.below(packet.len() + 200)));
    packet
}

/// Frames of every kind that is parsed, and of some that are not.
fn whole() -> Vec<Vec<u8>> {
    let eth = || PacketBuilder::eth(MacAddr(C1_MAC), MacAddr(C2_MAC));
    let v4 = || eth().ipv4(A, B);
    let (a6, b6) = (A.to_ipv6_mapped(), B.to_ipv6_mapped());
    let v6 = || eth().ipv6(a6, b6, 5);
    let hosts = ((MacAddr(C1_MAC), A), (MacAddr(C2_MAC), B));
    let kinds = [
        eth().arp(1, hosts.0, hosts.1),
        v4().udp(1, 2),
        v4().tcp(1, 2).flags(0x12),
        v4().sctp(1, 2),
        v4().icmp(8, 0),
        v4().fragment(0, true).udp(1, 2),
        v4().fragment(100, false).udp(1, 2),
        eth().ipv4_options(A, B, &[7, 7, 4, 0, 0, 0, 0, 0]).udp(1, 2),
        v6().udp(1, 2),
        v6().tcp(1, 2),
        v6().icmpv6(128, 0),
        v6().nd(135, b6, &[(1, MacAddr(C1_MAC)), (2, MacAddr(C2_MAC))]),
        v6().ext(0, &[0; 6]).ext(60, &[0; 14]).udp(1, 2),
        v6().ipv6_fragment(0, true).udp(1, 2),
        v6().ipv6_fragment(100, false).udp(1, 2),
        eth().vlan(5).ipv4(A, B).tcp(1, 2),
        eth().tag(0x88a8, 5).vlan(6).ipv6(a6, b6, 0).udp(1, 2),
        eth().vlan(5).vlan(6).vlan(7).ipv4(A, B).udp(1, 2),
        v4().vxlan(1).inner_eth(MacAddr(C1_MAC), MacAddr(C2_MAC)).ipv4(A, B).tcp(1, 2),
    ];
    let unknown = [0, 1, 0x05dc, 0x0600, 0x8847, 0x88cc, 0xffff];
    let unknown = unknown.map(|kind| frame::ethernet(C2_MAC, C1_MAC, kind, &[0xaa; 40]));
    kinds.into_iter().map(|kind| kind.payload_len(8).build()).chain(unknown).collect()
}

/// Cut after every byte, and with every byte of the headers changed: none is lost, none counted twice.
pub(crate) fn headers_cut_or_changed_at_every_byte_are_counted_once() -> Result<()> {
    on(Rig::pair, |rig| {
        let daemon = Daemon::start(rig, &Setup::new(rig))?;
        rig.wait_forwarding(Duration::from_secs(5))?;
        let socket = rig.c1.enter(|| RawSocket::open("e0"))?;
        let before = daemon.balanced()?;
        let mut sent = 0;
        let mut send = |bytes: &[u8]| -> Result<()> {
            if socket.send(bytes)? {
                sent += 1;
                if sent % 250 == 0 {
                    std::thread::sleep(Duration::from_millis(2));
                }
            }
            Ok(())
        };
        for whole in whole() {
            for length in 0..whole.len() {
                send(&whole[..length])?;
            }
            for at in 12..whole.len() {
                for bits in [0x01, 0x80, 0xff] {
                    let mut changed = whole.clone();
                    changed[at] ^= bits;
                    send(&changed)?;
                }
            }
        }
        // What takes several frames of the packet memory, whole and cut where one of them ends.
        for length in [1514, 1513, 60, 14] {
            send(&frame::ethernet(C2_MAC, C1_MAC, 0x0800, &vec![0x45; length - 14]))?;
        }
        let after = daemon.balanced()?;
        let seen = after.packets("rx") - before.packets("rx");
        // The hosts say a word of their own now and then.
        check!(sent > 5_000 && (sent..sent + 200).contains(&seen), "{sent} sent, {seen} received");
        rig.wait_forwarding(Duration::from_secs(2))?;
        daemon.stop()
    })
}

pub(crate) fn broken_frames_are_counted_once_each() -> Result<()> {
    on(Rig::pair, |rig| {
        let daemon = Daemon::start(rig, &Setup::new(rig))?;
        rig.wait_forwarding(Duration::from_secs(5))?;
        let before = daemon.balanced()?;
        let socket = rig.c1.enter(|| RawSocket::open("e0"))?;
        let mut random = Random::new(26);
        let mut sent = 0;
        for n in 0..50_000 {
            sent += u64::from(socket.send(&broken(&mut random))?);
            if n % 500 == 0 {
                std::thread::sleep(Duration::from_millis(2));
            }
        }
        let after = daemon.balanced()?;
        let port = daemon.port("v1")?;
        let lost: u64 = ["rx_dropped", "rx_ring_full", "rx_fill_ring_empty_descs"]
            .iter()
            .map(|name| number(&port, &format!("/queues/0/kernel/{name}")))
            .sum();
        let seen = after.packets("rx") - before.packets("rx");
        check!(sent > 40_000, "only {sent} frames were sent");
        check!(seen + lost >= sent, "{sent} sent, {seen} received, {lost} lost by the kernel");
        rig.wait_forwarding(Duration::from_secs(2))?;
        daemon.stop()
    })
}

/// Fragments are forwarded as they are.
pub(crate) fn fragments_pass() -> Result<()> {
    on(Rig::pair, |rig| {
        let daemon = Daemon::start(rig, &Setup::new(rig))?;
        rig.wait_forwarding(Duration::from_secs(5))?;
        rig.c1.run(&format!("ping -c 3 -i 0.1 -W 1 -s 8000 {C2}"))?;
        daemon.stop()
    })
}

/// The ledger notices a single lost frame: a build that loses one on purpose does not pass.
pub(crate) fn a_daemon_that_leaks_one_frame_is_found_out() -> Result<()> {
    on(Rig::pair, |rig| {
        let mut setup = Setup::new(rig);
        setup.program = "xvswitchd-leak".to_owned();
        let daemon = Daemon::start(rig, &setup)?;
        // It loses a frame of a packet that is dropped, so let some be.
        daemon.ctl(&["rule", "add", "br0", "actions=drop"])?;
        let _ = rig.wait_forwarding(Duration::from_secs(1));
        match daemon.balanced() {
            Err(Error::Check(text)) if text.contains("frames") => Ok(()),
            outcome => Err(Error::Check(format!("the leak went unnoticed: {outcome:?}"))),
        }
    })
}
