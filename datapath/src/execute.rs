//! Running actions on packets.
//!
//! A packet that an action does not fit is dropped with its reason and no further output; what was
//! sent before stays sent. An output, clone or further lookup is put off until the next action that
//! needs the packet: then it gets a copy, and if there is none, the packet itself.

use std::sync::Arc;

use crate::extract::extract;
use crate::hash::{hash_words, mix, short};
use crate::set_field::set_field;
use crate::wire::{
    ETH_IPV4, ETH_IPV6, ETH_LEN, ETH_QINQ, ETH_VLAN, TAG_LEN, TCI_PRESENT, be16, proto,
};
use crate::{
    Action, CopyPacket, DatapathStats, DropReason, Field, HashOver, Layers, Meters, Nanos, Outputs,
    Packet, PortNo, UserspaceQueue,
};

/// What actions have an effect on besides the packet.
#[derive(Debug)]
pub(crate) struct Effects {
    pub(crate) meters: Arc<Meters>,
    pub(crate) userspace: UserspaceQueue,
    /// State of the numbers by which samples are taken (xorshift); not 0.
    random: u64,
}

impl Effects {
    pub(crate) fn new(seed: u64) -> Self {
        Self { meters: Arc::default(), userspace: UserspaceQueue::default(), random: seed | 1 }
    }

    /// True for `probability` in `u32::MAX` packets.
    fn sample(&mut self, probability: u32) -> bool {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        short(mix(self.random, 0)) < probability || probability == u32::MAX
    }
}

/// What a packet carries from one lookup to the next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Passage {
    /// 0 for packets from a port.
    pub(crate) recirc_id: u32,
    /// The last `hash()`.
    pub(crate) dp_hash: u32,
    /// As actions set them; no packet brings any with it, and none leaves with it.
    pub(crate) mark: u32,
    pub(crate) priority: u32,
    /// How often it was looked up before.
    depth: u8,
}

impl Passage {
    /// Lookups after the first one.
    pub(crate) const MAX: u8 = 6;

    fn next(self, recirc_id: u32) -> Self {
        Self { recirc_id, depth: self.depth.saturating_add(1), ..self }
    }

    /// Rewrites what is noted of a packet and lies in none of its headers; false for other fields.
    fn set(&mut self, field: &Field, value: u128, mask: u128) -> bool {
        const MARK: (usize, u32) = (Field::SKB_MARK.word, Field::SKB_MARK.shift);
        const PRIORITY: (usize, u32) = (Field::SKB_PRIORITY.word, Field::SKB_PRIORITY.shift);
        let noted = match (field.word, field.shift) {
            MARK => &mut self.mark,
            PRIORITY => &mut self.priority,
            _ => return false,
        };
        let bits = |bits: u128| u32::try_from(bits).unwrap_or(0);
        *noted = *noted & !bits(mask) | bits(value & mask);
        true
    }

    /// True when it was looked up too often.
    pub(crate) fn too_often(self) -> bool {
        self.depth > Self::MAX
    }
}

/// Where packets end up, and where copies come from.
#[derive(Debug)]
pub(crate) struct Sink<'a, P, C> {
    pub(crate) outputs: &'a mut Outputs<P>,
    pub(crate) copies: &'a mut C,
    pub(crate) stats: &'a DatapathStats,
    pub(crate) effects: &'a mut Effects,
    pub(crate) in_port: PortNo,
    pub(crate) now: Nanos,
}

impl<P, C> Sink<'_, P, C> {
    /// Drops all of `packets`.
    pub(crate) fn discard_all(&mut self, packets: impl Iterator<Item = P>, reason: DropReason) {
        packets.for_each(|packet| self.discard(packet, reason));
    }

    fn discard(&mut self, packet: P, reason: DropReason) {
        self.outputs.discard(packet, reason, &self.stats.drops);
    }
}

/// Runs the actions of one flow on each of its packets.
#[inline]
pub(crate) fn execute<P: Packet, C: CopyPacket<P>>(
    actions: &[Action],
    packets: impl Iterator<Item = P>,
    passage: Passage,
    sink: &mut Sink<'_, P, C>,
) {
    if let [Action::Output(port)] = actions {
        return sink.outputs.send_all(*port, packets, &sink.stats.drops);
    }
    execute_each(actions, packets, passage, sink);
}

