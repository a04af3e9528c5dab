//! The control socket: every listed command by the real `ovs-appctl`, and what happens to garbage.

use std::io::{Read, Write};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::time::Duration;

use nix::sys::signal::Signal;
use xvs_tests::{
    Error, Result, check,
    daemon::{Daemon, Setup},
    iperf::Iperf,
    rig::{C2, Rig},
    wait_until,
};

use crate::{configuration::says, runner::on};

/// Every command, and what its text must contain, in this order: later ones see the effects of earlier ones.
/// `FILE` is the scratch directory's.
const COMMANDS: &[(&[&str], &[&str])] = &[
    (&["version"], &["xvswitchd"]),
    (&["list-commands"], &["The available commands are:\n", "  dpctl/show", "  exit"]),
    (&["help"], &["dpctl/show"]),
    (&["coverage/show"], &["port_rx_packets"]),
    (&["memory/show"], &[":"]),
    (&["vlog/list"], &["console", "xvswitchd", "INFO"]),
    (&["vlog/set", "xvswitchd:dbg"], &[]),
    (&["vlog/set", "info"], &[]),
    (&["vlog/reopen"], &["standard error"]),
    (&["dpctl/dump-dps"], &["netdev@xvs-netdev\n"]),
    (&["dpctl/show"], &["netdev@xvs-netdev:\n", "  lookups: hit:", "port 1: v1 (afxdp: "]),
    (&["dpctl/show", "-s"], &["RX packets:", "TX packets:", "collisions:", "RX bytes:"]),
    (&["dpctl/dump-flows"], &["flow-dump from pmd on cpu core: 0\n", "in_port(1)", "actions:2"]),
    (&["dpctl/dump-flows", "-m"], &["ufid:", "in_port(v1)"]),
    (&["dpctl/dump-flows", "filter=in_port(1)", "pmd=0"], &["in_port(1)"]),
    (
        &["dpctl/dump-flows", "filter=ip,in_port=1,nw_dst=10.1.1.2"],
        &["in_port(1)", "eth_type(0x0800)"],
    ),
    (&["dpctl/dump-flows", "--names"], &["in_port(v1)"]),
    (&["dpif/show"], &["netdev@xvs-netdev: hit:", "  br0:\n", "    v1 1/1: (afxdp)\n"]),
    (
        &["upcall/show"],
        &["netdev@xvs-netdev:\n", "  flows         : (current ", "(limit 200000)\n", "  0: (keys "],
    ),
    (&["revalidator/wait"], &[]),
    (&["dpif-netdev/pmd-stats-show"], &["pmd thread numa_id 0 core_id 0:", "packets received: "]),
    (
        &["dpif-netdev/pmd-perf-show", "-pmd", "0"],
        &["pmd thread numa_id 0 core_id 0:", "Iterations:"],
    ),
    (
        &["dpif-netdev/pmd-rxq-show"],
        &["pmd thread numa_id 0 core_id 0:", "port: v1", "queue-id:  0"],
    ),
    (
        &["dpif-netdev/pmd-perf-show", "-it", "3", "-ms", "2"],
        &["Histograms\n   cycles/it ", "   > ", "   iter ", "   ms "],
    ),
    (&["dpif-netdev/pmd-perf-log-set", "on", "-us", "500", "-b", "2", "-a", "2", "-e"], &[]),
    (&["dpif-netdev/pmd-perf-log-set", "off"], &[]),
    (&["dpif-netdev/pmd-rxq-rebalance"], &[]),
    (
        &["dpif-netdev/pmd-sleep-show"],
        &["Default max sleep:  200 us", "pmd thread numa_id 0 core_id 0:"],
    ),
    (&["dpif-netdev/pmd-stats-clear"], &[]),
    (&["fdb/show", "br0"], &[" port  VLAN  MAC                Age", "02:00:00:00:00:01"]),
    (&["fdb/stats-show", "br0"], &["Statistics for bridge \"br0\":"]),
    (&["fdb/add", "br0", "v1", "0", "02:00:00:00:00:98"], &[]),
    (&["fdb/show"], &["02:00:00:00:00:98  static"]),
    (&["fdb/del", "br0", "0", "02:00:00:00:00:98"], &[]),
    (&["fdb/flush", "br0"], &["successfully flushed"]),
    (&["ofproto/trace", FLOW], &["bridge(\"br0\")", "Megaflow: ", "Datapath actions: "]),
    (&["dpctl/add-flow", FLOW, "2"], &[]),
    (&["dpctl/dump-flows"], &["src=02:00:00:00:00:99", "10.7.7.7"]),
    (&["dpctl/mod-flow", FLOW, "drop"], &[]),
    (
        &["dpctl/dump-flows", "filter=eth_type(0x0800),ipv4(dst=10.7.7.7)"],
        &["10.7.7.7", "actions:drop"],
    ),
    (&["dpctl/get-flow", "UFID"], &["10.7.7.7", "actions:drop"]),
    (&["dpctl/del-flow", FLOW], &[]),
    (&["dpctl/mod-flow", "--may-create", "--clear", FLOW, "2"], &[]),
    (&["dpctl/del-flow", FLOW], &[]),
    // As its manual page writes it, which Open vSwitch itself refuses.
    (&["dpctl/add-flow", "in_port(1),eth(),eth_type(0x0806)", "2"], &[]),
    (&["dpctl/dump-flows"], &["in_port(1),packet_type(ns=0,id=0),eth_type(0x0806), packets:"]),
    (&["dpctl/del-flow", "in_port(1),eth(),eth_type(0x0806)"], &[]),
    (&["dpctl/add-flows", "FILE"], &[]),
    (&["dpctl/dump-flows"], &["10.7.7.8", "10.7.7.9"]),
    (&["dpctl/del-flows", "filter=ip,nw_dst=10.7.7.8", "pmd=0"], &[]),
    (&["dpctl/dump-flows"], &["10.7.7.9"]),
    (&["revalidator/purge"], &[]),
    (&["dpctl/del-flows"], &[]),
    (&["dpctl/add-if", "netdev@xvs-netdev", "v3,type=afxdp"], &[]),
    (&["dpctl/show"], &["v3 (afxdp: "]),
    (&["dpctl/set-if", "netdev@xvs-netdev", "v3,xdp-mode=generic"], &[]),
    (&["dpctl/show"], &["v3 (afxdp: n_rxq=1, xdp-mode=generic"]),
    (&["dpctl/del-if", "netdev@xvs-netdev", "v3"], &[]),
    (&["xvs/port-add", "v3", "bridge=br0"], &[]),
    (&["xvs/port-list"], &["v3"]),
    (&["xvs/port-show", "v3"], &["v3"]),
    (&["xvs/port-del", "v3"], &[]),
    (&["xvs/rule-add", "br0", "priority=9,arp,actions=NORMAL"], &[]),
    (&["xvs/rule-dump", "br0"], &["priority=9,arp"]),
    (&["xvs/rule-del", "br0", "arp"], &[]),
    (&["xvs/meter-add", "meter=1,kbps,band=type=drop,rate=1000"], &[]),
    (&["xvs/meter-list"], &["meter=1"]),
    (&["xvs/meter-del", "1"], &[]),
    (&["xvs/upcall-read"], &[]),
    (&["xvs/pmd-stats"], &["CORE", "EMC"]),
    (&["xvs/counters"], &["port_rx_packets"]),
    (&["xvs/ledger"], &["rx"]),
    (&["xvs/status"], &["br0"]),
    (&["xvs/config-show"], &["[[port]]"]),
    (&["xvs/config-check"], &[]),
    (&["xvs/config-reload"], &[]),
    (&["exit"], &[]),
];

