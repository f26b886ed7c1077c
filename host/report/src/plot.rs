//! Draws the curves of loss and accuracy as an SVG.

use std::ops::Range;
use std::path::Path;

use plotters::coord::Shift;
use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, ValueFormatter};
use plotters::prelude::*;

use super::{EpochRecord, ReportError};
use crate::output_file;

const SIZE: (u32, u32) = (960, 420);
const TRAIN: RGBColor = RGBColor(31, 119, 180);
const TEST: RGBColor = RGBColor(214, 95, 14);

/// Draws the curves and writes them to `path`.
///
/// # Errors
/// Same as for [`render_plot`], and [`ReportError::Write`].
pub fn save_plot(path: &Path, title: &str, records: &[EpochRecord]) -> Result<(), ReportError> {
    let svg = render_plot(title, records)?;
    output_file::write(path, svg.as_bytes()).map_err(|source| ReportError::Write {
        what: "the plot",
        path: path.to_owned(),
        source,
    })
}

/// Draws loss (left) and accuracy (right) over the epochs, for training and test.
///
/// # Errors
/// [`ReportError::NothingToPlot`] without records; [`ReportError::Draw`].
pub fn render_plot(title: &str, records: &[EpochRecord]) -> Result<String, ReportError> {
    if records.is_empty() {
        return Err(ReportError::NothingToPlot);
    }
    let mut svg = String::new();
    draw(&mut svg, title, records).map_err(|error| ReportError::Draw { message: error.to_string() })?;
    Ok(svg)
}

/// One panel: a quantity over the epochs, for training and test.
struct Panel<'a> {
    caption: &'a str,
    y_label: &'a str,
    y_range: Range<f64>,
    y_digits: usize,
    train: fn(&EpochRecord) -> f64,
    test: fn(&EpochRecord) -> f64,
}

type Drawn = Result<(), Box<dyn std::error::Error>>;

fn draw(svg: &mut String, title: &str, records: &[EpochRecord]) -> Drawn {
    let root = SVGBackend::with_string(svg, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let root = root.titled(title, ("sans-serif", 20))?;
    let (left, right) = root.split_horizontally(SIZE.0 / 2);

    let losses = records.iter().flat_map(|record| [record.train_loss, record.test_loss]);
    // The drawing library overflows far outside this range.
    let top = (losses.fold(0.0, f64::max) * 1.05).min(f64::from(f32::MAX));
    let loss = Panel {
        caption: "loss",
        y_label: "cross-entropy, nats",
        y_range: 0.0..top.max(1e-3),
        y_digits: if top < 0.1 { 4 } else { 2 },
        train: |record| record.train_loss,
        test: |record| record.test_loss,
    };
    draw_panel(&left, records, &loss)?;

    let accuracies = records.iter().flat_map(|record| [record.train_accuracy, record.test_accuracy]);
    // The interesting part is near 100 %, so the axis begins just below the lowest point rather than at 0.
    let lowest = accuracies.fold(1.0, f64::min) * 100.0;
    let bottom = (lowest - 0.1 * (100.0 - lowest) - 0.1).max(0.0);
    let accuracy = Panel {
        caption: "accuracy",
        y_label: "classified right, %",
        y_range: bottom..100.0,
        y_digits: if bottom > 98.0 { 2 } else { 1 },
        train: |record| record.train_accuracy * 100.0,
        test: |record| record.test_accuracy * 100.0,
    };
    draw_panel(&right, records, &accuracy)?;
    root.present()?;
    Ok(())
}

fn draw_panel(
    area: &DrawingArea<SVGBackend<'_>, Shift>,
    records: &[EpochRecord],
    panel: &Panel<'_>,
) -> Drawn {
    let first = records.first().map_or(1, |record| record.epoch);
    let last = records.last().map_or(1, |record| record.epoch);
    let mut chart = ChartBuilder::on(area)
        .caption(panel.caption, ("sans-serif", 16))
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(62)
        .build_cartesian_2d(EpochAxis { first, last }, panel.y_range.clone())?;
    let digits = panel.y_digits;
    chart
        .configure_mesh()
        .x_desc("epoch")
        .y_desc(panel.y_label)
        .y_label_formatter(&|y| format!("{y:.digits$}"))
        .light_line_style(WHITE)
        .label_style(("sans-serif", 13))
        .draw()?;
    for (name, colour, value) in [("training", TRAIN, panel.train), ("test", TEST, panel.test)] {
        let inside = |y: f64| y.clamp(panel.y_range.start, panel.y_range.end);
        let points: Vec<(f64, f64)> =
            records.iter().map(|record| (f64::from(record.epoch), inside(value(record)))).collect();
        chart
            .draw_series(LineSeries::new(points.iter().copied(), colour.stroke_width(2)))?
            .label(name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(2)));
        chart.draw_series(points.iter().map(|&point| Circle::new(point, 3, colour.filled())))?;
    }
    chart
        .configure_series_labels()
        .position(if panel.caption == "loss" {
            SeriesLabelPosition::UpperRight
        } else {
            SeriesLabelPosition::LowerRight
        })
        .background_style(WHITE.mix(0.8))
        .border_style(RGBColor(200, 200, 200))
        .label_font(("sans-serif", 13))
        .draw()?;
    Ok(())
}

