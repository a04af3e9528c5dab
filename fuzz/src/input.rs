//! What happens to a switch, made of the bytes of an input.
//!
//! Any bytes mean something, and few bytes change little, so that the engine learns from coverage.

use core::net::{Ipv4Addr, Ipv6Addr};

use arbitrary::{Result, Unstructured};
use xvs_datapath::testing::{Csum, PacketBuilder};
use xvs_datapath::{
    Action, Controller, DatapathConfig, Field, HashOver, MacAddr, Match, MeterConfig, MeterUnit,
    Nanos, PortNo, Userspace,
};

/// One thing that happens.
#[derive(Debug)]
pub(crate) enum Step {
    /// Packets arrive at a port, each in one or more frames.
    Receive { port: PortNo, packets: Vec<Vec<Vec<u8>>> },
    /// A manual flow is added, with `checked` as a command does it.
    Add { rule: Box<Match>, actions: Vec<Action>, checked: bool },
    /// Of the flows there are, this one gets other actions.
    Modify { nth: u8, actions: Vec<Action> },
    /// Of the flows there are, this one goes.
    Delete { nth: u8 },
    /// All flows go.
    Flush,
    /// A rule is added.
    AddRule { text: String },
    /// Rules that match this go.
    DelRules { text: String },
    /// Cached flows are checked.
    Revalidate { budget: u8 },
    /// Time passes.
    Wait { ms: u16 },
    /// The kernel sends what is in a port's tx ring, and completes it.
    Transmit { port: PortNo },
    /// Somebody else has so many frames until the next step is over.
    Starve { frames: u16 },
    /// Other caches and limits.
    Configure { config: DatapathConfig },
    /// A meter is set, or deleted.
    Meter { id: u32, config: Option<MeterConfig> },
    /// The bridge forgets where addresses are.
    Forget,
    /// A port leaves the bridge, or comes back.
    Member { port: PortNo, joins: bool },
    /// Somebody reads what `userspace()` put aside.
    Read,
}

/// The most steps of an input.
const MAX_STEPS: usize = 64;

/// The steps of an input.
pub(crate) fn steps(bytes: &[u8]) -> Vec<Step> {
    let mut u = Unstructured::new(bytes);
    core::iter::from_fn(|| if u.is_empty() { None } else { step(&mut u).ok() })
        .take(MAX_STEPS)
        .collect()
}

fn step(u: &mut Unstructured<'_>) -> Result<Step> {
    Ok(match u.int_in_range(0..=23u8)? {
        0..=8 => {
            let n = u.int_in_range(1..=8)?;
            let packets = (0..n).map(|_| packet(u)).collect::<Result<_>>()?;
            Step::Receive { port: port(u)?, packets }
        }
        9 | 10 => {
            Step::Add { rule: Box::new(rule(u)?), actions: actions(u, 0)?, checked: u.arbitrary()? }
        }
        11 => Step::Modify { nth: u.arbitrary()?, actions: actions(u, 0)? },
        12 => Step::Delete { nth: u.arbitrary()? },
        13 => Step::Flush,
        14 | 15 => Step::AddRule { text: rule_text(u)? },
        16 => Step::DelRules { text: (*u.choose(MATCHES)?).to_owned() },
        17 => Step::Revalidate { budget: u.arbitrary()? },
        18 => Step::Wait { ms: u.arbitrary()? },
        19 => Step::Transmit { port: port(u)? },
        20 => Step::Starve { frames: u.arbitrary()? },
        21 => Step::Configure { config: config(u)? },
        22 => Step::Meter { id: u.int_in_range(0..=3)?, config: meter(u)? },
        _ => match u.int_in_range(0..=3u8)? {
            0 => Step::Forget,
            1 => Step::Read,
            _ => Step::Member { port: port(u)?, joins: u.arbitrary()? },
        },
    })
}

fn port(u: &mut Unstructured<'_>) -> Result<PortNo> {
    Ok(PortNo(u.int_in_range(1..=3)?))
}

fn config(u: &mut Unstructured<'_>) -> Result<DatapathConfig> {
    Ok(DatapathConfig {
        emc_insert_one_in: u.int_in_range(0..=2)?,
        smc: u.arbitrary()?,
        flow_limit: u.int_in_range(0..=40)?,
        max_idle: Nanos::from_millis(u.int_in_range(1..=20_000)?),
        ..DatapathConfig::default()
    })
}

fn meter(u: &mut Unstructured<'_>) -> Result<Option<MeterConfig>> {
    let unit = if u.arbitrary()? { MeterUnit::Packets } else { MeterUnit::Kilobits };
    let config = MeterConfig { unit, rate: u.arbitrary()?, burst: u.arbitrary()? };
    Ok(u.arbitrary::<bool>()?.then_some(config))
}

