//! What is done to the packets of a flow.

use crate::{Field, PortNo};

/// One action; a flow has a list of them, and an empty list drops.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Send (a copy, unless it is the last action) to a port. Sending to the port on which the packet
    /// arrived is the rule author's business; NORMAL and FLOOD never do.
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
}
