//! What is written reads back as the same; what differs is found, and nothing else.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::path::Path;

use proptest::prelude::*;
use xvs_config::{
    Bridge, Change, Port, PortSpec, Raw, Rule, RunDir, Section, Topology, diff, example, parse,
};

const PACKAGED: &str = include_str!("../../packaging/xvswitch.toml");

const WORDS: &[&str] =
    &["auto", "native", "generic", "true", "debug", "warn", "0x3", "0600", "/run/x"];

/// A value that some key may take, as an option of the command line would write it.
fn value() -> impl Strategy<Value = String> {
    prop_oneof![
        prop::sample::select(WORDS).prop_map(str::to_owned),
        (0u32..16).prop_map(|shift| (1u32 << shift).to_string()),
        any::<u32>().prop_map(|number| number.to_string()),
        (1u32..64).prop_map(|number| number.to_string()),
    ]
}

/// A section with some of its values changed to others that are allowed.
fn section<S: Section + std::fmt::Debug>() -> impl Strategy<Value = S> {
    prop::collection::vec((0..S::KEYS.len(), value()), 0..12).prop_map(|changes| {
        let mut section = S::preset();
        for (key, value) in changes {
            let _ = Raw::of_option(&value).iter().any(|raw| (S::KEYS[key].set)(&mut section, raw));
        }
        section
    })
}

fn name() -> impl Strategy<Value = String> {
    "[a-c\"'\\\\#ü]{1,7}"
}

fn topology() -> impl Strategy<Value = Topology> {
    let tables = (section(), section(), section(), section(), section(), section());
    let rules = prop::collection::vec("\\PC{0,40}", 0..3);
    let bridges = prop::collection::vec((name(), section::<Bridge>(), rules), 1..4);
    let ports =
        prop::collection::vec((name(), any::<prop::sample::Index>(), section::<Port>()), 0..5);
    (tables, bridges, ports).prop_map(|(tables, bridges, ports)| {
        let (general, umem, pmd, datapath, log, control) = tables;
        let (bridges, ports) = (named(bridges), ports);
        let ports = ports.into_iter().map(|(name, bridge, mut port)| {
            port.name = name.parse().unwrap();
            port.bridge = bridge.get(&bridges).name.clone();
            port
        });
        let ports = ports.collect();
        let mut topology = Topology { general, umem, pmd, datapath, log, control, bridges, ports };
        make_valid(&mut topology);
        topology.numbered(None)
    })
}

fn named(bridges: Vec<(String, Bridge, Vec<String>)>) -> Vec<Bridge> {
    let bridges = bridges.into_iter().map(|(name, mut bridge, rules)| {
        bridge.name = name.parse().unwrap();
        bridge.rules = rules.into_iter().map(|text| Rule { text, line: 0 }).collect();
        bridge
    });
    bridges.collect()
}

/// Removes the sections that do not fit to the others.
fn make_valid(topology: &mut Topology) {
    topology.bridges.sort_by(|a, b| a.name.cmp(&b.name));
    topology.bridges.dedup_by(|a, b| a.name == b.name);
    while let Some(fault) = topology.faults().into_iter().next_back() {
        if fault.section == Port::NAME {
            topology.ports.remove(fault.index);
        } else {
            topology.ports.pop();
            topology.pmd = Section::preset();
            topology.umem.frames = 4_194_304;
        }
    }
}

proptest! {
    #[test]
    fn a_printed_topology_reads_back_as_the_same(topology in topology()) {
        let text = topology.to_string();
        let again = parse(&text, "f").unwrap_or_else(|errors| panic!("{errors}\n{text}"));
        prop_assert_eq!(&again, &topology);
        prop_assert_eq!(again.to_string(), text);
        prop_assert_eq!(diff(&topology, &again), []);
    }

    #[test]
    fn applying_the_difference_makes_the_new_one((old, new) in (topology(), topology())) {
        let new = new.numbered(Some(&old));
        let mut running = old.clone();
        for change in diff(&old, &new) {
            prop_assert!(!change.to_string().is_empty());
            apply(&mut running, change, &new);
        }
        let sort = |mut topology: Topology| {
            topology.bridges.sort_by(|a, b| a.name.cmp(&b.name));
            topology.ports.sort_by(|a, b| a.name.cmp(&b.name));
            topology
        };
        prop_assert_eq!(sort(running), sort(new));
    }

    #[test]
    fn no_text_makes_the_reader_panic(text in "\\PC*|[a-z\\[\\]=\"\n 0-9]*") {
        let _ = parse(&text, "f");
    }

    #[test]
    fn no_options_make_the_builder_panic(text in "\\PC*|[a-z=, 0-9_-]*") {
        let _ = PortSpec::parse(&text).build();
    }

    #[test]
    fn numbers_are_distinct_and_kept((old, new) in (topology(), topology())) {
        let new = new.numbered(Some(&old));
        let mut numbers: Vec<_> = new.ports.iter().map(Port::number).collect();
        prop_assert!(numbers.iter().all(|number| (1..=1023).contains(&number.0)));
        numbers.sort();
        numbers.dedup();
        prop_assert_eq!(numbers.len(), new.ports.len());
    }
}

