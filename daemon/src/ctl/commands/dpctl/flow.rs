//! What the commands of flows share: how flows are read, named and printed.

use core::fmt;

use serde::Serialize;
use xvs_datapath::text::{self, PortNames};
use xvs_datapath::{Match, Ufid};

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

/// Reads flows; knows the ports and meters that there are.
pub(super) struct Reader {
    ports: Ports,
    meters: Vec<u32>,
    pmd: Option<u32>,
}

impl Reader {
    /// For flows of one PMD thread, or of all.
    pub(super) fn new(context: &mut Context<'_>, pmd: Option<u32>) -> Result<Self, CtlError> {
        let meters = context.control.meters().iter().map(|meter| meter.id).collect();
        Ok(Self { ports: Ports::of(context)?, meters, pmd })
    }

    /// A flow from its match alone.
    pub(super) fn key(&self, flow: &str) -> Result<FlowSpec, CtlError> {
        let rule = text::parse_match(flow, &self.ports).map_err(refused("flow key"))?;
        Ok(FlowSpec { rule, actions: Vec::new(), pmd: self.pmd })
    }

    /// A flow from its match and its actions.
    pub(super) fn flow(&self, flow: &str, actions: &str) -> Result<FlowSpec, CtlError> {
        let spec = self.key(flow)?;
        let actions =
            text::parse_actions(actions, &spec.rule, &self.ports).map_err(refused("actions"))?;
        let has_meter = |id| self.meters.contains(&id);
        text::validate(&spec.rule, &actions, &has_meter).map_err(|invalid| CtlError::Datapath {
            what: format!("updating flow table: {invalid}"),
            why: "Invalid argument".to_owned(),
        })?;
        Ok(FlowSpec { actions, ..spec })
    }
}

/// Which flows are meant: those that share packets with a match, or all.
pub(super) struct Filter(Option<Match>);

impl Filter {
    /// Takes `filter=` out of the arguments: in the syntax of flows, or in that of rules, as Open vSwitch has it.
    pub(super) fn take(
        context: &mut Context<'_>,
        args: &mut Args<'_>,
        ports: &Ports,
    ) -> Result<Self, CtlError> {
        let Some(text) = args.take_assigned("filter") else { return Ok(Self(None)) };
        let filter = match context.control.bridges().first() {
            Some(bridge) if !text.contains('(') => context.control.match_of_rule(bridge, text)?,
            Some(_) | None => text::parse_match(text, ports).map_err(refused("filter"))?,
        };
        Ok(Self(Some(filter)))
    }

    pub(super) fn wants(&self, flow: &FlowInfo) -> bool {
        self.0.as_ref().is_none_or(|filter| overlap(filter, &flow.rule))
    }

    pub(super) const fn wants_all(&self) -> bool {
        self.0.is_none()
    }
}

/// True when there can be a packet that both match.
fn overlap(a: &Match, b: &Match) -> bool {
    let masks = a.mask.words().iter().zip(b.mask.words());
    let keys = a.key.words().iter().zip(b.key.words());
    masks.zip(keys).all(|((m, n), (k, l))| (k ^ l) & m & n == 0)
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
