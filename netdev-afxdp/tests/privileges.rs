//! Which privileges a port needs, and what is said when one is missing. Needs root to take them away;
//! everything happens in a namespace of its own.
#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

use support::{Wire, options};
use xvs_netdev_afxdp::{Netdev, Umem, UmemConfig, UmemGroups};

/// Set in the child process: it opens a port.
const CHILD: &str = "XVS_TEST_OPEN";

/// A limit of locked memory, bytes, that any system grants. It holds for all processes of the user
/// together, so that it has to be more than the packet memory of one child.
const ENOUGH: &str = "8388608";

/// What a process with these capabilities and this limit of locked memory says when it opens a port with
/// 1 MiB of packet memory.
fn open_with(capabilities: &str, memlock: &str) -> String {
    let wire = Wire::new("");
    let mut command = wire.near.command("prlimit");
    command.arg(format!("--memlock={memlock}")).arg("setpriv");
    command.args(["--bounding-set", capabilities, "--inh-caps", "-all"]);
    command.arg(std::env::current_exe().unwrap());
    command.args(["--exact", "child_opens", "--nocapture"]).env(CHILD, "1");
    let output = command.output().unwrap();
    String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap()
}

#[test]
fn three_capabilities_and_locked_memory_are_enough() {
    let said = open_with("-all,+net_admin,+net_raw,+bpf", ENOUGH);
    assert!(said.contains("opened with native, send buffer for a full ring: true"), "{said}");
}

#[test]
fn each_missing_capability_is_named() {
    for (given, missing) in [
        ("-all,+net_raw,+bpf", "CAP_NET_ADMIN is missing"),
        ("-all,+net_admin,+bpf", "CAP_NET_RAW is missing"),
        ("-all,+net_admin,+net_raw", "CAP_BPF is missing"),
        ("-all,+net_raw", "CAP_BPF and CAP_NET_ADMIN is missing"),
    ] {
        let said = open_with(given, ENOUGH);
        assert!(said.contains(missing), "{given}: {said}");
    }
}

#[test]
fn too_little_locked_memory_says_how_much_is_needed_and_allowed() {
    let said = open_with("-all,+net_admin,+net_raw,+bpf", "524288");
    for part in ["524288", "1048576", "LimitMEMLOCK", "ulimit -l"] {
        assert!(said.contains(part), "{part}: {said}");
    }
}

/// Not a test by itself: the child process of those above.
#[test]
fn child_opens() {
    if std::env::var_os(CHILD).is_none() {
        return;
    }
    let umem = Umem::create(UmemConfig { frames: 256, ..UmemConfig::default() }).unwrap();
    match Netdev::open(&mut UmemGroups::new(umem), &options("v1")) {
        Ok((netdev, sockets)) => {
            let in_force = sockets.first().unwrap().1.in_force;
            let full = in_force.sndbuf >= in_force.sndbuf_full_ring();
            println!("opened with {}, send buffer for a full ring: {full}", netdev.mode());
        }
        Err(error) => println!("{error}"),
    }
}
