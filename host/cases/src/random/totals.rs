//! The totals of the errors of many problems.

use std::collections::BTreeMap;

use super::drawn::{Class, Measured};

/// The errors of the problems of a class, in units in the last place.
#[derive(Clone, Copy, Debug, Default)]
pub struct Total {
    /// The number of problems.
    pub problems: u64,
    /// The sum of their errors; [`Self::mean`] divides it.
    sum: f64,
    /// The largest error.
    pub largest: f64,
    /// The sum of their biases.
    bias: f64,
}

impl Total {
    /// The mean error.
    pub fn mean(&self) -> f64 {
        self.sum / self.problems as f64
    }

    /// The mean bias; negative towards 0.
    pub fn bias(&self) -> f64 {
        self.bias / self.problems as f64
    }
}

/// The errors by class.
#[derive(Debug, Default)]
pub struct Totals(pub BTreeMap<Class, Total>);

impl Totals {
    /// Adds the errors of a problem. Several outputs count separately.
    pub fn add(&mut self, class: &Class, measured: &[Measured]) {
        for one in measured {
            let mut class = class.clone();
            if let Some(output) = one.output {
                class.operation = format!("{}: {output}", class.operation);
            }
            let total = self.0.entry(class).or_default();
            total.problems += 1;
            total.sum += one.error;
            total.largest = total.largest.max(one.error);
            total.bias += one.bias;
        }
    }
}
