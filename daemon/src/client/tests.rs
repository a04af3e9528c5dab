//! The client against the real control server, and against sockets on which something else sits.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::symlink;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use clap::CommandFactory;
use serde_json::Value;

use super::{Args, ClientError, Connection, run};
use crate::ctl::testing::{Scratch, Served, switch};
use crate::rundir::RunDir;

/// Exit status, standard output, standard error.
fn xvsctl(run_dir: &Path, words: &[&str]) -> (u8, String, String) {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let line = ["xvsctl", "--run-dir", run_dir.to_str().unwrap()].into_iter().chain(words.to_vec());
    let code = run(line, &mut out, &mut err);
    (code, String::from_utf8(out).unwrap(), String::from_utf8(err).unwrap())
}

fn done(served: &Served, words: &[&str]) -> String {
    let (code, out, err) = xvsctl(served.scratch.path(), words);
    assert_eq!((code, err.as_str()), (0, ""), "{words:?}");
    out
}

fn done_json(served: &Served, words: &[&str]) -> Value {
    let words: Vec<&str> = words.iter().copied().chain(["--json"]).collect();
    serde_json::from_str(&done(served, &words)).unwrap()
}

#[test]
fn the_command_line_is_sound() {
    Args::command().debug_assert();
}

#[test]
fn every_verb_reaches_the_daemon() {
    let served = Served::start(switch());
    assert_eq!(done(&served, &["port", "add", "v3", "bridge=br0"]), "port 3: v3\n");
    assert!(done(&served, &["port", "list"]).starts_with("PORT  NAME  BRIDGE  STATE"));
    assert_eq!(done_json(&served, &["port", "list"])[2]["name"], "v3");
    assert!(done(&served, &["port", "show", "v3"]).starts_with("port 3: v3 (afxdp)\n"));
    assert_eq!(done(&served, &["port", "del", "v3"]), "");
    assert_eq!(done(&served, &["rule", "add", "br0", "ip,actions=NORMAL", "actions=drop"]), "");
    assert!(done(&served, &["rule", "dump", "br0"]).contains("priority=10,ip actions=NORMAL\n"));
    assert_eq!(done(&served, &["rule", "del", "br0", "ip"]), "1 rules removed\n");
    assert_eq!(done(&served, &["rule", "del", "--strict", "br0", "arp"]), "0 rules removed\n");
    assert_eq!(done(&served, &["fdb", "show", "br0"]), " port  VLAN  MAC                Age\n");
    assert_eq!(done(&served, &["fdb", "flush"]), "table successfully flushed\n");
    assert!(done(&served, &["pmd", "stats"]).starts_with("CORE  NUMA"));
    assert_eq!(done_json(&served, &["pmd", "stats"])[0]["rx_packets"], 100);
    assert!(done(&served, &["pmd", "rxqs"]).contains("pmd usage: 43 %"));
    assert_eq!(done(&served, &["pmd", "clear"]), "");
    assert_eq!(done_json(&served, &["ledger"])["balanced"], true);
    assert!(done(&served, &["config", "show"]).starts_with("[[bridge]]\n"));
    assert_eq!(done(&served, &["config", "check"]), "nothing changes\n");
    assert_eq!(done_json(&served, &["status"])["pid"], 7);
    assert!(done(&served, &["version"]).starts_with("xvsctl (xvswitch) "));
    assert!(done_json(&served, &["version"])["xvswitchd"]["version"].is_string());
    assert!(done(&served, &["call", "dpctl/show", "-s"]).contains("collisions:?"));
    assert_eq!(served.stop().cleared, [None]);
}

#[test]
fn what_the_daemon_refuses() {
    let served = Served::start(switch());
    let cases: [(&[&str], &str); 3] = [
        (
            &["port", "add", "v1"],
            "there is already a port named v1: delete it first, or take another name",
        ),
        (&["--json", "port", "del", "nosuch0"], "no port named nosuch0"),
        (&["config", "reload"], "lab.toml:3:1: unknown key \"framse\""),
    ];
    for (words, why) in cases {
        let answer = (1, String::new(), format!("xvsctl: {why}\n"));
        assert_eq!(xvsctl(served.scratch.path(), words), answer);
    }
}

#[test]
fn a_wrong_command_line_and_help() {
    for words in [&["bogus"][..], &["port"], &["port", "del"], &["flow", "del"], &["rule", "add"]] {
        let (code, out, err) = xvsctl(Path::new("/nonexistent"), words);
        assert_eq!((code, out.as_str()), (2, ""), "{words:?}");
        assert!(err.contains("Usage: xvsctl"), "{err}");
    }
    let (code, out, err) = xvsctl(Path::new("/nonexistent"), &["--help"]);
    assert_eq!((code, err.as_str()), (0, ""));
    assert!(out.contains("Examples:\n  xvsctl port add") && out.contains("Exit status:"), "{out}");
}

#[test]
fn no_daemon() {
    let scratch = Scratch::new();
    let socket = RunDir::link_in(scratch.path());
    let absent = xvsctl(scratch.path(), &["status"]);
    assert_eq!(absent.0, 3);
    assert!(absent.2.contains(socket.to_str().unwrap()) && absent.2.contains("--run-dir"));
    // A socket that a killed daemon has left behind.
    drop(UnixListener::bind(scratch.path().join("old")).unwrap());
    symlink("old", &socket).unwrap();
    assert_eq!(xvsctl(scratch.path(), &["status"]), absent);
}

