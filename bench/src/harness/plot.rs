//! Plots as SVG: bars for the arms of a row, lines over rows.

use std::path::Path;

use plotters::prelude::*;
use xvs_tests::{Error, Result};

use super::results::{Results, RowResult};

/// Lines over several rows: one line for each arm, a point for each row.
pub(crate) struct Figure {
    /// Names the file.
    pub(crate) name: &'static str,
    /// What it shows.
    pub(crate) title: &'static str,
    /// What the horizontal axis shows.
    pub(crate) x_name: &'static str,
    /// Which quantity of the rows.
    pub(crate) quantity: usize,
    /// Place on the horizontal axis (above 0; the axis is logarithmic) and key of the row.
    pub(crate) points: Vec<(f64, String)>,
}

const SIZE: (u32, u32) = (720, 360);
const FONT: (&str, i32) = ("sans-serif", 15);
const TITLE: (&str, i32) = ("sans-serif", 18);

/// The file of a row's or figure's plot, beside the page.
pub(super) fn row_file(benchmark: &str, key: &str) -> String {
    format!("{benchmark}-{key}.svg")
}

fn failed(path: &Path) -> impl Fn(String) -> Error + use<> {
    let what = format!("draw {}", path.display());
    move |error| Error::Io { what: what.clone(), source: std::io::Error::other(error) }
}

/// Median of each arm in the first quantity, with a whisker from the least to the most.
pub(super) fn bars(row: &RowResult, path: &Path) -> Result<()> {
    draw_bars(row, path).map_err(|error| failed(path)(error.to_string()))
}

fn draw_bars(
    row: &RowResult,
    path: &Path,
) -> std::result::Result<(), DrawingAreaErrorKind<std::io::Error>> {
    let Some(quantity) = row.quantities.first() else { return Ok(()) };
    let bars: Vec<_> = quantity
        .arms
        .iter()
        .filter_map(|arm| Some((&arm.name, arm.samples.median()?, arm.samples.spread()?)))
        .collect();
    let most = bars.iter().map(|(_, _, (_, most))| *most).fold(0.0, f64::max).max(1e-9);
    let step = 34;
    let height = 70 + step * i32::try_from(bars.len()).unwrap_or(i32::MAX / step);
    let size = (SIZE.0, u32::try_from(height).unwrap_or(SIZE.1));
    let area = SVGBackend::new(path, size).into_drawing_area();
    area.fill(&WHITE)?;
    let title = format!("{}: {}, {}", row.title, quantity.name, quantity.unit);
    area.draw(&Text::new(title, (10, 10), TITLE))?;
    let (left, width) = (190, 420.0);
    #[allow(clippy::cast_possible_truncation, reason = "a place in the picture")]
    let x = |value: f64| left + (value / most * width) as i32;
    for (i, (name, median, (least, most))) in (0..).zip(&bars) {
        let top = 48 + step * i;
        area.draw(&Text::new((*name).clone(), (10, top + 4), FONT))?;
        let color = if name.starts_with("xvswitch") { BLUE.mix(0.7) } else { BLACK.mix(0.35) };
        area.draw(&Rectangle::new([(left, top), (x(*median), top + 22)], color.filled()))?;
        let middle = top + 11;
        area.draw(&PathElement::new([(x(*least), middle), (x(*most), middle)], BLACK))?;
        let digits = super::markdown::digits(*median);
        area.draw(&Text::new(format!("{median:.digits$}"), (x(*most) + 8, top + 4), FONT))?;
    }
    area.present()
}

impl Figure {
    /// Draws it from the rows that were measured.
    pub(super) fn draw(&self, results: &Results, path: &Path) -> Result<()> {
        self.lines(results, path).map_err(|error| failed(path)(error.to_string()))
    }

    /// The points of each arm, in the order of the rows.
    fn series(&self, results: &Results) -> Vec<(String, Vec<(f64, f64)>)> {
        let mut series: Vec<(String, Vec<(f64, f64)>)> = Vec::new();
        for (x, key) in &self.points {
            let row = results.rows.iter().find(|row| row.key == *key);
            let quantity = row.and_then(|row| row.quantities.get(self.quantity));
            for arm in quantity.into_iter().flat_map(|quantity| &quantity.arms) {
                let Some(median) = arm.samples.median() else { continue };
                match series.iter_mut().find(|(name, _)| *name == arm.name) {
                    Some((_, points)) => points.push((*x, median)),
                    None => series.push((arm.name.clone(), vec![(*x, median)])),
                }
            }
        }
        series
    }

    fn lines(
        &self,
        results: &Results,
        path: &Path,
    ) -> std::result::Result<(), DrawingAreaErrorKind<std::io::Error>> {
        let series = self.series(results);
        let all = || series.iter().flat_map(|(_, points)| points);
        let (first, last) = all().fold((f64::MAX, 1.0f64), |(a, b), (x, _)| (a.min(*x), b.max(*x)));
        let most = all().map(|(_, y)| *y).fold(0.0, f64::max).max(1e-9);
        let unit = results.rows.iter().find_map(|row| {
            let is_ours = self.points.iter().any(|(_, key)| *key == row.key);
            row.quantities.get(self.quantity).filter(|_| is_ours).map(|q| q.unit.as_str())
        });
        let area = SVGBackend::new(path, SIZE).into_drawing_area();
        area.fill(&WHITE)?;
        if series.is_empty() {
            return area.present();
        }
        let mut chart = ChartBuilder::on(&area)
            .caption(self.title, TITLE)
            .margin(10)
            .x_label_area_size(40)
            .y_label_area_size(70)
            .build_cartesian_2d((first..last.max(first * 1.01)).log_scale(), 0.0..most * 1.15)?;
        let mesh = &mut chart.configure_mesh();
        mesh.x_desc(self.x_name).y_desc(unit.unwrap_or_default()).light_line_style(WHITE).draw()?;
        for (i, (name, points)) in series.iter().enumerate() {
            let color = Palette99::pick(i).to_rgba();
            chart
                .draw_series(LineSeries::new(points.iter().copied(), color.stroke_width(2)))?
                .label(name)
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], color));
            let dot = |point: &(f64, f64)| Circle::new(*point, 3, color.filled());
            chart.draw_series(points.iter().map(dot))?;
        }
        chart.configure_series_labels().border_style(BLACK.mix(0.3)).draw()?;
        area.present()
    }
}
