//! The exact texts of commands, as Open vSwitch's tools and their readers expect them.

mod every;
mod flows;

use crate::ctl::testing::{MemorySwitch, json, switch, text};
use crate::ctl::{FdbEntry, Level};
use crate::pmd::{Iteration, Perf, Suspicion};
use xvs_datapath::Nanos;

/// The text of a command that must be done.
fn done(switch: &mut MemorySwitch, words: &[&str]) -> String {
    text(switch, words).unwrap_or_else(|error| panic!("{words:?}: {error}"))
}

/// Why a command is refused.
fn refused(switch: &mut MemorySwitch, words: &[&str]) -> String {
    text(switch, words).expect_err("a refusal")
}

#[test]
fn dpctl_show() {
    let mut switch = switch();
    let head = "netdev@xvs-netdev:\n  lookups: hit:90 missed:9 lost:1\n  flows: 0\n";
    let port = |n, name| {
        format!(
            "  port {n}: {name} (afxdp: n_rxq=1, xdp-mode=best-effort, xdp-mode-in-use=native)\n"
        )
    };
    let (v1, v2) = (port(1, "v1"), port(2, "v2"));
    assert_eq!(done(&mut switch, &["dpctl/show"]), format!("{head}{v1}{v2}"));
    let named = done(&mut switch, &["dpctl/show", "netdev@xvs-netdev"]);
    assert_eq!(named, format!("{head}{v1}{v2}"));
    let one = "    RX packets:10 errors:? dropped:0 overruns:0 frame:?\n    \
               TX packets:9 errors:0 dropped:1 aborted:? carrier:0\n    \
               collisions:?\n    RX bytes:840  TX bytes:756\n";
    let shown = done(&mut switch, &["dpctl/show", "-s"]);
    assert!(shown.starts_with(&format!("{head}{v1}{one}{v2}")), "{shown}");
    let why = refused(&mut switch, &["dpctl/show", "system@x"]);
    assert_eq!(why, "xvswitchd: opening datapath system@x failed (No such device)");
    assert_eq!(refused(&mut switch, &["dpctl/show", "-q"]), "Unrecognized option -q");
}

#[test]
fn ports_come_and_go_all_or_none() {
    let mut switch = switch();
    let names = |switch: &MemorySwitch| {
        switch.ports.iter().map(|port| port.name.clone()).collect::<Vec<_>>()
    };
    let add = "v3,type=afxdp,xdp_mode=generic";
    assert_eq!(done(&mut switch, &["dpctl/add-if", "netdev@xvs-netdev", add]), "");
    assert_eq!(switch.ports[2].xdp_mode, "generic");
    let why = refused(&mut switch, &["dpctl/add-if", "netdev@xvs-netdev", "v4", "v1"]);
    assert!(why.starts_with("xvswitchd: there is already a port named v1: "), "{why}");
    assert_eq!(names(&switch), ["v1", "v2", "v3"]);
    let why = refused(&mut switch, &["dpctl/del-if", "netdev@xvs-netdev", "v3", "nosuch0"]);
    assert_eq!(why, "xvswitchd: no port named nosuch0");
    assert_eq!(names(&switch), ["v1", "v2", "v3"]);
    assert_eq!(done(&mut switch, &["dpctl/del-if", "netdev@xvs-netdev", "3"]), "");
    assert_eq!(done(&mut switch, &["xvs/port-add", "v5", "bridge=br0"]), "port 3: v5\n");
    let why = refused(&mut switch, &["xvs/port-add", "v6", "bridge"]);
    assert_eq!(why, "bad port option \"bridge\" (want option=value, as xdp-mode=native)");
    assert_eq!(done(&mut switch, &["xvs/port-del", "v5", "v5"]), "");
    assert_eq!(names(&switch), ["v1", "v2"]);
    let list = "PORT  NAME  BRIDGE  STATE  MODE    RXQS  RX  TX  DROPS  PKTS/KICK  REASON\n   \
                1  v1    br0     bound  native     1  10   9      1        3.0\n   \
                2  v2    br0     bound  native     1   0   0      0        0.0\n";
    assert_eq!(done(&mut switch, &["xvs/port-list"]), list);
    assert_eq!(json(&mut switch, &["xvs/port-list"]).unwrap()[1]["name"], "v2");
    let shown = done(&mut switch, &["xvs/port-show", "v1"]);
    assert!(shown.starts_with("port 1: v1 (afxdp)\n  bridge               br0\n"), "{shown}");
    assert!(shown.contains("  drops:tx_full        1\n"), "{shown}");
}

