//! Action lists: `push_vlan(vid=5,pcp=0),set(ipv4(ttl=63)),2`.

use super::error::{ErrorKind, ParseError};
use super::flow::named;
use super::scan::{Scanner, Word};
use super::table::{self, Group, Member};
use super::{PortNames, value};
use crate::wire::{ETH_QINQ, ETH_VLAN};
use crate::{Action, Field, Match};

/// Actions of Open vSwitch that this datapath does not have.
const UNSUPPORTED: &[&str] = &[
    "trunc",
    "recirc",
    "userspace",
    "meter",
    "sample",
    "clone",
    "push_mpls",
    "pop_mpls",
    "push_eth",
    "pop_eth",
    "push_nsh",
    "pop_nsh",
    "tnl_push",
    "tnl_pop",
    "ct",
    "ct_clear",
    "check_pkt_len",
    "hash",
    "lb_output",
    "add_mpls",
    "dec_ttl",
    "psample",
];

/// The bit of a tag that an action does not say.
const CFI: u16 = 0x1000;

/// Reads an action list; `drop` or nothing is the empty one. What `set()` names must be in packets
/// that `m` matches.
///
/// # Errors
/// [`ParseError`] says which word is wrong and where it is.
pub fn parse_actions(
    text: &str,
    m: &Match,
    ports: &dyn PortNames,
) -> Result<Vec<Action>, ParseError> {
    let mut scan = Scanner::new(text);
    let mut actions = Vec::new();
    let mut drop: Option<Word<'_>> = None;
    while scan.skip(true) {
        let word = scan.some_word("an action")?;
        if let Some(drop) = drop {
            return drop.want("drop without other actions");
        }
        match word.text {
            "drop" if actions.is_empty() => drop = Some(word),
            "drop" => return word.want("drop without other actions"),
            "pop_vlan" => actions.push(Action::PopVlan),
            "push_vlan" => actions.push(push_vlan(&mut scan, ports)?),
            "set" => set(&mut scan, &mut actions, m, ports)?,
            name if UNSUPPORTED.contains(&name) => {
                return Err(word.error(ErrorKind::Unsupported));
            }
            _ if scan.take('(') => return Err(word.error(ErrorKind::Unknown)),
            _ => actions.push(Action::Output(value::port(word, ports)?)),
        }
    }
    Ok(actions)
}

/// `(tpid=0x88a8,vid=5,pcp=0)`; all of it may be left out.
fn push_vlan(scan: &mut Scanner<'_>, ports: &dyn PortNames) -> Result<Action, ParseError> {
    let (mut tpid, mut tci, mut seen) = (ETH_VLAN, 0, Vec::new());
    scan.expect('(', "\"(\"")?;
    scan.list(|scan| {
        let mut word = scan.clone();
        let tpid_word = word.word();
        if tpid_word.text == "tpid" && word.take('=') {
            let kind = word.some_word("a value")?;
            tpid = match value::number(kind, 0xffff)?.try_into() {
                Ok(kind @ (ETH_VLAN | ETH_QINQ)) => kind,
                _ => return kind.want("0x8100 or 0x88a8"),
            };
            *scan = word;
            return Ok(());
        }
        let Some(group) = table::find(table::VLAN) else { return Ok(()) };
        let member = named(scan, group, &mut seen)?;
        let value = value::parse_exact(scan, member, ports)?;
        tci |= u16::try_from(value << member.shift).unwrap_or(0);
        Ok(())
    })?;
    Ok(Action::PushVlan { tpid, tci: tci & !CFI })
}

