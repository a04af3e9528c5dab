//! Targets, and what is said of them. One that is absolute must be reached in every round. A ratio is judged
//! by its median; no conclusion is drawn from it when the middle half of the rounds differ among themselves by more than the median differs from the target, when there were too
//! few, or when something else kept the machine busy.

use serde::{Deserialize, Serialize};

use super::ROUNDS_MIN;
use super::results::{QuantityResult, RowResult};
use crate::contender::{FORWARDER, OPEN_VSWITCH};
use crate::samples::Samples;

/// What an arm shall reach in a quantity.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    arm: String,
    bound: Bound,
    value: f64,
    /// The arm of which `value` is a multiple; none: it is absolute.
    peer: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bound {
    AtLeast,
    AtMost,
}

impl Target {
    /// At least `value`, in the quantity's unit unless [`Target::times`] follows.
    pub(crate) fn at_least(arm: impl Into<String>, value: f64) -> Self {
        Self { arm: arm.into(), bound: Bound::AtLeast, value, peer: None }
    }

    /// At most `value`, in the quantity's unit unless [`Target::times`] follows.
    pub(crate) fn at_most(arm: impl Into<String>, value: f64) -> Self {
        Self { bound: Bound::AtMost, ..Self::at_least(arm, value) }
    }

    /// The value is a multiple of what that arm reaches in the same round.
    pub(crate) fn times(self, peer: impl Into<String>) -> Self {
        Self { peer: Some(peer.into()), ..self }
    }

    /// The verdict; `None` when an arm was left out.
    pub(super) fn judge(&self, quantity: &QuantityResult, is_disturbed: bool) -> Option<Verdict> {
        let ours = quantity.arm(&self.arm)?;
        let samples = match &self.peer {
            Some(peer) => ours.over(quantity.arm(peer)?),
            None => ours.clone(),
        };
        let (median, spread) = (samples.median()?, samples.quartiles()?);
        let (worst, met) = match self.bound {
            Bound::AtLeast => (samples.spread()?.0, median >= self.value),
            Bound::AtMost => (samples.spread()?.1, median <= self.value),
        };
        let is_absolute = self.peer.is_none();
        let always =
            if self.bound == Bound::AtLeast { worst >= self.value } else { worst <= self.value };
        let met = if is_absolute { always } else { met };
        let (width, difference) = (spread.1 - spread.0, (median - self.value).abs());
        // What is reached in spite of a disturbance is reached.
        let doubt = if is_disturbed && !(is_absolute && met) {
            Some(format!("{FORWARDER} below {OPEN_VSWITCH}: something else runs on this machine"))
        } else if !median.is_finite() {
            Some("nothing to compare with".to_owned())
        } else if samples.len() < ROUNDS_MIN as usize {
            Some(format!("fewer than {ROUNDS_MIN} rounds"))
        } else if !is_absolute && width > difference {
            Some(format!("spread {width:.3} above difference {difference:.3}"))
        } else {
            None
        };
        let (sign, unit) = (if self.bound == Bound::AtLeast { "≥" } else { "≤" }, &quantity.unit);
        let (of, digits) = match &self.peer {
            Some(peer) => (format!("× {peer}"), 3),
            None => (unit.clone(), 2),
        };
        Some(Verdict {
            measured: format!("{} {of}", samples.text(digits)),
            target: format!("{sign} {} {of}", self.value),
            arm: self.arm.clone(),
            met,
            doubt,
        })
    }
}

/// What became of a target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Verdict {
    /// Whose.
    pub(super) arm: String,
    /// Median and spread.
    pub(super) measured: String,
    /// The bound.
    pub(super) target: String,
    /// Whether the median reaches it.
    pub(super) met: bool,
    /// Why nothing is to be concluded from that, if so.
    pub(super) doubt: Option<String>,
}

impl Verdict {
    /// Met or missed, and how sure that is.
    pub(super) fn word(&self) -> String {
        let word = if self.met { "met" } else { "missed" };
        self.doubt.as_ref().map_or(word.to_owned(), |why| format!("{word}; no conclusion: {why}"))
    }
}

/// Whether a row shows that something else took the machine's time: `None` when it has not both of those
/// that tell.
pub(super) fn is_disturbed(row: &RowResult) -> Option<bool> {
    let first = row.quantities.first()?;
    let ratio: Samples = first.arm(FORWARDER)?.over(first.arm(OPEN_VSWITCH)?);
    ratio.median().map(|median| median < 1.0)
}

#[cfg(test)]
mod tests {
    use super::super::results::QuantityResult;
    use super::*;

    fn quantity(ours: [f64; 7], theirs: [f64; 7]) -> QuantityResult {
        let arms = [("a", ours), ("b", theirs)].map(|(name, samples)| {
            let mut all = Samples::default();
            samples.iter().for_each(|sample| all.push(*sample));
            (name.to_owned(), all)
        });
        QuantityResult::new("rate", "kpps", arms)
    }

    #[test]
    fn a_clear_difference_is_a_conclusion() {
        let measured = quantity([120.0; 7], [100.0; 7]);
        let verdict = Target::at_least("a", 1.1).times("b").judge(&measured, false);
        assert_eq!(verdict.map(|v| (v.word(), v.target)), Some(("met".into(), "≥ 1.1 × b".into())));
        let verdict = Target::at_most("a", 100.0).judge(&measured, false);
        assert_eq!(verdict.map(|v| v.word()).as_deref(), Some("missed"));
    }

    #[test]
    fn a_spread_above_the_difference_is_none() {
        let measured = quantity([90.0, 130.0, 90.0, 130.0, 102.0, 90.0, 130.0], [100.0; 7]);
        let verdict = Target::at_least("a", 1.0).times("b").judge(&measured, false);
        assert!(verdict.is_some_and(|v| v.met && v.word().contains("no conclusion: spread")));
    }

    #[test]
    fn a_disturbed_machine_and_a_peer_left_out_conclude_nothing() {
        let measured = quantity([120.0; 7], [100.0; 7]);
        let verdict = Target::at_least("a", 1.0).times("b").judge(&measured, true);
        assert!(verdict.is_some_and(|v| v.word().contains("something else runs")));
        assert_eq!(Target::at_least("a", 1.0).times("c").judge(&measured, false), None);
    }
}
