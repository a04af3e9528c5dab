//! Every number out of its range, and every two settings that contradict each other, are refused by name.
#![allow(clippy::unwrap_used, reason = "tests")]

use xvs_config::{
    Bridge, Control, Datapath, General, Key, Log, Pmd, Port, PortSpec, Section, Umem, parse,
};

/// The first and the last number that a key's own words allow; `None` for what is not a number.
fn limits<S>(key: &Key<S>) -> Option<(i128, i128)> {
    let allowed = (key.allowed)();
    let allowed = allowed.strip_prefix("\"auto\" or ").unwrap_or(&allowed);
    let numbers = allowed
        .strip_prefix("a whole number from ")
        .or_else(|| allowed.strip_prefix("a power of two from "))
        .map(|range| range.split(" to "));
    let mut numbers = numbers.unwrap_or_else(|| allowed.split(" to "));
    if let (Some(first), Some(last)) = (numbers.next(), numbers.next()) {
        return Some((first.parse().ok()?, last.parse().ok()?));
    }
    let (first, last) = allowed.split_once(" or ")?;
    Some((first.parse().ok()?, last.parse().ok()?))
}

/// A file with one key of `S` set, and what else the section must have.
fn file<S: Section>(key: &str, value: &str) -> String {
    let mut text = String::new();
    if !S::NAME.is_empty() {
        let array = S::NAME == Bridge::NAME || S::NAME == Port::NAME;
        text += &if array { format!("[[{}]]\n", S::NAME) } else { format!("[{}]\n", S::NAME) };
        if array {
            text += "name = \"b\"\n";
        }
        if S::NAME == Port::NAME {
            text += "bridge = \"b\"\n";
        }
    }
    text += &format!("{key} = {value}\n");
    if S::NAME == Port::NAME {
        text += "[[bridge]]\nname = \"b\"\n";
    }
    text
}

/// Tries the values below and above the range of each numeric key; which keys those are.
fn refuse_beyond<S: Section>() -> Vec<&'static str> {
    let mut tried = Vec::new();
    for key in S::KEYS {
        let Some((first, last)) = limits(key) else { continue };
        tried.push(key.name);
        for value in [first - 1, last + 1, i128::from(u64::MAX) + 1, i128::from(i64::MIN)] {
            let text = file::<S>(key.name, &value.to_string());
            let message = parse(&text, "f").unwrap_err().to_string();
            let range = (key.allowed)();
            let expected = format!("{} is {value}: want {range}", key.name);
            assert!(message.contains(&expected), "{text}{message}");
            assert!(range.contains(&first.to_string()) && range.contains(&last.to_string()));
            assert_eq!(message.lines().count(), 1, "{message}");
        }
        for value in [first, last] {
            // A value of the range may ask for more memory than there is, but it is not out of range.
            let message =
                parse(&file::<S>(key.name, &value.to_string()), "f").map_err(|e| e.to_string());
            let refused = message.is_err_and(|m| {
                m.contains(&format!("{} is {value}: want {}", key.name, (key.allowed)()))
            });
            assert!(!refused, "{} = {value}", key.name);
        }
    }
    tried
}

#[test]
fn every_number_out_of_range_is_named_with_its_range() {
    assert_eq!(refuse_beyond::<General>(), [""; 0]);
    assert_eq!(refuse_beyond::<Umem>(), ["frames", "frame-size"]);
    assert_eq!(refuse_beyond::<Pmd>(), ["batch-size", "sleep-max-us", "emc-insert-inv-prob"]);
    assert_eq!(refuse_beyond::<Datapath>(), ["flow-limit", "max-idle-ms"]);
    assert_eq!(refuse_beyond::<Log>(), [""; 0]);
    assert_eq!(refuse_beyond::<Control>(), [""; 0]);
    assert_eq!(refuse_beyond::<Bridge>(), ["mac-aging-s", "mac-table-size"]);
    assert_eq!(
        refuse_beyond::<Port>(),
        [
            "n-rxq",
            "start-queue",
            "rx-ring",
            "tx-ring",
            "tx-budget",
            "sndbuf",
            "xmit-batch",
            "busy-poll-us",
            "busy-poll-budget",
            "port-no",
        ]
    );
}

