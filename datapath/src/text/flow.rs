//! Matches: `recirc_id(0),in_port(1),eth(src=…),eth_type(0x0800),ipv4(frag=no)`.

use super::error::{ErrorKind, ParseError};
use super::scan::{Scanner, Word};
use super::table::{self, ETH_TYPE, Group, Member, PACKET_TYPE, TCI, VLAN};
use super::{PortNames, value};
use crate::{Field, Match, wire};

/// A match while it is read.
struct Reader<'a, 'p> {
    result: Match,
    /// What was said, and where.
    groups: Vec<(&'static Group, Word<'a>)>,
    /// Where `eth_type(0x8100)` was, outside `encap()`.
    outer: Option<Word<'a>>,
    encap: Option<Word<'a>>,
    /// Between the brackets of `encap()`.
    inside: bool,
    /// `vlan(tci=…)` says all there is to say of the tag.
    whole_tag: bool,
    ports: &'p dyn PortNames,
}

/// Reads a match. Fields that are not mentioned do not matter, except that an `eth_type()` without
/// `vlan()` means untagged. Members may be in any order, a `ufid:…` is skipped.
///
/// # Errors
/// [`ParseError`] says which word is wrong and where it is.
pub fn parse_match(text: &str, ports: &dyn PortNames) -> Result<Match, ParseError> {
    let mut reader = Reader {
        result: Match::default(),
        groups: Vec::new(),
        outer: None,
        encap: None,
        inside: false,
        whole_tag: false,
        ports,
    };
    let mut scan = Scanner::new(text);
    while scan.skip(true) {
        reader.item(&mut scan)?;
    }
    reader.finish()
}

impl<'a> Reader<'a, '_> {
    /// One `name(…)`.
    fn item(&mut self, scan: &mut Scanner<'a>) -> Result<(), ParseError> {
        let name = scan.word();
        if name.text.starts_with("ufid:") {
            return Ok(());
        }
        if name.text.is_empty() {
            return Err(scan.here().error(ErrorKind::Unknown));
        }
        if !scan.take('(') {
            return Err(name.error(ErrorKind::Unknown));
        }
        if name.text == "encap" {
            if self.encap.replace(name).is_some() {
                return Err(name.error(ErrorKind::Twice));
            }
            self.inside = true;
            scan.list(|scan| self.item(scan))?;
            self.inside = false;
            return Ok(());
        }
        if table::UNSUPPORTED.contains(&name.text) {
            return Err(name.error(ErrorKind::Unsupported));
        }
        let group = table::find(name.text).ok_or_else(|| name.error(ErrorKind::Unknown))?;
        if group.name == ETH_TYPE && !self.inside {
            let mut ahead = scan.clone();
            let tag = ahead.word();
            let is_tag = value::number(tag, 0xffff) == Ok(wire::ETH_VLAN.into());
            if is_tag && ahead.take(')') && self.outer.is_none() {
                *scan = ahead;
                self.outer = Some(tag);
                return Ok(());
            }
        }
        if self.groups.iter().any(|(known, _)| known.name == group.name) {
            return Err(name.error(ErrorKind::Twice));
        }
        self.groups.push((group, name));
        match group.bare() {
            Some(member) => {
                self.member(member, scan)?;
                scan.expect(')', "\")\"")
            }
            None => {
                let mut seen = Vec::new();
                scan.list(|scan| {
                    let member = named(scan, group, &mut seen)?;
                    self.member(member, scan)
                })
            }
        }
    }

    /// The value of a member.
    fn member(&mut self, member: &Member, scan: &mut Scanner<'_>) -> Result<(), ParseError> {
        let (value, mask) = value::parse(scan, member, self.ports)?;
        let field = member.field;
        self.whole_tag |= member.name == TCI;
        let (old, old_mask) = (self.result.key.get(field), self.result.mask.get(field));
        let here = member.max() << member.shift;
        let bits = |old: u128, new: u128| old & !here | new << member.shift;
        self.result = self.result.with_masked(field, bits(old, value & mask), bits(old_mask, mask));
        Ok(())
    }

    /// Checks that what was said fits together.
    fn finish(mut self) -> Result<Match, ParseError> {
        let said = |name: &str| self.groups.iter().find(|(group, _)| group.name == name);
        let vlan = said(VLAN).map(|(_, word)| *word);
        let has_type = said(ETH_TYPE).is_some();
        let tci = &Field::VLAN_TCI;
        match self.outer {
            Some(word) if has_type && self.encap.is_none() => {
                return Err(word.error(ErrorKind::Twice));
            }
            // A tag that is cut off is a type without tag.
            Some(_) if self.encap.is_none() && (vlan.is_none() || self.whole_tag) => {
                self.result = self.result.with(&Field::ETH_TYPE, wire::ETH_VLAN.into());
                self.result = if self.whole_tag { self.result } else { self.result.with(tci, 0) };
            }
            Some(_) => {
                let present = u128::from(wire::TCI_PRESENT);
                let (key, mask) = (self.result.key.get(tci), self.result.mask.get(tci));
                self.result = self.result.with_masked(tci, key | present, mask | present);
            }
            None if vlan.is_none() && has_type => self.result = self.result.with(tci, 0),
            None => {}
        }
        if let Some(word) = self.encap.filter(|_| self.outer.is_none()) {
            return Err(word.error(ErrorKind::Needs(table::Need::Tag.text())));
        }
        for (group, word) in &self.groups {
            if group.name != VLAN && !group.need.holds(&self.result) {
                return Err(word.error(ErrorKind::Needs(group.need.text())));
            }
        }
        Ok(Match::new(&self.result.key, self.result.mask))
    }
}

