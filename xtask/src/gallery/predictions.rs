//! The predictions for the gallery's rungs next to the measurements: the table of each page.

use serde::Deserialize;

use crate::chart::number;
use crate::gallery::entry::{Entry, find};
use crate::gallery::report::tables::{header, short_time};
use crate::report::peaks;
use crate::report::row;

/// A prediction, as written by the gallery's program.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Prediction {
    pub lesson: String,
    pub rung: String,
    #[serde(default)]
    pub at: Option<f64>,
    pub quantity: String,
    #[serde(default)]
    pub other: Option<String>,
    #[serde(default)]
    pub other_at: Option<f64>,
    pub value: f64,
    pub formula: String,
    #[serde(default)]
    pub elsewhere: Option<(String, String)>,
    pub why: String,
}

/// Writes a value with its unit.
type Write = Box<dyn Fn(f64) -> String>;

/// The machine's limits, for predictions that are shares of them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Limits {
    /// The rate of the best copy, in GB/s.
    pub copy: Option<f64>,
    /// The datasheet's limits.
    pub peaks: Option<peaks::Peaks>,
}

/// The relative difference up to which a measurement counts as predicted.
const CLOSE: f64 = 0.1;

/// A prediction with its measurement.
struct Outcome {
    predicted: String,
    measured: Option<String>,
    /// The measured value divided by the predicted one.
    ratio: Option<f64>,
}

impl Prediction {
    /// The predicted time of the rung in microseconds, if everything that it depends on is known.
    pub fn microseconds(&self, entries: &[&Entry], limits: &Limits) -> Option<f64> {
        let entry = find(entries, &self.rung, self.at)?;
        match self.quantity.as_str() {
            "time_over" => Some(self.value * self.other(entries)?.microseconds?),
            "rate_over" => {
                let other = self.other.as_ref().and_then(|other| find(entries, other, None))?;
                // The time of this entry's work at the other's rate.
                let at_its_rate = entry.microseconds? * entry.value()? / other.value()?;
                (entry.measure != "time").then_some(at_its_rate / self.value)
            }
            "share_of_copy" => Some(entry.bytes / (1e3 * self.value * limits.copy?)),
            "share_of_peak" => Some(entry.flop / (1e3 * self.value * peak(entry, limits)?)),
            "rate" => {
                let work = if entry.measure == "flops" { entry.flop } else { entry.bytes };
                Some(1e6 * work / self.value)
            }
            "microseconds" => Some(self.value),
            "cycles" => Some(self.value / limits.peaks?.boost_mhz),
            _ => None,
        }
    }

    /// The entry that the rung is compared with.
    fn other<'a>(&self, entries: &[&'a Entry]) -> Option<&'a Entry> {
        let other = self.other.as_ref()?;
        let at = find(entries, &self.rung, self.at)?.at;
        find(entries, other, Some(self.other_at.unwrap_or(at)))
            .or_else(|| find(entries, other, self.other_at))
    }

    fn outcome(&self, entries: &[&Entry], limits: &Limits) -> Outcome {
        let entry = find(entries, &self.rung, self.at);
        let factor = |x: f64| match x {
            x if x < 0.1 => format!("1/{}", number(1.0 / x)),
            x if x < 0.995 => format!("{x:.2} x"),
            x => format!("{} x", number(x)),
        };
        let measured_rate = |work: f64| entry.and_then(|entry| Some(work / entry.microseconds? / 1e3));
        let (predicted, measured, write): (Option<f64>, Option<f64>, Write) = match self.quantity.as_str() {
            "time_over" => {
                let times =
                    entry.and_then(|entry| Some(entry.microseconds? / self.other(entries)?.microseconds?));
                (Some(self.value), times, Box::new(factor))
            }
            "rate_over" => {
                let other = self.other.as_ref().and_then(|other| find(entries, other, None));
                let rates = entry.and_then(|entry| Some(entry.value()? / other?.value()?));
                (Some(self.value), rates, Box::new(factor))
            }
            "share_of_copy" => {
                let predicted = limits.copy.map(|copy| self.value * copy);
                let measured = entry.and_then(|entry| measured_rate(entry.bytes));
                (predicted, measured, Box::new(|x| format!("{} GB/s", number(x))))
            }
            "share_of_peak" => {
                let predicted = entry.and_then(|entry| Some(self.value * peak(entry, limits)?));
                let measured = entry.and_then(|entry| measured_rate(entry.flop));
                (predicted, measured, Box::new(|x| format!("{} GFLOP/s", number(x))))
            }
            "rate" => {
                let unit = entry.map_or("", |entry| entry.unit());
                let measured = entry.and_then(Entry::value);
                (Some(self.value / 1e9), measured, Box::new(move |x| format!("{} {unit}", number(x))))
            }
            _ => {
                let measured = entry.and_then(|entry| entry.microseconds);
                (self.microseconds(entries, limits), measured, Box::new(short_time))
            }
        };
        Outcome {
            predicted: predicted.map_or_else(|| "the peak is not known".to_owned(), &write),
            measured: measured.map(&write),
            ratio: predicted.zip(measured).map(|(predicted, measured)| measured / predicted),
        }
    }

    /// The rung and its predicted quantity, in words.
    fn what(&self, is_one_problem: bool) -> String {
        let at = match self.at {
            Some(at) if !is_one_problem => format!(" at {}", crate::chart::binary(at)),
            _ => String::new(),
        };
        let than = |other: &str| match self.other_at {
            Some(at) if other == self.rung => format!("at {}", crate::chart::binary(at)),
            _ => format!("`{other}`"),
        };
        let quantity = match (self.quantity.as_str(), &self.other) {
            ("time_over", Some(other)) => format!("time, relative to {}", than(other)),
            ("rate_over", Some(other)) => format!("rate, relative to {}", than(other)),
            ("microseconds" | "cycles", _) => "time".to_owned(),
            _ => "rate".to_owned(),
        };
        format!("`{}`{at}: {quantity}", self.rung)
    }
}

