//! One decision: from a key to (mask, actions), as a straight walk over a context that notes what it
//! looks at.
//!
//! The context keeps the key as the packet would now be, the bits that actions have overwritten with
//! constants, and the bits the walk looked at. Looking at a bit puts it into the mask unless it was
//! overwritten before: then its value is the same for every packet that came this way.

use crate::{
    Action, Field, FlowKey, FlowMask, MacAddr, Nanos, PortNo, Purpose, Translation, VlanId,
};

use super::fdb::Change;
use super::topology::Bridge;

/// Set in `vlan_tci` when there is a tag.
const TAG: u128 = 0x1000;
/// The VLAN identifier's bits in `vlan_tci`.
const VID: u128 = 0x0fff;

/// A decision being made.
#[derive(Debug)]
pub(super) struct Context<'a> {
    bridge: &'a Bridge,
    in_port: PortNo,
    purpose: Purpose,
    now: Nanos,
    /// The packet as the actions so far have made it.
    key: FlowKey,
    /// What was looked at.
    mask: FlowMask,
    actions: Vec<Action>,
    keep: bool,
    /// What learning did to the MAC table.
    pub(super) change: Change,
}

/// What every decision looks at, and a packet without a bridge only.
pub(super) fn always() -> FlowMask {
    let mut mask = FlowMask::default();
    for field in [&Field::IN_PORT, &Field::RECIRC_ID, &Field::ETH_TYPE] {
        mask.add(field);
    }
    mask
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
            mask: always(),
            actions: Vec::new(),
            keep: true,
            change: Change::None,
        }
    }

    pub(super) fn finish(self) -> Translation {
        Translation { mask: self.mask, actions: self.actions, keep: self.keep }
    }

    /// The value of some bits of a field; they matter from now on.
    fn look(&mut self, field: &Field, bits: u128) -> u128 {
        self.mask.add_bits(field, bits);
        self.key.get(field) & bits
    }

    fn look_mac(&mut self, field: &Field) -> MacAddr {
        let value = self.look(field, field.max());
        MacAddr::from_u64(u64::try_from(value).unwrap_or(0))
    }

    /// A learning switch: to where the destination was last seen, else to everybody.
    ///
    /// A gratuitous ARP needs no rule of its own: it is learned from and flooded like any broadcast,
    /// so a host that moved is found at its new port with the first one.
    pub(super) fn normal(&mut self) {
        let dst = self.look_mac(&Field::ETH_DST);
        if is_link_local(dst) {
            return;
        }
        let src = self.look_mac(&Field::ETH_SRC);
        let vid = self.look(&Field::VLAN_TCI, TAG | VID) & VID;
        let vlan = VlanId(u16::try_from(vid).unwrap_or(0));
        match self.learn_and_find((vlan, src), (vlan, dst)) {
            Some(port) if port == self.in_port => {}
            Some(port) if self.bridge.has(port) => self.output(port),
            _ => self.flood(),
        }
    }

    /// Both steps under one lock.
    fn learn_and_find(&mut self, src: (VlanId, MacAddr), dst: (VlanId, MacAddr)) -> Option<PortNo> {
        let mut fdb = self.bridge.fdb();
        match self.purpose {
            Purpose::Packet => {
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
        for &port in &self.bridge.ports {
            if port != self.in_port {
                self.actions.push(Action::Output(port));
            }
        }
    }

    fn output(&mut self, port: PortNo) {
        self.actions.push(Action::Output(port));
    }
}

/// 01:80:c2:00:00:00 to 0f, which no bridge forwards (IEEE 802.1Q, 8.6.3).
fn is_link_local(mac: MacAddr) -> bool {
    mac.to_u64() & !0xf == 0x0180_c200_0000
}
