//! Settings of a port that contradict each other, as a table.

use crate::kinds::XdpMode;
use crate::{Port, Problem, Section};

/// Two keys of which one makes the other meaningless.
pub(crate) struct Conflict {
    /// The key to blame.
    pub(crate) key: &'static str,
    /// The one that it does not go with.
    other: &'static str,
    holds: fn(&Port) -> bool,
    want: &'static str,
}

impl Conflict {
    /// Worded for a port that has it.
    pub(crate) fn problem(&self, port: &Port) -> Problem {
        let print = |name| {
            let row = Port::KEYS.iter().find(|key| key.name == name);
            row.map_or_else(String::new, |key| (key.print)(port))
        };
        Problem::Conflict {
            port: port.name.clone(),
            key: self.key,
            value: print(self.key),
            other: self.other,
            other_value: print(self.other),
            want: self.want,
        }
    }
}

/// Those that a port has.
pub(crate) fn of(port: &Port) -> impl Iterator<Item = &'static Conflict> {
    CONFLICTS.iter().filter(|conflict| (conflict.holds)(port))
}

const ZERO_COPY: XdpMode = XdpMode::NativeWithZerocopy;
const COPY_ONLY: &str = "it left out, as it acts where the kernel copies, or another xdp-mode";
const NEEDS_BUSY_POLL: &str = "it left out, or busy-poll-us of 1 or more";

const CONFLICTS: &[Conflict] = &[
    Conflict {
        key: "tx-budget",
        other: "tx-ring",
        holds: |port| port.tx_budget.fixed().is_some_and(|budget| budget > port.tx_ring),
        want: "at most tx-ring",
    },
    Conflict {
        key: "tx-budget",
        other: "xdp-mode",
        holds: |port| port.xdp_mode == ZERO_COPY && port.tx_budget.fixed().is_some(),
        want: COPY_ONLY,
    },
    Conflict {
        key: "sndbuf",
        other: "xdp-mode",
        holds: |port| port.xdp_mode == ZERO_COPY && port.sndbuf.fixed().is_some(),
        want: COPY_ONLY,
    },
    Conflict {
        key: "xmit-batch",
        other: "xdp-mode",
        holds: |port| port.xdp_mode == ZERO_COPY && port.xmit_batch != 0,
        want: COPY_ONLY,
    },
    Conflict {
        key: "xmit-batch",
        other: "tx-ring",
        holds: |port| port.xmit_batch > port.tx_ring,
        want: "at most tx-ring",
    },
    Conflict {
        key: "xmit-batch",
        other: "tx-budget",
        holds: |port| port.tx_budget.fixed().is_some_and(|budget| port.xmit_batch > budget),
        want: "at most tx-budget",
    },
    Conflict {
        key: "busy-poll-us",
        other: "xdp-mode",
        holds: |port| port.xdp_mode == XdpMode::Generic && port.busy_poll_us != 0,
        want: "0, as the driver has no part in that mode, or another xdp-mode",
    },
    Conflict {
        key: "busy-poll-budget",
        other: "busy-poll-us",
        holds: |port| port.busy_poll_us == 0 && port.busy_poll_budget.fixed().is_some(),
        want: NEEDS_BUSY_POLL,
    },
    Conflict {
        key: "prefer-busy-poll",
        other: "busy-poll-us",
        holds: |port| port.busy_poll_us == 0 && port.prefer_busy_poll,
        want: NEEDS_BUSY_POLL,
    },
];