/// What the daemon does, on paper: checks that each change fits to what is there.
fn apply(running: &mut Topology, change: Change, new: &Topology) {
    match change {
        Change::RestartRequired { .. } => {
            running.general = new.general.clone();
            running.umem = new.umem.clone();
        }
        Change::SetLog(log) => running.log = log,
        Change::SetControl(control) => running.control = control,
        Change::SetDatapath(datapath) => running.datapath = datapath,
        Change::SetPmd { pmd, .. } => running.pmd = pmd,
        Change::DelPort(name) => running.ports.retain(|port| port.name != name),
        Change::DelBridge(name) => {
            assert!(running.ports.iter().all(|port| port.bridge != name));
            running.bridges.retain(|bridge| bridge.name != name);
        }
        Change::AddBridge(bridge) => running.bridges.push(bridge),
        Change::ModifyBridge { bridge, .. } => {
            let old = running.bridges.iter_mut().find(|old| old.name == bridge.name).unwrap();
            *old = bridge;
        }
        Change::ModifyPort { port, .. } => {
            assert!(running.bridge(port.bridge.as_str()).is_some());
            let old = running.ports.iter_mut().find(|old| old.name == port.name).unwrap();
            *old = port;
        }
        Change::AddPort(port) => {
            assert!(running.bridge(port.bridge.as_str()).is_some());
            assert!(running.ports.iter().all(|old| old.number() != port.number()));
            running.ports.push(port);
        }
    }
}

fn two_ports(options: &str) -> Topology {
    let text = format!(
        "[[bridge]]\nname='b'\n[[port]]\nname='v1'\nbridge='b'\n{options}\n[[port]]\nname='v2'\nbridge='b'\n"
    );
    parse(&text, "f").unwrap()
}

#[test]
fn numbers_follow_the_file_and_stay() {
    let numbers = |topology: &Topology| -> Vec<_> {
        topology.ports.iter().map(|port| (port.name.to_string(), port.number().0)).collect()
    };
    let running = two_ports("").numbered(None);
    assert_eq!(numbers(&running), [("v1".into(), 1), ("v2".into(), 2)]);
    let fixed = two_ports("port-no=2").numbered(Some(&running));
    assert_eq!(numbers(&fixed), [("v1".into(), 2), ("v2".into(), 1)]);
    let mut fewer = two_ports("");
    fewer.ports.remove(0);
    assert_eq!(numbers(&fewer.numbered(Some(&running))), [("v2".into(), 2)]);
}

#[test]
fn only_what_needs_it_is_created_again() {
    let running = two_ports("").numbered(None);
    let changes = |options: &str| diff(&running, &two_ports(options).numbered(Some(&running)));
    assert_eq!(changes(""), []);
    for (option, recreated) in [
        ("rx-ring=64", true),
        ("n-rxq=2", true),
        ("tx-budget=64", true),
        ("sndbuf=4096", true),
        ("force=true", false),
    ] {
        match changes(option).as_slice() {
            [Change::ModifyPort { port, keys, recreate }] => {
                assert_eq!((port.name.as_str(), *recreate), ("v1", recreated));
                assert_eq!(keys.as_slice(), [option.split('=').next().unwrap()]);
            }
            other => panic!("{other:?}"),
        }
    }
    let mut restart = running.clone();
    restart.umem.frames = 65536;
    assert_eq!(
        diff(&running, &restart)[0].to_string(),
        "[umem] frames cannot change from 16384 to 65536 without a restart"
    );
}

#[test]
fn the_packaged_file_is_what_the_table_makes() {
    assert_eq!(PACKAGED, example(), "write `cargo run -p xvs-config --example make-example` to it");
    let mut expected = Topology::default();
    expected.bridges.push(Bridge::preset());
    assert_eq!(parse(PACKAGED, "f").unwrap(), expected);
}

#[test]
fn every_commented_setting_of_the_packaged_file_is_the_default() {
    let uncomment = |line: &str| match line.strip_prefix('#') {
        Some(setting) if !setting.starts_with(' ') => setting.to_owned(),
        _ => line.to_owned(),
    };
    let text: Vec<_> = PACKAGED.lines().map(uncomment).collect();
    let mut expected = Topology::default();
    expected.bridges.push(Bridge::preset());
    expected.ports.push(Port::preset());
    assert_eq!(parse(&text.join("\n"), "f").unwrap(), expected);
}

#[test]
fn options_make_the_same_port_as_the_file() {
    let spec = PortSpec::parse("v1,type=afxdp,n_rxq=1,sndbuf=4096,force=false,tx-budget=auto");
    let port = spec.bridge_or("b").build().unwrap();
    assert_eq!(port, two_ports("sndbuf=4096").ports[0]);
    let errors = PortSpec::parse("v1,n-rxq=0,rings=2,x,bridge=b,bridge=c").build().unwrap_err();
    assert_eq!(
        errors.to_string(),
        "port \"v1\": n-rxq is \"0\": want a whole number from 1 to 64\n\
         port \"v1\": unknown key \"rings\": want one of name, bridge, type, xdp-mode, n-rxq, \
         start-queue, rx-ring, tx-ring, tx-budget, sndbuf, xmit-batch, busy-poll-us, \
         busy-poll-budget, prefer-busy-poll, port-no, force\n\
         port \"v1\": option \"x\" is not of the form key=value\n\
         port \"v1\": bridge c is there twice: want it once"
    );
    assert!(PortSpec::new("v1").build().unwrap_err().to_string().contains("bridge is missing"));
    assert_eq!(PortSpec::new("10").bridge_or("b").build().unwrap().name.as_str(), "10");
}

#[test]
fn a_run_directory_of_the_command_line_is_absolute_and_short() {
    let run_dir = |path: &str| RunDir::new(Path::new(path));
    assert_eq!(run_dir("/tmp/x").unwrap().as_path(), Path::new("/tmp/x"));
    assert!(run_dir("x").unwrap().as_path().is_absolute());
    assert_eq!(run_dir(""), None);
    assert_eq!(run_dir(&format!("/{}", "x".repeat(80))), None);
    let mut topology = two_ports("");
    topology.general.run_dir = run_dir("/tmp/x").unwrap();
    assert_eq!(parse(&topology.to_string(), "f").unwrap(), topology);
}
