//! What an idle daemon costs (case 33), and how much memory two ports take.

use std::fs;
use std::time::Duration;

use xvs_tests::{
    Error, Result, check,
    daemon::{Daemon, Setup},
    iperf::Iperf,
    rig::{C2, Rig},
};

use crate::runner::on;

/// Clock ticks (1/100 s) of processor time that a process has used.
fn ticks(pid: u32) -> Result<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).map_err(Error::io("read stat"))?;
    let after_name = text.rsplit(')').next().unwrap_or_default();
    Ok(after_name.split(' ').skip(12).take(2).filter_map(|word| word.parse::<u64>().ok()).sum())
}

pub(crate) fn asleep_it_takes_less_than_two_percent() -> Result<()> {
    on(Rig::pair, |rig| {
        let setup = Setup::new(rig).pmd("cpu-mask = \"0x1\"\nsleep-max-us = 10000");
        let mut daemon = Daemon::start(rig, &setup)?;
        rig.wait_forwarding(Duration::from_secs(5))?;
        std::thread::sleep(Duration::from_secs(1));
        let pid = daemon.proc().pid();
        let before = ticks(pid)?;
        std::thread::sleep(Duration::from_secs(5));
        let used = ticks(pid)? - before;
        check!(used < 10, "{used} ticks of 500 while idle");
        daemon.stop()
    })
}

pub(crate) fn two_ports_take_less_than_100_mib() -> Result<()> {
    on(Rig::pair, |rig| {
        let mut daemon = Daemon::start(rig, &Setup::new(rig))?;
        Iperf::run(rig, C2, 2, &[])?;
        let path = format!("/proc/{}/status", daemon.proc().pid());
        let text = fs::read_to_string(path).map_err(Error::io("read status"))?;
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
        let peak_kib = line.split_ascii_whitespace().next().and_then(|kib| kib.parse::<u64>().ok());
        check!(peak_kib.is_some_and(|kib| kib < 100 * 1024), "peak resident memory: {line}");
        daemon.stop()
    })
}
