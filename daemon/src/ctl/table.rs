//! Tables for people: columns under headings, two blanks apart, numbers to the right.

use core::fmt;

use comfy_table::{CellAlignment, ContentArrangement, Row, Table, presets};

/// Writes rows under headings. A column whose heading ends in `#` (not shown) is aligned to the right.
pub(super) fn write<R: Into<Row>>(
    out: &mut dyn fmt::Write,
    headings: &[&str],
    rows: impl IntoIterator<Item = R>,
) -> fmt::Result {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(headings.iter().map(|heading| heading.trim_end_matches('#')));
    table.add_rows(rows);
    for (column, heading) in table.column_iter_mut().zip(headings) {
        column.set_padding((0, 2));
        if heading.ends_with('#') {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.lines().try_for_each(|line| writeln!(out, "{}", line.trim_end()))
}
