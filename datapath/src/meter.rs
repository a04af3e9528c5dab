//! Meters: token buckets that all threads share, so that a rate holds for their sum.
//!
//! A bucket is one number, the time at which it will be full again (the generic cell rate algorithm):
//! a packet moves it into the future by what it costs, and one that would move it further than the
//! burst is refused. So a packet costs one compare-and-swap, and no thread ever waits for another.
//! Times are kept in 64ths of a nanosecond, so that rounding stays below 1 % at the highest rates.

use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::Nanos;

/// What a meter counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MeterUnit {
    /// Packets.
    Packets,
    /// Thousands of bits, without preamble, checksum and gap.
    Kilobits,
}

/// The rate of a meter and how much may come at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MeterConfig {
    /// What is counted.
    pub unit: MeterUnit,
    /// Units in a second, 1 to [`MeterConfig::max_rate`].
    pub rate: u32,
    /// Units that may come at once, at least 1. A packet that is larger passes when the bucket is full.
    pub burst: u32,
}

impl MeterConfig {
    /// The highest rate: 200 million packets or 400 Gbit/s.
    #[must_use]
    pub const fn max_rate(unit: MeterUnit) -> u32 {
        match unit {
            MeterUnit::Packets => 200_000_000,
            MeterUnit::Kilobits => 400_000_000,
        }
    }
}

/// What a meter saw since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MeterStats {
    /// Packets, also the dropped.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Packets dropped.
    pub dropped_packets: u64,
    /// Their bytes.
    pub dropped_bytes: u64,
}

/// A meter with its number, to show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MeterRow {
    /// Its number.
    pub id: u32,
    /// Its rate.
    pub config: MeterConfig,
    /// What it saw.
    pub stats: MeterStats,
}

/// There is no meter with this number, or there can be none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MeterError {
    /// The number is not 1 to [`Meters::MAX`].
    Number(u32),
    /// The rate is not 1 to this.
    Rate(u32),
    /// A burst of nothing lets nothing pass.
    Burst,
    /// There is no such meter.
    Missing(u32),
}

impl fmt::Display for MeterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(id) => {
                write!(f, "meter {id}: numbers of meters are 1 to {}", Meters::MAX)
            }
            Self::Rate(max) => write!(f, "the rate of a meter is 1 to {max}"),
            Self::Burst => f.write_str("the burst_size of a meter is at least 1"),
            Self::Missing(id) => write!(f, "meter {id} does not exist; add it first"),
        }
    }
}

impl core::error::Error for MeterError {}

/// One meter, in a cache line of its own.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Slot {
    /// Packets or bytes in a second; 0: there is no such meter.
    rate: AtomicU64,
    /// How far `full_at` may lie in the future.
    limit: AtomicU64,
    full_at: AtomicU64,
    /// `MeterConfig::burst`, and above it one bit for the unit.
    burst: AtomicU64,
    packets: AtomicU64,
    bytes: AtomicU64,
    dropped_packets: AtomicU64,
    dropped_bytes: AtomicU64,
}

/// Parts of a nanosecond.
const TICK: u64 = 64;

/// The same in a second.
const TICKS: u64 = 1_000_000_000 * TICK;

/// The bit that says that a slot counts bytes.
const BYTES: u64 = 1 << 32;

/// Bytes in a kilobit.
const BYTES_IN_KILOBIT: u64 = 125;

/// All meters of the switch, by number; shared by all threads.
#[derive(Debug)]
pub struct Meters(Box<[Slot]>);

impl Default for Meters {
    fn default() -> Self {
        Self::with_capacity(Self::MAX)
    }
}

impl Meters {
    /// The highest number.
    pub const MAX: u32 = 1024;

    /// With numbers 1 to `max`.
    pub(crate) fn with_capacity(max: u32) -> Self {
        Self((0..max).map(|_| Slot::default()).collect())
    }

    fn slot(&self, id: u32) -> Option<&Slot> {
        self.0.get(usize::try_from(id).ok()?.checked_sub(1)?)
    }