/// The epochs from the first to the last, with a little room on both sides and labels only at whole numbers.
struct EpochAxis {
    first: u32,
    last: u32,
}

impl Ranged for EpochAxis {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        let Range { start, end } = self.range();
        let share = (value - start) / (end - start);
        limit.0 + (share * f64::from(limit.1 - limit.0)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        let most = hint.max_num_points().clamp(1, 10) as u32;
        let step = (self.last - self.first) / most + 1;
        (self.first..=self.last).step_by(step as usize).map(f64::from).collect()
    }

    fn range(&self) -> Range<f64> {
        let room = 0.25 + f64::from(self.last - self.first) * 0.02;
        f64::from(self.first) - room..f64::from(self.last) + room
    }
}

impl ValueFormatter<f64> for EpochAxis {
    fn format(value: &f64) -> String {
        format!("{value:.0}")
    }
}

#[cfg(test)]
mod tests {
    use super::super::metrics::sample;
    use super::*;

    #[test]
    fn a_plot_has_both_panels_both_curves_and_every_point() {
        let records: Vec<EpochRecord> = (1..=5).map(sample).collect();
        let svg = render_plot("784-300-100-10", &records).unwrap();
        assert!(svg.starts_with("<svg ") && svg.trim_end().ends_with("</svg>"));
        for text in ["784-300-100-10", "loss", "accuracy", "epoch", "training", "test"] {
            assert!(svg.lines().any(|line| line.trim() == text), "{text} is missing");
        }
        assert_eq!(svg.matches("<circle ").count(), 4 * records.len());
    }

    #[test]
    fn one_epoch_and_flat_curves_can_be_drawn() {
        let flat = EpochRecord {
            train_loss: 0.0,
            test_loss: 0.0,
            train_accuracy: 1.0,
            test_accuracy: 1.0,
            ..sample(7)
        };
        for records in [vec![sample(1)], vec![flat], (90..=300).map(sample).collect()] {
            assert!(render_plot("x", &records).unwrap().contains("<circle "));
        }
        assert!(matches!(render_plot("x", &[]), Err(ReportError::NothingToPlot)));
    }

    #[test]
    fn any_number_can_be_drawn() {
        let numbers = [
            -f64::MAX,
            -1e308,
            -1e38,
            -1.0,
            f64::MIN_POSITIVE,
            1e38,
            1e308,
            f64::MAX,
            f64::NAN,
            f64::INFINITY,
        ];
        for number in numbers {
            let all = EpochRecord {
                train_loss: number,
                test_loss: number,
                train_accuracy: number,
                test_accuracy: number,
                ..sample(2)
            };
            for records in [vec![all.clone()], vec![sample(1), all, sample(3)]] {
                let svg = render_plot("x", &records).unwrap();
                assert_eq!(svg.matches("<circle ").count(), 4 * records.len(), "{number}");
            }
        }
    }

    #[test]
    fn a_plot_that_cannot_be_written_is_an_error_with_the_path() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("missing").join("plot.svg");
        let error = save_plot(&path, "x", &[sample(1)]).unwrap_err();
        assert_eq!(error.to_string(), format!("could not write the plot to {}", path.display()));
    }
}
