//! The predictions of the gallery, without running anything.

use ferrowarp_cases::gallery::{Lesson, Prediction, Quantity};
use serde::Serialize;

use crate::gallery::Entry;

/// All predictions, as JSON.
#[derive(Debug, Serialize)]
pub struct Theory {
    /// Each rung on each problem of a GPU, without a time.
    pub entries: Vec<Entry>,
    /// The predictions for them.
    pub predictions: Vec<Predicted>,
}

/// A [`Prediction`] with its quantity as separate fields.
#[derive(Debug, Serialize)]
pub struct Predicted {
    /// The lesson.
    pub lesson: &'static str,
    /// The rung.
    pub rung: &'static str,
    /// The problem's value on the axis; `None` for the largest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<f64>,
    /// The quantity: `time_over`, `rate_over`, `share_of_copy`, `share_of_peak`, `rate`, `microseconds` or `cycles`.
    pub quantity: &'static str,
    /// The rung to compare with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub other: Option<&'static str>,
    /// The problem of that rung; `None` for the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub other_at: Option<f64>,
    /// The predicted value.
    pub value: f64,
    /// How it follows from the problem.
    pub formula: &'static str,
    /// The figure in another text, and its source.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub elsewhere: Option<(&'static str, &'static str)>,
    /// Why measurement and prediction differ, or why they agree.
    pub why: &'static str,
}

impl Predicted {
    /// Converts a prediction of the lesson.
    pub fn new(lesson: &Lesson, prediction: Prediction) -> Self {
        let Prediction { rung, at, quantity, value, formula, elsewhere, why } = prediction;
        let (quantity, other, other_at) = match quantity {
            Quantity::TimeOver { rung, at } => ("time_over", Some(rung), at),
            Quantity::RateOver { rung } => ("rate_over", Some(rung), None),
            Quantity::ShareOfCopy => ("share_of_copy", None, None),
            Quantity::ShareOfPeak => ("share_of_peak", None, None),
            Quantity::Rate => ("rate", None, None),
            Quantity::Microseconds => ("microseconds", None, None),
            Quantity::Cycles => ("cycles", None, None),
        };
        Self { lesson: lesson.name, rung, at, quantity, other, other_at, value, formula, elsewhere, why }
    }
}