#[test]
fn pmd_statistics() {
    let mut switch = switch();
    let stats = "pmd thread numa_id 0 core_id 0:
  packets received: 100
  packet recirculations: 0
  avg. datapath passes per packet: 1.00
  emc hits: 60
  smc hits: 0
  megaflow hits: 30
  avg. subtable lookups per megaflow hit: 1.50
  miss with success upcall: 9
  miss with failed upcall: 1
  avg. packets per output batch: 9.00
  idle cycles: 1500000000 (75.00%)
  processing cycles: 500000000 (25.00%)
  avg cycles per packet: 20000000.00 (2000000000/100)
  avg processing cycles per packet: 5000000.00 (500000000/100)
";
    assert_eq!(done(&mut switch, &["dpif-netdev/pmd-stats-show"]), stats);
    for command in ["pmd-stats-show", "pmd-perf-show", "pmd-rxq-show", "pmd-stats-clear"] {
        let why = refused(&mut switch, &[&format!("dpif-netdev/{command}"), "-pmd", "1"]);
        assert_eq!(why, "no PMD thread on core 1 (there are: 0)");
    }
    let rxqs = "Displaying last 60 seconds pmd usage %
pmd thread numa_id 0 core_id 0:
  isolated : false
  port: v1                queue-id:  0 (enabled)   pmd usage: 43 %
  port: v2                queue-id:  0 (enabled)   pmd usage: NOT AVAIL
  overhead:  2 %
";
    assert_eq!(done(&mut switch, &["dpif-netdev/pmd-rxq-show"]), rxqs);
    let perf = done(&mut switch, &["dpif-netdev/pmd-perf-show"]);
    for line in [
        "pmd thread numa_id 0 core_id 0:",
        "  Iterations:                 1000  (2000.00 us/it)",
        "  - Used TSC cycles:    2000000000  (100.0 % of total cycles)",
        "  - idle iterations:           750  ( 75.0 % of used cycles)",
        "  - busy iterations:           250  ( 25.0 % of used cycles)",
        "  Rx packets:                  100  (0 Kpps, 5000000 cycles/pkt)",
        "  - EMC hits:                   60  ( 60.0 %)",
        "  - Megaflow hits:              30  ( 30.0 %, 1.50 subtbl lookups/hit)",
        "  - Upcalls:                     9  (  9.0 %)",
        "  - Lost upcalls:                1  (  1.0 %)",
        "  Tx batches:                   11  (9.00 pkts/batch)",
    ] {
        assert!(perf.lines().any(|shown| shown == line), "no {line:?} in {perf}");
    }
    let table = "CORE  NUMA   RX  TX  PKTS/BATCH  EMC  SMC  MEGAFLOW  UPCALLS  LOST  FLOWS  MASKS  \
                 BUSY  SLEPT\n   0     0  100  99         9.0   60    0        30        9     1      \
                 0      0   25%     0%\n";
    assert_eq!(done(&mut switch, &["xvs/pmd-stats"]), table);
    assert_eq!(json(&mut switch, &["xvs/pmd-stats"]).unwrap()[0]["emc_hits"], 60);
    done(&mut switch, &["dpif-netdev/pmd-stats-clear"]);
    done(&mut switch, &["dpif-netdev/pmd-stats-clear", "-pmd", "0"]);
    assert_eq!(switch.cleared, [None, Some(0)]);
}

