//! Histograms of what passes took and brought, in steps that grow with the value.

use serde::Serialize;

use super::Iteration;

/// Steps of a histogram; what exceeds the last but one is in the last.
pub const N_BINS: usize = 32;

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Quantity {
    /// Nanoseconds of a pass.
    #[serde(rename = "cycles/it")]
    NsPerPass,
    /// Packets of a pass.
    #[serde(rename = "packets/it")]
    PacketsPerPass,
    /// Nanoseconds of a busy pass for each of its packets, counted for each packet.
    #[serde(rename = "cycles/pkt")]
    NsPerPacket,
    /// Packets of a batch on average, counted for each batch.
    #[serde(rename = "pkts/batch")]
    PacketsPerBatch,
    /// Packets of a pass that the bridge was asked about.
    #[serde(rename = "upcalls/it")]
    UpcallsPerPass,
}

impl Quantity {
    /// All of them, in the order of their columns.
    pub const ALL: [Self; 5] = [
        Self::NsPerPass,
        Self::PacketsPerPass,
        Self::NsPerPacket,
        Self::PacketsPerBatch,
        Self::UpcallsPerPass,
    ];

    /// As Open vSwitch calls it, where a cycle is a nanosecond.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::NsPerPass => "cycles/it",
            Self::PacketsPerPass => "packets/it",
            Self::NsPerPacket => "cycles/pkt",
            Self::PacketsPerBatch => "pkts/batch",
            Self::UpcallsPerPass => "upcalls/it",
        }
    }

    /// The largest values of the first and of the last step that has a limit.
    const fn range(self) -> (u64, u64) {
        match self {
            Self::NsPerPass => (50, 25_000_000),
            Self::PacketsPerPass | Self::UpcallsPerPass => (0, 1000),
            Self::NsPerPacket => (10, 100_000),
            Self::PacketsPerBatch => (0, 256),
        }
    }

    /// The value of a pass, and how often it counts.
    fn of(self, pass: &Iteration) -> (u64, u64) {
        let Iteration { ns, packets, batches, upcalls, .. } = *pass;
        match self {
            Self::NsPerPass => (ns, 1),
            Self::PacketsPerPass => (packets, 1),
            Self::NsPerPacket => (ns.checked_div(packets).unwrap_or(0), packets),
            Self::PacketsPerBatch => (packets.checked_div(batches).unwrap_or(0), batches),
            Self::UpcallsPerPass => (upcalls, 1),
        }
    }
}

/// How often a quantity had which value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Histogram {
    /// Of what.
    pub quantity: Quantity,
    /// The largest value of each step but the last, which has no limit.
    pub up_to: [u64; N_BINS - 1],
    /// How often.
    pub counts: [u64; N_BINS],
}

impl Histogram {
    /// An empty one.
    #[must_use]
    pub fn new(quantity: Quantity) -> Self {
        Self { quantity, up_to: walls(quantity.range()), counts: [0; N_BINS] }
    }

    /// Counts a pass.
    #[inline]
    pub fn add(&mut self, pass: &Iteration) {
        let (value, times) = self.quantity.of(pass);
        let at = self.up_to.partition_point(|&limit| limit < value);
        if let Some(count) = self.counts.get_mut(at) {
            *count += times;
        }
    }
}

/// Limits that grow by the same factor from step to step, by one at least.
#[allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "limits of a histogram: small and not negative"
)]
fn walls((first, last): (u64, u64)) -> [u64; N_BINS - 1] {
    let mut walls = [first; N_BINS - 1];
    let n = walls.len();
    for at in 1..n {
        let before = walls.get(at - 1).copied().unwrap_or(first);
        let steps = (n - at) as f64;
        // From the last limit on, so that the rounding of small ones is made good by the larger.
        let next = before.max(1) as f64 * (last as f64 / before.max(1) as f64).powf(1.0 / steps);
        if let Some(wall) = walls.get_mut(at) {
            *wall = (next.round() as u64).max(before + 1);
        }
    }
    walls
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_grow_to_the_last() {
        for quantity in Quantity::ALL {
            let Histogram { up_to, .. } = Histogram::new(quantity);
            assert_eq!((up_to[0], up_to[N_BINS - 2]), quantity.range());
            assert!(up_to.windows(2).all(|pair| pair[0] < pair[1]), "{quantity:?}: {up_to:?}");
        }
    }

    #[test]
    fn every_value_has_a_step() {
        let mut histogram = Histogram::new(Quantity::NsPerPass);
        for ns in [0, 50, 51, 25_000_000, 25_000_001, u64::MAX] {
            histogram.add(&Iteration { ns, ..Iteration::default() });
        }
        assert_eq!(histogram.counts[0], 2);
        assert_eq!(histogram.counts[1], 1);
        assert_eq!(histogram.counts[N_BINS - 2..], [1, 2]);
        let mut histogram = Histogram::new(Quantity::NsPerPacket);
        histogram.add(&Iteration::default());
        assert_eq!(histogram.counts, [0; N_BINS]);
        histogram.add(&Iteration { ns: 90, packets: 9, ..Iteration::default() });
        assert_eq!(histogram.counts[0], 9);
    }
}
