//! One decision: from a key to (mask, actions), as a straight walk over a context that notes what it
//! looks at.
//!
//! The context keeps the key as the packet would now be, the bits that actions have overwritten with
//! constants, and the bits the walk looked at. Looking at a bit puts it into the mask unless it was
//! overwritten before: then its value is the same for every packet that came this way. Overwriting a bit
//! does not look at it, so a masked write leaves the other bits of its field as unknown as they were.
//!
//! Rewrites are collected and turned into the fewest actions when an output needs them; what follows the
//! last output is never done. The walk is bounded in depth, lookups and actions. Where a bound is met
//! the packet is dropped, not half of its outputs sent.

use crate::{
    Action, Controller, Field, FlowKey, FlowMask, MacAddr, Nanos, PortNo, Purpose, Translation,
    Userspace, VlanId,
};

use super::fdb::Change;
use super::rule::RuleAction;
use super::rule_print::action_text;
use super::tags::{TAG, Tags};
use super::topology::Bridge;
use super::trace::{TraceStep, TraceWhat};

/// The VLAN identifier's bits in `vlan_tci`.
const VID: u16 = 0x0fff;

/// Which bound ended a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Limit {
    /// Tables within tables; most often a loop.
    Depth,
    /// Lookups altogether.
    Lookups,
    /// Datapath actions, or VLAN tags.
    Actions,
}

impl Limit {
    /// The most tables within each other.
    pub(super) const DEPTH: usize = 64;
    /// The most lookups for one packet.
    pub(super) const LOOKUPS: usize = 1024;
    /// The most datapath actions of one flow.
    pub(super) const ACTIONS: usize = 4096;

    /// For people.
    pub(super) const fn describe(self) -> &'static str {
        match self {
            Self::Depth => "tables led to tables more than 64 deep, most likely in a circle",
            Self::Lookups => "more than 1024 lookups",
            Self::Actions => "more than 4096 actions, or more than four tags pushed",
        }
    }
}

/// A decision being made.
#[derive(Debug)]
pub(super) struct Context<'a> {
    bridge: &'a Bridge,
    in_port: PortNo,
    purpose: Purpose,
    now: Nanos,
    /// The packet as the rules so far want it.
    key: FlowKey,
    tags: Tags,
    /// Bits of it that rules have overwritten.
    written: FlowMask,
    /// The packet as the actions so far make it.
    base: FlowKey,
    base_tags: Tags,
    /// The tags with which the packet came.
    packet_tcis: [u128; 2],
    /// Bits of it that actions have overwritten.
    base_written: FlowMask,
    /// What was looked at.
    mask: FlowMask,
    actions: Vec<Action>,
    /// Of the rule whose actions are done.
    cookie: u64,
    keep: bool,
    n_lookups: usize,
    /// What happened, if somebody wants to know; then nothing is learned.
    steps: Option<Vec<TraceStep>>,
    /// What would have been learned so far, of the port on which the packet came.
    would_learn: Vec<(VlanId, MacAddr)>,
    depth: usize,
    /// What learning did to the MAC table.
    pub(super) change: Change,
    /// The bound that was met.
    pub(super) limit: Option<Limit>,
}

/// What every decision on packets like `key` looks at, and one without a bridge only: as in Open vSwitch, also
/// whether there is a tag.
pub(super) fn always(key: &FlowKey) -> FlowMask {
    let mut mask = FlowMask::default();
    for field in [&Field::IN_PORT, &Field::RECIRC_ID, &Field::ETH_TYPE] {
        mask.add(field);
    }
    for (tci, _) in Field::TAGS {
        mask.add_bits(tci, TAG.into());
        if key.get(tci) & u128::from(TAG) == 0 {
            break;
        }
    }
    mask
}

/// To drop all packets of a port and type.
pub(super) fn nothing(key: &FlowKey) -> Translation {
    Translation { mask: always(key), actions: Vec::new(), keep: true }
}

/// True for a packet that was sent round. The bridge sends none; manual flows that do have flows for it.
pub(super) fn is_again(key: &FlowKey) -> bool {
    key.get(&Field::RECIRC_ID) != 0
}

