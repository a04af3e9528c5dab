//! What the datapath needs of a packet: bytes in front, room before them, copies on request.
//!
//! A packet is 1 to [`MAX_FRAMES`] frames, or more as long as it is to be cut. Headers are parsed and rewritten in the first frame only;
//! the rest is payload that nobody here touches. A packet is move-only and must end in an output
//! bin or in the drop bin (see [`Outputs`](crate::Outputs)): dropping the value leaks its frames.

use core::fmt;

/// The most frames one packet may have: what the kernel transmits as one skb (MAX_SKB_FRAGS + 1).
pub const MAX_FRAMES: usize = 18;

/// Where parsing found the headers; offsets from the start of the packet, 0 when absent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Layers {
    /// Network header (IPv4, IPv6, ARP).
    pub l3: u16,
    /// Transport header (TCP, UDP, SCTP, ICMP, ICMPv6); absent in later fragments.
    pub l4: u16,
}

/// There is not enough room before the packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoHeadroom;

impl fmt::Display for NoHeadroom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no headroom left before the packet")
    }
}

/// A packet of one or more frames, exclusively owned.
pub trait Packet {
    /// The bytes in the first frame. Never empty unless the packet is.
    fn head(&self) -> &[u8];

    /// The bytes in the first frame, to rewrite.
    fn head_mut(&mut self) -> &mut [u8];

    /// Length of the whole packet in bytes, over all frames.
    fn len(&self) -> usize;

    /// True for a packet without bytes.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many frames the packet has, at least 1.
    fn n_frames(&self) -> usize;

    /// Calls `f` with the bytes of each frame in order.
    fn for_each_segment(&self, f: &mut dyn FnMut(&[u8]));

    /// Makes the packet `n` bytes longer in front; the new bytes are unspecified.
    ///
    /// # Errors
    /// [`NoHeadroom`] when fewer than `n` bytes are free before the packet; nothing has changed.
    fn push(&mut self, n: usize) -> Result<(), NoHeadroom>;

    /// Removes the first `n` bytes; at most what the first frame has less one byte.
    /// Returns false and changes nothing when it has not that many.
    #[must_use]
    fn pull(&mut self, n: usize) -> bool;

    /// Where the headers are, as the last parse noted.
    fn layers(&self) -> Layers;

    /// Notes where the headers are.
    fn set_layers(&mut self, layers: Layers);
}

/// Makes copies of packets and takes frames back; on the packet path this is the thread's own cache of
/// frames.
pub trait CopyPacket<P> {
    /// A full copy (all frames, layers included), or `None` when no frame is free.
    fn copy(&mut self, packet: &P) -> Option<P>;

    /// Shortens a packet to its first `len` bytes, at least 1, and takes back the frames that it does
    /// not need any more; does nothing to a packet that is not longer.
    fn truncate(&mut self, packet: &mut P, len: usize);
}