/// Someone who accepts and says nothing, and someone who does not even accept.
#[test]
fn a_daemon_that_hangs() {
    let scratch = Scratch::new();
    let listener = UnixListener::bind(RunDir::link_in(scratch.path())).unwrap();
    fs::write(scratch.path().join("xvswitchd.pid"), "4711\n").unwrap();
    let start = Instant::now();
    let (code, out, err) = xvsctl(scratch.path(), &["--json", "status"]);
    let took = start.elapsed();
    assert_eq!((code, out.as_str()), (5, ""));
    assert!(err.contains("process 4711") && err.contains("5 s"), "{err}");
    assert!(took >= Duration::from_secs(5) && took < Duration::from_secs(7), "{took:?}");
    let mut queued = Vec::new();
    let patience = Duration::from_millis(200);
    let error = loop {
        match Connection::open(scratch.path(), patience) {
            Ok(connection) => queued.push(connection),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, ClientError::Hung { .. }), "{error} after {}", queued.len());
    drop(listener);
}

/// Answers one client with these bytes, hangs up, and runs the client.
fn against(answer: &'static [u8]) -> (u8, String, String) {
    let scratch = Scratch::new();
    let listener = UnixListener::bind(RunDir::link_in(scratch.path())).unwrap();
    let other = thread::spawn(move || {
        let (mut stream, _): (UnixStream, _) = listener.accept().unwrap();
        let mut request = [0; 16];
        stream.read_exact(&mut request).unwrap();
        stream.write_all(answer).unwrap();
    });
    let result = xvsctl(scratch.path(), &["status"]);
    other.join().unwrap();
    result
}

#[test]
fn something_else_on_the_socket() {
    let strange: [&[u8]; 7] = [
        b"",
        b"{\"id\":0,\"result\":\"x\",",
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"{\"id\":9,\"result\":\"x\",\"error\":null}",
        b"{\"id\":0,\"result\":null,\"error\":null}",
        b"{\"id\":0,\"result\":{},\"error\":null}",
        b"[]",
    ];
    for answer in strange {
        let (code, out, err) = against(answer);
        assert_eq!((code, out.as_str()), (6, ""), "{answer:?}: {err}");
        assert!(err.starts_with("xvsctl: no proper answer from "), "{err}");
    }
    let (code, _, err) = against(b"{\"id\":null,\"result\":null,\"error\":\"too many clients\"}");
    assert_eq!((code, err.as_str()), (1, "xvsctl: too many clients\n"));
}

#[test]
fn config_check_with_and_without_a_daemon() {
    let served = Served::start(switch());
    let nobody = Scratch::new();
    let good = nobody.path().join("good.toml");
    fs::write(&good, xvs_config::example()).unwrap();
    let name = good.to_str().unwrap();
    let text = done(&served, &["config", "check", name]);
    let compared = "compared with the running configuration";
    assert_eq!(text, format!("{name}: valid\n{compared}:\n  would read {name}\n"));
    assert_eq!(done_json(&served, &["config", "check", name])["valid"], true);
    let (code, out, _) = xvsctl(nobody.path(), &["config", "check", name]);
    assert_eq!((code, out), (0, format!("{name}: valid\nno daemon to compare it with\n")));

    let bad = nobody.path().join("bad.toml");
    fs::write(&bad, "[umem]\nframse = 1\n").unwrap();
    let missing = nobody.path().join("missing.toml");
    for run_dir in [served.scratch.path(), nobody.path()] {
        let (code, out, err) = xvsctl(run_dir, &["config", "check", bad.to_str().unwrap()]);
        assert_eq!((code, out.as_str()), (1, ""));
        assert!(err.contains("bad.toml:2:") && err.contains("framse"), "{err}");
        let (code, _, err) = xvsctl(run_dir, &["config", "check", missing.to_str().unwrap()]);
        assert_eq!(code, 1);
        assert!(err.contains("missing.toml"), "{err}");
    }
}

const FLOW: &str = "in_port(1),eth_type(0x0806)";

#[test]
fn flows() {
    let served = Served::start(switch());
    assert_eq!(done(&served, &["flow", "add", FLOW, "2"]), "");
    assert!(done(&served, &["flow", "dump"]).ends_with("actions:2\n"));
    assert!(done(&served, &["flow", "dump", "-m", "--pmd", "0"]).contains("in_port(v1)"));
    assert_eq!(done(&served, &["flow", "dump", "--filter", "in_port(2)"]), "");
    assert_eq!(done_json(&served, &["flow", "dump"])["pmds"][0]["flows"][0]["actions"], "2");
    assert_eq!(done(&served, &["flow", "del", FLOW]), "");
    done(&served, &["flow", "add", FLOW, "2"]);
    assert_eq!(done_json(&served, &["flow", "del", "--all"])["removed"], 1);
    let (code, out, err) = xvsctl(served.scratch.path(), &["flow", "add", "bogus", "2"]);
    assert_eq!((code, out.as_str()), (1, ""));
    let why = "parsing flow key (syntax error at bogus: not known, position 0) (Invalid argument)";
    assert_eq!(err, format!("xvsctl: {why}\n"));
}