#[test]
fn pmd_metrics() {
    let mut switch = switch();
    const SHOW: &str = "dpif-netdev/pmd-perf-show";
    assert!(!done(&mut switch, &[SHOW]).contains("Histograms"));
    assert_eq!(json(&mut switch, &[SHOW]).unwrap()["metrics"], serde_json::Value::Null);
    let why = refused(&mut switch, &[SHOW, "-it", "3"]);
    assert!(why.contains("set perf-metrics = true in [pmd]"), "{why}");
    let mut perf = Perf::default();
    for n in 0..20 {
        let (ns, packets, batches, upcalls) = (900 + n, 64 * (n % 2), 2 * (n % 2), n % 2);
        perf.record(Iteration { number: 0, ns, packets, batches, upcalls }, Nanos(n * 500_000));
    }
    switch.perf = Some(perf);
    let shown = done(&mut switch, &[SHOW, "-it", "2", "-ms", "1"]);
    for line in [
        "   cycles/it               packets/it              cycles/pkt              pkts/batch              upcalls/it           ",
        "   25000000  0             1000      0             100000    0             256       0             1000      0          ",
        "   909                     32.00000                14                      32.00000                0.50000              ",
        "   iter                cycles       packets      cycles/pkt   pkts/batch   upcalls   ",
        "   19                  919          64           14           32           1         ",
        "   18                  918          0            0            0            0         ",
        "   ms             iterations   cycles/it    Kpps         cycles/pkt   pkts/batch   upcalls   ",
        "   9              2            918          64           14           32           1         ",
    ] {
        assert!(shown.lines().any(|shown| shown == line), "no {line:?} in {shown}");
    }
    assert!(!done(&mut switch, &[SHOW, "-nh"]).contains("Histograms"));
    let shown = json(&mut switch, &[SHOW, "-it", "1"]).unwrap();
    let metrics = &shown["metrics"][0];
    assert_eq!((&metrics["core"], &metrics["iterations"][0]["number"]), (&0.into(), &19.into()));
    assert_eq!(metrics["histograms"][1]["quantity"], "packets/it");
    assert_eq!(metrics["histograms"][1]["counts"][0], 10);
    for (words, why) in [
        (["-it", "1001"], "bad -it \"1001\" (want 0 to 1000)"),
        (["-ms", "x"], "bad -ms \"x\" (want 0 to 1000)"),
        (["-ms", "-1"], "bad -ms \"-1\" (want 0 to 1000)"),
    ] {
        assert_eq!(refused(&mut switch, &[SHOW, words[0], words[1]]), why);
    }
}

#[test]
fn suspicious_passes() {
    let mut switch = switch();
    const SET: &str = "dpif-netdev/pmd-perf-log-set";
    done(&mut switch, &[SET, "on"]);
    let preset = Suspicion { over_ns: 1_000_000, before: 5, after: 5, extend: false };
    assert_eq!(switch.suspicion, Some(preset));
    done(&mut switch, &[SET, "on", "-b", "0", "-a", "400", "-e", "-us", "20"]);
    let other = Suspicion { over_ns: 20_000, before: 0, after: 400, extend: true };
    assert_eq!(switch.suspicion, Some(other));
    for (words, why) in [
        (vec![SET, "maybe"], "bad switch \"maybe\" (want on or off)"),
        (vec![SET, "on", "-us", "0"], "bad -us \"0\" (want 1 to 1000000)"),
        (vec![SET, "on", "-a", "401"], "bad -a \"401\" (want 0 to 400)"),
        (vec![SET, "on", "-q", "3"], "Unrecognized option -q"),
    ] {
        assert_eq!(refused(&mut switch, &words), why);
    }
    done(&mut switch, &[SET, "off"]);
    assert_eq!(switch.suspicion, None);
}

#[test]
fn mac_tables() {
    let mut switch = switch();
    let head = " port  VLAN  MAC                Age\n";
    assert_eq!(done(&mut switch, &["fdb/show"]), head);
    switch.fdb.push(FdbEntry {
        port_no: 1,
        port: "v1".to_owned(),
        vlan: 10,
        mac: "02:00:00:00:00:01".parse().unwrap(),
        age: Some(7),
    });
    done(&mut switch, &["fdb/add", "br0", "v2", "0", "02:00:00:00:00:02"]);
    let learned = "    1    10  02:00:00:00:00:01    7\n";
    let fixed = "    2     0  02:00:00:00:00:02  static\n";
    assert_eq!(done(&mut switch, &["fdb/show", "br0"]), format!("{head}{learned}{fixed}"));
    assert_eq!(done(&mut switch, &["fdb/flush", "br0"]), "table successfully flushed\n");
    assert_eq!(done(&mut switch, &["fdb/show", "br0"]), format!("{head}{fixed}"));
    let stats = done(&mut switch, &["fdb/stats-show", "br0"]);
    assert!(stats.starts_with(
        "Statistics for bridge \"br0\":\n  Current/maximum MAC entries in the table: 1/8192\n"
    ));
    assert_eq!(done(&mut switch, &["fdb/del", "br0", "0", "02:00:00:00:00:02"]), "");
    let again = refused(&mut switch, &["fdb/del", "br0", "0", "02:00:00:00:00:02"]);
    assert_eq!(again, "could not find static mac entry");
    assert_eq!(refused(&mut switch, &["fdb/show", "br7"]), "no bridge named br7");
    for (vlan, mac, what) in
        [("4096", "02:00:00:00:00:02", "4096"), ("0", "02:00:00:00:00", "MAC address")]
    {
        let why = refused(&mut switch, &["fdb/add", "br0", "v1", vlan, mac]);
        assert!(why.contains(what), "{why}");
    }
}

