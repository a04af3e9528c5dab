//! 200,000 flows: put in from a file, shown and taken out by the real `ovs-appctl`, while packets pass.

use std::fmt::Write;
use std::fs;
use std::time::Duration;

use serde_json::Value;
use xvs_tests::{
    Error, Result, check,
    daemon::{Daemon, Setup},
    ping::Ping,
    rig::{C2, Rig},
};

use crate::runner::on;

const N_FLOWS: usize = 200_000;

/// How much more memory the daemon may take while it shows them: twice what it says.
const MORE_KIB: u64 = 150 << 10;

/// A line of `/proc/PID/status`, in KiB.
fn memory_kib(pid: u32, name: &str) -> Result<u64> {
    let path = format!("/proc/{pid}/status");
    let text = fs::read_to_string(path).map_err(Error::io("read status"))?;
    let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
    let kib = line.split_ascii_whitespace().nth(1).and_then(|kib| kib.parse().ok());
    kib.ok_or_else(|| Error::Check(format!("no {name} in {text}")))
}

/// Flows that no packet of the hosts matches.
fn flows() -> String {
    let mut text = String::new();
    for n in 0..N_FLOWS {
        let (a, b, c) = (n >> 16, n >> 8 & 255, n & 255);
        let flow = "in_port(1),eth(src=02:00:00:00:00:99,dst=02:00:00:00:00:98),eth_type(0x0800)";
        let _ = writeln!(text, "{flow},ipv4(dst=10.{a}.{b}.{c},proto=17,frag=no),udp(dst=53) 2");
    }
    text
}

/// How many passes took more than so many nanoseconds, by the histogram.
fn passes_above(perf: &Value, ns: u64) -> Result<u64> {
    let histogram = &perf["metrics"][0]["histograms"][0];
    check!(histogram["quantity"] == "cycles/it", "{histogram}");
    let numbers = |name: &str| {
        let list = histogram[name].as_array();
        list.into_iter().flatten().filter_map(Value::as_u64).collect::<Vec<_>>()
    };
    let (up_to, counts) = (numbers("up_to"), numbers("counts"));
    let long = counts.iter().skip(1 + up_to.iter().filter(|&&limit| limit <= ns).count());
    Ok(long.sum())
}

/// None of the packets that pass meanwhile is lost, and little memory is taken for it.
pub(crate) fn showing_200_000_flows_disturbs_no_packet() -> Result<()> {
    on(Rig::pair, |rig| {
        let setup = Setup::new(rig);
        let metrics = format!("{}\nperf-metrics = true", setup.pmd);
        let toml = setup.pmd(&metrics).toml() + "[datapath]\nflow-limit = 210000\n";
        let mut daemon = Daemon::launch(rig, "xvswitchd", &toml, &[])?;
        daemon.wait_bound(2, Duration::from_secs(15))?;
        rig.wait_forwarding(Duration::from_secs(5))?;
        let file = rig.scratch.write("flows", &flows())?.display().to_string();
        let pings = Ping::new(&rig.c1, C2).interval_s(0.005).start(&rig.scratch)?;
        daemon.appctl(&["dpctl/add-flows", &file])?;
        let pid = daemon.proc().pid();
        let before = memory_kib(pid, "VmRSS")?;
        daemon.appctl(&["dpif-netdev/pmd-stats-clear"])?;
        // From here on the peak counts.
        fs::write(format!("/proc/{pid}/clear_refs"), "5").map_err(Error::io("reset the peak"))?;
        let text = daemon.appctl(&["dpctl/dump-flows", "-m"])?;
        let n = text.lines().filter(|line| line.contains("udp(dst=53)")).count();
        check!(n == N_FLOWS, "{n} of {N_FLOWS} flows in {} bytes", text.len());
        let json = daemon.ctl(&["flow", "dump"])?;
        // Two dumps are some 800 slices, each between two passes: if they took a millisecond, there would be as many
        // such passes. The machine itself may hold the thread up now and then.
        let perf = daemon.ctl(&["call", "dpif-netdev/pmd-perf-show"])?;
        let long = passes_above(&perf, 1_000_000)?;
        check!(long < 80, "{long} passes took more than a millisecond: {perf}");
        let shown = json["pmds"][0]["flows"].as_array().map_or(0, Vec::len);
        check!(shown >= N_FLOWS, "{shown} of {N_FLOWS} flows as JSON");
        let peak = memory_kib(pid, "VmHWM")?.saturating_sub(before);
        check!(peak < MORE_KIB, "the daemon took {peak} KiB to show {} bytes", text.len());
        let few = daemon.appctl(&["dpctl/dump-flows", "filter=ip,nw_dst=10.1.2.3"])?;
        check!(few.lines().filter(|line| line.contains("udp(dst=53)")).count() == 1, "{few}");
        daemon.appctl(&["dpctl/del-flows", "filter=ip,nw_dst=10.1.0.0/16"])?;
        let left = daemon.appctl(&["dpctl/dump-flows", "filter=udp,tp_dst=53"])?;
        let left = left.lines().filter(|line| line.contains("udp(dst=53)")).count();
        check!(left == N_FLOWS - (1 << 16), "{left} flows are left");
        daemon.appctl(&["dpctl/del-flows"])?;
        let pings = pings.stop()?;
        check!(pings.lost() == 0, "{} of {} pings lost", pings.lost(), pings.sent);
        let (sent, median) = (pings.sent, pings.median_ms());
        check!(sent > 100 && median < 20.0, "{sent} pings, median {median} ms");
        daemon.stop()
    })
}
