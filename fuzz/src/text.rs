//! What people and scripts write: read without a panic, and printed so that it reads back the same.

use xvs_daemon::ctl::RequestReader;
use xvs_datapath::text::{
    NumbersOnly, parse_actions, parse_match, parse_meter, print_actions, print_match, validate,
};
use xvs_datapath::{Match, PortNo, Switch};

/// Reads `input` as whatever its first byte says.
///
/// # Panics
/// When something does not read back as what it was printed from.
pub fn text(input: &[u8]) {
    let Some((kind, rest)) = input.split_first() else { return };
    let text = String::from_utf8_lossy(rest);
    match kind % 6 {
        0 => flow(&text),
        1 => rule(&text),
        2 => configuration(&text),
        3 => requests(rest),
        4 => drop(parse_meter(&text)),
        _ => {
            let _ = text.parse::<xvs_datapath::Ufid>();
            let _ = text.parse::<xvs_datapath::MacAddr>();
        }
    }
}

/// A match, and after a space or a line's end, actions.
fn flow(text: &str) {
    let (left, right) = text.split_once([' ', '\n']).unwrap_or((text, ""));
    let ports = &NumbersOnly;
    let matching = match parse_match(left, ports) {
        Ok(matching) => {
            let printed = print_match(&matching, ports);
            assert_eq!(parse_match(&printed, ports).as_ref(), Ok(&matching), "{printed}");
            matching
        }
        Err(error) => {
            assert!(!error.to_string().is_empty());
            Match::default()
        }
    };
    if let Ok(actions) = parse_actions(right, &matching, ports) {
        let printed = print_actions(&actions, &matching, ports);
        let again = parse_actions(&printed, &matching, ports);
        assert_eq!(again.as_ref(), Ok(&actions), "{printed}");
        let _ = validate(&matching, &actions, &|id| id == 1);
    }
}

/// A rule of a bridge, as it is added and as it is dumped.
fn rule(text: &str) {
    let switch = Switch::new();
    let added = switch.add_bridge("br0").and(switch.add_port(PortNo(1), "p1", "br0"));
    assert_eq!(added, Ok(()));
    let _ = switch.parse_filter("br0", text, false);
    let Ok(rule) = switch.parse_rule("br0", text) else { return };
    let (table, priority, cookie) = (rule.table, rule.priority, rule.cookie);
    let timeouts = format!("idle_timeout={},hard_timeout={}", rule.idle_timeout, rule.hard_timeout);
    let (matching, actions) = (rule.match_text(), rule.actions_text());
    let printed = format!(
        "table={table},priority={priority},cookie={cookie:#x},{timeouts},{matching},actions={actions}"
    );
    assert_eq!(switch.parse_rule("br0", &printed).as_ref(), Ok(&rule), "{printed}");
}

fn configuration(text: &str) {
    match xvs_config::parse(text, "fuzz") {
        Ok(topology) => {
            let printed = topology.to_string();
            let again = xvs_config::parse(&printed, "printed");
            assert_eq!(again.as_ref().ok(), Some(&topology), "{printed}");
        }
        Err(errors) => assert!(!errors.to_string().is_empty()),
    }
}

/// What a client sends: the same requests come of it all at once and byte by byte.
fn requests(bytes: &[u8]) {
    let read = |size: usize| {
        let (mut reader, mut found) = (RequestReader::default(), Vec::new());
        for chunk in bytes.chunks(size) {
            reader.feed(chunk);
            loop {
                match reader.take() {
                    Ok(Some(request)) => found.push(request),
                    Ok(None) => break,
                    Err(bad) => return (found, Some(bad)),
                }
            }
        }
        (found, None)
    };
    assert_eq!(read(4096), read(1));
}
