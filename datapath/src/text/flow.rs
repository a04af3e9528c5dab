//! Matches: `recirc_id(0),in_port(1),eth(src=…),eth_type(0x0800),ipv4(frag=no)`.

use super::error::{ErrorKind, ParseError};
use super::scan::{Scanner, Word};
use super::table::{self, ETH_TYPE, Group, Member, PACKET_TYPE, TCI, VLAN};
use super::{PortNames, value};
use crate::{Field, FlowKey, FlowMask, Match, wire};

/// What was said before and within a tag.
#[derive(Default)]
struct Level<'a> {
    /// Where `eth_type(0x8100)` was, and that number.
    tag: Option<(Word<'a>, u128)>,
    vlan: bool,
    /// `vlan(tci=…)` says all there is to say of the tag.
    whole_tag: bool,
    encap: Option<Word<'a>>,
    /// Another `eth_type()`.
    typed: bool,
}

/// A match while it is read.
struct Reader<'a, 'p> {
    result: Match,
    /// What was said, where, and whether any bit of it matters.
    groups: Vec<(&'static Group, Word<'a>, bool)>,
    /// Outside all tags, within the first, within the second.
    levels: [Level<'a>; 3],
    depth: usize,
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
        levels: Default::default(),
        depth: 0,
        ports,
    };
    let mut scan = Scanner::new(text);
    while scan.skip(true) {
        reader.item(&mut scan)?;
    }
    reader.finish()
}

/// What a third tag is told.
const NO_THIRD: &str = "at most two tags";

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
            let is_known = name.text == "encap" || table::find(name.text).is_some();
            return if is_known {
                scan.here().want("\"(\"")
            } else {
                Err(name.error(ErrorKind::Unknown))
            };
        }
        let is_innermost = self.depth + 1 == self.levels.len();
        let Some(level) = self.levels.get_mut(self.depth) else { return name.want(NO_THIRD) };
        if name.text == "encap" {
            if is_innermost {
                return name.want(NO_THIRD);
            }
            if level.encap.replace(name).is_some() {
                return Err(name.error(ErrorKind::Twice));
            }
            self.depth += 1;
            scan.list(|scan| self.item(scan))?;
            self.depth -= 1;
            return Ok(());
        }
        if table::UNSUPPORTED.contains(&name.text) {
            return Err(name.error(ErrorKind::Unsupported));
        }
        if name.text == VLAN && is_innermost {
            return name.want(NO_THIRD);
        }
        let group = table::find_in(name.text, self.depth);
        let group = group.ok_or_else(|| name.error(ErrorKind::Unknown))?;
        level.vlan |= group.name == VLAN;
        if group.name == ETH_TYPE {
            if !is_innermost && level.take_tag(scan) {
                return Ok(());
            }
            level.typed = true;
        }
        if self.groups.iter().any(|(known, ..)| core::ptr::eq(*known, group)) {
            return Err(name.error(ErrorKind::Twice));
        }
        self.groups.push((group, name, false));
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
        if let Some(level) = self.levels.get_mut(self.depth) {
            level.whole_tag |= member.name == TCI;
        }
        if mask == 0 {
            return Ok(());
        }
        if let Some((.., matters)) = self.groups.last_mut() {
            *matters = true;
        }
        let field = member.field;
        let (old, old_mask) = (self.result.key.get(field), self.result.mask.get(field));
        let here = member.max() << member.shift;
        let bits = |old: u128, new: u128| old & !here | new << member.shift;
        self.result = self.result.with_masked(field, bits(old, value & mask), bits(old_mask, mask));
        Ok(())
    }

    /// Checks that what was said fits together.
    fn finish(mut self) -> Result<Match, ParseError> {
        for (level, (tci, kind)) in self.levels.iter().zip(Field::TAGS) {
            self.result = level.finish(self.result, tci, kind)?;
        }
        for (group, word, matters) in &self.groups {
            if *matters && group.name != VLAN && !group.need.holds(&self.result) {
                return Err(word.error(ErrorKind::Needs(group.need.text())));
            }
        }
        Ok(Match::new(&self.result.key, self.result.mask))
    }
}

