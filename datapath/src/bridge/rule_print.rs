//! Writing rules as ovs-ofctl does; what is written reads back the same.

use core::fmt;

use crate::{Field, Match};

use super::rule::{Rule, RuleAction, RuleRow};
use super::tags::TAG;
use super::values;
use super::words::{Form, SHORTHANDS, WORDS, Word};

impl Rule {
    /// The match, without table and priority; empty if it matches everything.
    #[must_use]
    pub fn match_text(&self) -> String {
        let mut words = Vec::new();
        let (key, mut left) = (&self.matching.key, self.matching.mask);
        if let Some(known) = SHORTHANDS.iter().find(|p| p.matching().covers(&self.matching)) {
            words.push(known.name.to_owned());
            for field in [&Field::ETH_TYPE, &Field::IP_PROTO] {
                left.set(field, left.get(field) & !known.matching().mask.get(field));
            }
        }
        if left.get(&Field::IN_PORT) != 0 {
            words.push(format!("in_port={}", key.get(&Field::IN_PORT)));
        }
        vlan_words(&self.matching, &mut words);
        left.set(&Field::VLAN_TCI, 0);
        for word in WORDS {
            let mask = left.get(&word.field) & word.bits;
            if mask != 0 && word.fits(&self.matching) {
                let value = key.get(&word.field) & word.bits;
                words.push(format!("{}={}", word.name, print(word, value, mask)));
                left.set(&word.field, left.get(&word.field) & !word.bits);
            }
        }
        words.join(",")
    }

    /// The actions, `drop` if there are none.
    #[must_use]
    pub fn actions_text(&self) -> String {
        if self.actions.is_empty() {
            return "drop".to_owned();
        }
        let words: Vec<_> = self.actions.iter().map(|a| action_text(a, &self.matching)).collect();
        words.join(",")
    }

    /// Timeouts, priority, match and actions: what a dump ends with.
    fn tail(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, secs) in
            [("idle_timeout", self.idle_timeout), ("hard_timeout", self.hard_timeout)]
        {
            if secs != 0 {
                write!(f, "{name}={secs}, ")?;
            }
        }
        let priority = (self.priority != Self::DEFAULT_PRIORITY)
            .then(|| format!("priority={}", self.priority));
        let matching = Some(self.match_text()).filter(|text| !text.is_empty());
        let words: Vec<_> = [priority, matching].into_iter().flatten().collect();
        let blank = if words.is_empty() { "" } else { " " };
        write!(f, "{}{blank}actions={}", words.join(","), self.actions_text())
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.cookie != 0 {
            write!(f, "cookie=0x{:x}, ", self.cookie)?;
        }
        write!(f, "table={}, ", self.table)?;
        self.tail(f)
    }
}

impl fmt::Display for RuleRow {
    /// As a line of `ovs-ofctl dump-flows`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = self.duration.0 / 1_000_000;
        write!(f, "cookie=0x{:x}, ", self.rule.cookie)?;
        write!(f, "duration={}.{:03}s, ", millis / 1000, millis % 1000)?;
        write!(f, "table={}, n_packets={}, ", self.rule.table, self.n_packets)?;
        write!(f, "n_bytes={}, ", self.n_bytes)?;
        self.rule.tail(f)
    }
}

fn print(word: &Word, value: u128, mask: u128) -> String {
    values::print(word.form, value >> word.shift, mask >> word.shift, word.bits >> word.shift)
}

fn vlan_words(matching: &Match, words: &mut Vec<String>) {
    let low = |value: u128| u16::try_from(value).unwrap_or(0);
    let value = low(matching.key.get(&Field::VLAN_TCI));
    let mask = low(matching.mask.get(&Field::VLAN_TCI));
    let (vid, pcp) =
        (format!("dl_vlan={}", value & 0x0fff), format!("dl_vlan_pcp={}", value >> 13));
    match mask {
        0 => {}
        0x1fff if value & TAG != 0 => words.push(vid),
        0xf000 if value & TAG != 0 => words.push(pcp),
        0xffff if value & TAG != 0 => words.extend([vid, pcp]),
        _ => words.push(format!(
            "vlan_tci={}",
            values::print(Form::Tci, value.into(), mask.into(), 0xffff)
        )),
    }
}

pub(super) fn action_text(action: &RuleAction, matching: &Match) -> String {
    match *action {
        RuleAction::Output(port) => format!("output:{port}"),
        RuleAction::OutputPart { port, max_len } => {
            format!("output(port={port},max_len={max_len})")
        }
        RuleAction::Meter(id) => format!("meter:{id}"),
        RuleAction::Controller { max_len, id: 0 } => format!("CONTROLLER:{max_len}"),
        RuleAction::Controller { max_len, id } => format!("controller(max_len={max_len},id={id})"),
        RuleAction::InPort => "IN_PORT".to_owned(),
        RuleAction::Normal => "NORMAL".to_owned(),
        RuleAction::Flood => "FLOOD".to_owned(),
        RuleAction::All => "ALL".to_owned(),
        RuleAction::StripVlan => "strip_vlan".to_owned(),
        RuleAction::PushVlan { tpid } => format!("push_vlan:0x{tpid:04x}"),
        RuleAction::SetVlan { value, mask: 0x0fff } => format!("mod_vlan_vid:{value}"),
        RuleAction::SetVlan { value, mask: 0xe000 } => format!("mod_vlan_pcp:{}", value >> 13),
        RuleAction::SetVlan { value, mask } => {
            let (value, mask) = (value | TAG, mask | TAG);
            let text = values::print(Form::Tci, value.into(), mask.into(), 0xffff);
            format!("set_field:{text}->vlan_tci")
        }
        RuleAction::Set { field, value, mask } => set_text(field, value, mask, matching),
        RuleAction::Resubmit(table) => format!("resubmit(,{table})"),
        RuleAction::Goto(table) => format!("goto_table:{table}"),
    }
}

fn set_text(field: &Field, value: u128, mask: u128, matching: &Match) -> String {
    let words = || WORDS.iter().filter(|w| w.settable && w.field == *field && w.fits(matching));
    match words().find(|word| word.bits == mask) {
        Some(word) if word.is_mod() => format!("mod_{}:{}", word.name, print(word, value, mask)),
        Some(word) => format!("set_field:{}->{}", print(word, value, mask), word.name),
        None => {
            let word = words().find(|word| mask & !word.bits == 0);
            let text = word.map_or_else(|| value.to_string(), |word| print(word, value, mask));
            format!("set_field:{text}->{}", word.map_or(field.name, |word| word.name))
        }
    }
}
