//! Whether a flow makes sense, before it is inserted.

use core::fmt;

use super::table::{self, Need};
use crate::wire::{ETH_LEN, ETH_QINQ, ETH_VLAN};
use crate::{Action, Field, Match, PortNo};

/// Why a flow cannot be inserted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InvalidFlow {
    /// The match looks at a field that packets like that need not have.
    Match {
        /// The field.
        field: &'static str,
        /// What the match has to say for the field to be there.
        needs: &'static str,
    },
    /// An action rewrites a field that packets like that need not have.
    Set {
        /// The field.
        field: &'static str,
        /// What the match has to say.
        needs: &'static str,
    },
    /// This field cannot be rewritten.
    ReadOnly {
        /// The field.
        field: &'static str,
    },
    /// A set without bits, or with bits beyond the field's width or its mask.
    Value {
        /// The field.
        field: &'static str,
    },
    /// Such tags cannot be pushed.
    TagKind {
        /// The tag's Ethertype.
        tpid: u16,
    },
    /// More tags are pushed than there is room for.
    TooManyTags,
    /// `pop_vlan`, and the match does not say that there is a tag.
    NoTag,
    /// There can be no such port.
    Port {
        /// The port.
        port: PortNo,
    },
    /// `trunc()` leaves less than an Ethernet header.
    Trunc {
        /// What it leaves.
        len: u32,
    },
    /// After `trunc()` comes nothing that it could apply to.
    TruncAlone {
        /// What it leaves.
        len: u32,
    },
    /// `recirc(0)` would be the first lookup again.
    RecircZero,
    /// There is an action after `recirc()`.
    AfterRecirc {
        /// The action.
        action: &'static str,
    },
    /// There is no such meter.
    Meter {
        /// Its number.
        id: u32,
    },
    /// Too many lists within each other.
    Depth {
        /// The action with the list that is one too many.
        action: &'static str,
    },
}

/// How many tags one list may add: with as many in each further lookup there is still room before the packet.
const MAX_PUSHED: usize = 4;

/// The least that `trunc()` may leave: an Ethernet header.
#[allow(clippy::cast_possible_truncation, reason = "14")]
const MIN_TRUNC: u32 = ETH_LEN as u32;

impl fmt::Display for InvalidFlow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Match { field, needs } => {
                write!(f, "matching {field} needs {needs} in the match")
            }
            Self::Set { field, needs } => write!(f, "setting {field} needs {needs} in the match"),
            Self::ReadOnly { field } => write!(f, "{field} cannot be rewritten"),
            Self::Value { field } => write!(f, "value or mask does not fit {field}"),
            Self::TagKind { tpid } => {
                write!(f, "push_vlan cannot make a tag {tpid:#06x} (only 0x8100 and 0x88a8)")
            }
            Self::TooManyTags => write!(f, "more than {MAX_PUSHED} tags pushed"),
            Self::NoTag => write!(f, "pop_vlan needs {} in the match", Need::Tag.text()),
            Self::Port { port } => {
                write!(f, "there can be no port {port} (1 to {} are allowed)", PortNo::MAX)
            }
            Self::Trunc { len } => {
                write!(f, "trunc({len}) leaves no Ethernet header (at least {MIN_TRUNC})")
            }
            Self::TruncAlone { len } => {
                write!(f, "trunc({len}) needs an output or userspace() after it in its list")
            }
            Self::RecircZero => f.write_str("recirc(0) is the first lookup; use another number"),
            Self::AfterRecirc { action } => {
                write!(f, "{action} comes after recirc(), which must be the last of its list")
            }
            Self::Meter { id } => {
                write!(f, "meter({id}) does not exist; add it first")
            }
            Self::Depth { action } => {
                let most = Action::MAX_DEPTH;
                write!(f, "{action}() is in too many others (at most {most} lists in each other)")
            }
        }
    }
}

impl core::error::Error for InvalidFlow {}

/// Checks that each field that `m` matches or an action rewrites is in every packet that `m` matches,
/// and that the actions can be done in that order. `has_meter` tells which meters there are.
///
/// # Errors
/// [`InvalidFlow`] says what does not fit.
pub fn validate(
    m: &Match,
    actions: &[Action],
    has_meter: &dyn Fn(u32) -> bool,
) -> Result<(), InvalidFlow> {
    for field in Field::ALL.iter().filter(|field| m.mask.get(field) != 0) {
        let groups = table::GROUPS.iter().filter(|group| group.has(field));
        let is_there = |need: Need| match need {
            Need::Tag => true,
            // Whether there is a second one may be left open.
            Need::TwoTags => Need::Tag.holds(m),
            Need::Nothing | Need::Eth(_) | Need::Ip(..) | Need::Nd => need.holds(m),
        };
        missing(groups.map(|group| group.need), is_there)
            .map_err(|needs| InvalidFlow::Match { field: field.name, needs })?;
    }
    let n_tags = [Need::Tag, Need::TwoTags].into_iter().filter(|need| need.holds(m)).count();
    Checker { m, has_meter, n_tags }.list(actions, n_tags, 0)
}

