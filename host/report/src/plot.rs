//! Draws the curves of loss and accuracy as an SVG.

use std::path::Path;

use super::{EpochRecord, ReportError};
use crate::chart::{Axis, Chart, Family, Lines, Panel, Scale, Series};
use crate::output_file;

/// Pixels of a panel.
const SIZE: (u32, u32) = (500, 380);

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

/// Draws loss (left) and accuracy (right) over the epochs, for training and test, without what is not a number.
///
/// # Errors
/// [`ReportError::NothingToPlot`] without any number; [`ReportError::Draw`].
pub fn render_plot(title: &str, records: &[EpochRecord]) -> Result<String, ReportError> {
    let panel = |caption: &str, unit: &str, is_from_zero: bool, values: [fn(&EpochRecord) -> f64; 2]| {
        let series = |(name, family, value): (&str, Family, fn(&EpochRecord) -> f64)| {
            let points = records.iter().map(|record| (f64::from(record.epoch), value(record)));
            // The drawing library overflows far outside this range.
            let points = points.filter(|point| !point.1.is_nan()).map(|(x, y)| (x, y.clamp(-1e30, 1e30)));
            Series::new(name, family, points.collect())
        };
        let both = [("training", Family::Ours, values[0]), ("test", Family::Peers, values[1])].map(series);
        let y = Axis { is_from_zero, ..Axis::new(unit).scale(Scale::Linear) };
        let mut lines = Lines::new(Axis::new("epoch").scale(Scale::Linear), y, both.into());
        (lines.caption, lines.size) = (caption.to_owned(), SIZE);
        lines.series.iter().any(|series| !series.points.is_empty()).then_some(Panel::Lines(lines))
    };
    let loss = panel("loss", "cross-entropy, nats", true, [|it| it.train_loss, |it| it.test_loss]);
    let right: [fn(&EpochRecord) -> f64; 2] = [|it| it.train_accuracy * 100.0, |it| it.test_accuracy * 100.0];
    let panels: Vec<Panel> =
        [loss, panel("accuracy", "classified right, %", false, right)].into_iter().flatten().collect();
    if panels.is_empty() {
        return Err(ReportError::NothingToPlot);
    }
    Chart { title: title.to_owned(), subtitle: String::new(), columns: 2, panels }.svg()
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
                let drawn = if number.is_nan() { records.len() - 1 } else { records.len() };
                let svg = render_plot("x", &records).map_or(0, |svg| svg.matches("<circle ").count());
                assert_eq!(svg, 4 * drawn, "{number}");
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
