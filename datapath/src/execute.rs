//! Running actions on packets.
//!
//! A packet that an action does not fit is dropped with its reason and no further output; what was
//! sent before stays sent.

use crate::set_field::set_field;
use crate::wire::{ETH_LEN, ETH_QINQ, ETH_VLAN, TAG_LEN, TCI_PRESENT, be16};
use crate::{Action, CopyPacket, DatapathStats, DropReason, Layers, Outputs, Packet};

/// Where packets end up, and where copies come from.
#[derive(Debug)]
pub(crate) struct Sink<'a, P, C> {
    pub(crate) outputs: &'a mut Outputs<P>,
    pub(crate) copies: &'a mut C,
    pub(crate) stats: &'a DatapathStats,
}

impl<P, C> Sink<'_, P, C> {
    /// Drops all of `packets`.
    pub(crate) fn discard_all(&mut self, packets: impl Iterator<Item = P>, reason: DropReason) {
        packets.for_each(|packet| self.outputs.discard(packet, reason, &self.stats.drops));
    }
}

/// Runs the actions of one flow on each of its packets.
#[inline]
pub(crate) fn execute<P: Packet, C: CopyPacket<P>>(
    actions: &[Action],
    packets: impl Iterator<Item = P>,
    sink: &mut Sink<'_, P, C>,
) {
    if let [Action::Output(port)] = actions {
        return sink.outputs.send_all(*port, packets, &sink.stats.drops);
    }
    // The last output takes the packet itself; what comes after it has no effect.
    let last = actions.iter().rposition(|action| matches!(action, Action::Output(_)));
    let Some((before, Some(Action::Output(port)))) =
        last.and_then(|at| Some((actions.get(..at)?, actions.get(at))))
    else {
        return sink.discard_all(packets, DropReason::Action);
    };
    for mut packet in packets {
        match before.iter().try_for_each(|action| run(action, &mut packet, sink)) {
            Ok(()) => sink.outputs.send(*port, packet, &sink.stats.drops),
            Err(reason) => sink.outputs.discard(packet, reason, &sink.stats.drops),
        }
    }
}

/// Runs one action on a packet that is still needed; an error says why it must be dropped.
fn run<P: Packet, C: CopyPacket<P>>(
    action: &Action,
    packet: &mut P,
    sink: &mut Sink<'_, P, C>,
) -> Result<(), DropReason> {
    match action {
        Action::Output(port) => {
            sink.stats.copies.add(1);
            match sink.copies.copy(packet) {
                Some(copy) => sink.outputs.send(*port, copy, &sink.stats.drops),
                None => sink.stats.drops.add(DropReason::NoFrame, 1),
            }
            Ok(())
        }
        Action::PushVlan { tpid, tci } => push_vlan(packet, *tpid, *tci),
        Action::PopVlan => pop_vlan(packet),
        Action::Set { field, value, mask } => set_field(packet, field, *value, *mask),
    }
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