/// The same, for any list.
#[inline(never)]
fn execute_each<P: Packet, C: CopyPacket<P>>(
    actions: &[Action],
    packets: impl Iterator<Item = P>,
    passage: Passage,
    sink: &mut Sink<'_, P, C>,
) {
    // What only changes the packet after its last use is left out.
    let end = actions.iter().rposition(Action::has_effect).map_or(0, |last| last + 1);
    let actions = actions.get(..end).unwrap_or_default();
    if actions.is_empty() {
        return sink.discard_all(packets, DropReason::Action);
    }
    for packet in packets {
        List { actions, passage, trunc: None, put_off: None }.run(packet, sink);
    }
}

/// What is still to be done with the packet as it is.
#[derive(Debug)]
enum PutOff<'a> {
    Output(PortNo, Option<u32>),
    Actions(&'a [Action], Passage),
    Recirc(Passage),
}

/// A list of actions while it runs on one packet.
#[derive(Debug)]
struct List<'a> {
    actions: &'a [Action],
    passage: Passage,
    /// To what the next output cuts the packet.
    trunc: Option<u32>,
    put_off: Option<PutOff<'a>>,
}

impl<'a> List<'a> {
    fn run<P: Packet, C: CopyPacket<P>>(mut self, mut packet: P, sink: &mut Sink<'_, P, C>) {
        for action in self.actions {
            if let Err(reason) = self.act(action, &mut packet, sink) {
                if reason == DropReason::Meter && self.put_off.is_some() {
                    // Of the two that were to be, one is left.
                    sink.stats.copies.add(1);
                    sink.stats.drops.add(reason, 1);
                    break;
                }
                return sink.discard(packet, reason);
            }
        }
        match self.put_off {
            Some(put_off) => put_off.run(packet, sink),
            None => sink.discard(packet, DropReason::Action),
        }
    }

    /// An error says why the packet must be dropped.
    fn act<P: Packet, C: CopyPacket<P>>(
        &mut self,
        action: &'a Action,
        packet: &mut P,
        sink: &mut Sink<'_, P, C>,
    ) -> Result<(), DropReason> {
        let next = match action {
            Action::Output(port) => PutOff::Output(*port, self.trunc.take()),
            Action::Recirc(id) => PutOff::Recirc(self.passage.next(*id)),
            Action::Clone(actions) => PutOff::Actions(actions, self.passage),
            Action::Sample { probability, actions } => {
                if !sink.effects.sample(*probability) {
                    return Ok(());
                }
                PutOff::Actions(actions, self.passage)
            }
            Action::CheckPktLen { size, greater, less_equal } => {
                let longer = packet.len() > usize::from(*size);
                PutOff::Actions(if longer { greater } else { less_equal }, self.passage)
            }
            Action::PushVlan { tpid, tci } => {
                self.use_copy(packet, sink);
                return push_vlan(packet, *tpid, *tci);
            }
            Action::PopVlan => {
                self.use_copy(packet, sink);
                return pop_vlan(packet);
            }
            Action::Set { field, value, mask } if self.passage.set(field, *value, *mask) => {
                return Ok(());
            }
            Action::Set { field, value, mask } => {
                self.use_copy(packet, sink);
                return set_field(packet, field, *value, *mask);
            }
            Action::Trunc(len) => {
                self.trunc = Some(*len);
                return Ok(());
            }
            Action::Hash { over, basis } => {
                self.passage.dp_hash = dp_hash(packet, *over, *basis);
                return Ok(());
            }
            Action::Meter(id) => {
                let passes = sink.effects.meters.pass(*id, packet.len() as u64, sink.now);
                return if passes { Ok(()) } else { Err(DropReason::Meter) };
            }
            Action::Userspace(spec) => {
                let spec = (&**spec, self.trunc.take());
                if !sink.effects.userspace.offer(packet, sink.in_port, spec, sink.now) {
                    sink.stats.lost_upcalls.add(1);
                }
                return Ok(());
            }
        };
        if let PutOff::Actions(actions, _) = next
            && !actions.iter().any(Action::has_effect)
        {
            return Ok(());
        }
        self.use_copy(packet, sink);
        self.put_off = Some(next);
        Ok(())
    }

    /// Does what was put off with a copy, as the packet itself is still needed.
    fn use_copy<P: Packet, C: CopyPacket<P>>(&mut self, packet: &P, sink: &mut Sink<'_, P, C>) {
        let Some(put_off) = self.put_off.take() else { return };
        sink.stats.copies.add(1);
        match sink.copies.copy(packet) {
            Some(copy) => put_off.run(copy, sink),
            None => sink.stats.drops.add(DropReason::NoFrame, 1),
        }
    }
}