    /// Makes a meter, its bucket full, or changes one, which keeps its counts. Takes effect with the
    /// next packet.
    ///
    /// # Errors
    /// What of the number or the rate is out of bounds.
    pub fn set(&self, id: u32, config: MeterConfig) -> Result<(), MeterError> {
        let slot = self.slot(id).ok_or(MeterError::Number(id))?;
        let MeterConfig { unit, rate, burst } = config;
        let max = MeterConfig::max_rate(unit);
        if rate == 0 || rate > max {
            return Err(MeterError::Rate(max));
        }
        if burst == 0 {
            return Err(MeterError::Burst);
        }
        let limit = u128::from(burst) * u128::from(TICKS) / u128::from(rate);
        slot.limit.store(u64::try_from(limit).unwrap_or(u64::MAX).min(1 << 60), Relaxed);
        let (scale, bytes) = match unit {
            MeterUnit::Packets => (1, 0),
            MeterUnit::Kilobits => (BYTES_IN_KILOBIT, BYTES),
        };
        slot.burst.store(u64::from(burst) | bytes, Relaxed);
        slot.full_at.store(0, Relaxed);
        slot.rate.store(u64::from(rate) * scale, Relaxed);
        Ok(())
    }

    /// Removes a meter and its counts; whatever still names it lets everything pass.
    ///
    /// # Errors
    /// There is none with this number.
    pub fn del(&self, id: u32) -> Result<(), MeterError> {
        let slot = self.slot(id).filter(|slot| slot.rate.load(Relaxed) != 0);
        let slot = slot.ok_or(MeterError::Missing(id))?;
        slot.rate.store(0, Relaxed);
        for count in [&slot.packets, &slot.bytes, &slot.dropped_packets, &slot.dropped_bytes] {
            count.store(0, Relaxed);
        }
        Ok(())
    }

    /// True when there is a meter with this number.
    #[must_use]
    pub fn has(&self, id: u32) -> bool {
        self.slot(id).is_some_and(|slot| slot.rate.load(Relaxed) != 0)
    }

    /// All meters, by number.
    pub fn rows(&self) -> impl Iterator<Item = MeterRow> + '_ {
        (1..).zip(&self.0).filter_map(|(id, slot)| Some(MeterRow { id, ..slot.row()? }))
    }

    /// Whether a packet of `n_bytes` passes; counts it.
    #[inline]
    pub(crate) fn pass(&self, id: u32, n_bytes: u64, now: Nanos) -> bool {
        self.slot(id).is_none_or(|slot| slot.pass(n_bytes, now))
    }
}

impl Slot {
    fn row(&self) -> Option<MeterRow> {
        let rate = self.rate.load(Relaxed);
        let burst = self.burst.load(Relaxed);
        let (unit, scale) = match burst & BYTES {
            0 => (MeterUnit::Packets, 1),
            _ => (MeterUnit::Kilobits, BYTES_IN_KILOBIT),
        };
        let config = MeterConfig {
            unit,
            rate: u32::try_from(rate / scale).ok().filter(|&rate| rate != 0)?,
            burst: u32::try_from(burst & !BYTES).ok()?,
        };
        let stats = MeterStats {
            packets: self.packets.load(Relaxed),
            bytes: self.bytes.load(Relaxed),
            dropped_packets: self.dropped_packets.load(Relaxed),
            dropped_bytes: self.dropped_bytes.load(Relaxed),
        };
        Some(MeterRow { id: 0, config, stats })
    }

    fn pass(&self, n_bytes: u64, now: Nanos) -> bool {
        let rate = self.rate.load(Relaxed);
        if rate == 0 {
            return true;
        }
        self.packets.fetch_add(1, Relaxed);
        self.bytes.fetch_add(n_bytes, Relaxed);
        let amount = if self.burst.load(Relaxed) & BYTES == 0 { 1 } else { n_bytes };
        let cost = (amount * TICKS + rate / 2) / rate;
        let limit = self.limit.load(Relaxed);
        let now = now.0.wrapping_mul(TICK);
        let taken = self.full_at.fetch_update(Relaxed, Relaxed, |full_at| {
            let start = full_at.max(now);
            (start - now + cost.min(limit) <= limit).then_some(start + cost)
        });
        if taken.is_err() {
            self.dropped_packets.fetch_add(1, Relaxed);
            self.dropped_bytes.fetch_add(n_bytes, Relaxed);
        }
        taken.is_ok()
    }
}

#[cfg(test)]
mod tests;
