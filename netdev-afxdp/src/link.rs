//! What a port's queues must know of its interface: carrier and MTU, kept current by the main thread.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

/// Ethernet header, bytes.
const ETHERNET: u32 = 14;
/// One 802.1Q tag, bytes.
const TAG: u32 = 4;

/// Carrier and MTU of one interface, shared by all its queues.
#[derive(Debug)]
pub struct LinkState {
    carrier: AtomicBool,
    mtu: AtomicU32,
}

impl LinkState {
    /// As the interface is now.
    #[must_use]
    pub fn new(carrier: bool, mtu: u32) -> Self {
        Self { carrier: AtomicBool::new(carrier), mtu: AtomicU32::new(mtu) }
    }

    /// True while something is at the other end.
    #[inline]
    #[must_use]
    pub fn carrier(&self) -> bool {
        self.carrier.load(Relaxed)
    }

    /// Notes a change of the carrier. Without it packets are dropped instead of queued.
    pub fn set_carrier(&self, on: bool) {
        self.carrier.store(on, Relaxed);
    }

    /// The largest network packet, bytes.
    #[inline]
    #[must_use]
    pub fn mtu(&self) -> u32 {
        self.mtu.load(Relaxed)
    }

    /// Notes a change of the MTU.
    pub fn set_mtu(&self, mtu: u32) {
        self.mtu.store(mtu, Relaxed);
    }

    /// True when a frame of `len` bytes that starts with `head` may be sent: the MTU and an Ethernet
    /// header, and one 802.1Q tag beyond if there is one.
    #[inline]
    #[must_use]
    pub fn fits(&self, len: usize, head: &[u8]) -> bool {
        let plain = self.mtu().saturating_add(ETHERNET) as usize;
        len <= plain || (len <= plain + TAG as usize && is_tagged(head))
    }

    /// The longest frame that a link with this MTU brings: with up to two tags.
    pub(crate) fn longest_received(&self) -> u32 {
        self.mtu().saturating_add(ETHERNET + 2 * TAG)
    }
}

/// How long a frame that starts with `head` may be at this MTU.
pub(crate) fn frame_limit(mtu: u32, head: &[u8]) -> usize {
    mtu.saturating_add(if is_tagged(head) { ETHERNET + TAG } else { ETHERNET }) as usize
}

/// The longest frame that an interface with this MTU sends.
pub(crate) fn max_frame_len(mtu: u32) -> u32 {
    mtu.saturating_add(ETHERNET + TAG)
}

/// The largest MTU whose frames have at most `len` bytes.
pub(crate) fn max_mtu(len: u32) -> u32 {
    len.saturating_sub(ETHERNET + TAG)
}

fn is_tagged(head: &[u8]) -> bool {
    matches!(head.get(12..14), Some([0x81, 0x00] | [0x88, 0xa8]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_tag_does_not_count_against_the_mtu() {
        let link = LinkState::new(true, 1500);
        let mut head = [0; 60];
        assert!(link.fits(1514, &head));
        assert!(!link.fits(1515, &head));
        head[12] = 0x81;
        assert!(link.fits(1518, &head));
        assert!(!link.fits(1519, &head));
        assert!(!link.fits(1518, &[]));
        link.set_mtu(9000);
        assert!(link.fits(9014, &[]));
    }
}
