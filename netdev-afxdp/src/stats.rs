//! Counters and gauges of the two halves of a socket; written by the half's owner, read by anybody.

use xvs_datapath::Counter;

/// What a receive half did.
#[derive(Debug, Default)]
pub struct RxStats {
    /// Packets taken from the ring, those dropped here (`too_many_frames`) included.
    pub packets: Counter,
    /// Their bytes.
    pub bytes: Counter,
    /// Packets of more than 18 frames, dropped here: `DropReason::TooManyFrames`.
    pub too_many_frames: Counter,
    /// Descriptors whose address is not lent to this ring, or whose data does not lie in its frame;
    /// their packets are not in `packets`.
    pub bad_descriptors: Counter,
    /// System calls that asked the kernel to look at the fill ring (zero-copy) or to poll the device (busy
    /// polling).
    pub wakeups: Counter,
    /// Gauge: frames with the kernel to receive into.
    pub filled: Counter,
}

/// What a transmit half did.
#[derive(Debug, Default)]
pub struct TxStats {
    /// Packets that the kernel took and did not report as dropped.
    pub packets: Counter,
    /// Their bytes.
    pub bytes: Counter,
    /// `sendto` calls.
    pub kicks: Counter,
    /// Calls that returned EAGAIN.
    pub eagain: Counter,
    /// Calls that returned EBUSY: a packet each, dropped by the kernel.
    pub ebusy: Counter,
    /// Calls that returned any other error.
    pub errors: Counter,
    /// The most packets that one call took.
    pub max_per_kick: Counter,
    /// Packets whose checksum the kernel was asked to complete.
    pub csum_requests: Counter,
    /// Packets whose checksum was completed here.
    pub csum_software: Counter,
    /// Packets more than there were, by cutting those that their sender left to be cut.
    pub segments: Counter,
    /// Packets copied because their frames were of another packet memory.
    pub foreign_copies: Counter,
    /// Addresses in the completion ring that are not lent to this ring.
    pub bad_completions: Counter,
    /// Gauge: 1 once nothing is sent any more, because the device is gone or the kernel refuses a
    /// descriptor for good; the socket is to be closed.
    pub stopped: Counter,
    /// Gauge: packets not yet taken by the kernel.
    pub queued: Counter,
    /// Gauge: frames of those.
    pub queued_frames: Counter,
    /// Gauge: bytes that may be with the kernel before packets wait.
    pub limit_bytes: Counter,
    /// Gauge: frames taken by the kernel and not yet completed.
    pub kernel_frames: Counter,
}
