//! The predicted time of a rung, from before anything ran. The pages compare it with the measured time.

/// A prediction for one rung.
#[derive(Clone, Debug)]
pub struct Prediction {
    /// The rung.
    pub rung: &'static str,
    /// The problem's value on the lesson's axis; `None` for the largest.
    pub at: Option<f64>,
    /// The predicted quantity.
    pub quantity: Quantity,
    /// The predicted value.
    pub value: f64,
    /// How the value follows from the problem.
    pub formula: &'static str,
    /// The figure in another text for the same experiment, and its source: title and GPU.
    pub elsewhere: Option<(&'static str, &'static str)>,
    /// Why measurement and prediction differ, or why they agree.
    pub why: &'static str,
}

/// A predicted quantity.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Quantity {
    /// The rung's time over that of another rung, or of the same rung on another problem.
    TimeOver {
        /// The other rung.
        rung: &'static str,
        /// The problem of the other rung; `None` for the same one.
        at: Option<f64>,
    },
    /// The rung's rate over that of another rung, each on its largest problem.
    RateOver {
        /// The other rung.
        rung: &'static str,
    },
    /// The rung's rate as a share of the best copy's.
    ShareOfCopy,
    /// The rung's rate as a share of the device's peak at its clocks.
    ShareOfPeak,
    /// The rung's rate, in units of the lesson's measure per second.
    Rate,
    /// The rung's time in microseconds.
    Microseconds,
    /// The rung's time, in cycles of the device's clock.
    Cycles,
}

impl Prediction {
    fn new(rung: &'static str, quantity: Quantity, value: f64) -> Self {
        Self { rung, at: None, quantity, value, formula: "", elsewhere: None, why: "" }
    }

    /// `rung` takes `value` times the time of `other` on the same problem.
    pub fn time_over(rung: &'static str, other: &'static str, value: f64) -> Self {
        Self::new(rung, Quantity::TimeOver { rung: other, at: None }, value)
    }

    /// `rung` takes `value` times the time that it takes on the problem at `at`.
    pub fn growth(rung: &'static str, at: f64, value: f64) -> Self {
        Self::new(rung, Quantity::TimeOver { rung, at: Some(at) }, value)
    }

    /// `rung` has `value` times the rate of `other`, each on its largest problem.
    pub fn rate_over(rung: &'static str, other: &'static str, value: f64) -> Self {
        Self::new(rung, Quantity::RateOver { rung: other }, value)
    }

    /// `rung` moves its bytes at `value` times the rate of the best copy.
    pub fn share_of_copy(rung: &'static str, value: f64) -> Self {
        Self::new(rung, Quantity::ShareOfCopy, value)
    }

    /// `rung` reaches a share of `value` of the device's peak at its clocks.
    pub fn share_of_peak(rung: &'static str, value: f64) -> Self {
        Self::new(rung, Quantity::ShareOfPeak, value)
    }

    /// `rung` has a rate of `value` bytes or operations per second.
    pub fn rate(rung: &'static str, value: f64) -> Self {
        Self::new(rung, Quantity::Rate, value)
    }

    /// `rung` takes `value` microseconds.
    pub fn microseconds(rung: &'static str, value: f64) -> Self {
        Self::new(rung, Quantity::Microseconds, value)
    }

    /// `rung` takes `value` cycles of the device's clock.
    pub fn cycles(rung: &'static str, value: f64) -> Self {
        Self::new(rung, Quantity::Cycles, value)
    }

    /// Sets the problem to the one at `at`.
    pub fn at(self, at: f64) -> Self {
        Self { at: Some(at), ..self }
    }

    /// Sets how the value follows from the problem.
    pub fn from(self, formula: &'static str) -> Self {
        Self { formula, ..self }
    }

    /// Sets the figure of another text.
    pub fn elsewhere(self, figure: &'static str, whose: &'static str) -> Self {
        Self { elsewhere: Some((figure, whose)), ..self }
    }

    /// Sets the reason for the difference.
    pub fn why(self, why: &'static str) -> Self {
        Self { why, ..self }
    }
}

/// An H200's figures for predictions.
pub mod h200 {
    /// Multiprocessors.
    pub const MULTIPROCESSORS: f64 = 132.0;
    /// Bytes per second of its memory, from its datasheet.
    pub const MEMORY: f64 = 4.8e12;
    /// Bytes per cycle of shared memory or L1, per multiprocessor.
    pub const SHARED: f64 = 128.0;
    /// The highest clock in Hz.
    pub const CLOCK: f64 = 1.98e9;
}
