//! Unfinished checksums on the wire: completed by the kernel on request, or here where it cannot. Needs
//! root; everything happens in namespaces of its own.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::net::{Ipv4Addr, Ipv6Addr, UdpSocket};
use std::time::Duration;

use support::{End, Wire, assert_idle, in_mode, umem};
use xvs_datapath::testing::{Csum, PacketBuilder};
use xvs_datapath::{Layers, MacAddr, Packet, PortNo, TxQueue, extract};
use xvs_netdev_afxdp::XdpMode;
use xvs_tests::frame;
use xvs_tests::raw::RawSocket;

const LIMIT: Duration = Duration::from_secs(5);
const FROM: Ipv4Addr = Ipv4Addr::new(10, 5, 5, 1);
const TO: Ipv4Addr = Ipv4Addr::new(10, 5, 5, 2);
const L4: usize = 34;

/// A finished packet of one protocol.
fn whole(to: [u8; 6], proto: u8, payload: &[u8]) -> Vec<u8> {
    let transport = match proto {
        6 => frame::tcp((FROM, 7), (TO, 8), payload),
        17 => frame::udp((FROM, 7), (TO, 8), payload),
        132 => frame::sctp(7, 8, payload),
        _ => panic!("{proto}"),
    };
    frame::ethernet(to, [2, 0, 0, 0, 0, 9], 0x0800, &frame::ipv4(FROM, TO, proto, &transport))
}

/// The same as a stack leaves it to its device: the sum of the pseudo-header, or no CRC.
fn unfinished(whole: &[u8]) -> Vec<u8> {
    let mut bytes = whole.to_vec();
    let (proto, length) = (whole[23], u32::try_from(whole.len() - L4).unwrap());
    let sum = frame::sum(&whole[26..34], u32::from(proto) + length);
    match proto {
        6 => frame::put(&mut bytes, L4 + 16, sum),
        17 => frame::put(&mut bytes, L4 + 6, sum),
        _ => bytes[L4 + 8..L4 + 12].fill(0),
    }
    assert_ne!(bytes, whole);
    bytes
}

fn send(a: &mut End, bytes: &[u8]) {
    let mut packet = a.cache.packet(bytes).unwrap();
    packet.set_layers(Layers { l3: 14, l4: 34 });
    let now = a.now();
    a.port.tx.enqueue(&mut vec![packet], &mut a.cache, &a.port.drops, now);
    a.flush_all(LIMIT);
}

#[test]
fn what_the_device_leaves_to_the_kernel_is_right_on_the_wire() {
    for mode in [XdpMode::Native, XdpMode::Generic] {
        let wire = Wire::new("mtu 9000");
        // Without this the veth hands the request on to its peer, as a NIC does to the hardware.
        wire.near.run("ethtool -K v1 tx off").unwrap();
        let umem = umem(4096);
        let mut a = End::open(&wire.near, umem, in_mode("v1", mode));
        assert!(a.port.in_force.tx_metadata);
        let capture = wire.far.enter(|| RawSocket::open("e0")).unwrap();
        let mut n = 0;
        for proto in [6, 17, 132] {
            for length in [0, 1, 2, 17, 1400, 1401, 3786, 3787, 8900, 8901] {
                let payload: Vec<u8> = (0..length).map(|n: u32| (n * 7).to_le_bytes()[0]).collect();
                let whole = whole([0xff; 6], proto, &payload);
                send(&mut a, &unfinished(&whole));
                let got = capture.receive(LIMIT, |_| true).unwrap().unwrap();
                assert_eq!(got, whole, "{proto}: {length} bytes");
                n += 1;
            }
        }
        let stats = a.port.tx.stats();
        assert_eq!((stats.csum_requests.get(), stats.csum_software.get()), (n * 2 / 3, n / 3));
        let padded = |bytes| [bytes, vec![0x55; 7]].concat();
        let whole_udp = whole([0xff; 6], 17, b"padded");
        send(&mut a, &padded(unfinished(&whole_udp)));
        assert_eq!(capture.receive(LIMIT, |_| true).unwrap().unwrap(), padded(whole_udp));
        assert_eq!(stats.csum_software.get(), n / 3 + 1, "the kernel would sum the padding");
        // A finished one, right or wrong, is left alone.
        let mut corrupt = whole([0xff; 6], 17, b"payload");
        corrupt[L4 + 6] ^= 0x55;
        for bytes in [whole([0xff; 6], 6, b"payload"), corrupt] {
            send(&mut a, &bytes);
            assert_eq!(capture.receive(LIMIT, |_| true).unwrap().unwrap(), bytes);
        }
        assert_eq!(stats.csum_requests.get() + stats.csum_software.get(), n + 1);
        a.close_all();
        assert_idle(umem);
    }
}

