//! What the comparisons have in common: a column of samples for each contender, the table, the JSON.

use comfy_table::{CellAlignment, Table, presets::ASCII_MARKDOWN};
use serde_json::{Map, Value, json};

use crate::contender::Contender;
use crate::samples::Samples;

/// Name and unit of a row.
pub(crate) type Heading = (&'static str, &'static str);

/// A contender and its samples for each of `N` rows.
pub(crate) struct Column<const N: usize> {
    pub(crate) contender: Contender,
    pub(crate) rows: [Samples; N],
}

impl<const N: usize> Column<N> {
    /// Without samples yet.
    pub(crate) fn new(contender: Contender) -> Self {
        Self { contender, rows: std::array::from_fn(|_| Samples::default()) }
    }
}

/// One line per row, one column per contender: median and spread with so many digits after the point.
pub(crate) fn table<const N: usize>(
    headings: &[Heading; N],
    columns: &[Column<N>],
    digits: usize,
) -> Table {
    let mut table = Table::new();
    table.load_style(ASCII_MARKDOWN);
    let names = columns.iter().map(|column| column.contender.name.as_str());
    table.set_header([""].into_iter().chain(names));
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    for (i, (name, unit)) in headings.iter().enumerate() {
        let cell = |column: &Column<N>| {
            column.rows.get(i).map_or_else(String::new, |samples| samples.text(digits))
        };
        table.add_row(std::iter::once(format!("{name}, {unit}")).chain(columns.iter().map(cell)));
    }
    table
}

/// All samples, row by row.
pub(crate) fn json<const N: usize>(headings: &[Heading; N], columns: &[Column<N>]) -> Vec<Value> {
    let row = |(i, (name, unit)): (usize, &Heading)| {
        let samples = |column: &Column<N>| {
            let samples = column.rows.get(i).map_or(Value::Null, Samples::json);
            (column.contender.name.clone(), samples)
        };
        let contenders: Map<_, _> = columns.iter().map(samples).collect();
        json!({"name": name, "unit": unit, "contenders": contenders})
    };
    headings.iter().enumerate().map(row).collect()
}
