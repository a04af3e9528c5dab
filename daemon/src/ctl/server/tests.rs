//! The server under the real `ovs-appctl`, and under clients who send garbage, are slow, or are many.

use std::io::Read;
use std::net::Shutdown;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::MAX_CLIENTS;
use crate::ctl::testing::{Client, Served, switch};

/// Runs the real `ovs-appctl`: exit status, standard output, standard error.
fn appctl(target: &str, run_dir: &str, words: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new("ovs-appctl");
    command.env("OVS_RUNDIR", run_dir).args(["-T", "10", "-t", target]).args(words);
    let Output { status, stdout, stderr } =
        command.output().expect("ovs-appctl: install openvswitch-common");
    (status.code(), String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap())
}

/// What `ovs-appctl` prints when it must succeed.
fn done(served: &Served, words: &[&str]) -> String {
    let (socket, run_dir) = (served.socket(), served.scratch.path().to_owned());
    let (code, out, err) = appctl(socket.to_str().unwrap(), run_dir.to_str().unwrap(), words);
    assert_eq!((code, err.as_str()), (Some(0), ""), "{words:?}");
    out
}

#[test]
fn the_real_ovs_appctl() {
    let served = Served::start(switch());
    let (socket, run_dir) = (served.socket(), served.scratch.path().to_str().unwrap().to_owned());
    let socket = socket.to_str().unwrap();
    let done = |words: &[&str]| done(&served, words);
    assert!(done(&["version"]).starts_with("xvswitchd (xvswitch) "));
    assert!(done(&["list-commands"]).starts_with("The available commands are:\n  coverage/show"));
    assert!(done(&["dpctl/show", "-s"]).starts_with("netdev@xvs-netdev:\n  lookups: hit:90 "));
    assert_eq!(done(&["dpctl/add-if", "netdev@xvs-netdev", "v3,type=afxdp"]), "");
    assert!(done(&["dpctl/show"]).contains("\n  port 3: v3 (afxdp: "));
    assert_eq!(done(&["dpctl/del-if", "netdev@xvs-netdev", "v3"]), "");
    assert!(done(&["dpif-netdev/pmd-stats-show"]).contains("\n  emc hits: 60\n"));
    assert!(
        done(&["dpif-netdev/pmd-rxq-show"]).contains("queue-id:  0 (enabled)   pmd usage: 43 %")
    );
    assert_eq!(done(&["fdb/show", "br0"]), " port  VLAN  MAC                Age\n");

    let refused = |words: &[&str]| {
        let (code, out, err) = appctl(socket, &run_dir, words);
        assert_eq!((code, out.as_str()), (Some(2), ""), "{words:?}");
        let end = format!("\novs-appctl: {socket}: server returned an error\n");
        err.strip_suffix(&end).unwrap_or_else(|| panic!("no {end:?} in {err:?}")).to_owned()
    };
    let unknown = "\"bogus\" is not a valid command \
                   (use \"list-commands\" to see a list of valid commands)";
    assert_eq!(refused(&["bogus"]), unknown);
    let bad = "xvswitchd: opening datapath x failed (No such device)";
    assert_eq!(refused(&["dpctl/show", "x"]), bad);

    // By name it looks for the pid file, whose lock must be held.
    let (code, out, err) = appctl("xvswitchd", &run_dir, &["exit"]);
    assert_eq!((code, out.as_str(), err.as_str()), (Some(0), "", ""));
    assert_eq!(served.stop().exit, Some(false));
}

#[test]
fn requests_in_a_row_are_answered_in_order() {
    let served = Served::start(switch());
    let mut client = served.client();
    let requests: String = (0..200)
        .map(|id| json!({ "id": id, "method": "version", "params": [] }).to_string())
        .collect();
    assert!(client.send(requests.as_bytes()));
    client.0.shutdown(Shutdown::Write).unwrap();
    for id in 0..200 {
        assert_eq!(client.receive().expect("a reply")["id"], id);
    }
    assert_eq!(client.receive(), None);
}

#[test]
fn json_is_a_state_of_one_connection() {
    let served = Served::start(switch());
    let (mut one, mut other) = (served.client(), served.client());
    assert_eq!(one.ask("set-options", &["--format", "json"])["result"], json!({}));
    assert!(one.ask("dpctl/show", &[])["result"]["ports"].is_array());
    assert!(other.ask("dpctl/show", &[])["result"].is_string());
}

/// Bytes from a generator that is the same each time (SplitMix64).
struct Random(u64);

impl Random {
    fn byte(&mut self) -> u8 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)).to_be_bytes()[0]
    }

    fn bytes(&mut self, n: usize) -> Vec<u8> {
        (0..n).map(|_| self.byte()).collect()
    }
}

