//! Reading rules as ovs-ofctl does.

use crate::{Field, Match, Meters, PortNo};

use super::RuleError;
use super::rule::{Rule, RuleAction, RuleFilter};
use super::tags::TAG;
use super::values::{self, number};
use super::words::{Form, SHORTHANDS, Word};

/// The number of the port with this name, in the bridge that the rule is for.
pub(super) type Ports<'a> = &'a dyn Fn(&str) -> Option<PortNo>;

/// Reads `…,actions=…`.
pub(super) fn rule(text: &str, ports: Ports<'_>) -> Result<Rule, RuleError> {
    let (words, actions) = split(text);
    let actions = actions.ok_or(RuleError::NoActions)?;
    let head = Head::parse(words, ports)?;
    let (cookie, mask) = head.cookie.unwrap_or((0, u64::MAX));
    if mask != u64::MAX {
        return Err(not_here("cookie=…/mask", "commands that look for rules"));
    }
    let table = head.table.unwrap_or(0);
    Ok(Rule {
        table,
        priority: head.priority.unwrap_or(Rule::DEFAULT_PRIORITY),
        matching: head.matching,
        cookie,
        idle_timeout: head.idle_timeout,
        hard_timeout: head.hard_timeout,
        actions: parse_actions(actions, &head.matching, table, ports)?,
    })
}

/// Reads what tells which rules are meant; empty means all.
pub(super) fn filter(text: &str, strict: bool, ports: Ports<'_>) -> Result<RuleFilter, RuleError> {
    let (words, actions) = split(text);
    if actions.is_some() {
        return Err(not_here("actions", "rules that are added"));
    }
    let head = Head::parse(words, ports)?;
    if head.priority.is_some() && !strict {
        return Err(not_here("priority", "strict commands"));
    }
    Ok(RuleFilter {
        table: head.table,
        priority: head.priority.unwrap_or(Rule::DEFAULT_PRIORITY),
        cookie: head.cookie.unwrap_or((0, 0)),
        matching: head.matching,
        strict,
    })
}

/// The match and the actions of a rule.
fn split(text: &str) -> (&str, Option<&str>) {
    for word in ["actions=", "action="] {
        let starts = text.match_indices(word).filter(|&(at, _)| {
            let before = text.get(..at).unwrap_or_default();
            before.is_empty() || before.ends_with([',', ' ', '\t'])
        });
        if let Some((at, _)) = starts.into_iter().next() {
            return (text.get(..at).unwrap_or_default(), text.get(at + word.len()..));
        }
    }
    (text, None)
}

fn bad(word: &str, allowed: impl Into<String>) -> RuleError {
    RuleError::BadValue { word: word.to_owned(), allowed: allowed.into() }
}

fn not_here(word: &str, place: &'static str) -> RuleError {
    RuleError::NotHere { word: word.to_owned(), place }
}

fn need(word: &str, entry: &Word) -> RuleError {
    let names: Vec<_> = entry.needs.iter().map(|p| format!("\"{}\"", p.name)).collect();
    RuleError::Needs { word: word.to_owned(), needs: names.join(" or ") }
}

/// All before the actions.
#[derive(Debug, Default)]
struct Head {
    table: Option<u8>,
    priority: Option<u16>,
    cookie: Option<(u64, u64)>,
    idle_timeout: u16,
    hard_timeout: u16,
    matching: Match,
}

impl Head {
    fn parse(text: &str, ports: Ports<'_>) -> Result<Self, RuleError> {
        let mut head = Self::default();
        let mut used = Vec::new();
        let words = text.split(|c: char| c == ',' || c.is_whitespace());
        for word in words.filter(|word| !word.is_empty()) {
            match word.split_once('=') {
                None => head.shorthand(word)?,
                Some((name, value)) => {
                    if !head.property(word, name, value)? {
                        used.extend(
                            head.field(word, name, value, ports)?.map(|entry| (word, entry)),
                        );
                    }
                }
            }
        }
        // Words that together tell all of it are as good as the one that does.
        if head.matching.mask.get(&Field::IP_FRAG) & 3 == 3 {
            let value = head.matching.key.get(&Field::IP_FRAG);
            head.matching = head.matching.with(&Field::IP_FRAG, value);
        }
        // Only now all is known that a word may need.
        match used.into_iter().find(|(_, entry)| !entry.fits(&head.matching)) {
            Some((word, entry)) => Err(need(word, entry)),
            None => Ok(head),
        }
    }

