//! What holds for every command.

use std::collections::BTreeMap;

use super::done;
use super::flows::FLOW;
use crate::ctl::sorted;
use crate::ctl::testing::{Scratch, json, switch, text};

/// Every command gives a text that is empty or ends in a newline, and JSON that is no string, for
/// arguments as its usage has them.
#[test]
fn every_command_has_both_forms() {
    let mac = "02:00:00:00:00:09";
    let scratch = Scratch::new();
    let file = scratch.path().join("flows");
    std::fs::write(&file, "# none\n").unwrap();
    let args: BTreeMap<&str, Vec<&str>> = BTreeMap::from([
        ("dpctl/add-flow", vec![FLOW, "2"]),
        ("dpctl/add-flows", vec![file.to_str().unwrap()]),
        ("dpctl/set-if", vec!["xvs-netdev", "v1,n-rxq=1"]),
        ("dpctl/add-if", vec!["xvs-netdev", "v8"]),
        ("dpctl/del-flow", vec![FLOW]),
        ("dpctl/del-if", vec!["xvs-netdev", "v8"]),
        ("dpctl/get-flow", vec!["ufid"]),
        ("dpctl/mod-flow", vec![FLOW, "2"]),
        ("dpif-netdev/pmd-perf-log-set", vec!["on"]),
        ("fdb/add", vec!["br0", "v1", "0", mac]),
        ("fdb/del", vec!["br0", "0", mac]),
        ("ofproto/trace", vec!["in_port(1)"]),
        ("vlog/set", vec!["info"]),
        ("xvs/meter-add", vec!["meter=1,rate=5"]),
        ("xvs/meter-del", vec!["1"]),
        ("xvs/port-add", vec!["v9"]),
        ("xvs/port-del", vec!["v9"]),
        ("xvs/rule-add", vec!["br0", "actions=drop"]),
        ("xvs/rule-del", vec!["br0"]),
    ]);
    for command in sorted() {
        let mut both = [switch(), switch()];
        let mut words = vec![command.name];
        words.extend(args.get(command.name).into_iter().flatten());
        assert_eq!(words.len() > 1, command.min_args > 0, "{}", command.name);
        // What is to be removed or changed has to be there.
        let ufid = both.each_mut().map(|switch| {
            for first in
                ["dpctl/add-if", "xvs/port-add", "dpctl/add-flow", "fdb/add", "xvs/meter-add"]
            {
                let mut setup = vec![first];
                setup.extend(&args[first]);
                if first != command.name {
                    done(switch, &setup);
                }
            }
            switch.flows.first().map_or(0, |flow| flow.ufid)
        });
        let ufid = format!("ufid:{}", xvs_datapath::Ufid(ufid[0]));
        let given = |word: &&mut &str| **word == "ufid";
        if let Some(word) = words.iter_mut().find(given) {
            *word = &ufid;
        }
        let [first, second] = &mut both;
        if command.name == "xvs/config-reload" {
            assert_eq!(text(first, &words), json(second, &words).map(|_| String::new()));
            continue;
        }
        let shown = done(first, &words);
        assert!(shown.is_empty() || shown.ends_with('\n'), "{words:?}: {shown}");
        let value = json(second, &words).unwrap_or_else(|error| panic!("{words:?}: {error}"));
        assert!(value.is_object() || value.is_array(), "{words:?}: {value}");
    }
}