/// A field and bits of it, small numbers more often than others.
fn bits(u: &mut Unstructured<'_>) -> Result<(&'static Field, u128, u128)> {
    let field = u.choose(Field::ALL)?;
    let mask = if u.arbitrary()? { field.max() } else { u.arbitrary::<u128>()? & field.max() };
    let value = if u.arbitrary()? { u.int_in_range(0..=9u128)? } else { u.arbitrary::<u128>()? };
    Ok((field, value & mask, mask))
}

/// Often one that packets of this module match.
fn rule(u: &mut Unstructured<'_>) -> Result<Match> {
    let eth_types = [0u128, 0x0800, 0x86dd, 0x0806];
    let mut rule = match u.choose(&eth_types)? {
        0 => Match::default(),
        eth_type => Match::default().with(&Field::ETH_TYPE, *eth_type),
    };
    if u.arbitrary()? {
        rule = rule.with(&Field::IP_PROTO, *u.choose(&[1, 6, 17, 58, 132])?);
    }
    if u.arbitrary()? {
        rule = rule.with_masked(&Field::VLAN_TCI, 0x1000, 0x1000);
    }
    for _ in 0..u.int_in_range(0..=2)? {
        let (field, value, mask) = bits(u)?;
        rule = rule.with_masked(field, value, mask);
    }
    Ok(rule)
}

/// A list of actions, sensible or not.
fn actions(u: &mut Unstructured<'_>, depth: usize) -> Result<Vec<Action>> {
    let n = u.int_in_range(0..=6)?;
    (0..n).map(|_| action(u, depth)).collect()
}

fn action(u: &mut Unstructured<'_>, depth: usize) -> Result<Action> {
    let deepest = depth >= Action::MAX_DEPTH;
    let list = |u: &mut Unstructured<'_>| actions(u, depth + 1).map(Vec::into_boxed_slice);
    Ok(match u.int_in_range(0..=if deepest { 13 } else { 16u8 })? {
        0..=2 => Action::Output(PortNo(u.int_in_range(0..=4)?)),
        3 => Action::PushVlan { tpid: *u.choose(&[0x8100, 0x88a8, 0x9100])?, tci: u.arbitrary()? },
        4 => Action::PopVlan,
        5..=8 => {
            let (field, value, mask) = bits(u)?;
            Action::Set { field, value, mask }
        }
        9 => Action::Trunc(u.int_in_range(0..=9000)?),
        10 => {
            let over = if u.arbitrary()? { HashOver::L4 } else { HashOver::SymmetricL4 };
            Action::Hash { over, basis: u.arbitrary()? }
        }
        11 => Action::Recirc(u.int_in_range(0..=3)?),
        12 => Action::Meter(u.int_in_range(0..=3)?),
        13 => {
            let controller = Controller { max_len: u.arbitrary()?, ..Controller::default() };
            Action::Userspace(Box::new(Userspace { pid: 0, controller: Some(controller) }))
        }
        14 => Action::Clone(list(u)?),
        15 => Action::Sample { probability: u.arbitrary()?, actions: list(u)? },
        _ => {
            let size = u.int_in_range(0..=2000)?;
            Action::CheckPktLen { size, greater: list(u)?, less_equal: list(u)? }
        }
    })
}

/// Matches of rules.
const MATCHES: &[&str] = &[
    "",
    "in_port=1",
    "in_port=2",
    "ip",
    "ipv6",
    "arp",
    "tcp",
    "udp",
    "tcp6",
    "udp6",
    "sctp",
    "icmp",
    "icmp6",
    "dl_vlan=5",
    "vlan_tci=0x1000/0x1000",
    "dl_type=0x88a8",
    "ip,nw_frag=later",
    "ip,nw_frag=yes",
    "ip,nw_src=10.0.0.0/30",
    "ipv6,ipv6_dst=fe80::/10",
    "tcp,tcp_flags=+syn-ack",
    "udp,tp_dst=4/0xfffc",
    "icmp6,icmpv6_type=135",
    "dl_dst=01:00:00:00:00:00/01:00:00:00:00:00",
];

/// Actions of rules; those that the match does not allow are refused.
const ACTIONS: &[&str] = &[
    "NORMAL",
    "FLOOD",
    "ALL",
    "IN_PORT",
    "output:1",
    "output:2",
    "output:3",
    "output(port=2,max_len=64)",
    "drop",
    "controller(max_len=60)",
    "meter:1",
    "strip_vlan",
    "push_vlan:0x8100",
    "push_vlan:0x88a8",
    "mod_vlan_vid:7",
    "mod_vlan_pcp:3",
    "mod_dl_src:02:00:00:00:00:09",
    "mod_dl_dst:02:00:00:00:00:01",
    "mod_nw_src:192.0.2.1",
    "mod_nw_dst:192.0.2.2",
    "mod_nw_tos:8",
    "mod_nw_ttl:1",
    "mod_tp_src:99",
    "mod_tp_dst:98",
    "set_field:2001:db8::9->ipv6_src",
    "set_field:2001:db8::1->ipv6_dst",
    "set_field:5->icmpv6_code",
    "resubmit(,0)",
    "resubmit(,1)",
    "resubmit(,2)",
    "goto_table:1",
];

