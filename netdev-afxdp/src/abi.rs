//! What the kernel's headers (linux/if_xdp.h) define and the libc crate does not have yet.

/// Descriptors per `sendto` in copy mode; setsockopt only, since Linux 6.17.
pub(crate) const XDP_MAX_TX_SKB_BUDGET: libc::c_int = 9;

/// Packets handed to the device together in copy mode; setsockopt only. Proposed, in no released kernel yet,
/// so the number is not settled; nothing is asked of the kernel unless the user wants it.
pub(crate) const XDP_GENERIC_XMIT_BATCH: libc::c_int = 10;

/// What the kernel sends per call when it knows no budget option, and the least that it accepts.
pub(crate) const DEFAULT_TX_BUDGET: u32 = 32;

/// Bytes that the kernel keeps free in front of a received packet, beyond the UMEM's headroom
/// (XDP_PACKET_HEADROOM).
pub(crate) const XDP_PACKET_HEADROOM: u32 = 256;

/// Size of `struct xsk_tx_metadata`, which lies just before a packet that is sent: flags, then
/// csum_start, csum_offset, padding, launch time.
pub(crate) const TX_METADATA_LEN: u32 = 24;

/// mbind mode: prefer the node, take another when it is full (linux/mempolicy.h).
pub(crate) const MPOL_PREFERRED: libc::c_int = 1;

/// One descriptor of the rx and tx rings (`struct xdp_desc`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Desc {
    /// Where the data starts, from the start of the packet memory.
    pub(crate) addr: u64,
    /// Bytes of data.
    pub(crate) len: u32,
    /// [`Desc::CONTINUED`], [`Desc::METADATA`].
    pub(crate) options: u32,
}

impl Desc {
    /// The packet goes on in the next descriptor (XDP_PKT_CONTD).
    pub(crate) const CONTINUED: u32 = libc::XDP_PKT_CONTD;
    /// Metadata lies before the packet (XDP_TX_METADATA).
    pub(crate) const METADATA: u32 = libc::XDP_TX_METADATA;

    /// True when this is the last descriptor of its packet.
    #[inline]
    #[must_use]
    pub(crate) const fn is_last(&self) -> bool {
        self.options & Self::CONTINUED == 0
    }
}