    fn shorthand(&mut self, word: &str) -> Result<(), RuleError> {
        let known = SHORTHANDS.iter().find(|p| p.name == word);
        let known = known.ok_or_else(|| RuleError::UnknownWord(word.to_owned()))?.matching();
        for field in [&Field::ETH_TYPE, &Field::IP_PROTO] {
            self.want(word, field, known.key.get(field), known.mask.get(field))?;
        }
        Ok(())
    }

    /// True when the word is about the rule, not its match.
    fn property(&mut self, word: &str, name: &str, value: &str) -> Result<bool, RuleError> {
        const SECONDS: &str = "0 to 65535 seconds";
        match name {
            "table" => self.table = Some(table(word, value)?),
            "priority" => {
                let priority = value.parse().map_err(|_| bad(word, "0 to 65535"))?;
                self.priority = Some(priority);
            }
            "cookie" => self.cookie = Some(cookie(value).ok_or_else(|| bad(word, "64 bits"))?),
            "idle_timeout" => self.idle_timeout = value.parse().map_err(|_| bad(word, SECONDS))?,
            "hard_timeout" => self.hard_timeout = value.parse().map_err(|_| bad(word, SECONDS))?,
            // A dump has these: what was dumped can be read again.
            "duration" | "n_packets" | "n_bytes" | "idle_age" | "hard_age" => {}
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Notes what one word wants to match; returns its entry if there are conditions on it.
    fn field(
        &mut self,
        word: &str,
        name: &str,
        value: &str,
        ports: Ports<'_>,
    ) -> Result<Option<&'static Word>, RuleError> {
        if name == "in_port" {
            let port = port(value, ports)?;
            self.want(word, &Field::IN_PORT, port.0.into(), Field::IN_PORT.max())?;
            return Ok(None);
        }
        let entry = Word::named(name).ok_or_else(|| RuleError::UnknownWord(name.to_owned()))?;
        if entry.form == Form::Vid && number(value) == Some(0xffff) {
            self.want(word, &entry.field, 0, TAG.into())?;
        } else {
            let is_tag = matches!(entry.form, Form::Vid | Form::Pcp);
            let implied = if is_tag { u128::from(TAG) } else { 0 };
            let (value, mask) = bits(word, entry, value)?;
            self.want(word, &entry.field, value | implied, mask | implied)?;
        }
        Ok(Some(entry))
    }

    fn want(
        &mut self,
        word: &str,
        field: &Field,
        value: u128,
        mask: u128,
    ) -> Result<(), RuleError> {
        let (old, old_mask) = (self.matching.key.get(field), self.matching.mask.get(field));
        if (old ^ value) & old_mask & mask != 0 {
            return Err(RuleError::Contradiction(word.to_owned()));
        }
        self.matching = self.matching.with_masked(field, old | value & mask, old_mask | mask);
        Ok(())
    }
}

/// The values of a word, for people.
fn allowed(entry: &Word) -> String {
    let step = 1 << (entry.bits >> entry.shift).trailing_zeros();
    let steps = if step > 1 { format!(" in steps of {step}") } else { String::new() };
    let number = format!("a number from 0 to {}{steps}", entry.max);
    let value = match entry.form {
        Form::Mac => "an Ethernet address",
        Form::Ipv4 => "an IPv4 address",
        Form::Ipv6 => "an IPv6 address",
        Form::Frag => return "no, yes, first, later or not_later".to_owned(),
        Form::TcpFlags => return format!("flags as +syn-ack, or {number} and a mask after /"),
        Form::Dec | Form::Hex(_) | Form::Vid | Form::Pcp | Form::Tci => &number,
    };
    let mask = match entry.maskable {
        true if matches!(entry.form, Form::Ipv4 | Form::Ipv6) => {
            ", with a prefix length or mask after / if need be"
        }
        true => ", with a mask after / if need be",
        false => "",
    };
    format!("{value}{mask}")
}

/// The bits of the field that a value stands for, and which.
fn bits(word: &str, entry: &Word, text: &str) -> Result<(u128, u128), RuleError> {
    let bad = || bad(word, allowed(entry));
    let (mut value, mask) = values::parse(entry.form, text).ok_or_else(bad)?;
    // OpenFlow's vlan_vid has a bit that says that there is a tag.
    if entry.name == "vlan_vid" && !word.starts_with("mod_") && value <= 0x1fff {
        value &= !u128::from(TAG);
    }
    let is_given = mask.is_some() && entry.form != Form::Frag;
    if is_given && !entry.maskable || value > entry.max {
        return Err(bad());
    }
    let mask = mask.map_or(entry.bits, |mask| mask << entry.shift);
    let value = value << entry.shift;
    if mask & !entry.bits != 0 || value & !entry.bits != 0 {
        return Err(bad());
    }
    Ok((value & mask, mask))
}

fn table(word: &str, text: &str) -> Result<u8, RuleError> {
    let table = text.parse().ok().filter(|&table| table <= Rule::MAX_TABLE);
    table.ok_or_else(|| bad(word, "a table, 0 to 254"))
}

fn cookie(text: &str) -> Option<(u64, u64)> {
    let all = |text| if text == "-1" { Some(u64::MAX) } else { number(text)?.try_into().ok() };
    match text.split_once('/') {
        None => Some((all(text)?, u64::MAX)),
        Some((value, mask)) => Some((all(value)?, all(mask)?)),
    }
}

/// A port by number or name; a name that is a number must be quoted.
fn port(text: &str, ports: Ports<'_>) -> Result<PortNo, RuleError> {
    match text.parse().map(PortNo) {
        Ok(no) if no != PortNo::default() && no <= PortNo::MAX => Ok(no),
        Ok(_) => Err(bad(text, "a port number from 1 to 1023")),
        Err(_) => {
            let name = text.trim_matches('"');
            ports(name).ok_or_else(|| RuleError::NoPort(name.to_owned()))
        }
    }
}

fn parse_actions(
    text: &str,
    matching: &Match,
    own_table: u8,
    ports: Ports<'_>,
) -> Result<Vec<RuleAction>, RuleError> {
    let mut actions = Vec::new();
    let words = words_of(text);
    for (i, word) in words.iter().enumerate() {
        if *word == "drop" {
            let alone = words.len() == 1;
            return if alone { Ok(actions) } else { Err(RuleError::NotLast((*word).to_owned())) };
        }
        let action = parse_action(word, matching, ports)?;
        if let RuleAction::Goto(to) = action {
            if i + 1 != words.len() {
                return Err(RuleError::NotLast((*word).to_owned()));
            }
            if to <= own_table {
                return Err(RuleError::Backward { from: own_table, to });
            }
        }
        actions.push(action);
    }
    if actions.is_empty() {
        return Err(RuleError::NoActions);
    }
    if actions.len() > Rule::MAX_ACTIONS {
        return Err(RuleError::TooManyActions { max: Rule::MAX_ACTIONS });
    }
    Ok(actions)
}

/// Splits at commas and blanks outside parentheses.
fn words_of(text: &str) -> Vec<&str> {
    let mut depth = 0_i32;
    let words = text.split(|c: char| {
        depth += i32::from(c == '(') - i32::from(c == ')');
        depth == 0 && (c == ',' || c.is_whitespace())
    });
    words.filter(|word| !word.is_empty()).collect()
}

fn parse_action(word: &str, matching: &Match, ports: Ports<'_>) -> Result<RuleAction, RuleError> {
    let (name, value) = word.split_once([':', '(']).unwrap_or((word, ""));
    match name {
        "output" if word.starts_with("output(") => output_part(word, value, ports),
        "output" => target(value, ports),
        "meter" => {
            let id = value.parse().ok().filter(|id| (1..=Meters::MAX).contains(id));
            let allowed = || bad(word, format!("a meter, 1 to {}", Meters::MAX));
            Ok(RuleAction::Meter(id.ok_or_else(allowed)?))
        }
        _ if name.eq_ignore_ascii_case("controller") => controller(word, value),
        "strip_vlan" | "pop_vlan" if word == name => Ok(RuleAction::StripVlan),
        "push_vlan" => match number(value) {
            Some(0x8100) => Ok(RuleAction::PushVlan { tpid: 0x8100 }),
            Some(0x88a8) => Ok(RuleAction::PushVlan { tpid: 0x88a8 }),
            _ => Err(bad(word, "0x8100 or 0x88a8")),
        },
        "resubmit" => {
            let to = value.strip_prefix(',').and_then(|value| value.strip_suffix(')'));
            let to = to.ok_or_else(|| bad(word, "resubmit(,TABLE)"))?;
            Ok(RuleAction::Resubmit(table(word, to)?))
        }
        "goto_table" => Ok(RuleAction::Goto(table(word, value)?)),
        "set_field" => {
            let (value, name) =
                value.split_once("->").ok_or_else(|| bad(word, "set_field:VALUE->FIELD"))?;
            let entry = Word::named(name).ok_or_else(|| RuleError::NotSettable(name.to_owned()))?;
            set(word, entry, value, matching)
        }
        _ => match name.strip_prefix("mod_") {
            Some(field) => {
                let entry = Word::named(field).filter(|entry| entry.is_mod());
                let entry = entry.ok_or_else(|| RuleError::UnknownAction(name.to_owned()))?;
                set(word, entry, value, matching)
            }
            None => match target(word, ports) {
                Err(RuleError::NoPort(_)) => Err(RuleError::UnknownAction(word.to_owned())),
                result => result,
            },
        },
    }
}

/// `port=2,max_len=100)`, in any order.
fn output_part(word: &str, value: &str, ports: Ports<'_>) -> Result<RuleAction, RuleError> {
    let bad = || bad(word, "output(port=PORT,max_len=BYTES), 14 bytes or more");
    let (mut to, mut most) = (None, None);
    for (name, value) in arguments(value).ok_or_else(bad)? {
        match name {
            "port" => to = Some(port(value, ports)?),
            "max_len" => most = value.parse().ok().filter(|&len: &u32| len >= 14),
            _ => return Err(bad()),
        }
    }
    let (port, max_len) = (to.ok_or_else(bad)?, most.ok_or_else(bad)?);
    Ok(RuleAction::OutputPart { port, max_len })
}

/// Nothing, `128`, or `max_len=128,id=2)`.
fn controller(word: &str, value: &str) -> Result<RuleAction, RuleError> {
    let bad = || bad(word, "CONTROLLER, CONTROLLER:BYTES or controller(max_len=BYTES,id=NUMBER)");
    let (mut max_len, mut id) = (u16::MAX, 0);
    if word.contains('(') {
        for (name, value) in arguments(value).ok_or_else(bad)? {
            let value = value.parse().map_err(|_| bad())?;
            match name {
                "max_len" => max_len = value,
                "id" => id = value,
                _ => return Err(bad()),
            }
        }
    } else if !value.is_empty() {
        max_len = value.parse().map_err(|_| bad())?;
    }
    Ok(RuleAction::Controller { max_len, id })
}

/// The assignments in `a=1,b=2)`.
fn arguments(text: &str) -> Option<Vec<(&str, &str)>> {
    let text = text.strip_suffix(')')?;
    text.split(',').filter(|part| !part.is_empty()).map(|part| part.split_once('=')).collect()
}

/// Where an output goes: a port, or one of the names for several.
fn target(text: &str, ports: Ports<'_>) -> Result<RuleAction, RuleError> {
    let is = |name: &str| text.eq_ignore_ascii_case(name);
    match () {
        () if is("NORMAL") => Ok(RuleAction::Normal),
        () if is("FLOOD") => Ok(RuleAction::Flood),
        () if is("ALL") => Ok(RuleAction::All),
        () if is("IN_PORT") => Ok(RuleAction::InPort),
        () => Ok(RuleAction::Output(port(text, ports)?)),
    }
}

fn set(word: &str, entry: &Word, value: &str, matching: &Match) -> Result<RuleAction, RuleError> {
    if !entry.settable {
        return Err(RuleError::NotSettable(entry.name.to_owned()));
    }
    if !entry.fits(matching) {
        return Err(need(word, entry));
    }
    let (value, mask) = bits(word, entry, value)?;
    if entry.field == Field::VLAN_TCI {
        if entry.form == Form::Tci && value & u128::from(TAG) == 0 {
            return Err(bad(word, "a tag, that is 0x1000 and more; strip_vlan removes one"));
        }
        let bits = |value: u128| u16::try_from(value).unwrap_or(0) & !TAG;
        return Ok(RuleAction::SetVlan { value: bits(value), mask: bits(mask) });
    }
    let field =
        entry.static_field().ok_or_else(|| RuleError::NotSettable(entry.name.to_owned()))?;
    Ok(RuleAction::Set { field, value, mask })
}
