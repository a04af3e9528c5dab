//! Queues, threads and the values in force: who sends and receives where, and what is said of it.

use std::time::Duration;

use serde_json::Value;
use xvs_tests::{
    Result, check,
    daemon::{Daemon, Setup},
    ping::Ping,
    rig::{C2, Rig},
};

use crate::{configuration::says, number, runner::on};

/// The warnings of a port, joined.
fn warnings(port: &Value) -> String {
    let warnings = port.pointer("/warnings").and_then(Value::as_array);
    warnings.into_iter().flatten().filter_map(Value::as_str).collect::<Vec<_>>().join("\n")
}

/// A batch above the budget and a send buffer below one call are named with their remedies, in the log and
/// in `port show`; after the remedies nothing is said. Traffic goes on either way.
pub(crate) fn values_that_do_not_fit_are_warned_of() -> Result<()> {
    on(Rig::pair, |rig| {
        let batch = "cpu-mask = \"0x1\"\nsleep-max-us = 200\nbatch-size = 128";
        let bad = Setup::new(rig).pmd(batch).each_port("tx-budget = 32\nsndbuf = 16384");
        let mut daemon = Daemon::start(rig, &bad)?;
        rig.wait_forwarding(Duration::from_secs(5))?;
        // 32 packets of the MTU, each charged 2304 bytes.
        let remedies = ["set tx-budget to 256 or \"auto\"", "set sndbuf to at least 73728"];
        let log = daemon.proc().stdout() + &daemon.proc().stderr();
        says(&log, &remedies)?;
        says(&log, &["port v1: ", "port v2: "])?;
        let port = daemon.port("v2")?;
        says(&warnings(&port), &remedies)?;
        let text = daemon.ctl_text(&["port", "show", "v2"])?;
        says(&text, &remedies)?;
        check!(text.matches("WARNING").count() == 2, "{text}");
        check!(number(&port, "/sndbuf/in_force") < 73728, "the send buffer: {port}");
        let ping = Ping::new(&rig.c1, C2).count(20).interval_s(0.01).run(&rig.scratch)?;
        check!(ping.lost() == 0, "{} pings lost", ping.lost());

        let good = Setup::new(rig).pmd(batch).each_port("tx-budget = 256\nsndbuf = 589824");
        daemon.rewrite(&good.toml())?;
        daemon.ctl(&["config", "reload"])?;
        daemon.wait_bound(2, Duration::from_secs(5))?;
        let port = daemon.port("v2")?;
        check!(warnings(&port).is_empty(), "warned of good values: {port}");
        check!(number(&port, "/tx_budget/in_force") == 256, "the budget: {port}");
        daemon.stop()
    })
}

/// `xmit-batch` is in force or unsupported, never an error; busy polling is in force; packets pass.
pub(crate) fn optional_kernel_features_are_shown() -> Result<()> {
    on(Rig::pair, |rig| {
        let lines = "xmit-batch = 32\nbusy-poll-us = 20\nbusy-poll-budget = 16\n\
                     prefer-busy-poll = true";
        let daemon = Daemon::start(rig, &Setup::new(rig).each_port(lines))?;
        let ping = Ping::new(&rig.c1, C2).count(50).interval_s(0.01).run(&rig.scratch)?;
        check!(ping.lost() == 0, "{} pings lost", ping.lost());
        let (port, text) = (daemon.port("v2")?, daemon.ctl_text(&["port", "show", "v2"])?);
        let unsupported = port.pointer("/xmit_batch/unsupported") == Some(&Value::from(true));
        let in_force = number(&port, "/xmit_batch/in_force");
        check!(unsupported == (in_force != 32) && (unsupported || in_force == 32), "{port}");
        let shown = if unsupported { "32 (unsupported)" } else { "32 (in force: 32)" };
        let row = text.lines().find(|line| line.trim_start().starts_with("xmit-batch"));
        check!(row.is_some_and(|row| row.ends_with(shown)), "{row:?} is not {shown}");
        for (name, expected) in
            [("busy_poll_us", 20), ("busy_poll_budget", 16), ("prefer_busy_poll", 1)]
        {
            check!(number(&port, &format!("/{name}/in_force")) == expected, "{name}: {port}");
        }
        daemon.stop()
    })
}
