//! `dpctl/add-flows`: adds the flows of a file, all or none.

use super::flow::{self, Reader};
use crate::ctl::CtlError;
use crate::ctl::command::{Command, Context, Outcome};
use crate::ctl::commands::args::Args;
use crate::ctl::reply::Done;

pub(super) const COMMAND: Command = Command {
    name: "dpctl/add-flows",
    usage: "[dp] file [pmd=core]",
    about: "Add the flows of a file, all or none: on each line a flow and its actions, or a line of dpctl/dump-flows; \
            # begins a comment. The daemon reads the file.",
    min_args: 1,
    max_args: 3,
    run,
};

/// The largest file.
const MAX_BYTES: u64 = 64 << 20;

fn run(context: &mut Context<'_>, args: &[String]) -> Outcome {
    let ([file], pmd) = flow::words(&COMMAND, Args::parse(args, &[], &[])?)?;
    let bad = |why: String| CtlError::Refused(format!("{file}: {why}"));
    let text = read(file).map_err(bad)?;
    let reader = Reader::new(context, pmd)?;
    let (mut numbers, mut specs) = (Vec::new(), Vec::new());
    for (number, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() || line.starts_with("flow-dump from ") {
            continue;
        }
        let at = |error: CtlError| bad(format!("line {}: {error}", number + 1));
        let (rule, actions) = split(line).ok_or_else(|| {
            bad(format!("line {}: no actions (want a flow, a blank, and actions)", number + 1))
        })?;
        numbers.push(number + 1);
        specs.push(reader.flow(rule, actions).map_err(at)?);
    }
    context.control.add_flows(&specs).map_err(|(at, error)| {
        let number = numbers.get(at).copied().unwrap_or(0);
        bad(format!("line {number}: {error}; no flow was added"))
    })?;
    Ok(Box::new(Done {}))
}

/// The text of a regular file: others may have no end, or none for now.
fn read(file: &str) -> Result<String, String> {
    let found = std::fs::metadata(file).map_err(|error| error.to_string())?;
    if !found.is_file() {
        return Err("not a regular file: write the flows to one first".to_owned());
    }
    if found.len() > MAX_BYTES {
        let size = found.len();
        return Err(format!("{size} bytes are more than {MAX_BYTES}: split the file"));
    }
    std::fs::read_to_string(file).map_err(|error| error.to_string())
}

/// A flow and its actions: apart by a blank, or as dumped with statistics between them.
fn split(line: &str) -> Option<(&str, &str)> {
    let line = line.strip_prefix("add ").unwrap_or(line).trim();
    if let Some((before, actions)) = line.split_once("actions:") {
        let end = before.find(", packets:").unwrap_or(before.len());
        return Some((before.get(..end)?.trim_end_matches([',', ' ']), actions.trim()));
    }
    // Blanks within parentheses, or after a comma, are the flow's.
    let mut depth = 0_i32;
    let at = line.char_indices().find(|&(at, c)| {
        depth += i32::from(c == '(') - i32::from(c == ')');
        depth == 0 && c.is_whitespace() && !line.get(..at).unwrap_or_default().ends_with(',')
    });
    let (at, _) = at?;
    Some((line.get(..at)?, line.get(at..)?.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tells_a_flow_from_its_actions() {
        let flow = "in_port(1),eth( src=02:00:00:00:00:01 ),eth_type(0x0806)";
        for line in [
            format!("{flow} 2,3"),
            format!("add {flow}\t2,3"),
            format!("{flow}, packets:0, bytes:0, used:never, actions:2,3"),
            format!("{flow}, actions:2,3"),
            format!("{flow} actions:2,3"),
        ] {
            assert_eq!(split(&line), Some((flow, "2,3")), "{line}");
        }
        assert_eq!(split("in_port(1), eth() drop"), Some(("in_port(1), eth()", "drop")));
        assert_eq!(split("in_port(1)"), None);
    }
}