/// The port on which packets like `key` arrive; port 0, which never exists, if the key has none.
pub(super) fn in_port(key: &FlowKey) -> PortNo {
    PortNo(u32::try_from(key.get(&Field::IN_PORT)).unwrap_or(0))
}

impl<'a> Context<'a> {
    pub(super) fn new(bridge: &'a Bridge, key: &FlowKey, purpose: Purpose, now: Nanos) -> Self {
        Self {
            bridge,
            in_port: in_port(key),
            purpose,
            now,
            key: *key,
            tags: Tags::default(),
            written: FlowMask::default(),
            base: *key,
            base_tags: Tags::default(),
            packet_tcis: Field::TAGS.map(|(tci, _)| key.get(tci)),
            base_written: FlowMask::default(),
            mask: always(key),
            actions: Vec::new(),
            cookie: 0,
            keep: true,
            n_lookups: 0,
            steps: None,
            would_learn: Vec::new(),
            depth: 0,
            change: Change::None,
            limit: None,
        }
    }

    /// A decision that is told step by step and changes nothing.
    pub(super) fn tracing(bridge: &'a Bridge, key: &FlowKey, now: Nanos) -> Self {
        let purpose = Purpose::Revalidate { n_packets: 0, n_bytes: 0 };
        Self { steps: Some(Vec::new()), ..Self::new(bridge, key, purpose, now) }
    }

    /// What happened.
    pub(super) fn take_steps(&mut self) -> Vec<TraceStep> {
        self.steps.take().unwrap_or_default()
    }

    /// Tells of a step if somebody wants to know.
    fn tell(&mut self, what: impl FnOnce() -> TraceWhat) {
        if let Some(steps) = &mut self.steps {
            steps.push(TraceStep { depth: self.depth, what: what() });
        }
    }

    fn note(&mut self, text: impl FnOnce() -> String) {
        self.tell(|| TraceWhat::Note(text()));
    }

    /// Decides. A bridge without rules behaves as NORMAL.
    pub(super) fn run(&mut self) {
        if self.bridge.rules.is_empty() {
            self.note(|| "the bridge has no rules: NORMAL".to_owned());
            self.normal();
        } else {
            self.table(0, 0);
        }
    }

    pub(super) fn finish(self) -> Translation {
        let actions = if self.limit.is_none() { self.actions } else { Vec::new() };
        Translation { mask: self.mask, actions, keep: self.keep }
    }

    /// Looks the packet up and does what the rule says; without a rule, nothing.
    fn table(&mut self, table: u8, depth: usize) {
        self.n_lookups += 1;
        if depth >= Limit::DEPTH {
            return self.stop(Limit::Depth);
        }
        if self.n_lookups > Limit::LOOKUPS {
            return self.stop(Limit::Lookups);
        }
        let bridge = self.bridge;
        let mut looked = FlowMask::default();
        let rule = bridge.rules.find(table, &self.key, &mut looked);
        self.look_at(&looked);
        self.depth = depth;
        self.tell(|| {
            let rule = rule.map(|rule| Box::new(rule.rule.clone()));
            TraceWhat::Table { table, rule }
        });
        let Some(rule) = rule else { return };
        match self.purpose {
            Purpose::Packet => rule.credit(0, 0, self.now),
            Purpose::Uncached { n_bytes } => rule.credit(1, n_bytes, self.now),
            Purpose::Revalidate { n_packets: 0, .. } => {}
            Purpose::Revalidate { n_packets, n_bytes } => {
                rule.credit(n_packets, n_bytes, self.now);
            }
        }
        let caller = core::mem::replace(&mut self.cookie, rule.rule.cookie);
        for action in &rule.rule.actions {
            self.depth = depth;
            self.tell(|| TraceWhat::Action(action_text(action, &rule.rule.matching)));
            self.act(action, depth);
            if self.limit.is_some() {
                return;
            }
        }
        self.cookie = caller;
    }

