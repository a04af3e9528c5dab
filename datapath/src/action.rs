//! What is done to the packets of a flow.

use crate::{Field, PortNo};

/// One action; a flow has a list of them, and an empty list drops.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Send (a copy, unless nothing needs the packet after it) to a port. Sending to the port on which
    /// the packet arrived is the rule author's business; NORMAL and FLOOD never do.
    Output(PortNo),
    /// Insert a tag after the Ethernet addresses.
    PushVlan {
        /// 0x8100 or 0x88a8.
        tpid: u16,
        /// Priority and VLAN identifier; bit 12 is ignored.
        tci: u16,
    },
    /// Remove the outer tag; without one the packet is dropped as a bad action.
    PopVlan,
    /// Rewrite the bits of a header field that `mask` has, checksums included.
    Set {
        /// Which field; it must be in the packet (the insertion of the flow checks that the match says so).
        field: &'static Field,
        /// The new bits.
        value: u128,
        /// Which bits.
        mask: u128,
    },
    /// Only the first so many bytes go to the next output or `userspace()` of this list.
    Trunc(u32),
    /// Note a hash of the packet, which a flow after `recirc()` can match as `dp_hash`.
    Hash {
        /// Of what.
        over: HashOver,
        /// Other bases give other hashes.
        basis: u32,
    },
    /// Look the packet, as it is now, up once more, with this `recirc_id`; not 0.
    Recirc(u32),
    /// Do these to a copy.
    Clone(Box<[Self]>),
    /// Do these to a copy of some packets, at random.
    Sample {
        /// How many of `u32::MAX`.
        probability: u32,
        /// What is done to them.
        actions: Box<[Self]>,
    },
    /// Do one or the other to a copy, by the length of the packet in bytes.
    CheckPktLen {
        /// The length that is compared.
        size: u16,
        /// For longer packets.
        greater: Box<[Self]>,
        /// For the others.
        less_equal: Box<[Self]>,
    },
    /// Drop the packet if it exceeds the rate of this meter; see [`Meters`](crate::Meters).
    Meter(u32),
    /// Queue a copy for the reader at the control socket.
    Userspace(Box<Userspace>),
}

/// What `hash()` looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HashOver {
    /// Addresses, protocol and ports.
    L4,
    /// The same, without regard to which is source and which destination.
    SymmetricL4,
}

/// What is told to the reader of a packet that `userspace()` queued.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Userspace {
    /// Whatever the author wants to tell readers apart by.
    pub pid: u32,
    /// What OpenFlow says about packets for a controller.
    pub controller: Option<Controller>,
}

/// Why a packet goes to a controller, and how much of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Controller {
    /// OpenFlow's reason: 0 no match, 1 an action.
    pub reason: u16,
    /// Where an interrupted translation would go on.
    pub recirc_id: u32,
    /// The cookie of the rule.
    pub rule_cookie: u64,
    /// Which controller.
    pub controller_id: u16,
    /// The most bytes that it wants.
    pub max_len: u16,
}

impl Default for Controller {
    /// By an action, the whole packet.
    fn default() -> Self {
        Self { reason: 1, recirc_id: 0, rule_cookie: 0, controller_id: 0, max_len: u16::MAX }
    }
}

/// Names each variant once, so that none can lack a name.
macro_rules! names {
    ($($pattern:pat => $name:literal,)+) => {
        impl Action {
            /// The names of all actions.
            pub const NAMES: &'static [&'static str] = &[$($name,)+];

            /// What it is called in messages; a word of the text form, but for `output`.
            #[must_use]
            pub const fn name(&self) -> &'static str {
                match self { $($pattern => $name,)+ }
            }
        }
    };
}

names! {
    Self::Output(_) => "output",
    Self::PushVlan { .. } => "push_vlan",
    Self::PopVlan => "pop_vlan",
    Self::Set { .. } => "set",
    Self::Trunc(_) => "trunc",
    Self::Hash { .. } => "hash",
    Self::Recirc(_) => "recirc",
    Self::Clone(_) => "clone",
    Self::Sample { .. } => "sample",
    Self::CheckPktLen { .. } => "check_pkt_len",
    Self::Meter(_) => "meter",
    Self::Userspace(_) => "userspace",
}

impl Action {
    /// The most lists within each other, in clone(), sample() and check_pkt_len().
    pub const MAX_DEPTH: usize = 8;

    /// The lists within it.
    pub fn nested(&self) -> impl Iterator<Item = &[Self]> {
        let lists = match self {
            Self::Clone(actions) | Self::Sample { actions, .. } => [Some(actions), None],
            Self::CheckPktLen { greater, less_equal, .. } => [Some(greater), Some(less_equal)],
            Self::Output(_)
            | Self::PushVlan { .. }
            | Self::PopVlan
            | Self::Set { .. }
            | Self::Trunc(_)
            | Self::Hash { .. }
            | Self::Recirc(_)
            | Self::Meter(_)
            | Self::Userspace(_) => [None, None],
        };
        lists.into_iter().flatten().map(AsRef::as_ref)
    }

    /// True when it does something beside changing the packet for what follows.
    pub(crate) fn has_effect(&self) -> bool {
        match self {
            Self::Output(_) | Self::Recirc(_) | Self::Meter(_) | Self::Userspace(_) => true,
            Self::PushVlan { .. }
            | Self::PopVlan
            | Self::Set { .. }
            | Self::Trunc(_)
            | Self::Hash { .. } => false,
            Self::Clone(_) | Self::Sample { .. } | Self::CheckPktLen { .. } => {
                self.nested().flatten().any(Self::has_effect)
            }
        }
    }
}