/// `(group(member=value/mask,…))`: one action for each member.
fn set(
    scan: &mut Scanner<'_>,
    actions: &mut Vec<Action>,
    m: &Match,
    ports: &dyn PortNames,
) -> Result<(), ParseError> {
    scan.expect('(', "\"(\"")?;
    let word = scan.some_word("a header")?;
    let names =
        || table::GROUPS.iter().filter(|group| group.is_rewritable()).map(|group| group.name);
    let group =
        table::find(word.text).ok_or_else(|| word.error(ErrorKind::OneOf(names().collect())))?;
    if !group.is_rewritable() {
        return Err(word.error(ErrorKind::ReadOnly));
    }
    // A tag may also come from push_vlan; check::validate sees to it.
    if !group.need.holds(m) && group.need != table::Need::Tag {
        return Err(word.error(ErrorKind::Needs(group.need.text())));
    }
    scan.expect('(', "\"(\"")?;
    let (before, mut seen) = (actions.len(), Vec::new());
    scan.list(|scan| {
        let name = scan.here();
        let member = named(scan, group, &mut seen)?;
        if !member.rewritable {
            return Err(name.error(ErrorKind::ReadOnly));
        }
        let (value, mask) = value::parse(scan, member, ports)?;
        let (value, mask) = ((value & mask) << member.shift, mask << member.shift);
        if mask == 0 {
            return Ok(());
        }
        match actions.get_mut(before..).and_then(<[_]>::last_mut) {
            Some(Action::Set { field, value: old, mask: old_mask }) if *field == member.field => {
                *old |= value;
                *old_mask |= mask;
            }
            _ => actions.push(Action::Set { field: member.field, value, mask }),
        }
        Ok(())
    })?;
    if actions.len() == before {
        return scan.here().want("a member to set");
    }
    scan.expect(')', "\")\"")
}

/// Writes an action list as Open vSwitch does, for packets that `m` matches.
#[must_use]
pub fn print_actions(actions: &[Action], m: &Match, ports: &dyn PortNames) -> String {
    let mut printer = Printer { out: String::new(), open: None, m, ports };
    for action in actions {
        match action {
            Action::Set { field, value, mask } => printer.set(field, *value, *mask),
            Action::Output(port) => {
                printer.item(&ports.name(*port).unwrap_or_else(|| port.to_string()));
            }
            Action::PushVlan { tpid, tci } => printer.push_vlan(*tpid, *tci),
            Action::PopVlan => printer.item("pop_vlan"),
        }
    }
    printer.close();
    if printer.out.is_empty() { "drop".to_owned() } else { printer.out }
}

/// Writes actions; neighbouring sets of one header share a `set()`.
struct Printer<'a> {
    out: String,
    /// The header whose `set()` is not closed yet, and its last member.
    open: Option<(&'static Group, usize)>,
    m: &'a Match,
    ports: &'a dyn PortNames,
}

impl Printer<'_> {
    fn close(&mut self) {
        if self.open.take().is_some() {
            self.out.push_str("))");
        }
    }

    fn item(&mut self, text: &str) {
        self.close();
        if !self.out.is_empty() {
            self.out.push(',');
        }
        self.out.push_str(text);
    }

    fn push_vlan(&mut self, tpid: u16, tci: u16) {
        let tpid = if tpid == ETH_VLAN { String::new() } else { format!("tpid={tpid:#06x},") };
        self.item(&format!("push_vlan({tpid}vid={},pcp={})", tci & 0xfff, tci >> 13));
    }

    fn set(&mut self, field: &Field, value: u128, mask: u128) {
        let Some(group) = table::rewriting(field, self.m) else { return };
        let is_here =
            |member: &Member| member.rewritable && member.field == field && member.part(mask) != 0;
        // In one set(), members are in order, and those of one field belong together.
        let first = group.members.iter().position(is_here).unwrap_or(0);
        let joins = self.open.is_some_and(|(open, last)| {
            let other = group.members.get(last).is_some_and(|member| member.field != field);
            open.name == group.name && last < first && other
        });
        if !joins {
            self.item(&format!("set({}(", group.name));
        }
        for (i, member) in group.members.iter().enumerate().filter(|(_, member)| is_here(member)) {
            member.print(&mut self.out, member.part(value), member.part(mask), self.ports);
            self.open = Some((group, i));
        }
    }
}
