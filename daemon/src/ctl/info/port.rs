//! Ports and their queues.

use core::fmt;

use serde::Serialize;
use serde::ser::{SerializeStruct, Serializer};
use xvs_datapath::MacAddr;

use super::{Drops, display_option};

/// Where a port is in its life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum PortState {
    /// Its sockets are bound: it forwards.
    Bound,
    /// It waits for the kernel to let go of its queues, which happens once what an earlier socket sent has
    /// left.
    Draining,
    /// It waits for its interface.
    #[default]
    Waiting,
    /// Binding failed, and somebody has to do something about it; it is tried again, with growing pauses up to
    /// a second.
    Failed,
}

impl fmt::Display for PortState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Bound => "bound",
            Self::Draining => "draining",
            Self::Waiting => "waiting",
            Self::Failed => "failed",
        })
    }
}

/// Packets and bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Traffic {
    /// Packets.
    pub packets: u64,
    /// Bytes, without preamble and frame check sequence.
    pub bytes: u64,
}

/// A setting as written and as it turned out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Setting {
    /// As in the configuration: `auto` or a number.
    pub configured: String,
    /// What the kernel works with; `None` while unbound and where it is off or unsupported.
    pub in_force: Option<u64>,
    /// The kernel does not know it.
    pub unsupported: bool,
}

/// What handing packets to the kernel took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kicks {
    /// System calls.
    pub calls: u64,
    /// Packets that the kernel took.
    pub packets: u64,
    /// Calls that returned EAGAIN: come back later, nothing lost.
    pub eagain: u64,
    /// Calls that returned EBUSY: one packet lost each.
    pub ebusy: u64,
    /// Calls that returned any other error.
    pub errors: u64,
}

impl Kicks {
    /// Packets per system call; 0 before the first.
    #[must_use]
    #[allow(clippy::cast_precision_loss, reason = "a ratio for people")]
    pub fn packets_per_call(&self) -> f64 {
        if self.calls == 0 { 0.0 } else { self.packets as f64 / self.calls as f64 }
    }
}

impl Serialize for Kicks {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_struct("Kicks", 6)?;
        fields.serialize_field("calls", &self.calls)?;
        fields.serialize_field("packets", &self.packets)?;
        fields.serialize_field("packets_per_call", &self.packets_per_call())?;
        fields.serialize_field("eagain", &self.eagain)?;
        fields.serialize_field("ebusy", &self.ebusy)?;
        fields.serialize_field("errors", &self.errors)?;
        fields.end()
    }
}

/// The six counters that the kernel keeps for an AF_XDP socket (linux/if_xdp.h, `xdp_statistics`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct XskCounters {
    /// Received packets dropped for other reasons than those below.
    pub rx_dropped: u64,
    /// Fill descriptors that were invalid.
    pub rx_invalid_descs: u64,
    /// Transmit descriptors that were invalid.
    pub tx_invalid_descs: u64,
    /// Received packets dropped because the rx ring was full.
    pub rx_ring_full: u64,
    /// Received packets dropped because the fill ring was empty.
    pub rx_fill_ring_empty_descs: u64,
    /// Times the kernel found the tx ring empty.
    pub tx_ring_empty_descs: u64,
}

/// One queue of a port: a socket.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct QueueInfo {
    /// Number of the device's queue.
    pub queue: u32,
    /// Core of the PMD thread that receives; `None` for a queue that only sends.
    pub rx_core: Option<u32>,
    /// Cores of the PMD threads that send; several share it under a lock; none: a queue that only receives.
    pub tx_cores: Vec<u32>,
    /// Received.
    pub rx: Traffic,
    /// Sent.
    pub tx: Traffic,
    /// System calls that send.
    pub kicks: Kicks,
    /// Packets waiting: in the fair queue, or in the tx ring for the kernel.
    pub queued: u64,
    /// Bytes that may be in the tx ring and with the kernel before packets wait in the fair queue; adapts to
    /// the link.
    pub limit_bytes: u64,
    /// Frames handed to the kernel for sending and not yet completed.
    pub outstanding: u64,
    /// The kernel's counters.
    pub kernel: XskCounters,
}

/// A port.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PortInfo {
    /// The interface.
    pub name: String,
    /// Its number in flows and rules.
    pub port_no: u32,
    /// The bridge that it belongs to.
    pub bridge: String,
    /// `afxdp`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Where it is in its life.
    pub state: PortState,
    /// Why it is not bound, or what is remarkable about it.
    pub reason: Option<String>,
    /// Index of the interface, while it exists.
    pub ifindex: Option<u32>,
    /// Its Ethernet address.
    #[serde(serialize_with = "display_option")]
    pub mac: Option<MacAddr>,
    /// Largest packet without Ethernet header.
    pub mtu: Option<u32>,
    /// The link is up.
    pub carrier: bool,
    /// Identifier of the XDP program that this daemon attached.
    pub program_id: Option<u32>,
    /// `best-effort`, `native-with-zerocopy`, `native` or `generic`.
    pub xdp_mode: String,
    /// What it came to.
    pub xdp_mode_in_use: Option<String>,
    /// Why a better mode was not taken.
    pub stepped_down: Option<String>,
    /// Which VLAN tags are not seen, and how to see them.
    pub hidden_tags: Option<String>,
    /// By the kernel's word (XDP_OPTIONS) its sockets are zero-copy.
    pub zero_copy: Option<bool>,
    /// Receive queues.
    pub n_rxq: u32,
    /// The first of them.
    pub start_queue: u32,
    /// Descriptors of an rx ring.
    pub rx_ring: u32,
    /// Descriptors of a tx ring.
    pub tx_ring: u32,
    /// Descriptors that the kernel sends per call.
    pub tx_budget: Setting,
    /// Send buffer of a socket, bytes.
    pub sndbuf: Setting,
    /// Packets that the kernel hands to the device together.
    pub xmit_batch: Setting,
    /// Microseconds of busy polling.
    pub busy_poll_us: Setting,
    /// Packets of one busy poll.
    pub busy_poll_budget: Setting,
    /// 1: the kernel leaves the queue to busy polling.
    pub prefer_busy_poll: Setting,
    /// Values that do not fit together, each with the remedy.
    pub warnings: Vec<String>,
    /// Most packets handed over per call.
    pub batch: u32,
    /// Received, over all queues.
    pub rx: Traffic,
    /// Sent, over all queues.
    pub tx: Traffic,
    /// System calls that send, over all queues.
    pub kicks: Kicks,
    /// Packets dropped on their way out of this port.
    pub drops: Drops,
    /// Packets of unbound queues, passed to the network stack.
    pub passed_to_stack: u64,
    /// Packets waiting to be sent.
    pub queued: u64,
    /// Frames being sent by the kernel.
    pub outstanding: u64,
    /// Its queues.
    pub queues: Vec<QueueInfo>,
}