/// Commands that need no row: this one is a part of the protocol, and `ovs-appctl` of 3.1 does not send it.
const WITHOUT: [&str; 1] = ["set-options"];

/// A flow nobody else has.
const FLOW: &str = "in_port(1),eth(src=02:00:00:00:00:99,dst=02:00:00:00:00:02),eth_type(0x0800),\
                    ipv4(dst=10.7.7.7,frag=no)";

/// Words of a row, with the file and the identifier of the flow in their places.
fn words_of(row: &[&str], file: &str, daemon: &Daemon) -> Result<Vec<String>> {
    let ufid = || -> Result<String> {
        let dump = daemon.appctl(&[
            "dpctl/dump-flows",
            "-m",
            "filter=eth_type(0x0800),ipv4(dst=10.7.7.7)",
        ])?;
        let found = dump
            .lines()
            .find_map(|line| line.split_once(", ").filter(|(u, _)| u.starts_with("ufid:")));
        found
            .map(|(ufid, _)| ufid.to_owned())
            .ok_or_else(|| Error::Check(format!("no flow: {dump}")))
    };
    let word = |word: &&str| match *word {
        "FILE" => Ok(file.to_owned()),
        "UFID" => ufid(),
        word => Ok(word.to_owned()),
    };
    row.iter().map(word).collect()
}

