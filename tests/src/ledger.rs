//! The daemon's two ledgers, added up here again: every packet ended in one place, every frame is in one.

use serde_json::Value;

/// What `ledger` said at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ledger(Value);

/// Where a packet comes from.
const MADE: [&str; 4] = ["rx", "copies", "segments", "injected"];
/// Where it ends, beside the drops.
const ENDED: [&str; 3] = ["tx", "queued", "held"];
/// Where a frame is.
const PLACES: [&str; 8] =
    ["pool", "caches", "batches", "queued", "filled", "tx", "held", "quarantined"];

impl Ledger {
    /// From the JSON of the `ledger` command.
    #[must_use]
    pub fn new(json: Value) -> Self {
        Self(json)
    }

    /// A number of the packet ledger; a member that is missing counts as 0 and shows as an imbalance.
    #[must_use]
    pub fn packets(&self, name: &str) -> u64 {
        self.number("packets", name)
    }

    /// A number of the frame ledger.
    #[must_use]
    pub fn frames(&self, name: &str) -> u64 {
        self.number("frames", name)
    }

    /// Drops for one reason.
    #[must_use]
    pub fn drops(&self, reason: &str) -> u64 {
        self.0.pointer(&format!("/packets/drops/{reason}")).and_then(Value::as_u64).unwrap_or(0)
    }

    /// Drops for any reason.
    #[must_use]
    pub fn all_drops(&self) -> u64 {
        let drops = self.0.pointer("/packets/drops").and_then(Value::as_object);
        drops.into_iter().flatten().filter_map(|(_, count)| count.as_u64()).sum()
    }

    /// Why it does not balance; `None` when it does.
    #[must_use]
    pub fn imbalance(&self) -> Option<String> {
        let made: u64 = MADE.iter().map(|name| self.packets(name)).sum();
        let ended: u64 =
            ENDED.iter().map(|name| self.packets(name)).sum::<u64>() + self.all_drops();
        let places: u64 = PLACES.iter().map(|name| self.frames(name)).sum();
        let total = self.frames("total");
        if total == 0 {
            return Some("the frame ledger counts no frame at all".to_owned());
        }
        if made != ended {
            return Some(format!("packets: {made} came, {ended} ended"));
        }
        (places != total).then(|| format!("frames: {total} exist, {places} are somewhere"))
    }

    /// All of it, for a report.
    #[must_use]
    pub fn json(&self) -> &Value {
        &self.0
    }

    fn number(&self, part: &str, name: &str) -> u64 {
        self.0.pointer(&format!("/{part}/{name}")).and_then(Value::as_u64).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ledger(rx: u64, pool: u64) -> Ledger {
        Ledger::new(serde_json::json!({
            "packets": {"rx": rx, "copies": 1, "tx": 3, "drops": {"mtu": 2}, "queued": 1},
            "frames": {"total": 10, "pool": pool, "filled": 4},
        }))
    }

    #[test]
    fn one_packet_or_frame_missing_is_noticed() {
        assert_eq!(ledger(5, 6).imbalance(), None);
        assert!(ledger(6, 6).imbalance().is_some_and(|text| text.contains("packets")));
        assert!(ledger(5, 5).imbalance().is_some_and(|text| text.contains("frames")));
        assert!(Ledger::new(Value::Null).imbalance().is_some());
    }
}
