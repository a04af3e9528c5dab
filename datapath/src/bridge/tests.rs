//! NORMAL: learning, moving, ageing, flooding and the bounds of the MAC table; rules in modules.

mod cached;
mod oracle;
mod rules;
mod text;
mod trace;

use crate::{
    Action, BridgeError, FdbConfig, Field, FlowKey, FlowMask, MacAddr, Nanos, PortNo, Purpose,
    Switch, Translation, Upcall, VlanId,
};

const BR: &str = "br0";

/// A bridge with ports v1, v2, v3.
fn switch() -> Switch {
    let switch = Switch::new();
    switch.add_bridge(BR).unwrap();
    for no in 1..=3 {
        switch.add_port(PortNo(no), &format!("v{no}"), BR).unwrap();
    }
    switch
}

fn mac(n: u64) -> MacAddr {
    MacAddr::from_u64(0x0200_0000_0000 | n)
}

fn frame(port: u32, src: MacAddr, dst: MacAddr) -> FlowKey {
    let mut key = FlowKey::default();
    key.set(&Field::IN_PORT, port.into());
    key.set(&Field::ETH_TYPE, 0x0800);
    key.set(&Field::ETH_SRC, src.to_u64().into());
    key.set(&Field::ETH_DST, dst.to_u64().into());
    key
}

fn tagged(mut key: FlowKey, vid: u16) -> FlowKey {
    key.set(&Field::VLAN_TCI, (0x1000 | vid).into());
    key
}

const fn checked(n_packets: u64) -> Purpose {
    Purpose::Revalidate { n_packets, n_bytes: 64 * n_packets }
}

fn secs(n: u64) -> Nanos {
    Nanos::from_secs(n)
}

fn ports(translation: &Translation) -> Vec<u32> {
    let port = |action: &Action| {
        let Action::Output(port) = action else { panic!("{action:?}") };
        port.0
    };
    translation.actions.iter().map(port).collect()
}

fn send(switch: &Switch, key: &FlowKey, now: Nanos) -> Vec<u32> {
    ports(&switch.translate(key, Purpose::Packet, now))
}

#[test]
fn learns_and_forwards() {
    let switch = switch();
    let there = frame(1, mac(1), mac(2));
    assert_eq!(send(&switch, &there, secs(1)), [2, 3]);
    let before = switch.version();
    assert_eq!(send(&switch, &frame(2, mac(2), mac(1)), secs(1)), [1]);
    assert!(switch.version() > before, "the cached flood towards mac 2 must be corrected");
    assert_eq!(ports(&switch.translate(&there, checked(1), secs(2))), [2]);
    let rows = switch.fdb_rows(BR, secs(3)).unwrap();
    let seen: Vec<_> = rows.iter().map(|row| (row.port.0, row.mac, row.age_s)).collect();
    assert_eq!(seen, [(1, mac(1), Some(1)), (2, mac(2), Some(2))]);
}

#[test]
fn looks_at_addresses_and_vlan_only() {
    let switch = switch();
    let mut want = FlowMask::default();
    for field in [Field::IN_PORT, Field::RECIRC_ID, Field::ETH_TYPE, Field::ETH_SRC, Field::ETH_DST]
    {
        want.add(&field);
    }
    want.add_bits(&Field::VLAN_TCI, 0x1fff);
    let made = switch.translate(&frame(1, mac(1), mac(2)), Purpose::Packet, secs(1));
    assert_eq!(made.mask, want);
    assert!(made.keep);
}

#[test]
fn keeps_vlans_apart() {
    let switch = switch();
    send(&switch, &tagged(frame(2, mac(2), mac(9)), 10), secs(1));
    assert_eq!(send(&switch, &tagged(frame(1, mac(1), mac(2)), 10), secs(1)), [2]);
    assert_eq!(send(&switch, &tagged(frame(1, mac(1), mac(2)), 11), secs(1)), [2, 3]);
    assert_eq!(send(&switch, &frame(1, mac(1), mac(2)), secs(1)), [2, 3]);
}

#[test]
fn keeps_bridges_apart() {
    let switch = switch();
    switch.add_bridge("br1").unwrap();
    switch.add_port(PortNo(7), "w7", "br1").unwrap();
    switch.add_port(PortNo(8), "w8", "br1").unwrap();
    assert_eq!(send(&switch, &frame(7, mac(1), mac(2)), secs(1)), [8]);
    assert_eq!(send(&switch, &frame(2, mac(2), mac(1)), secs(1)), [1, 3]);
    assert_eq!(send(&switch, &frame(9, mac(1), mac(2)), secs(1)), [0; 0]);
}

#[test]
fn drops_what_no_bridge_forwards() {
    let switch = switch();
    let stp = "01:80:c2:00:00:0e".parse().unwrap();
    assert_eq!(send(&switch, &frame(1, mac(1), stp), secs(1)), [0; 0]);
    let other = "01:80:c2:00:00:10".parse().unwrap();
    assert_eq!(send(&switch, &frame(1, mac(1), other), secs(1)), [2, 3]);
    // The destination is on the port it came from.
    assert_eq!(send(&switch, &frame(1, mac(5), mac(1)), secs(1)), [0; 0]);
}