impl<'a> Level<'a> {
    /// Takes the rest of an `eth_type(0x8100)` if it is that of the tag.
    fn take_tag(&mut self, scan: &mut Scanner<'a>) -> bool {
        let mut ahead = scan.clone();
        let word = ahead.word();
        let tags = [wire::ETH_VLAN.into(), wire::ETH_QINQ.into()];
        let kind = value::number(word, 0xffff).ok().filter(|kind| tags.contains(kind));
        let Some(kind) = kind.filter(|_| self.tag.is_none() && ahead.take(')')) else {
            return false;
        };
        *scan = ahead;
        self.tag = Some((word, kind));
        true
    }

    /// What it says of its tag.
    fn finish(&self, m: Match, tci: &Field, kind: &Field) -> Result<Match, ParseError> {
        let says_tag = self.vlan && !self.whole_tag;
        if let Some((word, _)) = self.tag.filter(|_| self.typed) {
            return Err(word.error(ErrorKind::Twice));
        }
        if let Some(word) = self.encap.filter(|_| self.tag.is_none() && !says_tag) {
            return Err(word.error(ErrorKind::Needs(table::Need::Tag.text())));
        }
        let present = u128::from(wire::TCI_PRESENT);
        let tagged = m.with_masked(tci, m.key.get(tci) | present, m.mask.get(tci) | present);
        Ok(match self.tag {
            // A tag that is cut off is a type without tag.
            Some((_, tpid)) if self.encap.is_none() && !says_tag => {
                let m = m.with(&Field::ETH_TYPE, tpid);
                if self.whole_tag { m } else { m.with(tci, 0) }
            }
            Some((_, tpid)) => tagged.with(kind, (tpid == wire::ETH_QINQ.into()).into()),
            // The type is that of what is in the tag, as if it were in encap().
            None if says_tag && self.typed && *tci == Field::VLAN_TCI => {
                tagged.with(&Field::INNER_TCI, 0)
            }
            None if says_tag => tagged,
            None if self.typed && !self.vlan => m.with(tci, 0),
            None => m,
        })
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
    // Outside all tags, and within each.
    let (mut outside, mut items) = (Vec::new(), Vec::new());
    for group in table::GROUPS {
        let said = |member: &Member| member.of(m).1 != 0;
        if let Some(level) = group.tag_level() {
            let Some(&(tci, kind)) = Field::TAGS.get(level) else { continue };
            if outside.len() != level {
                continue;
            }
            if group.need.holds(m) {
                let tpid = if m.key.get(kind) == 0 { wire::ETH_VLAN } else { wire::ETH_QINQ };
                items.push(format!("{ETH_TYPE}({tpid:#06x})"));
                let shown = |member: &Member| ["vid", "pcp"].contains(&member.name);
                items.push(print_group(group, m, |member| shown(member) && said(member), ports));
                outside.push(core::mem::take(&mut items));
            } else if !tag_is_implied(m, tci) {
                items.push(print_group(group, m, |member| member.name == TCI, ports));
            }
        } else if group.need.holds(m) && group.members.iter().any(said) {
            items.push(print_group(group, m, said, ports));
        }
        if group.name == PACKET_TYPE && m.mask.get(&Field::PACKET_TYPE) == 0 {
            items.push("packet_type(ns=0,id=0)".to_owned());
        }
    }
    while let Some(mut outer) = outside.pop() {
        outer.push(format!("encap({})", items.join(",")));
        items = outer;
    }
    items.join(",")
}

/// Writes the fields that a packet has, for people. What no packet brings with it (marks, priority, state of
/// connections) is left out.
#[must_use]
pub fn print_key(key: &FlowKey, ports: &dyn PortNames) -> String {
    let mut mask = FlowMask::exact();
    for field in [
        &Field::DP_HASH,
        &Field::SKB_MARK,
        &Field::SKB_PRIORITY,
        &Field::CT_MARK,
        &Field::CT_STATE,
        &Field::CT_ZONE,
        &Field::CT_LABEL,
        &Field::PACKET_TYPE,
    ] {
        mask.set(field, 0);
    }
    print_match(&Match::new(key, mask), ports)
}

/// True when a reader takes what `m` says of the tag for granted.
fn tag_is_implied(m: &Match, tci: &Field) -> bool {
    let typed = m.mask.get(&Field::ETH_TYPE) != 0;
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