/// The peak of an entry's device in GFLOP/s.
fn peak(entry: &Entry, limits: &Limits) -> Option<f64> {
    let of_gpu = limits.peaks.filter(|_| entry.is_of_gpu()).map(|peaks| 1e3 * peaks.fp32_tflops);
    entry.peak.map(|peak| peak / 1e9).or(of_gpu)
}

/// The table of a lesson, with a line on the number of predictions that hold; empty for a lesson without any.
pub fn section(predictions: &[&Prediction], entries: &[&Entry], limits: &Limits) -> String {
    if predictions.is_empty() {
        return String::new();
    }
    let is_one_problem = entries.iter().all(|entry| entry.at == entries[0].at);
    let outcomes: Vec<Outcome> = predictions.iter().map(|one| one.outcome(entries, limits)).collect();
    let ratios: Vec<f64> = outcomes.iter().filter_map(|outcome| outcome.ratio).collect();
    let close = ratios.iter().filter(|ratio| (*ratio - 1.0).abs() <= CLOSE).count();
    let mut text = format!("{close} of {} measured predictions hold within 10 %.\n\n", ratios.len());
    if ratios.is_empty() {
        text = "No prediction is measured yet.\n\n".to_owned();
    }
    let cells = ["rung and quantity", "predicted", "from", "measured", "difference", "elsewhere", "why"];
    text += &header(cells.map(str::to_owned).into(), 1);
    for (prediction, outcome) in predictions.iter().zip(outcomes) {
        let elsewhere = prediction.elsewhere.as_ref();
        text += &row(&[
            prediction.what(is_one_problem),
            outcome.predicted,
            prediction.formula.clone(),
            outcome.measured.unwrap_or_else(|| "not measured yet".to_owned()),
            outcome.ratio.map_or_else(String::new, difference),
            elsewhere.map_or_else(String::new, |(figure, whose)| format!("{figure} ({whose})")),
            prediction.why.clone(),
        ]);
    }
    text
}

/// A ratio in words.
fn difference(ratio: f64) -> String {
    match ratio {
        ratio if ratio >= 2.0 => format!("{} times", number(ratio)),
        ratio if ratio <= 0.5 => format!("1/{} of it", number(1.0 / ratio)),
        ratio => format!("{:+.0} %", 100.0 * (ratio - 1.0)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { copy: Some(100.0), peaks: None };

    fn prediction(rung: &str, quantity: &str, value: f64) -> Prediction {
        Prediction { rung: rung.to_owned(), quantity: quantity.to_owned(), value, ..Prediction::default() }
    }

    #[test]
    fn a_prediction_stands_next_to_its_measurement() {
        let [a, b] = [Entry::of_test("a", 1.0, Some(10.0)), Entry::of_test("b", 1.0, Some(5.0))];
        let over = Prediction {
            other: Some("b".to_owned()),
            formula: "8 bytes for 4".to_owned(),
            elsewhere: Some(("3 x".to_owned(), "a text, RTX 3090".to_owned())),
            why: "Memory.".to_owned(),
            ..prediction("a", "time_over", 2.0)
        };
        let copy = prediction("b", "share_of_copy", 1.0);
        let text = section(&[&over, &copy], &[&a, &b], &LIMITS);
        assert!(text.starts_with("1 of 2 measured predictions hold within 10 %.\n"), "{text}");
        let rows = [
            "| `a`: time, relative to `b` | 2 x | 8 bytes for 4 | 2 x | +0 % | 3 x (a text, RTX 3090) | Memory. |",
            "| `b`: rate | 100 GB/s |  | 200 GB/s | 2 times |  |  |",
        ];
        assert!(rows.iter().all(|row| text.contains(row)), "{text}");
    }

    #[test]
    fn what_has_no_time_is_not_measured_yet() {
        let a = Entry::of_test("a", 1.0, None);
        let text = section(&[&prediction("a", "microseconds", 5.0)], &[&a], &LIMITS);
        assert!(text.contains("No prediction is measured yet."), "{text}");
        assert!(text.contains("| `a`: time | 5 us |  | not measured yet |  |  |  |"), "{text}");
    }

    #[test]
    fn a_predicted_time_follows_from_the_other_rung() {
        let [a, b] = [Entry::of_test("a", 1.0, None), Entry::of_test("b", 1.0, Some(5.0))];
        let over = Prediction { other: Some("b".to_owned()), ..prediction("a", "time_over", 3.0) };
        assert_eq!(over.microseconds(&[&a, &b], &LIMITS), Some(15.0));
        assert_eq!(prediction("b", "share_of_copy", 0.5).microseconds(&[&a, &b], &LIMITS), Some(20.0));
        assert_eq!(prediction("b", "cycles", 9.0).microseconds(&[&a, &b], &LIMITS), None);
        let rate = Prediction { other: Some("b".to_owned()), ..prediction("a", "rate_over", 4.0) };
        assert_eq!(rate.microseconds(&[&a, &b], &LIMITS), None);
        let a = Entry::of_test("a", 1.0, Some(2.0));
        assert_eq!(rate.microseconds(&[&a, &b], &LIMITS), Some(1.25));
    }
}
