//! The tracked counts of instructions (`bench/instructions.toml`), and what is said of a change.
//!
//! Counts of different compilers differ for reasons that are not ours, so under another compiler than the
//! file names nothing fails.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};
use xvs_tests::{Error, Result};

/// The file, from the top of the source tree.
pub(crate) const FILE: &str = "bench/instructions.toml";

/// A count may exceed the tracked one by so much.
const TOLERANCE: f64 = 0.03;

/// Who compiled this program, as the file names it.
const COMPILER: &str = env!("XVS_COMPILER");

const HEADER: &str = "\
# Instructions per packet in user space, for each case of `xvsbench instructions`. `./x check` fails when one is
# more than 3 % higher under the same compiler. Written by `xvsbench instructions --accept`; raised only in a
# commit that says why.
";

/// Tracked counts.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Baseline {
    /// Who compiled what was counted.
    compiler: String,
    /// By name of the case.
    instructions: BTreeMap<String, f64>,
}

impl Baseline {
    /// Of this program.
    pub(crate) fn new(counts: impl IntoIterator<Item = (String, f64)>) -> Self {
        let tenths = |count: f64| (count * 10.0).round() / 10.0;
        let instructions = counts.into_iter().map(|(name, count)| (name, tenths(count))).collect();
        Self { compiler: COMPILER.to_owned(), instructions }
    }

    /// Reads a file.
    ///
    /// # Errors
    /// When it is not there, or not such a file.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let what = format!("read {} (written by --accept)", path.display());
        let text = std::fs::read_to_string(path).map_err(Error::io(what.clone()))?;
        toml::from_str(&text).map_err(|error| Error::Check(format!("{what}: {error}")))
    }

    /// Writes a file.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(crate) fn write(&self, path: &Path) -> Result<()> {
        let what = format!("write {}", path.display());
        let text = toml::to_string(self).map_err(|error| Error::Check(error.to_string()))?;
        std::fs::write(path, format!("{HEADER}\n{text}")).map_err(Error::io(what))
    }

    /// What changed in the cases that were counted: remarks, or an error if something is worse.
    ///
    /// # Errors
    /// When a case needs more under the same compiler, or is not tracked: with all of them.
    pub(crate) fn compare(&self, counted: &Self) -> Result<Vec<String>> {
        let (mut remarks, mut worse) = (Vec::new(), Vec::new());
        let same_compiler = self.compiler == counted.compiler;
        if !same_compiler {
            let Self { compiler, .. } = self;
            remarks.push(format!("not held to {FILE}: it is of {compiler}, this of {COMPILER}"));
        }
        for (name, &count) in &counted.instructions {
            let Some(&tracked) = self.instructions.get(name) else {
                worse.push(format!("{name} is not in {FILE}"));
                continue;
            };
            let change = count / tracked - 1.0;
            let text =
                format!("{name}: {tracked} -> {count} instructions ({:+.1} %)", change * 100.0);
            let (is_worse, is_better) =
                (count > tracked * (1.0 + TOLERANCE), count < tracked * (1.0 - TOLERANCE));
            if is_worse && same_compiler {
                worse.push(text);
            } else if is_worse || is_better {
                remarks.push(text);
            }
        }
        if worse.is_empty() {
            return Ok(remarks);
        }
        let list = worse.join("\n  ");
        Err(Error::Check(format!(
            "more instructions per packet than {FILE} allows:\n  {list}\n\
             mend it, or run `target/release/xvsbench instructions --accept` and commit the file with the reason"
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(counts: &[(&str, f64)]) -> Baseline {
        Baseline::new(counts.iter().map(|(name, count)| ((*name).to_owned(), *count)))
    }

    #[test]
    fn three_percent_more_are_allowed_and_no_more() {
        let tracked = of(&[("a", 100.0), ("b", 100.0)]);
        assert_eq!(tracked.compare(&of(&[("a", 103.0)])).expect("allowed"), [""; 0]);
        let error = tracked.compare(&of(&[("a", 103.2), ("b", 90.0)])).expect_err("worse");
        assert!(error.to_string().contains("a: 100 -> 103.2 instructions (+3.2 %)"), "{error}");
        let remarks = tracked.compare(&of(&[("b", 90.0)])).expect("better");
        assert_eq!(remarks, ["b: 100 -> 90 instructions (-10.0 %)"]);
    }

    #[test]
    fn another_compiler_only_gives_remarks() {
        let mut tracked = of(&[("a", 100.0)]);
        tracked.compiler = "another".to_owned();
        let remarks = tracked.compare(&of(&[("a", 200.0)])).expect("not held to it");
        assert_eq!(remarks.len(), 2, "{remarks:?}");
    }

    #[test]
    fn a_case_that_is_not_tracked_fails() {
        assert!(of(&[]).compare(&of(&[("a", 1.0)])).is_err());
    }

    #[test]
    fn the_tracked_file_reads_and_writes_alike() -> Result<()> {
        let tracked = Path::new(env!("CARGO_MANIFEST_DIR")).join("instructions.toml");
        let baseline = Baseline::read(&tracked)?;
        let scratch = xvs_tests::scratch::Scratch::new()?;
        let copy = scratch.write("copy.toml", "")?;
        baseline.write(&copy)?;
        let text = |path: &Path| std::fs::read_to_string(path).map_err(Error::io("read"));
        assert_eq!(text(&copy)?, text(&tracked)?);
        Ok(())
    }
}