fn rule_text(u: &mut Unstructured<'_>) -> Result<String> {
    let table = u.int_in_range(0..=2u8)?;
    let priority = u.int_in_range(0..=3u8)?;
    let idle = u.int_in_range(0..=2u8)?;
    let matching = u.choose(MATCHES)?;
    let n = u.int_in_range(1..=4)?;
    let actions: Vec<_> = (0..n).map(|_| u.choose(ACTIONS).copied()).collect::<Result<_>>()?;
    let actions = actions.join(",");
    Ok(format!(
        "table={table},priority={priority},idle_timeout={idle},{matching},actions={actions}"
    ))
}

/// The bytes of a packet in frames: mostly well-formed, then spoiled, cut and split.
fn packet(u: &mut Unstructured<'_>) -> Result<Vec<Vec<u8>>> {
    let mut bytes = if u.ratio(1, 8)? {
        let n = u.int_in_range(0..=120)?;
        u.bytes(usize::min(n, u.len()))?.to_vec()
    } else {
        headers(u)?
    };
    for _ in 0..u.int_in_range(0..=3)? {
        let at = usize::from(u.arbitrary::<u8>()?);
        let value = u.arbitrary()?;
        if let Some(byte) = bytes.get_mut(at) {
            *byte = value;
        }
    }
    if u.ratio(1, 4)? {
        bytes.truncate(u.int_in_range(0..=150)?);
    }
    let mut frames = Vec::new();
    for _ in 0..u.int_in_range(0..=2)? {
        let at = usize::from(u.arbitrary::<u8>()?).min(bytes.len());
        let rest = bytes.split_off(at);
        frames.push(core::mem::replace(&mut bytes, rest));
    }
    // What a frame has room for, and a little more packet than one may have frames.
    frames.extend(bytes.chunks(3000).map(<[u8]>::to_vec));
    if frames.is_empty() {
        frames.push(bytes);
    }
    Ok(frames)
}

fn headers(u: &mut Unstructured<'_>) -> Result<Vec<u8>> {
    let mac = |n| MacAddr([if n == 7 { 0xff } else { 2 }, 0, 0, 0, 0, n]);
    let (a, b) = (mac(u.int_in_range(0..=3)?), mac(u.int_in_range(0..=7)?));
    let mut p = PacketBuilder::eth(a, b);
    for _ in 0..u.int_in_range(0..=3)? {
        p = p.tag(*u.choose(&[0x8100, 0x88a8])?, u.arbitrary()?);
    }
    let v4 = |n| Ipv4Addr::new(10, 0, 0, n);
    let v6 = |n| Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, n);
    let (x, y) = (u.int_in_range(0..=7u8)?, u.int_in_range(0..=7u8)?);
    let kind = u.int_in_range(0..=7u8)?;
    p = match kind {
        0 => return Ok(p.arp(u.arbitrary()?, (a, v4(x)), (b, v4(y))).build()),
        1 => p.raw(u.peek_bytes(20).unwrap_or_default(), u.arbitrary()?, 0),
        2..=4 => {
            let n = 4 * u.int_in_range(0..=10)?;
            p.ipv4_options(v4(x), v4(y), &vec![1; n])
        }
        _ => {
            let mut p = p.ipv6(v6(x.into()), v6(y.into()), u.arbitrary()?);
            for _ in 0..u.int_in_range(0..=2)? {
                p = p.ext(*u.choose(&[0, 43, 51, 60])?, &[u.arbitrary()?, 0, 0, 0, 0, 0]);
            }
            p
        }
    };
    p = p.tos(u.arbitrary()?).ttl(u.arbitrary()?);
    if u.ratio(1, 4)? {
        let (offset, more) = (u.int_in_range(0..=9)?, u.arbitrary()?);
        p = if kind > 4 { p.ipv6_fragment(offset, more) } else { p.fragment(offset, more) };
    }
    let ports = (u.int_in_range(0..=9)?, u.int_in_range(0..=9)?);
    p = match u.int_in_range(0..=6u8)? {
        0 => p.tcp(ports.0, ports.1).flags(u.arbitrary()?),
        1 => p.udp(ports.0, ports.1),
        2 => p.sctp(ports.0, ports.1),
        3 => p.icmp(u.arbitrary()?, u.arbitrary()?),
        4 => p.icmpv6(u.arbitrary()?, u.arbitrary()?),
        5 => p.nd(*u.choose(&[135, 136])?, v6(y.into()), &[(1, a), (2, b)]),
        _ => p.vxlan(ports.0).inner_eth(b, a).ipv4(v4(y), v4(x)).tcp(ports.1, ports.0),
    };
    let csum = *u.choose(&[Csum::Full, Csum::Partial, Csum::Zero, Csum::Bad])?;
    let len = if u.ratio(1, 8)? { u.int_in_range(0..=65_000)? } else { u.int_in_range(0..=99)? };
    Ok(p.payload_len(len).csum(csum).build())
}