/// Every command, by the real `ovs-appctl` as text, and then by `xvsctl` as JSON.
pub(crate) fn ovs_appctl_drives_it() -> Result<()> {
    on(Rig::pair, |rig| {
        rig.dut.ip("link add v3 type veth peer name v4")?;
        let flow = |last| FLOW.replace("10.7.7.7", &format!("10.7.7.{last}"));
        let text = format!("# two flows\n{} 2\n\nadd {}, actions:drop\n", flow(8), flow(9));
        let file = rig.scratch.write("flows", &text)?.display().to_string();
        for json in [false, true] {
            let setup = Setup::new(rig);
            let metrics = format!("{}\nperf-metrics = true", setup.pmd);
            let mut daemon = Daemon::start(rig, &setup.pmd(&metrics))?;
            Iperf::run(rig, C2, 1, &[])?;
            let listed = daemon.appctl(&["list-commands"])?;
            let listed = listed.lines().skip(1).filter_map(|line| line.split_whitespace().next());
            for name in listed.filter(|name| !WITHOUT.contains(name)) {
                check!(COMMANDS.iter().any(|(row, _)| row[0] == name), "{name} has no row");
            }
            for (row, expected) in COMMANDS {
                let words = words_of(row, &file, &daemon)?;
                let mut words: Vec<&str> = words.iter().map(String::as_str).collect();
                let failed = |error| Error::Check(format!("{row:?}: {error}"));
                if json {
                    words.insert(0, "call");
                    let value = daemon.ctl(&words).map_err(failed)?;
                    check!(value.is_object() || value.is_array(), "{row:?}: {value}");
                    continue;
                }
                let text = daemon.appctl(&words).map_err(failed)?;
                check!(text.is_empty() || text.ends_with('\n'), "{row:?}: no newline: {text}");
                says(&text, expected).map_err(failed)?;
                if row[0] == "xvs/port-del" {
                    daemon.balanced()?;
                }
            }
            daemon.proc().finish(Duration::from_secs(2))?;
        }
        Ok(())
    })
}

/// A thread that is held up is told of in the log, with what came before and after; nothing is, without metrics.
pub(crate) fn a_pass_that_takes_long_is_told_of() -> Result<()> {
    on(Rig::pair, |rig| {
        let setup = Setup::new(rig);
        let mut daemon = Daemon::start(rig, &setup)?;
        let watch = ["dpif-netdev/pmd-perf-log-set", "on", "-us", "50000", "-b", "3", "-a", "2"];
        says(&daemon.appctl_refused(&watch)?, &["set perf-metrics = true in [pmd]"])?;
        says(
            &daemon.appctl_refused(&["dpif-netdev/pmd-perf-show", "-it", "1"])?,
            &["perf-metrics"],
        )?;
        check!(
            !daemon.appctl(&["dpif-netdev/pmd-perf-show"])?.contains("Histograms"),
            "unmeasured"
        );
        // It does not sleep: what passes in its sleep is no pass.
        let metrics = "cpu-mask = \"0x1\"\nperf-metrics = true";
        daemon.rewrite(&setup.clone().pmd(metrics).toml())?;
        daemon.ctl(&["config", "reload"])?;
        daemon.appctl(&watch)?;
        rig.wait_forwarding(Duration::from_secs(5))?;
        // As a machine that is short of processors would: it stands still for a while.
        daemon.proc().signal(Signal::SIGSTOP)?;
        std::thread::sleep(Duration::from_millis(200));
        daemon.proc().signal(Signal::SIGCONT)?;
        let log = wait_until("a suspicious pass in the log", Duration::from_secs(10), || {
            let log = daemon.proc().stdout() + &daemon.proc().stderr();
            Ok(log.contains("suspicious above 50000 us").then_some(log))
        })?;
        let told = log.lines().filter(|line| line.contains("pmd-c00: pass ")).count();
        check!(told >= 6, "{told} passes told of instead of 6: {log}");
        let shown = daemon.appctl(&["dpif-netdev/pmd-perf-show", "-it", "9"])?;
        says(&shown, &["Histograms", "   iter "])?;
        daemon.appctl(&["dpif-netdev/pmd-stats-clear"])?;
        let total = daemon.ctl(&["call", "dpif-netdev/pmd-perf-show"])?;
        let longest = total["metrics"][0]["total"]["ns"].as_u64();
        check!(longest.is_some_and(|ns| ns < 10_000_000_000), "not cleared: {total}");
        daemon.stop()
    })
}