impl PutOff<'_> {
    fn run<P: Packet, C: CopyPacket<P>>(self, mut packet: P, sink: &mut Sink<'_, P, C>) {
        match self {
            Self::Output(port, trunc) => {
                if let Some(len) = trunc {
                    sink.copies.truncate(&mut packet, len as usize);
                }
                sink.outputs.send(port, packet, &sink.stats.drops);
            }
            Self::Actions(actions, passage) => {
                execute(actions, core::iter::once(packet), passage, sink);
            }
            Self::Recirc(passage) => sink.outputs.recirculate(packet, passage, &sink.stats.drops),
        }
    }
}

/// The hash that `hash()` notes: never 0, the same for all fragments of a packet.
fn dp_hash<P: Packet>(packet: &mut P, over: HashOver, basis: u32) -> u32 {
    let layers = packet.layers();
    let key = extract(packet, PortNo(0)).unwrap_or_default();
    packet.set_layers(layers);
    let get = |field: &Field| key.get(field);
    let pair = |a: &Field, b: &Field| match over {
        HashOver::L4 => (get(a), get(b)),
        HashOver::SymmetricL4 => (get(a).min(get(b)), get(a).max(get(b))),
    };
    let is_ip = [ETH_IPV4.into(), ETH_IPV6.into()].contains(&get(&Field::ETH_TYPE));
    let with_ports = [proto::TCP.into(), proto::UDP.into(), proto::SCTP.into()];
    let has_ports =
        is_ip && with_ports.contains(&get(&Field::IP_PROTO)) && get(&Field::IP_FRAG) == 0;
    let ports = if has_ports { pair(&Field::TP_SRC, &Field::TP_DST) } else { (0, 0) };
    let mut hash = u64::from(basis);
    for (a, b) in [
        pair(&Field::ETH_SRC, &Field::ETH_DST),
        (get(&Field::ETH_TYPE), get(&Field::IP_PROTO)),
        pair(&Field::IPV4_SRC, &Field::IPV4_DST),
        pair(&Field::IPV6_SRC, &Field::IPV6_DST),
        ports,
    ] {
        let halves = [(a >> 64), a, (b >> 64), b];
        #[allow(clippy::cast_possible_truncation, reason = "takes both halves")]
        let words = halves.map(|half| half as u64);
        hash = hash_words(hash, &words);
    }
    short(hash).max(1)
}

/// Bytes of the two Ethernet addresses, before the tags.
const ADDRESSES: usize = 12;

/// How far a tag moves the headers after it.
const SHIFT: i16 = 4;

fn push_vlan<P: Packet>(packet: &mut P, tpid: u16, tci: u16) -> Result<(), DropReason> {
    if packet.head().len() < ADDRESSES {
        return Err(DropReason::BadAction);
    }
    packet.push(TAG_LEN).map_err(|_| DropReason::NoHeadroom)?;
    let [t0, t1] = tpid.to_be_bytes();
    let [c0, c1] = (tci & !TCI_PRESENT).to_be_bytes();
    if let Some(head) = packet.head_mut().get_mut(..ADDRESSES + TAG_LEN) {
        head.copy_within(TAG_LEN.., 0);
        if let Some(tag) = head.last_chunk_mut() {
            *tag = [t0, t1, c0, c1];
        }
    }
    move_layers(packet, SHIFT);
    Ok(())
}

fn pop_vlan<P: Packet>(packet: &mut P) -> Result<(), DropReason> {
    tag_of(packet.head()).ok_or(DropReason::BadAction)?;
    if let Some(head) = packet.head_mut().get_mut(..ADDRESSES + TAG_LEN) {
        head.copy_within(..ADDRESSES, TAG_LEN);
    }
    if !packet.pull(TAG_LEN) {
        return Err(DropReason::BadAction);
    }
    move_layers(packet, -SHIFT);
    Ok(())
}

/// Where the control information of the outer tag is, if there is a tag and something after it.
pub(crate) fn tag_of(head: &[u8]) -> Option<usize> {
    let is_tag = matches!(be16(head, ADDRESSES)?, ETH_VLAN | ETH_QINQ);
    (is_tag && head.len() >= ETH_LEN + TAG_LEN).then_some(ADDRESSES + 2)
}

fn move_layers<P: Packet>(packet: &mut P, by: i16) {
    let Layers { l3, l4 } = packet.layers();
    let moved = |at: u16| if at == 0 { 0 } else { at.saturating_add_signed(by) };
    packet.set_layers(Layers { l3: moved(l3), l4: moved(l4) });
}

#[cfg(test)]
mod tests;
