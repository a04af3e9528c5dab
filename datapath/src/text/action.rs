//! Action lists: `push_vlan(vid=5,pcp=0),set(ipv4(ttl=63)),clone(trunc(64),1),2`.

use super::error::{ErrorKind, ParseError};
use super::flow::named;
use super::scan::{Scanner, Word};
use super::{PortNames, table, value};
use crate::wire::{ETH_QINQ, ETH_VLAN};
use crate::{Action, Controller, HashOver, Match, Userspace};

mod print;

pub use print::print_actions;

/// Actions of Open vSwitch that this datapath does not have.
const UNSUPPORTED: &[&str] = &[
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
    Reader { scan: Scanner::new(text), m, ports, depth: 0 }.list()
}

/// An action list while it is read.
struct Reader<'a, 'p> {
    scan: Scanner<'a>,
    m: &'p Match,
    ports: &'p dyn PortNames,
    /// In how many lists this one is.
    depth: usize,
}

impl<'a> Reader<'a, '_> {
    /// Up to the end of the text, or to the bracket that closes the list.
    fn list(&mut self) -> Result<Vec<Action>, ParseError> {
        let mut actions = Vec::new();
        let mut drop: Option<Word<'_>> = None;
        while self.scan.skip(true) && !(self.depth > 0 && self.scan.is_at(')')) {
            let word = self.scan.some_word("an action")?;
            if let Some(drop) = drop {
                return drop.want("drop without other actions");
            }
            match word.text {
                "drop" if actions.is_empty() => drop = Some(word),
                "drop" => return word.want("drop without other actions"),
                "set" => set(&mut self.scan, &mut actions, self.m, self.ports)?,
                _ => actions.push(self.action(word)?),
            }
        }
        Ok(actions)
    }

    /// One that is not `set()`.
    fn action(&mut self, word: Word<'a>) -> Result<Action, ParseError> {
        Ok(match word.text {
            "pop_vlan" => Action::PopVlan,
            "push_vlan" => push_vlan(&mut self.scan, self.ports)?,
            "trunc" => Action::Trunc(self.argument()?),
            "recirc" => Action::Recirc(self.argument()?),
            "meter" => Action::Meter(self.argument()?),
            "hash" => self.hash()?,
            "clone" => Action::Clone(self.nested(word)?),
            "sample" => self.sample()?,
            "check_pkt_len" => self.check_pkt_len()?,
            "userspace" => self.userspace()?,
            name if UNSUPPORTED.contains(&name) => return Err(word.error(ErrorKind::Unsupported)),
            _ if self.scan.take('(') => return Err(word.error(ErrorKind::Unknown)),
            _ => Action::Output(value::port(word, self.ports)?),
        })
    }

    fn open(&mut self) -> Result<(), ParseError> {
        self.scan.expect('(', "\"(\"")
    }

    fn close(&mut self) -> Result<(), ParseError> {
        self.scan.expect(')', "\")\"")
    }

    /// A number that is no larger than its type.
    fn number<T: TryFrom<u128>>(&mut self, max: T) -> Result<T, ParseError>
    where
        u128: From<T>,
    {
        let word = self.scan.some_word("a number")?;
        let max = u128::from(max);
        value::number(word, max)?.try_into().map_err(|_| word.error(ErrorKind::TooLarge(max)))
    }

    /// `(7)`.
    fn argument(&mut self) -> Result<u32, ParseError> {
        self.open()?;
        let number = self.number(u32::MAX)?;
        self.close()?;
        Ok(number)
    }

    /// A word that must come next.
    fn keyword(&mut self, word: &'static str) -> Result<Word<'a>, ParseError> {
        self.scan.skip(true);
        let here = self.scan.here();
        let found = self.scan.word();
        if found.text == word { Ok(found) } else { here.want(word) }
    }

    /// `name=`, which must come next.
    fn assigned(&mut self, name: &'static str) -> Result<(), ParseError> {
        self.keyword(name)?;
        self.scan.expect('=', "\"=\"")
    }

    /// `(action,…)`, for the action or branch `word`.
    fn nested(&mut self, word: Word<'a>) -> Result<Box<[Action]>, ParseError> {
        if self.depth >= Action::MAX_DEPTH {
            return word.want("at most 8 lists within each other");
        }
        self.open()?;
        self.depth += 1;
        let actions = self.list();
        self.depth -= 1;
        let actions = actions?.into();
        self.close()?;
        Ok(actions)
    }

    /// `(l4(0))` or `(sym_l4(0))`.
    fn hash(&mut self) -> Result<Action, ParseError> {
        self.open()?;
        let word = self.scan.some_word("l4 or sym_l4")?;
        let over = match word.text {
            "l4" => HashOver::L4,
            "sym_l4" => HashOver::SymmetricL4,
            _ => return word.want("l4 or sym_l4"),
        };
        let basis = self.argument()?;
        self.close()?;
        Ok(Action::Hash { over, basis })
    }

    /// `(sample=50.0%,actions(…))`.
    fn sample(&mut self) -> Result<Action, ParseError> {
        self.open()?;
        self.assigned("sample")?;
        let word = self.scan.some_word("a percentage")?;
        let Some(probability) = probability(word.text) else {
            return word.want("0% to 100%");
        };
        let word = self.keyword("actions")?;
        let actions = self.nested(word)?;
        self.close()?;
        Ok(Action::Sample { probability, actions })
    }

    /// `(size=128,gt(…),le(…))`.
    fn check_pkt_len(&mut self) -> Result<Action, ParseError> {
        self.open()?;
        self.assigned("size")?;
        let size = self.number(u16::MAX)?;
        let word = self.keyword("gt")?;
        let greater = self.nested(word)?;
        let word = self.keyword("le")?;
        let less_equal = self.nested(word)?;
        self.close()?;
        Ok(Action::CheckPktLen { size, greater, less_equal })
    }

    /// `(pid=0)` or `(pid=0,controller(…))`.
    fn userspace(&mut self) -> Result<Action, ParseError> {
        self.open()?;
        self.assigned("pid")?;
        let pid = self.number(u32::MAX)?;
        self.scan.skip(true);
        let controller = if self.scan.is_at(')') { None } else { Some(self.controller()?) };
        self.close()?;
        Ok(Action::Userspace(Box::new(Userspace { pid, controller })))
    }

    fn controller(&mut self) -> Result<Controller, ParseError> {
        self.keyword("controller")?;
        self.open()?;
        self.assigned("reason")?;
        let reason = self.number(u16::MAX)?;
        for name in ["dont_send", "continuation"] {
            self.assigned(name)?;
            let here = self.scan.here();
            if self.number(u8::MAX)? != 0 {
                return Err(here.error(ErrorKind::Unsupported));
            }
        }
        self.assigned("recirc_id")?;
        let recirc_id = self.number(u32::MAX)?;
        self.assigned("rule_cookie")?;
        let rule_cookie = self.number(u64::MAX)?;
        self.assigned("controller_id")?;
        let controller_id = self.number(u16::MAX)?;
        self.assigned("max_len")?;
        let max_len = self.number(u16::MAX)?;
        self.close()?;
        Ok(Controller { reason, recirc_id, rule_cookie, controller_id, max_len })
    }
}

/// `50.0%` as a part of `u32::MAX`, to the nearest.
fn probability(text: &str) -> Option<u32> {
    let percent = text.strip_suffix('%')?.parse::<f64>().ok()?;
    let part = (percent / 100.0).mul_add(f64::from(u32::MAX), 0.5);
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to u32::MAX")]
    (0.0..=100.0).contains(&percent).then_some(part as u32)
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
    if let Some(member) = group.bare() {
        let (value, mask) = value::parse(scan, member, ports)?;
        if mask != 0 {
            actions.push(Action::Set { field: member.field, value: value & mask, mask });
        }
        scan.expect(')', "\")\"")?;
        return set_end(scan, actions.len() > before);
    }
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
    set_end(scan, actions.len() > before)
}

/// The end of `set(…)`, which has to set something.
fn set_end(scan: &mut Scanner<'_>, something: bool) -> Result<(), ParseError> {
    if something { scan.expect(')', "\")\"") } else { scan.here().want("a member to set") }
}
