//! Reading the file: defaults, every kind of mistake and how it is worded.
#![allow(clippy::unwrap_used, reason = "tests")]

use xvs_config::{Auto, Topology, XdpMode, parse};

const GOOD: &str = r#"
run-dir = "/tmp/x"
[umem]
frames = 32768
[pmd]
cpu-mask = "0x3"
[[bridge]]
name = "br0"
rules = ["priority=1,actions=NORMAL",
         "priority=2,actions=drop"]
[[port]]
name = "v1"
bridge = "br0"
xdp-mode = "native"
tx-budget = 64
[[port]]
name = "v2"
bridge = "br0"
"#;

/// The messages for a text, one each line, without the name of the file.
fn errors(text: &str) -> String {
    let errors = parse(text, "f").unwrap_err().to_string();
    errors.lines().map(|line| line.strip_prefix("f:").unwrap().to_owned() + "\n").collect()
}

#[test]
fn reads_values_and_defaults() {
    let topology = parse(GOOD, "f").unwrap();
    assert_eq!(topology.umem.frames, 32768);
    assert_eq!(topology.umem.frame_size, 4096);
    assert_eq!(topology.pmd.cpu_mask.cores().map(|c| c.0).collect::<Vec<_>>(), [0, 1]);
    assert_eq!(topology.bridges[0].rules[1].text, "priority=2,actions=drop");
    assert_eq!(topology.bridges[0].rules[1].line, 10);
    assert_eq!(topology.ports[0].xdp_mode, XdpMode::Native);
    assert_eq!(topology.ports[0].tx_budget, Auto::Fixed(64));
    assert_eq!(topology.ports[1].tx_budget, Auto::Auto);
    assert_eq!(topology.frames_needed(), 2 * (2048 + 2 * 2048) + 2 * 1024);
    assert_eq!(parse("", "f").unwrap(), Topology::default());
}

#[test]
fn an_unknown_key_is_named_with_its_line_and_the_nearest() {
    let text = GOOD.replace("tx-budget", "tx-buget");
    assert_eq!(
        errors(&text),
        "15:1: port \"v1\": unknown key \"tx-buget\", did you mean \"tx-budget\"?: want one of name, \
         bridge, type, xdp-mode, n-rxq, start-queue, rx-ring, tx-ring, tx-budget, sndbuf, \
         xmit-batch, busy-poll-us, busy-poll-budget, prefer-busy-poll, port-no, force\n"
    );
    assert_eq!(
        errors("[umen]\n"),
        "1:2: unknown section or key \"umen\", did you mean \"umem\"?: want one of run-dir, umem, \
         pmd, datapath, log, control, bridge, port\n"
    );
}

#[test]
fn a_wrong_value_is_named_with_what_is_allowed() {
    for (line, message) in [
        ("rx-ring = 3000", "rx-ring is 3000: want a power of two from 64 to 32768"),
        ("rx-ring = \"64\"", "rx-ring is \"64\": want a power of two from 64 to 32768"),
        ("n-rxq = 0", "n-rxq is 0: want a whole number from 1 to 64"),
        ("n-rxq = 1.5", "n-rxq is a fraction: want a whole number from 1 to 64"),
        ("n-rxq = -1", "n-rxq is -1: want a whole number from 1 to 64"),
        ("force = 1", "force is 1: want true or false"),
        ("type = \"tap\"", "type is \"tap\": want \"afxdp\""),
        ("sndbuf = 1", "sndbuf is 1: want \"auto\" or a whole number from 4096 to 1073741824"),
        ("tx-budget = 4096", "tx-budget is 4096 while tx-ring is 2048: want at most tx-ring"),
        (
            "xdp-mode = \"fast\"",
            "xdp-mode is \"fast\": want \"best-effort\", \"native-with-zerocopy\", \"native\" or \
             \"generic\"",
        ),
    ] {
        let text = format!("[[bridge]]\nname=\"b\"\n[[port]]\nbridge=\"b\"\nname=\"v\"\n{line}\n");
        let column = line.find('=').unwrap() + 3;
        assert_eq!(errors(&text), format!("6:{column}: port \"v\": {message}\n"));
    }
    for (text, message) in [
        ("pmd.cpu-mask=\"0x0\"", "cpu-mask is \"0x0\""),
        ("pmd.cpu-mask=\"\"", "cpu-mask is \"\""),
        ("pmd.cpu-mask=3", "cpu-mask is 3"),
        ("umem.frame-size=1024", "frame-size is 1024: want 2048 or 4096"),
        ("umem.frames=99999999999999999999999999", "frames is 99999999999999999999999999: want"),
        ("control.mode=\"0888\"", "mode is \"0888\""),
        ("control.mode=\"+660\"", "mode is \"+660\""),
        ("run-dir=\"x\"", "run-dir is \"x\": want an absolute path"),
        ("umem=1", "umem is 1: want a table [umem]"),
        ("port=1", "port is 1: want tables, each with the heading [[port]]"),
        ("port=[1]", "port is 1: want tables"),
        ("[port]", "port is a table: want tables, each with the heading [[port]]"),
        ("[[umem]]", "want a table [umem]"),
    ] {
        assert!(errors(text).contains(message), "{text}: {}", errors(text));
        assert_eq!(errors(text).lines().count(), 1, "{text}: {}", errors(text));
    }
}

