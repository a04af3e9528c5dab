//! Flows as text, in Open vSwitch's datapath flow syntax.
//!
//! Parsing and printing are inverse: one table (`text/table.rs`) says which member of which group stands for
//! which bits of which field, and what must match for it to be meant. A match that says nothing of an
//! Ethertype says nothing of tags either; with one, no `vlan()` means untagged, as in Open vSwitch. A second
//! tag is written inside the first: `eth_type(0x88a8),vlan(vid=1),encap(eth_type(0x8100),vlan(vid=2),encap(…))`.
//! Bits of a tag that this cannot express are written `vlan(tci=0x0000/0x1000)`.

mod action;
mod check;
mod error;
mod flow;
mod meter;
mod scan;
mod table;
mod value;

pub use action::{parse_actions, print_actions};
pub use check::{InvalidFlow, validate};
pub use error::{ErrorKind, ParseError};
pub use flow::{parse_match, print_key, print_match};
pub use meter::parse_meter;
pub use table::{members, rewritable};

use crate::PortNo;

/// Names of ports, for those who have them.
pub trait PortNames {
    /// The port with this name.
    fn number(&self, name: &str) -> Option<PortNo>;

    /// The name to print for a port; its number is printed otherwise.
    fn name(&self, port: PortNo) -> Option<String>;
}

/// Ports are numbers only.
#[derive(Clone, Copy, Debug, Default)]
pub struct NumbersOnly;

impl PortNames for NumbersOnly {
    fn number(&self, _: &str) -> Option<PortNo> {
        None
    }

    fn name(&self, _: PortNo) -> Option<String> {
        None
    }
}
#[cfg(test)]
mod tests;
