//! The table of field cases names tests that there are, for every case of the port.

use xvs_tests::{Error, Result, check};

use crate::runner::{Kind, Test};

pub(crate) const TEST: Test =
    Test { name: "every_field_case_names_its_tests", kind: Kind::Plain, run };

fn run() -> Result<()> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/field-cases.md");
    let text = std::fs::read_to_string(path).map_err(Error::io(path))?;
    let tests = crate::all();
    for case in 1..=34 {
        let row = text.lines().find(|line| line.starts_with(&format!("| {case} |")));
        let names = row.into_iter().flat_map(|row| row.split('`').skip(1).step_by(2));
        let names: Vec<&str> = names.filter(|name| name.contains("::")).collect();
        check!(!names.is_empty(), "case {case} names no test");
        for name in names {
            check!(tests.iter().any(|test| test.name == name), "case {case}: no test {name}");
        }
    }
    Ok(())
}