/// Everything that can stand before an inner transport header. Outer tags are taken off where this looks.
fn tunnels() -> Vec<PacketBuilder> {
    let mac = MacAddr([2, 0, 0, 0, 0, 9]);
    let v6 = |n| Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, n);
    let eth = || PacketBuilder::eth(mac, MacAddr([0xff; 6]));
    let in_ethernet = |outer: PacketBuilder| outer.inner_eth(mac, mac);
    vec![
        eth().ipv4_options(FROM, TO, &[1; 12]),
        eth().ipv6(v6(1), v6(2), 9).ext(0, &[0; 6]).ext(60, &[0; 14]),
        in_ethernet(eth().ipv4(FROM, TO).vxlan(999)).ipv4(TO, FROM),
        in_ethernet(eth().ipv6(v6(1), v6(2), 0).vxlan(999)).vlan(7).ipv6(v6(3), v6(4), 0),
        in_ethernet(eth().ipv4(FROM, TO).geneve(999)).ipv4(TO, FROM),
        in_ethernet(eth().ipv4(FROM, TO).gre(0x6558)).ipv6(v6(3), v6(4), 0),
        eth().ipv4(FROM, TO).gre(0x0800).ipv4(TO, FROM),
        eth().ipv4(FROM, TO).ipv4(TO, FROM),
        eth().ipv4(FROM, TO).ipv6(v6(3), v6(4), 0),
    ]
}

#[test]
fn the_innermost_sum_of_every_tunnel_is_right_on_the_wire() {
    let wire = Wire::new("");
    wire.near.run("ethtool -K v1 tx off").unwrap();
    let umem = umem(4096);
    let mut a = End::open(&wire.near, umem, in_mode("v1", XdpMode::Native));
    let capture = wire.far.enter(|| RawSocket::open("e0")).unwrap();
    let mut requests = 0;
    for tunnel in tunnels() {
        for transport in [tunnel.clone().tcp(5, 6), tunnel.udp(5, 6)] {
            for length in [0, 33, 1200] {
                let build = transport.clone().payload_len(length);
                let mut packet =
                    a.cache.packet(&build.clone().csum(Csum::Partial).build()).unwrap();
                extract(&mut packet, PortNo(1)).unwrap();
                let now = a.now();
                a.port.tx.enqueue(&mut vec![packet], &mut a.cache, &a.port.drops, now);
                a.flush_all(LIMIT);
                let got = capture.receive(LIMIT, |_| true).unwrap().unwrap();
                assert_eq!(got, build.clone().csum(Csum::Full).build(), "{build:?}");
                requests += 1;
            }
        }
    }
    let stats = a.port.tx.stats();
    assert_eq!((stats.csum_requests.get(), stats.csum_software.get()), (requests, 0));
    a.close_all();
    assert_idle(umem);
}

#[test]
fn with_offloads_as_they_are_the_receiving_stack_accepts_it() {
    let wire = Wire::new("");
    wire.far.ip("addr add 10.5.5.2/24 dev e0").unwrap();
    wire.far.ip("neigh add 10.5.5.1 lladdr 02:00:00:00:00:09 dev e0").unwrap();
    let mac = wire.far.run("cat /sys/class/net/e0/address").unwrap();
    let mac: Vec<u8> =
        mac.trim().split(':').map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect();
    let mac: [u8; 6] = mac.try_into().unwrap();
    let socket = wire.far.enter(|| Ok(UdpSocket::bind("10.5.5.2:8").unwrap())).unwrap();
    socket.set_read_timeout(Some(LIMIT)).unwrap();
    let umem = umem(4096);
    let mut a = End::open(&wire.near, umem, in_mode("v1", XdpMode::Native));
    let (good, mut bad) = (whole(mac, 17, b"completed"), whole(mac, 17, b"corrupted"));
    bad[L4 + 6] ^= 0x55;
    send(&mut a, &bad);
    send(&mut a, &unfinished(&good));
    let mut buffer = [0; 100];
    let n = socket.recv(&mut buffer).unwrap();
    assert_eq!(&buffer[..n], b"completed", "and the corrupted one is not laundered");
    assert_eq!(a.port.tx.stats().csum_requests.get(), 1);
    a.close_all();
    assert_idle(umem);
}