    fn act(&mut self, action: &RuleAction, depth: usize) {
        match *action {
            RuleAction::Output(port) | RuleAction::OutputPart { port, .. }
                if port == self.in_port =>
            {
                self.note(|| "skipped: the packet came from there".to_owned());
            }
            RuleAction::Output(port) => self.output(port),
            RuleAction::OutputPart { port, max_len } if self.bridge.has(port) => {
                self.commit();
                self.push(Action::Trunc(max_len));
                self.push(Action::Output(port));
            }
            RuleAction::OutputPart { port, .. } => self.note_no_port(port),
            RuleAction::Meter(id) => self.push(Action::Meter(id)),
            RuleAction::Controller { max_len, id } => {
                self.commit();
                let rule_cookie = self.cookie;
                let said =
                    Controller { max_len, controller_id: id, rule_cookie, ..Controller::default() };
                let userspace = Userspace { pid: 0, controller: Some(said) };
                self.push(Action::Userspace(Box::new(userspace)));
            }
            RuleAction::InPort => self.output(self.in_port),
            RuleAction::Normal => self.normal(),
            RuleAction::Flood | RuleAction::All => self.flood(),
            RuleAction::StripVlan => self.strip_vlan(),
            RuleAction::PushVlan { tpid } => self.push_vlan(tpid, 0),
            RuleAction::SetVlan { value, mask } => self.set_vlan(value, mask),
            RuleAction::Set { field, value, mask } => {
                self.key.set(field, self.key.get(field) & !mask | value & mask);
                self.written.add_bits(field, mask);
            }
            RuleAction::Resubmit(table) | RuleAction::Goto(table) => self.table(table, depth + 1),
        }
    }

    fn stop(&mut self, limit: Limit) {
        self.limit.get_or_insert(limit);
    }

    /// These bits of the packet as it is now matter, as far as they come from the packet.
    fn look_at(&mut self, looked: &FlowMask) {
        let mut words = *looked.words();
        for (word, written) in words.iter_mut().zip(self.written.words()) {
            *word &= !written;
        }
        let mut looked = FlowMask::from_words(words);
        if let Some(&(own, _)) = self.tags.own().and_then(|level| Field::TAGS.get(level)) {
            let bits = looked.get(&Field::VLAN_TCI);
            looked.set(&Field::VLAN_TCI, 0);
            looked.add_bits(own, bits);
        }
        self.mask.union(&looked);
    }

    /// The value of some bits of a field; they matter.
    fn look(&mut self, field: &Field, bits: u128) -> u128 {
        let mut looked = FlowMask::default();
        looked.set(field, bits);
        self.look_at(&looked);
        self.key.get(field) & bits
    }

    fn look_mac(&mut self, field: &Field) -> MacAddr {
        let value = self.look(field, field.max());
        MacAddr::from_u64(u64::try_from(value).unwrap_or(0))
    }

    fn look_tci(&mut self, bits: u16) -> u16 {
        u16::try_from(self.look(&Field::VLAN_TCI, bits.into())).unwrap_or(0)
    }

    /// A learning switch: to where the destination was last seen, else to everybody.
    ///
    /// A gratuitous ARP needs no rule of its own: it is learned from and flooded like any broadcast,
    /// so a host that moved is found at its new port with the first one.
    fn normal(&mut self) {
        let dst = self.look_mac(&Field::ETH_DST);
        if is_link_local(dst) {
            self.note(|| format!("dropped: {dst} is for bridges themselves"));
            return;
        }
        let src = self.look_mac(&Field::ETH_SRC);
        let vlan = VlanId(self.look_tci(TAG | VID) & VID);
        match self.learn_and_find((vlan, src), (vlan, dst)) {
            Some(port) if port == self.in_port => {
                self.note(|| format!("dropped: {dst} is where the packet came from"));
            }
            Some(port) if self.bridge.has(port) => {
                self.note(|| format!("{dst} is behind port {port}"));
                self.output(port);
            }
            _ => {
                self.note(|| format!("{dst} is not known in VLAN {}: flooded", vlan.0));
                self.flood();
            }
        }
    }

    /// The same without learning, as if the source had been learned.
    fn peek(&mut self, src: (VlanId, MacAddr), dst: (VlanId, MacAddr)) -> Option<PortNo> {
        let (bridge, in_port) = (self.bridge, self.in_port);
        let fdb = bridge.fdb();
        if fdb.may_learn(src, in_port) && !self.would_learn.contains(&src) {
            self.would_learn.push(src);
            self.note(|| {
                format!("learns that {} in VLAN {} is behind port {in_port}", src.1, src.0.0)
            });
        }
        let found = if self.would_learn.contains(&dst) { Some(in_port) } else { fdb.peek(dst) };
        found.filter(|_| !dst.1.is_multicast())
    }