#[test]
fn never_learns_groups_or_nobody() {
    let switch = switch();
    for src in [MacAddr::BROADCAST, MacAddr::default(), mac(1 << 40)] {
        send(&switch, &frame(1, src, mac(2)), secs(1));
    }
    assert_eq!(switch.fdb_rows(BR, secs(1)).unwrap(), []);
}

#[test]
fn a_moved_host_is_found_at_once() {
    let switch = switch();
    let to_host = frame(3, mac(3), mac(1));
    let old = frame(1, mac(1), mac(3));
    send(&switch, &old, secs(1));
    assert_eq!(send(&switch, &to_host, secs(1)), [1]);
    let before = switch.version();
    // A gratuitous ARP from its new place.
    assert_eq!(send(&switch, &frame(2, mac(1), MacAddr::BROADCAST), secs(2)), [1, 3]);
    assert!(switch.version() > before);
    assert_eq!(ports(&switch.translate(&to_host, checked(1), secs(2))), [2]);
    // Packets that were on their way do not move it back, and the old flow goes: should the host
    // return, its next packet is seen.
    assert!(!switch.translate(&old, checked(5), secs(2)).keep);
    assert_eq!(ports(&switch.translate(&to_host, checked(1), secs(2))), [2]);
    send(&switch, &old, secs(3));
    assert_eq!(ports(&switch.translate(&to_host, checked(1), secs(3))), [1]);
    assert_eq!(switch.fdb_stats(BR).unwrap().moved, 2);
}

#[test]
fn ages_unless_refreshed() {
    let switch = switch();
    let (to_host, from_host) = (frame(2, mac(2), mac(1)), frame(1, mac(1), MacAddr::BROADCAST));
    send(&switch, &from_host, secs(0));
    send(&switch, &to_host, secs(0));
    switch.translate(&from_host, checked(3), secs(200));
    switch.translate(&to_host, checked(0), secs(200));
    let before = switch.version();
    switch.tick(secs(301));
    let rows = switch.fdb_rows(BR, secs(301)).unwrap();
    assert_eq!(rows.iter().map(|row| row.mac).collect::<Vec<_>>(), [mac(1)]);
    assert_eq!(switch.version(), before, "no flow was sent to mac 2");
    switch.tick(secs(500));
    assert!(switch.version() > before, "a flow was sent to mac 1");
    assert_eq!(switch.fdb_rows(BR, secs(500)).unwrap(), []);
    assert_eq!(ports(&switch.translate(&to_host, checked(0), secs(500))), [1, 3]);
    assert_eq!(switch.fdb_stats(BR).unwrap().expired, 2);
}

#[test]
fn a_checked_flow_without_packets_learns_nothing() {
    let switch = switch();
    let made = switch.translate(&frame(1, mac(1), mac(2)), checked(0), secs(1));
    assert!(!made.keep);
    assert_eq!(switch.fdb_rows(BR, secs(1)).unwrap(), []);
}

#[test]
fn a_flood_of_addresses_displaces_itself() {
    let switch = switch();
    let capacity = 64;
    switch.set_fdb(BR, FdbConfig { capacity, ageing: secs(300) }).unwrap();
    for n in 0..8 {
        send(&switch, &frame(1, mac(n), mac(100)), secs(0));
        send(&switch, &frame(2, mac(100), mac(n)), secs(0));
    }
    let (before, mut now) = (switch.version(), Nanos(0));
    for n in 0..1_000_000 {
        now = Nanos(n * 1000);
        switch.translate(&frame(3, mac(0x1_0000 + n), MacAddr::BROADCAST), Purpose::Packet, now);
    }
    assert_eq!(switch.fdb_rows(BR, now).unwrap().len(), capacity);
    for n in 0..8 {
        assert_eq!(send(&switch, &frame(2, mac(100), mac(n)), now), [1]);
    }
    assert_eq!(switch.version(), before, "nobody sends to the invented addresses");
    let stats = switch.fdb_stats(BR).unwrap();
    assert_eq!(stats.evicted, 1_000_000 - (64 - 9));
}

#[test]
fn a_flood_to_and_from_anywhere_has_flows_checked_at_a_bounded_pace() {
    let switch = switch();
    let before = switch.version();
    // Source and destination swap roles, so that each packet answers a lookup that missed.
    for n in 0..200_000 {
        let now = Nanos(n * 5000);
        send(&switch, &frame(1 + u32::try_from(n).unwrap() % 2, mac(n), mac(n + 1)), now);
    }
    let bumps = switch.version() - before;
    assert!((16..=16 + 10).contains(&bumps), "{bumps} bumps in one second");
    let before = switch.version();
    switch.tick(secs(2));
    assert_eq!(switch.version(), before + 1, "the last one was only late");
}

