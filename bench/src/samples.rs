//! Samples of one quantity, and what is said of them.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The samples, in the order of the rounds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Samples(Vec<f64>);

impl Samples {
    /// Adds one.
    pub(crate) fn push(&mut self, sample: f64) {
        self.0.push(sample);
    }

    /// The middle one, or the mean of the two in the middle; `None` without samples.
    pub(crate) fn median(&self) -> Option<f64> {
        let sorted = self.sorted();
        let (below, above) = (sorted.len().checked_sub(1)? / 2, sorted.len() / 2);
        Some((sorted.get(below)? + sorted.get(above)?) / 2.0)
    }

    /// The smallest and the largest; `None` without samples.
    pub(crate) fn spread(&self) -> Option<(f64, f64)> {
        let sorted = self.sorted();
        Some((*sorted.first()?, *sorted.last()?))
    }

    /// How many.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Between which the middle half of them lies; `None` without samples.
    pub(crate) fn quartiles(&self) -> Option<(f64, f64)> {
        let sorted = self.sorted();
        let quarter = sorted.len() / 4;
        Some((*sorted.get(quarter)?, *sorted.iter().rev().nth(quarter)?))
    }

    /// Round by round, each as a multiple of the other's.
    pub(crate) fn over(&self, other: &Self) -> Self {
        Self(self.0.iter().zip(&other.0).map(|(this, other)| this / other).collect())
    }

    /// Median and spread with so many digits after the point; `-` without samples.
    pub(crate) fn text(&self, digits: usize) -> String {
        match (self.median(), self.spread()) {
            (Some(median), Some((min, max))) => {
                format!("{median:.digits$} ({min:.digits$} to {max:.digits$})")
            }
            _ => "-".to_owned(),
        }
    }

    /// All of it.
    pub(crate) fn json(&self) -> Value {
        let (min, max) = self.spread().unzip();
        json!({"median": self.median(), "min": min, "max": max, "samples": self.0})
    }

    fn sorted(&self) -> Vec<f64> {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        sorted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle() {
        assert_eq!(Samples(vec![]).median(), None);
        assert_eq!(Samples(vec![3.0]).median(), Some(3.0));
        assert_eq!(Samples(vec![9.0, 1.0, 2.0]).median(), Some(2.0));
        assert_eq!(Samples(vec![9.0, 1.0, 2.0, 4.0]).median(), Some(3.0));
    }

    #[test]
    fn half_of_the_samples_lie_between_the_quartiles() {
        let seven = Samples(vec![7.0, 1.0, 6.0, 2.0, 5.0, 3.0, 4.0]);
        assert_eq!(seven.quartiles(), Some((2.0, 6.0)));
        assert_eq!(Samples(vec![3.0]).quartiles(), Some((3.0, 3.0)));
        assert_eq!(Samples::default().quartiles(), None);
    }

    #[test]
    fn ratios_are_those_of_the_same_round() {
        let ratios = Samples(vec![1.0, 6.0]).over(&Samples(vec![2.0, 3.0]));
        assert_eq!(ratios, Samples(vec![0.5, 2.0]));
        assert_eq!(ratios.text(1), "1.2 (0.5 to 2.0)");
        assert_eq!(ratios.json()["max"], 2.0);
        assert_eq!(Samples::default().text(1), "-");
    }
}