#[test]
fn an_option_of_a_port_out_of_range_is_named_with_its_range() {
    for key in Port::KEYS {
        let Some((first, last)) = limits(key) else { continue };
        for value in [first - 1, last + 1] {
            let spec = PortSpec::parse(&format!("v1,bridge=b,{}={value}", key.name));
            let message = spec.build().unwrap_err().to_string();
            assert!(message.contains(key.name), "{message}");
            assert!(message.contains(&(key.allowed)()), "{message}");
        }
    }
}

#[test]
fn settings_that_contradict_each_other_are_refused_with_both_keys() {
    for (lines, key, other) in [
        ("tx-ring = 64\ntx-budget = 128", "tx-budget is 128", "tx-ring is 64"),
        (
            "xdp-mode = \"native-with-zerocopy\"\ntx-budget = 64",
            "tx-budget is 64",
            "xdp-mode is \"native-with-zerocopy\"",
        ),
        (
            "xdp-mode = \"native-with-zerocopy\"\nsndbuf = 65536",
            "sndbuf is 65536",
            "xdp-mode is \"native-with-zerocopy\"",
        ),
        (
            "xdp-mode = \"native-with-zerocopy\"\nxmit-batch = 32",
            "xmit-batch is 32",
            "xdp-mode is \"native-with-zerocopy\"",
        ),
        ("tx-ring = 64\nxmit-batch = 128", "xmit-batch is 128", "tx-ring is 64"),
        ("tx-budget = 32\nxmit-batch = 64", "xmit-batch is 64", "tx-budget is 32"),
        (
            "xdp-mode = \"generic\"\nbusy-poll-us = 20",
            "busy-poll-us is 20",
            "xdp-mode is \"generic\"",
        ),
        ("busy-poll-budget = 64", "busy-poll-budget is 64", "busy-poll-us is 0"),
        ("prefer-busy-poll = true", "prefer-busy-poll is true", "busy-poll-us is 0"),
    ] {
        let text =
            format!("[[bridge]]\nname=\"b\"\n[[port]]\nname=\"v1\"\nbridge=\"b\"\n{lines}\n");
        let message = parse(&text, "f").unwrap_err().to_string();
        let expected = format!("port \"v1\": {key} while {other}: want ");
        assert!(message.contains(&expected), "{lines}: {message}");
        assert_eq!(message.lines().count(), 1, "{message}");
    }
    for lines in [
        "xdp-mode = \"native-with-zerocopy\"\nbusy-poll-us = 20\nprefer-busy-poll = true",
        "xdp-mode = \"generic\"\nxmit-batch = 32\ntx-budget = 32\nsndbuf = 65536",
        "busy-poll-us = 20\nbusy-poll-budget = 16",
    ] {
        let text =
            format!("[[bridge]]\nname=\"b\"\n[[port]]\nname=\"v1\"\nbridge=\"b\"\n{lines}\n");
        assert!(parse(&text, "f").is_ok(), "{lines}: {:?}", parse(&text, "f"));
    }
}

#[test]
fn a_hundred_thousand_rules_are_read_in_no_time() {
    let rules: String = (0..100_000).map(|n| format!("\"tp_src={n},actions=drop\",\n")).collect();
    let text = format!("[[bridge]]\nname = \"br0\"\nrules = [\n{rules}]\n");
    let start = std::time::Instant::now();
    let topology = parse(&text, "f").expect("valid");
    // Quadratic, it took minutes.
    assert!(start.elapsed() < std::time::Duration::from_secs(10), "{:?}", start.elapsed());
    let rules = topology.bridges.first().map(|bridge| bridge.rules.clone()).unwrap_or_default();
    let lines: Vec<_> = rules.iter().map(|rule| rule.line).collect();
    assert_eq!(lines, (4..100_004).collect::<Vec<u32>>());
}
