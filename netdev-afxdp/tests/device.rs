//! Devices and link events on real interfaces, in namespaces of their own. Needs root.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use std::fmt::Write as _;
use std::net::IpAddr;
use std::time::Duration;

use xvs_datapath::MacAddr;
use xvs_netdev_afxdp::{Device, Error, LinkEvent, LinkMonitor, Queues};
use xvs_tests::ns::Netns;
use xvs_tests::scratch::Scratch;
use xvs_tests::wait_until;

/// A namespace with a veth pair `v1`, `v2` in it.
fn with_veth(options: &str) -> (Netns, Scratch) {
    let scratch = Scratch::new().unwrap();
    let ns = Netns::new(&scratch, "dev").unwrap();
    ns.ip(&format!(
        "link add v1 address 02:00:00:00:00:0a {options} type veth peer name v2 {options}"
    ))
    .unwrap();
    (ns, scratch)
}

fn find(ns: &Netns, name: &'static str) -> Result<Device, Error> {
    ns.enter(move || Ok(Device::find(name))).unwrap()
}

#[test]
fn flags_address_and_driver_are_the_kernels() {
    let (ns, _scratch) = with_veth("");
    let down = find(&ns, "v1").unwrap();
    assert_eq!((down.up, down.carrier, down.running), (false, false, false));
    assert_eq!(down.mac, MacAddr([2, 0, 0, 0, 0, 10]));
    assert_eq!(down.driver.as_deref(), Some("veth"));
    assert_eq!((down.mtu, down.numa_node), (1500, None));
    assert_eq!((down.queues.rx, down.queues.tx), (1, 1));

    ns.ip("link set v1 up mtu 1400").unwrap();
    let alone = find(&ns, "v1").unwrap();
    assert_eq!((alone.up, alone.carrier, alone.mtu), (true, false, 1400));
    ns.ip("link set v2 up").unwrap();
    let both = find(&ns, "v1").unwrap();
    assert_eq!((both.up, both.carrier, both.running), (true, true, true));
    assert_eq!(both.ifindex, down.ifindex);
}

#[test]
fn queues_in_use_and_at_most_are_told_apart() {
    let (ns, _scratch) = with_veth("numrxqueues 4 numtxqueues 4");
    let queues = |name| find(&ns, name).unwrap().queues;
    ns.run("ethtool -L v1 rx 4 tx 4").unwrap();
    assert_eq!(queues("v1"), Queues { rx: 4, tx: 4, max_rx: 4, max_tx: 4 });
    ns.run("ethtool -L v1 rx 2 tx 3").unwrap();
    assert_eq!(queues("v1"), Queues { rx: 2, tx: 3, max_rx: 4, max_tx: 4 });
    ns.ip("link add link v1 name m1 type macvlan mode passthru").unwrap();
    assert_eq!(queues("m1"), Queues { rx: 1, tx: 1, max_rx: 1, max_tx: 1 });
}

#[test]
fn a_name_that_is_not_there_or_cannot_be_is_said_so() {
    let (ns, _scratch) = with_veth("");
    for name in ["v9", "", "a-name-longer-than-15", "v1/../v2"] {
        let error = find(&ns, name).unwrap_err();
        assert!(matches!(&error, Error::NoSuchInterface { port } if port == name), "{error}");
    }
}

#[test]
fn promiscuous_mode_ends_with_its_last_owner() {
    let (ns, _scratch) = with_veth("");
    let promiscuity = || {
        let text = ns.ip("-d link show dev v1").unwrap();
        text.contains("promiscuity 1") || text.contains("promiscuity 2")
    };
    assert!(!promiscuity());
    let wanted = || ns.enter(|| Ok(Device::find("v1").unwrap().promiscuous().unwrap())).unwrap();
    let (first, second) = (wanted(), wanted());
    assert!(promiscuity());
    drop(first);
    assert!(promiscuity());
    drop(second);
    assert!(!promiscuity());
}