/// What all lists of a flow have in common.
struct Checker<'a> {
    m: &'a Match,
    has_meter: &'a dyn Fn(u32) -> bool,
    /// With how many tags the packets come.
    n_tags: usize,
}

impl Checker<'_> {
    /// Checks a list for packets with `tags` tags, in `depth` others.
    fn list(&self, actions: &[Action], mut tags: usize, depth: usize) -> Result<(), InvalidFlow> {
        // What a trunc() leaves that nothing has used yet.
        let mut trunc = None;
        let mut actions = actions.iter().peekable();
        while let Some(action) = actions.next() {
            match action {
                Action::Output(port) if *port == PortNo(0) || *port > PortNo::MAX => {
                    return Err(InvalidFlow::Port { port: *port });
                }
                Action::Output(_) | Action::Userspace(_) => trunc = None,
                Action::PushVlan { tpid: ETH_VLAN | ETH_QINQ, .. } => {
                    tags += 1;
                    if tags > self.n_tags + MAX_PUSHED {
                        return Err(InvalidFlow::TooManyTags);
                    }
                }
                Action::PushVlan { tpid, .. } => return Err(InvalidFlow::TagKind { tpid: *tpid }),
                Action::PopVlan => tags = tags.checked_sub(1).ok_or(InvalidFlow::NoTag)?,
                Action::Set { field, value, mask } => {
                    validate_set(self.m, field, *value, *mask, tags)?;
                }
                Action::Trunc(len) => match trunc.replace(*len) {
                    _ if *len < MIN_TRUNC => return Err(InvalidFlow::Trunc { len: *len }),
                    Some(len) => return Err(InvalidFlow::TruncAlone { len }),
                    None => {}
                },
                Action::Recirc(0) => return Err(InvalidFlow::RecircZero),
                Action::Recirc(_) => {
                    if let Some(after) = actions.peek() {
                        return Err(InvalidFlow::AfterRecirc { action: after.name() });
                    }
                }
                Action::Meter(id) if !(self.has_meter)(*id) => {
                    return Err(InvalidFlow::Meter { id: *id });
                }
                Action::Meter(_) | Action::Hash { .. } => {}
                Action::Clone(_) | Action::Sample { .. } | Action::CheckPktLen { .. } => {
                    if depth >= Action::MAX_DEPTH {
                        return Err(InvalidFlow::Depth { action: action.name() });
                    }
                    action.nested().try_for_each(|list| self.list(list, tags, depth + 1))?;
                }
            }
        }
        trunc.map_or(Ok(()), |len| Err(InvalidFlow::TruncAlone { len }))
    }
}

fn validate_set(
    m: &Match,
    field: &'static Field,
    value: u128,
    mask: u128,
    tags: usize,
) -> Result<(), InvalidFlow> {
    let members =
        || table::GROUPS.iter().flat_map(|group| group.members.iter().map(move |m| (group, m)));
    let rewriting = || members().filter(|(_, member)| member.rewritable && member.field == field);
    let writable = rewriting().fold(0, |bits, (_, member)| bits | member.max() << member.shift);
    let field = field.name;
    if writable == 0 {
        return Err(InvalidFlow::ReadOnly { field });
    }
    if mask == 0 || mask & !writable != 0 || value & !mask != 0 {
        return Err(InvalidFlow::Value { field });
    }
    let is_there = |need: Need| if need == Need::Tag { tags > 0 } else { need.holds(m) };
    missing(rewriting().map(|(group, _)| group.need), is_there)
        .map_err(|needs| InvalidFlow::Set { field, needs })
}

/// An error with the first need when none of them is there.
fn missing(
    mut needs: impl Iterator<Item = Need>,
    is_there: impl Fn(Need) -> bool,
) -> Result<(), &'static str> {
    let Some(first) = needs.next() else { return Ok(()) };
    if is_there(first) || needs.any(is_there) { Ok(()) } else { Err(first.text()) }
}