#[test]
fn names_are_those_that_linux_takes() {
    let port = |name: &str| {
        parse(&format!("[[bridge]]\nname=\"b\"\n[[port]]\nbridge=\"b\"\nname={name:?}\n"), "f")
    };
    for good in ["v1", "a23456789012345", "eth0.1", "ü"] {
        assert!(port(good).is_ok(), "{good}");
    }
    for bad in
        ["", ".", "..", "a b", "a/b", "a:b", "a,b", "a234567890123456", "a\u{a0}b", "üüüüüüüü"]
    {
        assert!(port(bad).is_err(), "{bad}");
    }
}

#[test]
fn all_mistakes_are_reported_in_the_order_of_the_file() {
    let text = "[[port]]\nbridge = \"b\"\nn-rxq = 65\n[umem]\nframes = 1\nfoo = 1\n[bar]\n";
    assert_eq!(
        errors(text),
        "1:1: port number 1: name is missing: want an interface name: 1 to 15 bytes without '/', \
         ':', ',' or white space\n\
         3:9: port number 1: n-rxq is 65: want a whole number from 1 to 64\n\
         5:10: [umem]: frames is 1: want a whole number from 1024 to 4194304\n\
         6:1: [umem]: unknown key \"foo\": want one of frames, frame-size, hugepages\n\
         7:2: unknown section or key \"bar\": want one of run-dir, umem, pmd, datapath, log, \
         control, bridge, port\n"
    );
}

#[test]
fn parts_must_fit_together() {
    let twice = GOOD.replace("\"v2\"", "\"v1\"");
    assert_eq!(errors(&twice), "17:8: port \"v1\": name v1 is there twice: want it once\n");
    let numbers = GOOD.replace("bridge = \"br0\"\n", "bridge = \"br0\"\nport-no = 7\n");
    assert_eq!(errors(&numbers), "20:11: port \"v2\": port-no 7 is there twice: want it once\n");
    let bridges = format!("{GOOD}[[bridge]]\nname = \"br0\"\n");
    assert_eq!(errors(&bridges), "20:8: bridge \"br0\": name br0 is there twice: want it once\n");
    let unknown = GOOD.replacen("bridge = \"br0\"", "bridge = \"br1\"", 1);
    assert_eq!(
        errors(&unknown),
        "13:10: port \"v1\": bridge is \"br1\", which is not there: want one of br0\n"
    );
    let few = GOOD.replace("32768", "8192");
    assert_eq!(
        errors(&few),
        "4:10: [umem]: frames is 8192: want at least 14336 for the rings of all ports and threads \
         (or fewer or smaller rings)\n"
    );
}

#[test]
fn what_is_not_toml_is_reported_with_its_place() {
    assert!(errors("[umem]\nframes = = 1\n").starts_with("2:10: not valid TOML: "));
    assert!(errors("[umem]\nframes = 1024\nframes = 2048\n").contains("duplicate key"));
    assert!(errors("a = 'ü' b\n").starts_with("1:9: "));
}

#[test]
fn an_unreadable_file_is_named() {
    let error = xvs_config::load("/nonexistent/x.toml".as_ref()).unwrap_err().to_string();
    assert!(error.starts_with("/nonexistent/x.toml: cannot read it: No such file"), "{error}");
}