/// Reads `name=`; each member may be named once.
pub(super) fn named(
    scan: &mut Scanner<'_>,
    group: &'static Group,
    seen: &mut Vec<&'static str>,
) -> Result<&'static Member, ParseError> {
    let word = scan.some_word("a member's name")?;
    let member = group.members.iter().find(|member| member.name == word.text);
    let names = || group.members.iter().map(|member| member.name).collect();
    let member = member.ok_or_else(|| word.error(ErrorKind::OneOf(names())))?;
    if seen.contains(&member.name) {
        return Err(word.error(ErrorKind::Twice));
    }
    seen.push(member.name);
    scan.expect('=', "\"=\"")?;
    Ok(member)
}

/// Writes a match as Open vSwitch does: what does not matter is left out.
#[must_use]
pub fn print_match(m: &Match, ports: &dyn PortNames) -> String {
    let m = &Match::new(&m.key, m.mask);
    let typed = m.mask.get(&Field::ETH_TYPE) != 0;
    let (mut items, mut outer) = (Vec::new(), None);
    for group in table::GROUPS {
        if group.name == VLAN {
            if typed && group.need.holds(m) {
                items.push("eth_type(0x8100)".to_owned());
                let said = |member: &Member| member.of(m).1 != 0;
                let shown = |member: &Member| ["vid", "pcp"].contains(&member.name);
                items.push(print_group(group, m, |member| shown(member) && said(member), ports));
                outer = Some(core::mem::take(&mut items));
            } else if !tag_is_implied(m, typed) {
                items.push(print_group(group, m, |member| member.name == TCI, ports));
            }
        } else if group.need.holds(m) && group.members.iter().any(|member| member.of(m).1 != 0) {
            items.push(print_group(group, m, |member| member.of(m).1 != 0, ports));
        }
        if group.name == PACKET_TYPE && m.mask.get(&Field::PACKET_TYPE) == 0 {
            items.push("packet_type(ns=0,id=0)".to_owned());
        }
    }
    if let Some(mut outer) = outer {
        outer.push(format!("encap({})", items.join(",")));
        items = outer;
    }
    items.join(",")
}

/// True when a reader takes what `m` says of the tag for granted.
fn tag_is_implied(m: &Match, typed: bool) -> bool {
    let tci = &Field::VLAN_TCI;
    m.key.get(tci) == 0 && m.mask.get(tci) == if typed { tci.max() } else { 0 }
}

/// `name(…)` with the members that `pick` wants.
fn print_group(
    group: &Group,
    m: &Match,
    pick: impl Fn(&Member) -> bool,
    ports: &dyn PortNames,
) -> String {
    let mut out = format!("{}(", group.name);
    for member in group.members.iter().filter(|member| pick(member)) {
        let (value, mask) = member.of(m);
        member.print(&mut out, value, mask, ports);
    }
    out.push(')');
    out
}
