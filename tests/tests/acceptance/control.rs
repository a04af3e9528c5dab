//! The control socket: every listed command by the real `ovs-appctl`, and what happens to garbage.

use std::io::{Read, Write};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::time::Duration;

use xvs_tests::{
    Error, Result, check,
    daemon::{Daemon, Setup},
    iperf::Iperf,
    rig::{C2, Rig},
};

use crate::{configuration::says, runner::on};

/// Commands of `ovs-appctl` and what their output must contain, in this order: later ones see the effects of
/// earlier ones.
const COMMANDS: &[(&[&str], &[&str])] = &[
    (&["version"], &["xvswitchd"]),
    (&["list-commands"], &["The available commands are:\n", "  dpctl/show", "  exit"]),
    (&["dpctl/show"], &["netdev@xvs-netdev:\n", "  lookups: hit:", "port 1: v1 (afxdp: "]),
    (&["dpctl/show", "-s"], &["RX packets:", "TX packets:", "collisions:", "RX bytes:"]),
    (&["dpctl/dump-flows"], &["flow-dump from pmd on cpu core: 0\n", "in_port(1)", "actions:2"]),
    (&["dpctl/dump-flows", "-m"], &["ufid:", "in_port(v1)"]),
    (&["dpif-netdev/pmd-stats-show"], &["pmd thread numa_id 0 core_id 0:", "packets received: "]),
    (
        &["dpif-netdev/pmd-rxq-show"],
        &["pmd thread numa_id 0 core_id 0:", "port: v1", "queue-id:  0"],
    ),
    (&["fdb/show", "br0"], &[" port  VLAN  MAC                Age", "02:00:00:00:00:01"]),
    (&["dpctl/add-flow", FLOW, "2"], &[]),
    (&["dpctl/dump-flows"], &["src=02:00:00:00:00:99", "10.7.7.7"]),
    (&["dpctl/del-flow", FLOW], &[]),
    // As its manual page writes it, which Open vSwitch itself refuses.
    (&["dpctl/add-flow", "in_port(1),eth(),eth_type(0x0806)", "2"], &[]),
    (&["dpctl/dump-flows"], &["in_port(1),packet_type(ns=0,id=0),eth_type(0x0806), packets:"]),
    (&["dpctl/del-flow", "in_port(1),eth(),eth_type(0x0806)"], &[]),
    (&["dpctl/add-if", "netdev@xvs-netdev", "v3,type=afxdp"], &[]),
    (&["dpctl/show"], &["v3 (afxdp: "]),
    (&["dpctl/del-if", "netdev@xvs-netdev", "v3"], &[]),
];

/// A flow nobody else has.
const FLOW: &str = "in_port(1),eth(src=02:00:00:00:00:99,dst=02:00:00:00:00:02),eth_type(0x0800),\
                    ipv4(dst=10.7.7.7,frag=no)";

pub(crate) fn ovs_appctl_drives_it() -> Result<()> {
    on(Rig::pair, |rig| {
        rig.dut.ip("link add v3 type veth peer name v4")?;
        let mut daemon = Daemon::start(rig, &Setup::new(rig))?;
        Iperf::run(rig, C2, 1, &[])?;
        for (words, expected) in COMMANDS {
            let text = daemon.appctl(words)?;
            check!(text.is_empty() || text.ends_with('\n'), "{words:?}: no newline: {text}");
            says(&text, expected).map_err(|error| Error::Check(format!("{words:?}: {error}")))?;
        }
        let flows = daemon.appctl(&["dpctl/dump-flows"])?;
        check!(!flows.contains("10.7.7.7"), "the deleted flow is still there: {flows}");
        check!(!daemon.appctl(&["dpctl/show"])?.contains("v3"), "the deleted port is still there");
        daemon.balanced()?;
        daemon.appctl(&["exit"])?;
        daemon.proc().finish(Duration::from_secs(2)).map(drop)
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