#[test]
fn addresses_and_default_routes_are_found() {
    let (ns, _scratch) = with_veth("");
    for command in ["link set v1 up", "link set v2 up", "addr add 10.8.8.1/24 dev v1"] {
        ns.ip(command).unwrap();
    }
    ns.ip("addr add fd08::1/64 dev v1 nodad").unwrap();
    let lockout = |name| {
        ns.enter(move || {
            let device = Device::find(name).unwrap();
            Ok((device.addresses().unwrap(), device.has_default_route().unwrap()))
        })
        .unwrap()
    };
    let addresses: Vec<IpAddr> = vec!["10.8.8.1".parse().unwrap(), "fd08::1".parse().unwrap()];
    assert_eq!(lockout("v1"), (addresses.clone(), false));
    assert_eq!(lockout("v2"), (vec![], false), "link-local addresses do not count");

    for (add, del) in [
        ("route add default via 10.8.8.2", "route del default"),
        ("-6 route add default via fd08::2", "-6 route del default"),
        ("route add default dev v1 table 77", "route del default table 77"),
        (
            "route add default nexthop via 10.8.8.2 dev v1 nexthop via 10.8.8.3 dev v1",
            "route del default",
        ),
    ] {
        ns.ip(add).unwrap();
        assert_eq!(lockout("v1"), (addresses.clone(), true), "{add}");
        assert_eq!(lockout("v2"), (vec![], false), "{add}");
        ns.ip(del).unwrap();
        assert!(!lockout("v1").1, "{del}");
    }
}

#[test]
fn an_unbound_queue_is_told_where_the_kernel_can() {
    // Since Linux 6.15.
    let kernel_tells = || {
        let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
        let mut numbers = release.split(['.', '-']).map(|n| n.parse::<u32>().unwrap());
        (numbers.next().unwrap(), numbers.next().unwrap()) >= (6, 15)
    };
    let (ns, _scratch) = with_veth("");
    ns.ip("link set v1 up").unwrap();
    let bound = ns.enter(|| Ok(Device::find("v1").unwrap().is_queue_bound(0))).unwrap();
    assert_eq!(bound, kernel_tells().then_some(false));
    let beyond = ns.enter(|| Ok(Device::find("v1").unwrap().is_queue_bound(99))).unwrap();
    assert_eq!(beyond, None);
}

/// Waits for an event about `name` that is as expected.
#[track_caller]
fn told(monitor: &mut LinkMonitor, name: &str, expected: impl Fn(&LinkEvent) -> bool) -> LinkEvent {
    let limit = Duration::from_secs(5);
    let event = wait_until("the event", limit, || {
        let found = monitor.drain().unwrap();
        assert!(!found.lost);
        Ok(found.events.into_iter().rfind(|event| event.name == name && expected(event)))
    });
    event.unwrap()
}

#[test]
fn every_change_of_a_link_is_told() {
    let (ns, scratch) = with_veth("");
    let mut monitor = ns.enter(|| Ok(LinkMonitor::new().unwrap())).unwrap();
    assert_eq!(monitor.drain().unwrap().events, vec![]);
    let ifindex = find(&ns, "v1").unwrap().ifindex;

    ns.ip("link set v1 up").unwrap();
    let event = told(&mut monitor, "v1", |event| event.up);
    assert_eq!((event.ifindex, event.carrier), (ifindex, false));
    ns.ip("link set v2 up").unwrap();
    told(&mut monitor, "v1", |event| event.carrier);
    ns.ip("link set v1 mtu 1300").unwrap();
    told(&mut monitor, "v1", |event| event.mtu == 1300);
    ns.ip("link set v2 down").unwrap();
    told(&mut monitor, "v1", |event| !event.carrier);
    ns.ip("link set v1 down").unwrap();
    told(&mut monitor, "v1", |event| !event.up);

    ns.ip("link set v1 name w1").unwrap();
    let renamed = told(&mut monitor, "w1", |_| true);
    assert_eq!((renamed.ifindex, renamed.deleted), (ifindex, false));

    let other = Netns::new(&scratch, "other").unwrap();
    ns.ip(&format!("link set w1 netns {}", other.name())).unwrap();
    told(&mut monitor, "w1", |event| event.deleted);
    other.ip(&format!("link set w1 netns {}", ns.name())).unwrap();
    told(&mut monitor, "w1", |event| !event.deleted);

    ns.ip("link del w1").unwrap();
    told(&mut monitor, "w1", |event| event.deleted);
    assert_eq!(monitor.drain().unwrap().events, vec![]);
}

#[test]
fn events_that_were_not_fetched_in_time_are_reported_lost() {
    let (ns, scratch) = with_veth("");
    let mut monitor = ns.enter(|| Ok(LinkMonitor::new().unwrap())).unwrap();
    let mut batch = String::new();
    for mtu in 1000..2000 {
        writeln!(batch, "link set v1 mtu {mtu}").unwrap();
    }
    let file = scratch.path().join("batch");
    std::fs::write(&file, batch).unwrap();
    ns.ip(&format!("-batch {}", file.display())).unwrap();
    assert!(monitor.drain().unwrap().lost);
    ns.ip("link set v1 mtu 1234").unwrap();
    told(&mut monitor, "v1", |event| event.mtu == 1234);
}
