//! What the commands of flows share: how flows are read, named and printed.

use core::fmt;

use serde::Serialize;
use xvs_datapath::Ufid;
use xvs_datapath::text::{self, PortNames};

use crate::ctl::command::{Command, Context};
use crate::ctl::commands::args::{self, Args};
pub(super) use crate::ctl::commands::ports::Ports;
use crate::ctl::reply::Text;
use crate::ctl::{CtlError, FlowInfo, FlowSpec};

/// Takes the datapath's name and `pmd=` out of the arguments; `N` words must be left.
pub(super) fn words<'a, const N: usize>(
    command: &Command,
    mut args: Args<'a>,
) -> Result<([&'a str; N], Option<u32>), CtlError> {
    let pmd = args::core(args.take_assigned("pmd"))?;
    if args.rest.len() > N {
        args.take_datapath()?;
    }
    let (n, command) = (args.rest.len(), command.name.to_owned());
    args.rest.try_into().map(|words| (words, pmd)).map_err(|_| match n {
        n if n < N => CtlError::TooFewArguments { command, min: N },
        _ => CtlError::TooManyArguments { command, max: N },
    })
}

/// A flow from its match and, if they matter, its actions.
pub(super) fn parse(
    context: &mut Context<'_>,
    flow: &str,
    actions: Option<&str>,
    pmd: Option<u32>,
) -> Result<FlowSpec, CtlError> {
    let ports = Ports::of(context)?;
    let rule = text::parse_match(flow, &ports).map_err(refused("flow key"))?;
    let actions = match actions {
        Some(actions) => {
            let actions =
                text::parse_actions(actions, &rule, &ports).map_err(refused("actions"))?;
            let meters = context.control.meters();
            let has_meter = |id| meters.iter().any(|meter| meter.id == id);
            text::validate(&rule, &actions, &has_meter).map_err(|invalid| CtlError::Datapath {
                what: format!("updating flow table: {invalid}"),
                why: "Invalid argument".to_owned(),
            })?;
            actions
        }
        None => Vec::new(),
    };
    Ok(FlowSpec { rule, actions, pmd })
}

/// A match to filter by.
pub(super) fn parse_filter(ports: &Ports, flow: &str) -> Result<xvs_datapath::Match, CtlError> {
    text::parse_match(flow, ports).map_err(refused("filter"))
}

fn refused(what: &'static str) -> impl Fn(text::ParseError) -> CtlError {
    move |error| CtlError::Parse { what, detail: error.to_string() }
}

/// The identifier in `ufid:…`, also when more of a dumped flow follows; `None` without one.
pub(super) fn ufid(flow: &str) -> Result<Option<Ufid>, CtlError> {
    let Some(rest) = flow.trim_start().strip_prefix("ufid:") else { return Ok(None) };
    let digits = rest.split([',', ' ']).next().unwrap_or_default();
    let ufid = digits.parse().map_err(|error: xvs_datapath::BadUfid| CtlError::Parse {
        what: "flow key",
        detail: error.to_string(),
    })?;
    Ok(Some(ufid))
}

/// A cached flow, as printed.
#[derive(Serialize)]
pub(super) struct Flow {
    ufid: String,
    #[serde(rename = "match")]
    rule: String,
    packets: u64,
    bytes: u64,
    used_ms: Option<u64>,
    tcp_flags: String,
    actions: String,
    #[serde(skip)]
    with_ufid: bool,
}

impl Flow {
    pub(super) fn new(flow: &FlowInfo, ports: &dyn PortNames, with_ufid: bool) -> Self {
        Self {
            ufid: Ufid(flow.ufid).to_string(),
            rule: text::print_match(&flow.rule, ports),
            packets: flow.packets,
            bytes: flow.bytes,
            used_ms: flow.used_ms,
            tcp_flags: flags(flow.tcp_flags),
            actions: text::print_actions(&flow.actions, &flow.rule, ports),
            with_ufid,
        }
    }
}

impl Text for Flow {
    fn text(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        let Self { ufid, rule, packets, bytes, tcp_flags, actions, .. } = self;
        if self.with_ufid {
            write!(out, "ufid:{ufid}, ")?;
        }
        write!(out, "{rule}, packets:{packets}, bytes:{bytes}, used:")?;
        match self.used_ms {
            Some(ms) => write!(out, "{}.{:03}s", ms / 1000, ms % 1000)?,
            None => write!(out, "never")?,
        }
        if !tcp_flags.is_empty() {
            write!(out, ", flags:{tcp_flags}")?;
        }
        writeln!(out, ", actions:{actions}")
    }
}

/// Letters for the TCP flags, in the order of Open vSwitch.
fn flags(flags: u16) -> String {
    const LETTERS: [(u16, char); 9] = [
        (0x002, 'S'),
        (0x001, 'F'),
        (0x008, 'P'),
        (0x004, 'R'),
        (0x020, 'U'),
        (0x010, '.'),
        (0x040, 'E'),
        (0x080, 'C'),
        (0x100, 'N'),
    ];
    LETTERS.iter().filter(|(bit, _)| flags & bit != 0).map(|(_, letter)| letter).collect()
}
