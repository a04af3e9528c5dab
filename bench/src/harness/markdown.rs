//! The page of a benchmark: targets first, then each row with its command, its figures and its plot.

use comfy_table::{CellAlignment, Table, presets::ASCII_MARKDOWN};

use super::results::{Results, RowResult};
use super::{Benchmark, plot};

/// The whole page.
pub(super) fn page(benchmark: &Benchmark, results: &Results) -> String {
    let machine = &results.machine;
    let mut text = format!("# {}\n\n", benchmark.title);
    text.push_str(&format!(
        "xvswitch {} on {} cores of {}, Linux {}. Medians, with the least and the most of the rounds; \
         ratios are those within rounds.\n\n",
        results.version, machine.cores, machine.cpu, machine.kernel
    ));
    text.push_str(&targets(results));
    for figure in &benchmark.figures {
        let file = plot::row_file(benchmark.name, figure.name);
        text.push_str(&format!("\n![{}]({file})\n", figure.title));
    }
    for row in &results.rows {
        let file = plot::row_file(benchmark.name, &row.key);
        text.push_str(&format!("\n## {}\n\n", row.title));
        text.push_str(&format!("`{}` ({} rounds)\n\n", row.command, row.rounds));
        text.push_str(&format!("{}\n\n![{}]({file})\n", figures(row), row.title));
    }
    if !benchmark.notes.is_empty() {
        text.push_str(&format!("\n{}\n", benchmark.notes));
    }
    text
}

/// Every target with what was measured and what became of it; nothing when there are none.
pub(super) fn targets(results: &Results) -> String {
    let mut table = Table::new();
    table.load_style(ASCII_MARKDOWN);
    table.set_header(["measure", "measured", "target", "verdict"]);
    for row in &results.rows {
        for quantity in &row.quantities {
            for verdict in &quantity.verdicts {
                let measure = format!("{}: {}: {}", row.title, quantity.name, verdict.arm);
                let (measured, target) = (verdict.measured.clone(), verdict.target.clone());
                table.add_row([measure, measured, target, verdict.word()]);
            }
        }
    }
    if table.row_count() == 0 { String::new() } else { format!("{table}\n") }
}

/// One line for each arm, one column for each quantity.
fn figures(row: &RowResult) -> Table {
    let mut table = Table::new();
    table.load_style(ASCII_MARKDOWN);
    let headings = row.quantities.iter().map(|q| format!("{}, {}", q.name, q.unit));
    table.set_header(std::iter::once(String::new()).chain(headings));
    table.column_iter_mut().skip(1).for_each(|c| c.set_cell_alignment(CellAlignment::Right));
    let Some(first) = row.quantities.first() else { return table };
    for arm in &first.arms {
        let cell = |quantity: &super::results::QuantityResult| {
            quantity.arm(&arm.name).map_or_else(String::new, |samples| {
                samples.text(digits(samples.median().unwrap_or(0.0)))
            })
        };
        let cells = row.quantities.iter().map(cell);
        table.add_row(std::iter::once(arm.name.clone()).chain(cells));
    }
    table
}

/// Digits after the point: about three that count.
pub(super) fn digits(value: f64) -> usize {
    if value.abs() >= 100.0 {
        0
    } else if value.abs() >= 10.0 {
        1
    } else {
        3
    }
}
