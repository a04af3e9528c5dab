//! Why a packet was dropped: every packet that is not sent ends in exactly one of these.

use crate::Counter;

/// Declares the reasons once: the enum, their names and their descriptions.
macro_rules! drop_reasons {
    ($($(#[doc = $doc:literal])+ $variant:ident => $name:literal,)+) => {
        /// Why a packet was dropped. The name is what counters, JSON and metrics show.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum DropReason { $($(#[doc = $doc])+ $variant,)+ }

        impl DropReason {
            /// All reasons, in the order of their counters.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// The stable name, as in `ledger` and JSON.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }

            /// One sentence for people.
            #[must_use]
            pub const fn describe(self) -> &'static str {
                match self { $(Self::$variant => concat!($($doc),+).trim_ascii(),)+ }
            }
        }
    };
}

drop_reasons! {
    /// The flow's actions send it nowhere: a rule, or NORMAL without anywhere to go, said drop.
    Action => "action",
    /// A header is truncated or contradicts itself, so that no flow key can be made of the packet.
    Malformed => "malformed",
    /// The packet arrived in more frames than a packet may have.
    TooManyFrames => "too_many_frames",
    /// The flow names an output port that does not exist (any more).
    NoPort => "no_port",
    /// The output port is not bound to its device: waiting, draining or failed.
    PortDown => "port_down",
    /// The output port's carrier is off.
    NoCarrier => "no_carrier",
    /// The packet is larger than the output port's MTU.
    Mtu => "mtu",
    /// A sender left the packet to its device to cut (generic mode shows such), and only TCP can be cut here: use native mode, or turn off UDP and SCTP segmentation at the sender.
    Unsegmented => "unsegmented",
    /// The output queue is full; the flow with the most bytes in it gave this packet.
    TxFull => "tx_full",
    /// It waited too long in the output queue, and so do others of its flow (CoDel).
    TxLate => "tx_late",
    /// The kernel refused the packet (EBUSY: its device queue rejected it) and dropped it.
    TxBusy => "tx_busy",
    /// The port went away while the packet waited in its output queue.
    TxFlushed => "tx_flushed",
    /// A copy was wanted (flooding, several outputs) and no free frame was left.
    NoFrame => "no_frame",
    /// A header was to be pushed and the packet has no headroom left.
    NoHeadroom => "no_headroom",
    /// An action does not fit the packet (pop_vlan without a tag, set of an absent header).
    BadAction => "bad_action",
    /// It exceeds the rate of a meter.
    Meter => "meter",
    /// It came round by recirc() too often, or too many did at once.
    Recirc => "recirc",
}

/// One counter for each reason; one writer (the thread that drops).
#[derive(Debug, Default)]
pub struct DropCounters([Counter; DropReason::ALL.len()]);

impl DropCounters {
    /// Counts `n` drops.
    #[inline]
    pub fn add(&self, reason: DropReason, n: u64) {
        if let Some(counter) = self.0.get(reason as usize) {
            counter.add(n);
        }
    }

    /// How often this reason was counted.
    #[must_use]
    pub fn get(&self, reason: DropReason) -> u64 {
        self.0.get(reason as usize).map_or(0, Counter::get)
    }

    /// All reasons with their counts.
    pub fn iter(&self) -> impl Iterator<Item = (DropReason, u64)> + '_ {
        DropReason::ALL.iter().map(|&reason| (reason, self.get(reason)))
    }

    /// The sum over all reasons.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.iter().map(Counter::get).sum()
    }
}
