//! Figures that are the same on every machine and in every run: what a part of this program costs, counted by
//! valgrind.

use std::process::Command;

use xvs_tests::{Error, Result, daemon};

/// Instructions inside the functions of this program whose name begins with `measured_`.
///
/// # Errors
/// When valgrind is missing, or the program fails or comes by none of them.
pub(crate) fn instructions(args: &[&str]) -> Result<f64> {
    let tool = ["--tool=callgrind", "--callgrind-out-file=/dev/null"];
    let inside = ["--collect-atstart=no", "--toggle-collect=*measured_*"];
    figure(&[tool, inside].concat(), args, "Collected : ")
}

/// Bytes that the allocator was asked for and not given back when they were most.
///
/// # Errors
/// As [`instructions`].
pub(crate) fn peak_heap(args: &[&str]) -> Result<f64> {
    figure(&["--tool=dhat", "--dhat-out-file=/dev/null"], args, "At t-gmax: ")
}

/// The first word after `before` in what valgrind says at the end.
fn figure(tool: &[&str], args: &[&str], before: &str) -> Result<f64> {
    let mut command = Command::new("valgrind");
    command.args(tool).arg(daemon::program("xvsbench")?).args(args);
    let output = command.output().map_err(Error::io("valgrind"))?;
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let said = text.lines().find_map(|line| line.split_once(before)?.1.split_whitespace().next());
    let figure = said.and_then(|word| word.replace(',', "").parse().ok());
    figure
        .filter(|&figure: &f64| output.status.success() && figure > 0.0)
        .ok_or(Error::Output { what: "valgrind".to_owned(), text })
}