#[test]
fn rules() {
    let mut switch = switch();
    let rule = "ip,nw_dst=10.0.0.0/24,actions=output:2";
    assert_eq!(done(&mut switch, &["xvs/rule-add", "br0", rule, "actions=NORMAL"]), "");
    let dump = " cookie=0x0, duration=1.500s, table=0, n_packets=3, n_bytes=180, \
                priority=10,ip,nw_dst=10.0.0.0/24 actions=output:2\n \
                cookie=0x0, duration=1.500s, table=0, n_packets=3, n_bytes=180, \
                priority=10 actions=NORMAL\n";
    assert_eq!(done(&mut switch, &["xvs/rule-dump"]), dump);
    assert_eq!(done(&mut switch, &["xvs/rule-del", "br0", "ip"]), "1 rules removed\n");
    assert_eq!(done(&mut switch, &["xvs/rule-del", "br0"]), "1 rules removed\n");
    assert_eq!(refused(&mut switch, &["xvs/rule-add", "br7", rule]), "no bridge named br7");
}

#[test]
fn ledgers() {
    let mut switch = switch();
    let shown = done(&mut switch, &["xvs/ledger"]);
    for (name, value) in [("rx", 10), ("drops", 1), ("pool", 32), ("balance", 0)] {
        let line = format!("  {name:<18} {value:>18}");
        assert!(shown.lines().any(|shown| shown == line), "no {line:?} in {shown}");
    }
    let ledger = json(&mut switch, &["xvs/ledger"]).unwrap();
    assert_eq!(ledger["balanced"], true);
    assert_eq!(ledger["packets"]["drops"]["tx_full"], 1);
    assert_eq!(ledger["frames"]["filled"], 32);
}

#[test]
fn the_daemon_itself() {
    let mut switch = switch();
    let version = concat!("xvswitchd (xvswitch) ", env!("CARGO_PKG_VERSION"), "\n");
    assert_eq!(done(&mut switch, &["version"]), version);
    let commands = done(&mut switch, &["list-commands"]);
    let mut lines = commands.lines();
    assert_eq!(lines.next(), Some("The available commands are:"));
    assert!(lines.clone().is_sorted() && lines.all(|line| line.starts_with("  ")), "{commands}");
    assert!(commands.contains("\n  dpctl/show              [-s] [dp...]\n"), "{commands}");
    let unknown = "\"bogus\" is not a valid command \
                   (use \"list-commands\" to see a list of valid commands)";
    assert_eq!(refused(&mut switch, &["bogus"]), unknown);
    let many = "\"version\" command takes at most 0 arguments";
    assert_eq!(refused(&mut switch, &["version", "x"]), many);
    let logs = "                 console    syslog    file\n                 \
                -------    ------    ------\nxvswitchd         INFO        OFF        OFF\n";
    assert_eq!(done(&mut switch, &["vlog/list"]), logs);
    done(&mut switch, &["vlog/set", "xvswitchd:console:dbg"]);
    assert_eq!(switch.levels["xvswitchd"], Level::Dbg);
    done(&mut switch, &["vlog/set", "warn"]);
    assert_eq!(switch.levels["xvswitchd"], Level::Warn);
    let why = refused(&mut switch, &["vlog/set", "nosuch:dbg"]);
    assert_eq!(why, "no destination, level, or module \"nosuch\"");
    let memory = done(&mut switch, &["memory/show"]);
    assert!(memory.contains("ports:2") && memory.contains("rss-kb:"), "{memory}");
    let counted = done(&mut switch, &["coverage/show"]);
    assert!(counted.contains("total: 100\n") && counted.ends_with("events never hit\n"));
    assert_eq!(done(&mut switch, &["xvs/config-check"]), "nothing changes\n");
    assert_eq!(done(&mut switch, &["xvs/config-check", "a.toml"]), "would read a.toml\n");
    assert!(refused(&mut switch, &["xvs/config-reload"]).contains("framse"));
    done(&mut switch, &["exit", "--cleanup"]);
    assert_eq!(switch.exit, Some(true));
}