    /// Both steps under one lock.
    fn learn_and_find(&mut self, src: (VlanId, MacAddr), dst: (VlanId, MacAddr)) -> Option<PortNo> {
        if self.steps.is_some() {
            return self.peek(src, dst);
        }
        let mut fdb = self.bridge.fdb();
        match self.purpose {
            Purpose::Packet | Purpose::Uncached { .. } => {
                if fdb.learn(src, self.in_port, self.now) == Change::Flows {
                    self.change = Change::Flows;
                }
            }
            // Those packets came before or after others that moved the address: who knows. If it is
            // elsewhere now, the next packet decides.
            Purpose::Revalidate { n_packets, .. } => {
                self.keep &= !fdb.may_learn(src, self.in_port);
                if n_packets > 0 {
                    fdb.refresh(src, self.in_port, self.now);
                }
            }
        }
        if dst.1.is_multicast() { None } else { fdb.find(dst) }
    }

    /// To all ports of the bridge but the one it came from.
    fn flood(&mut self) {
        let bridge = self.bridge;
        let in_port = self.in_port;
        for &port in bridge.ports.iter().filter(|&&port| port != in_port) {
            self.output(port);
        }
    }

    /// To a port, as the packet is now; nowhere if the bridge has no such port.
    fn output(&mut self, port: PortNo) {
        if !self.bridge.has(port) {
            return self.note_no_port(port);
        }
        self.commit();
        self.push(Action::Output(port));
    }

    fn note_no_port(&mut self, port: PortNo) {
        self.note(|| format!("skipped: the bridge has no port {port}"));
    }

    fn push(&mut self, action: Action) {
        if self.actions.len() < Limit::ACTIONS {
            self.actions.push(action);
        } else {
            self.stop(Limit::Actions);
        }
    }

    /// Makes the packet what the rules want it to be.
    fn commit(&mut self) {
        self.tags.commit(&self.base_tags, &mut self.actions);
        self.base_tags.clone_from(&self.tags);
        if self.written == self.base_written && self.key == self.base {
            return;
        }
        for field in Field::ALL.iter().filter(|&field| *field != Field::VLAN_TCI) {
            let written = self.written.get(field);
            let known = self.base_written.get(field) | self.mask.get(field);
            let value = self.key.get(field) & written;
            if written & (!known | value ^ self.base.get(field)) != 0 {
                self.actions.push(Action::Set { field, value, mask: written });
            }
        }
        self.base = self.key;
        self.base_written = self.written;
    }

    fn push_vlan(&mut self, tpid: u16, tci: u16) {
        if self.tags.push(tpid, tci) {
            self.show_tags();
        } else {
            self.stop(Limit::Actions);
        }
    }

    fn strip_vlan(&mut self) {
        self.look_for_tag();
        self.tags.pop();
        self.show_tags();
    }

    fn set_vlan(&mut self, value: u16, mask: u16) {
        if self.look_for_tag() {
            self.tags.set(value, mask);
            self.show_tags();
        } else {
            self.push_vlan(0x8100, value & mask);
        }
    }

    /// True when the packet has a tag now.
    fn look_for_tag(&mut self) -> bool {
        let is_tagged = self.look_tci(TAG) != 0;
        if self.tags.own().is_some() && !is_tagged {
            self.tags.set_bare();
            self.base_tags.know(&self.tags);
        }
        is_tagged
    }

    /// Lets the key show the outer tag.
    fn show_tags(&mut self) {
        let (written, value) = self.tags.outer();
        let own = self.tags.own().and_then(|level| self.packet_tcis.get(level));
        let kept = own.copied().unwrap_or(0) & !u128::from(written);
        self.key.set(&Field::VLAN_TCI, kept | u128::from(value & written));
        self.written.set(&Field::VLAN_TCI, written.into());
    }
}

/// 01:80:c2:00:00:00 to 0f, which no bridge forwards (IEEE 802.1Q, 8.6.3).
fn is_link_local(mac: MacAddr) -> bool {
    mac.to_u64() & !0xf == 0x0180_c200_0000
}
