//! The VLAN tags of a packet while rules act on it, and the fewest actions that make them so.
//!
//! Rules see the outer tag only. Below the tags that rules pushed lie those two of the packet's own that the
//! key has, as far as they are there and were not stripped. What a third one holds is not seen: a packet of
//! which two tags were stripped is taken for untagged.

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
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tags {
    /// So many tags the packet came with at most, as far as known.
    n_own: usize,
    /// So many of these were taken off.
    n_stripped: usize,
    /// Bits that were overwritten of the first one that was not, and with what.
    written: u16,
    tci: u16,
    /// On top of it, the outermost last.
    pushed: Vec<Pushed>,
    next_id: usize,
}

impl Default for Tags {
    fn default() -> Self {
        let n_own = Field::TAGS.len();
        Self { n_own, n_stripped: 0, written: 0, tci: 0, pushed: Vec::new(), next_id: 0 }
    }
}

impl Tags {
    /// The most tags that rules may have pushed at a time.
    pub(super) const MAX: usize = 4;

    /// The bits of the outer tag that do not depend on the packet, and their value.
    pub(super) fn outer(&self) -> (u16, u16) {
        match self.pushed.last() {
            Some(tag) => (u16::MAX, tag.tci),
            None if self.is_bare() => (u16::MAX, 0),
            None => (self.written, self.tci),
        }
    }

    /// Which of the packet's own tags is the outer one, if it depends on the packet whether there is one.
    pub(super) fn own(&self) -> Option<usize> {
        (self.pushed.is_empty() && !self.is_bare()).then_some(self.n_stripped)
    }

    /// There is no more than these.
    pub(super) fn set_bare(&mut self) {
        self.n_own = self.n_stripped;
    }

    /// The packet came with no more than `other` knows.
    pub(super) fn know(&mut self, other: &Self) {
        self.n_own = other.n_own;
    }

    fn is_bare(&self) -> bool {
        self.n_stripped >= self.n_own
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
        if self.pushed.pop().is_none() && !self.is_bare() {
            (self.n_stripped, self.written, self.tci) = (self.n_stripped + 1, 0, 0);
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
        let n_stripped = self.n_stripped - from.n_stripped;
        let n_popped = from.pushed.len() - n_kept + n_stripped;
        actions.extend((0..n_popped).map(|_| Action::PopVlan));
        // Only a tag that was the outer one can have been written to.
        let (mask, value) = match both.take(n_kept).next_back() {
            Some((new, old)) => (new.tci ^ old.tci, new.tci),
            None if n_stripped > 0 => (self.written, self.tci),
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