#[test]
fn the_least_recently_used_goes_first() {
    let switch = switch();
    switch.set_fdb(BR, FdbConfig { capacity: 3, ageing: secs(300) }).unwrap();
    for n in 1..=3 {
        send(&switch, &frame(1, mac(n), mac(9)), secs(n));
    }
    switch.translate(&frame(1, mac(1), mac(9)), checked(1), secs(4));
    send(&switch, &frame(1, mac(4), mac(9)), secs(5));
    let rows = switch.fdb_rows(BR, secs(5)).unwrap();
    assert_eq!(rows.iter().map(|row| row.mac).collect::<Vec<_>>(), [mac(1), mac(3), mac(4)]);
}

#[test]
fn static_entries_stay() {
    let switch = switch();
    let vlan = VlanId(0);
    switch.fdb_add(BR, PortNo(3), vlan, mac(1)).unwrap();
    send(&switch, &frame(1, mac(1), mac(2)), secs(1));
    assert_eq!(send(&switch, &frame(2, mac(2), mac(1)), secs(1)), [3]);
    assert!(switch.translate(&frame(1, mac(1), mac(2)), checked(1), secs(1)).keep);
    switch.tick(secs(1000));
    switch.fdb_flush(BR).unwrap();
    let rows = switch.fdb_rows(BR, secs(1000)).unwrap();
    assert_eq!(rows.iter().map(|row| (row.mac, row.age_s)).collect::<Vec<_>>(), [(mac(1), None)]);
    switch.set_fdb(BR, FdbConfig { capacity: 1, ageing: secs(300) }).unwrap();
    let full = switch.fdb_add(BR, PortNo(3), vlan, mac(2)).unwrap_err();
    assert_eq!(full, BridgeError::FdbFull { max: 1 });
    send(&switch, &frame(2, mac(2), mac(3)), secs(1000));
    assert_eq!(switch.fdb_stats(BR).unwrap().n_entries, 1);
    switch.fdb_del(BR, vlan, mac(1)).unwrap();
    assert_eq!(switch.fdb_del(BR, vlan, mac(1)), Err(BridgeError::NoFdbEntry(mac(1))));
    assert!(matches!(
        switch.fdb_add(BR, PortNo(3), vlan, MacAddr::BROADCAST),
        Err(BridgeError::NotAHost(_))
    ));
}

#[test]
fn a_deleted_port_is_forgotten() {
    let switch = switch();
    send(&switch, &frame(1, mac(1), mac(2)), secs(1));
    switch.fdb_add(BR, PortNo(1), VlanId(0), mac(7)).unwrap();
    let before = switch.version();
    switch.del_port(PortNo(1)).unwrap();
    assert!(switch.version() > before);
    assert_eq!(switch.fdb_rows(BR, secs(1)).unwrap(), []);
    assert_eq!(switch.fdb_stats(BR).unwrap().n_static, 0);
    assert_eq!(send(&switch, &frame(2, mac(2), mac(1)), secs(1)), [3]);
    assert_eq!(send(&switch, &frame(1, mac(1), mac(2)), secs(1)), [0; 0]);
    switch.add_port(PortNo(1), "other", BR).unwrap();
    assert_eq!(send(&switch, &frame(1, mac(1), mac(2)), secs(1)), [2]);
}

#[test]
fn topology_is_named_numbered_and_bounded() {
    let switch = switch();
    assert_eq!(switch.bridges(), [BR]);
    assert_eq!(switch.port_no("v2"), Some(PortNo(2)));
    assert_eq!(switch.port_name(PortNo(3)).as_deref(), Some("v3"));
    assert_eq!(switch.bridge_of(PortNo(3)).as_deref(), Some(BR));
    assert_eq!(switch.ports(BR).unwrap().len(), 3);
    assert_eq!(switch.add_bridge(BR), Err(BridgeError::BridgeExists(BR.to_owned())));
    let taken = |port: &str| Err(BridgeError::PortExists(port.to_owned()));
    assert_eq!(switch.add_port(PortNo(2), "x", BR), taken("v2"));
    assert_eq!(switch.add_port(PortNo(9), "v2", BR), taken("v2"));
    for no in [PortNo(0), PortNo(1024)] {
        assert_eq!(switch.add_port(no, "x", BR), Err(BridgeError::BadPortNo(no)));
    }
    assert_eq!(
        switch.add_port(PortNo(9), "x", "br9"),
        Err(BridgeError::NoBridge("br9".to_owned()))
    );
    assert_eq!(switch.del_port(PortNo(9)), Err(BridgeError::NoPort("9".to_owned())));
    for n in 1..128 {
        switch.add_bridge(&format!("more{n}")).unwrap();
    }
    assert_eq!(switch.add_bridge("last"), Err(BridgeError::TooManyBridges { max: 128 }));
    switch.del_bridge(BR).unwrap();
    assert_eq!(switch.port_no("v2"), None);
    assert!(switch.ports(BR).is_err());
}