/// Whatever comes, the next client is served, and the one who sent it is told or hung up on.
#[test]
fn garbage() {
    let served = Served::start(switch());
    let mut random = Random(7);
    let good = json!({ "id": 0, "method": "dpctl/show", "params": ["-s"] }).to_string();
    let mut texts: Vec<Vec<u8>> = vec![
        b"GET / HTTP/1.1\r\n\r\n".to_vec(),
        vec![b'['; 100_000],
        vec![b'{'; 100_000],
        vec![b'"'; 3],
        vec![b' '; 200_000],
        br#"{"id":0,"method":1,"params":{}}"#.to_vec(),
        br#"{"id":0,"method":"version","params":[{}]}"#.to_vec(),
        br#"{"id":0,"method":"version","par"#.to_vec(),
        format!("{{\"id\":0,\"method\":\"{}\",\"params\":[]}}", "x".repeat(70_000)).into_bytes(),
    ];
    texts.extend((0..200).map(|n| random.bytes(20 * n)));
    // Good requests with a few bytes changed.
    texts.extend((0..200).map(|_| {
        let mut bytes = good.clone().into_bytes();
        for _ in 0..3 {
            let at = usize::from(random.byte()) % bytes.len();
            bytes[at] = random.byte();
        }
        bytes
    }));
    let mut kept = Vec::new();
    for (n, text) in texts.iter().enumerate() {
        let mut client = served.client();
        client.send(text);
        if n % 4 > 0 {
            kept.push(client);
            kept.truncate(100);
        }
        let answer = served.client().ask("version", &[]);
        assert!(
            answer["result"].is_string(),
            "after {:?}: {answer}",
            String::from_utf8_lossy(text)
        );
    }
    drop(kept);
    served.wait_clients(0);
    let mut client = served.client();
    client.send(b"nonsense");
    let answer = client.receive().expect("an explanation");
    assert_eq!(answer["error"], "request is not a JSON object\n");
    assert_eq!(client.receive(), None);
}

#[test]
fn a_client_who_sends_single_bytes_holds_nobody_up() {
    let served = Served::start(switch());
    let mut slow = served.client();
    let request = json!({ "id": 9, "method": "version", "params": [] }).to_string();
    for byte in request.as_bytes() {
        assert!(slow.send(&[*byte]));
        assert!(served.client().ask("version", &[])["result"].is_string());
    }
    assert_eq!(slow.receive().expect("a reply")["id"], 9);
}

/// A client who asks and asks and reads nothing is not read any more, and disconnected in the end.
#[test]
fn a_client_who_does_not_read() {
    let served = Served::start(switch());
    let mut greedy = served.client();
    let request = json!({ "id": 1, "method": "help", "params": [] }).to_string();
    greedy.0.set_write_timeout(Some(Duration::from_millis(200))).unwrap();
    let asked = (0..100_000).take_while(|_| greedy.send(request.as_bytes())).count();
    assert!(asked < 100_000, "the server reads without end");
    assert!(served.client().ask("version", &[])["result"].is_string());
    served.wait_clients(1);
    served.pass(11);
    served.wait_clients(0);
    // What the kernel holds is still there; then comes the end.
    let mut rest = Vec::new();
    let start = Instant::now();
    let _ = greedy.0.read_to_end(&mut rest);
    assert!(!rest.is_empty() && start.elapsed() < Duration::from_secs(5));
}

/// One who leaves in the middle of a long reply.
#[test]
fn clients_who_leave_early() {
    let served = Served::start(switch());
    for _ in 0..100 {
        let mut client = served.client();
        for _ in 0..20 {
            client.send(json!({ "id": 1, "method": "help", "params": [] }).to_string().as_bytes());
        }
    }
    served.wait_clients(0);
    assert!(served.client().ask("version", &[])["result"].is_string());
}

#[test]
fn no_more_clients_than_places() {
    let served = Served::start(switch());
    let mut clients: Vec<Client> = (0..MAX_CLIENTS).map(|_| served.client()).collect();
    served.wait_clients(MAX_CLIENTS as u64);
    let mut late = served.client();
    let answer = late.receive().expect("an explanation");
    assert!(answer["error"].as_str().unwrap().starts_with("too many control clients"), "{answer}");
    assert_eq!(answer["id"], Value::Null);
    // All are served nevertheless.
    for client in &mut clients {
        assert!(client.ask("version", &[])["result"].is_string());
    }
    // When they have been silent for long, the one who has been so longest makes room.
    served.pass(11);
    let last = clients.pop().unwrap();
    let mut busy = clients.pop().unwrap();
    busy.ask("version", &[]);
    let mut newcomers: Vec<Client> = (0..200).map(|_| served.client()).collect();
    for client in &mut newcomers {
        assert!(client.ask("version", &[])["result"].is_string());
    }
    assert!(busy.ask("version", &[])["result"].is_string());
    drop((last, clients, newcomers, busy));
    served.wait_clients(0);
}

const FLOW: &str = "in_port(1),eth(src=02:00:00:00:00:01,dst=02:00:00:00:00:02),eth_type(0x0800),\
                    ipv4(frag=no)";

#[test]
fn flows_by_the_real_ovs_appctl() {
    let served = Served::start(switch());
    let done = |words: &[&str]| done(&served, words);
    assert_eq!(done(&["dpctl/add-flow", FLOW, "2"]), "");
    assert!(done(&["dpctl/dump-flows"]).contains("in_port(1),packet_type(ns=0,id=0),eth(src="));
    assert!(done(&["dpctl/dump-flows", "-m", "filter=in_port(v1)"]).contains("in_port(v1)"));
    assert_eq!(done(&["dpctl/del-flow", FLOW]), "");
    assert_eq!(done(&["dpctl/dump-flows"]), "");
}