/// Files of flows with mistakes: the line is named and no flow is added.
pub(crate) fn a_file_of_flows_is_added_whole_or_not_at_all() -> Result<()> {
    on(Rig::pair, |rig| {
        let daemon = Daemon::start(rig, &Setup::new(rig))?;
        let flow = |last| FLOW.replace("10.7.7.7", &format!("10.7.7.{last}"));
        let good = format!("{} 2\n", flow(8));
        let mistakes = [
            (format!("{good}in_port(1),eth_typ(0x0800) 2\n"), ["line 2", "eth_typ"]),
            (format!("{good}\n# more\n{}\n", flow(9)), ["line 4", "no actions"]),
            (format!("{good}{} bogus(1)\n", flow(9)), ["line 2", "bogus"]),
            (format!("{good}{} 2\n{good}", flow(9)), ["line 3", "File exists"]),
        ];
        for (text, expected) in mistakes {
            let file = rig.scratch.write("flows", &text)?.display().to_string();
            let refused = daemon.appctl_refused(&["dpctl/add-flows", &file])?;
            says(&refused, &expected)?;
            let left = daemon.appctl(&["dpctl/dump-flows"])?;
            check!(!left.contains("10.7.7."), "half of a file was added: {left}");
        }
        says(&daemon.appctl_refused(&["dpctl/add-flows", "/no/such/file"])?, &["/no/such/file"])?;
        says(&daemon.appctl_refused(&["dpctl/set-if", "xvs-netdev", "v9,n-rxq=1"])?, &["v9"])?;
        says(&daemon.appctl_refused(&["dpctl/set-if", "xvs-netdev", "v1,n-rxq=x"])?, &["n-rxq"])?;
        daemon.stop()
    })
}

/// Every command of `xvsctl` that only reads gives JSON and a text.
pub(crate) fn xvsctl_shows_everything_in_text_and_json() -> Result<()> {
    on(Rig::pair, |rig| {
        let daemon = Daemon::start(rig, &Setup::new(rig))?;
        rig.wait_forwarding(Duration::from_secs(5))?;
        for line in [
            "port list",
            "port show v1",
            "flow dump",
            "rule dump br0",
            "fdb show br0",
            "pmd stats",
            "ledger",
            "config show",
            "status",
            "version",
        ] {
            let words: Vec<&str> = line.split(' ').collect();
            let json = daemon.ctl(&words)?;
            check!(json.is_object() || json.is_array(), "{line}: {json}");
            daemon.ctl_text(&words)?;
        }
        says(&daemon.ctl_text(&["ledger"])?, &["rx", "pool", "quarantined"])?;
        daemon.stop()
    })
}

/// Case 34 in part: whatever is written to the socket, the daemon answers others.
pub(crate) fn garbage_on_the_control_socket() -> Result<()> {
    on(Rig::pair, |rig| {
        let daemon = Daemon::start(rig, &Setup::new(rig))?;
        let connect = || UnixStream::connect(daemon.socket()).map_err(Error::io("connect"));
        let mut random = crate::Random::new(7);
        let half = br#"{"id":0,"method":"version","par"#.to_vec();
        let open = vec![b'['; 100_000];
        let texts = [half, open, vec![b'"'; 3], br#"{"id":0,"method":1,"params":{}}"#.to_vec()];
        let noise = (0..50).map(|_| random.bytes(4000));
        let mut kept = Vec::new();
        for garbage in texts.into_iter().chain(noise) {
            let mut stream = connect()?;
            stream.set_read_timeout(Some(Duration::from_millis(20))).map_err(Error::io("set"))?;
            // The daemon may hang up in the middle of it.
            let _ = stream.write_all(&garbage);
            let _ = stream.read(&mut [0; 4096]);
            kept.push(stream);
            check!(daemon.ctl(&["version"]).is_ok(), "no answer after {} bytes", garbage.len());
        }
        drop(kept);
        rig.wait_forwarding(Duration::from_secs(2))?;
        daemon.stop()
    })
}

/// systemd's Type=notify: READY=1 once ports are bound, and not before the control socket answers.
pub(crate) fn it_tells_systemd_when_it_is_ready() -> Result<()> {
    on(Rig::pair, |rig| {
        let path = rig.scratch.path().join("notify");
        let socket = UnixDatagram::bind(&path).map_err(Error::io("bind"))?;
        socket.set_read_timeout(Some(Duration::from_secs(10))).map_err(Error::io("set"))?;
        let toml = Setup::new(rig).toml();
        let mut daemon =
            Daemon::launch(rig, "xvswitchd", &toml, &[("NOTIFY_SOCKET", path.as_path())])?;
        let mut buffer = [0; 4096];
        let mut heard = String::new();
        while !heard.contains("READY=1") {
            let length = socket.recv(&mut buffer).map_err(Error::io("READY=1"))?;
            heard += &String::from_utf8_lossy(&buffer[..length]);
        }
        daemon.ctl(&["status"])?;
        daemon.wait_bound(2, Duration::from_secs(5))?;
        daemon.stop()
    })
}
