//! The VLAN tags of a packet while rules act on it, and the fewest actions that make them so.
//!
//! The key shows the outer tag only. Below the tags that rules pushed lies the packet's own outer tag, if
//! it had one and it was not stripped; what it carries inside is not seen: a packet with two tags whose
//! outer one was stripped is taken for untagged.

use crate::{Action, Field};

/// Set in the control information of a tag that is there.
pub(super) const TAG: u16 = 0x1000;

/// A tag that a rule pushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pushed {
    /// Tells it from others.
    id: usize,
    tpid: u16,
    tci: u16,
}

/// The tags at one time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Tags {
    /// The packet's own outer tag is known not to be there.
    bare: bool,
    /// Unless it is bare: bits of it that were overwritten, and with what.
    written: u16,
    tci: u16,
    /// On top of it, the outermost last.
    pushed: Vec<Pushed>,
    next_id: usize,
}

impl Tags {
    /// The most tags that rules may have pushed at a time.
    pub(super) const MAX: usize = 4;

    /// The bits of the outer tag that do not depend on the packet, and their value.
    pub(super) fn outer(&self) -> (u16, u16) {
        match self.pushed.last() {
            Some(tag) => (u16::MAX, tag.tci),
            None if self.bare => (u16::MAX, 0),
            None => (self.written, self.tci),
        }
    }

    /// True when it depends on the packet whether there is a tag.
    pub(super) fn depends(&self) -> bool {
        self.pushed.is_empty() && !self.bare
    }

    /// The packet has no tag of its own.
    pub(super) fn set_bare(&mut self) {
        self.bare = true;
    }

    /// Puts a tag on; false when there are too many.
    #[must_use]
    pub(super) fn push(&mut self, tpid: u16, tci: u16) -> bool {
        let room = self.pushed.len() < Self::MAX;
        if room {
            self.pushed.push(Pushed { id: self.next_id, tpid, tci: tci | TAG });
            self.next_id += 1;
        }
        room
    }

    /// Takes the outer tag off, if there is one.
    pub(super) fn pop(&mut self) {
        if self.pushed.pop().is_none() {
            self.bare = true;
        }
    }

    /// Overwrites bits of the outer tag, which is there.
    pub(super) fn set(&mut self, value: u16, mask: u16) {
        if let Some(tag) = self.pushed.last_mut() {
            tag.tci = tag.tci & !mask | value & mask;
        } else {
            self.written |= mask;
            self.tci = self.tci & !mask | value & mask;
        }
    }

    /// Adds to `actions` what makes a packet whose tags are `from` have these. `from` differs only by
    /// what was done since.
    pub(super) fn commit(&self, from: &Self, actions: &mut Vec<Action>) {
        let both = self.pushed.iter().zip(&from.pushed);
        let n_kept = both.clone().take_while(|(new, old)| new.id == old.id).count();
        let n_popped = from.pushed.len() - n_kept + usize::from(self.bare && !from.bare);
        actions.extend((0..n_popped).map(|_| Action::PopVlan));
        // Only a tag that was the outer one can have been written to.
        let (mask, value) = match both.take(n_kept).next_back() {
            Some((new, old)) => (new.tci ^ old.tci, new.tci),
            None if self.bare => (0, 0),
            None => (self.written & (!from.written | self.tci ^ from.tci), self.tci),
        };
        if mask != 0 {
            let (value, mask) = ((value & mask).into(), mask.into());
            actions.push(Action::Set { field: &Field::VLAN_TCI, value, mask });
        }
        let added = self.pushed.iter().skip(n_kept);
        actions.extend(added.map(|tag| Action::PushVlan { tpid: tag.tpid, tci: tag.tci & !TAG }));
    }
}
