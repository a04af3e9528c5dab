//! Peers that are the kernel itself: bridge, XDP redirect and tc redirect, on the switch's core.
//!
//! The kernel does their work in the NAPI poll of the receiving interface, which runs wherever a packet was
//! sent from. So that they, too, have a core of their own, the poll moves to a thread (threaded NAPI), and
//! that to the core. Which thread it is only its name says; so the interfaces get names found nowhere else.

use std::fs;
use std::process::Command;
use std::time::Duration;

use libbpf_rs::{Link, MapCore, MapFlags, TC_INGRESS, TcHookBuilder};
use std::os::fd::AsFd as _;
use xvs_tests::{
    Error, Result, proc,
    rig::{PortSpec, Rig},
    wait_until,
};

use crate::bpf::{self, Program, failed};

/// Joins two ports by a Linux bridge; it lives as long as the namespace.
///
/// # Errors
/// When `ip` refuses.
pub fn linux_bridge(rig: &Rig, ports: &[PortSpec]) -> Result<()> {
    rig.dut.ip("link add br0 type bridge")?;
    for port in ports {
        rig.dut.ip(&format!("link set {} master br0", port.name))?;
    }
    rig.dut.ip("link set br0 up").map(drop)
}

/// Makes the kernel receive on the ports of a rig on the cores of `cpu_mask` (hexadecimal), under the names
/// that it returns.
///
/// # Errors
/// When the kernel has no threaded NAPI.
pub fn steer(rig: &Rig, cpu_mask: &str) -> Result<Vec<PortSpec>> {
    let own = rig.scratch.name().trim_start_matches("xvs-");
    let steer = |(n, port): (usize, &PortSpec)| {
        let (old, name) = (&port.name, format!("{own}-{n}"));
        rig.dut.ip(&format!("link set {old} down"))?;
        rig.dut.ip(&format!("link set {old} name {name}"))?;
        rig.dut.ip(&format!("link set {name} up"))?;
        // A veth device polls only with this, or with an XDP program.
        rig.dut.run(&format!("ethtool -K {name} gro on"))?;
        let file = format!("/sys/class/net/{name}/threaded");
        proc::run(rig.dut.command("sh").args(["-c", &format!("echo 1 >{file}")]))?;
        let thread = format!("napi/{name}-");
        let pid = wait_until(&thread, Duration::from_secs(2), || Ok(kernel_thread(&thread)))?;
        proc::run(Command::new("taskset").args(["-p", cpu_mask, &pid]))?;
        Ok(PortSpec { name, lines: port.lines.clone() })
    };
    rig.ports.iter().enumerate().map(steer).collect()
}

/// The process id of the thread whose name begins so.
fn kernel_thread(start: &str) -> Option<String> {
    let mut processes = fs::read_dir("/proc").ok()?.flatten();
    let found = processes.find(|process| {
        fs::read_to_string(process.path().join("comm")).is_ok_and(|name| name.starts_with(start))
    });
    found?.file_name().into_string().ok()
}

/// Joins two ports by an XDP program on each; it ends with the links.
///
/// # Errors
/// When the kernel refuses.
pub fn xdp_redirect(rig: &Rig, ports: &[PortSpec]) -> Result<Vec<Link>> {
    // A host takes redirected frames only when its interface polls.
    for host in [&rig.c1, &rig.c2] {
        host.run("ethtool -K e0 gro on")?;
    }
    let names = ports.iter().map(|port| port.name.clone()).collect::<Vec<_>>();
    rig.dut.enter(move || {
        let object = include_bytes!(concat!(env!("OUT_DIR"), "/redirect_xdp.bpf.o"));
        let (mut program, ports) = load("XDP redirect", object, &names)?;
        let program = program.program()?;
        let attach = |port: &i32| program.attach_xdp(*port).map_err(failed("XDP redirect"));
        ports.iter().map(attach).collect()
    })
}

/// Joins two ports by a program of traffic control; it lives as long as the namespace.
///
/// # Errors
/// When the kernel refuses.
pub fn tc_redirect(rig: &Rig, ports: &[PortSpec]) -> Result<()> {
    let names = ports.iter().map(|port| port.name.clone()).collect::<Vec<_>>();
    rig.dut.enter(move || {
        let object = include_bytes!(concat!(env!("OUT_DIR"), "/redirect_tc.bpf.o"));
        let (mut program, ports) = load("tc redirect", object, &names)?;
        let program = program.program()?;
        for port in ports {
            let mut builder = TcHookBuilder::new(program.as_fd());
            let mut hook = builder.ifindex(port).handle(1).priority(1).hook(TC_INGRESS);
            hook.create().map_err(failed("tc redirect"))?;
            hook.attach().map_err(failed("tc redirect"))?;
        }
        Ok(())
    })
}

/// Loads a program of redirect.h and tells it the ports; returns their numbers.
fn load(what: &'static str, object: &[u8], names: &[String]) -> Result<(Program, Vec<i32>)> {
    let program = Program::load(what, object)?;
    let ports = names.iter().map(|name| bpf::ifindex(name)).collect::<Result<Vec<_>>>()?;
    let pair: Vec<u8> = ports.iter().flat_map(|port| port.to_ne_bytes()).collect();
    let map = program.map()?;
    map.update(&0u32.to_ne_bytes(), &pair, MapFlags::ANY).map_err(failed(what))?;
    let number = |port| i32::try_from(port).map_err(|_| Error::Check(format!("port {port}")));
    Ok((program, ports.into_iter().map(number).collect::<Result<_>>()?))
}
