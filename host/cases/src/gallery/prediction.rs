//! The predicted time of a rung, from before anything runs. The pages compare it with the measured time.

/// A prediction for one rung.
#[derive(Clone, Debug)]
pub struct Prediction {
    /// The rung.
    pub rung: &'static str,
    /// The problem's place on the lesson's axis; none for the largest.
    pub at: Option<f64>,
    /// What is predicted.
    pub quantity: Quantity,
    /// The predicted value.
    pub value: f64,
    /// How the value follows from the problem.
    pub formula: &'static str,
    /// The figure that another text has for the same experiment, and whose it is: title and GPU.
    pub elsewhere: Option<(&'static str, &'static str)>,
    /// Why measurement and prediction differ, or why they agree.
    pub why: &'static str,
}

/// What a prediction is about.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Quantity {
    /// The rung's time over that of another rung, or of the same rung on another problem.
    TimeOver {
        /// The other rung.
        rung: &'static str,
        /// The problem of the other rung; none for that of the first.
        at: Option<f64>,
    },
    /// The rung's rate over that of another rung, each on its largest problem.
    RateOver {
        /// The other rung.
        rung: &'static str,
    },
    /// The rung's rate as a share of the best copy's.
    ShareOfCopy,
    /// The rung's rate as a share of what the device's clocks allow.
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

    /// `rung` does `value` times as much in a second as `other`, each on its largest problem.
    pub fn rate_over(rung: &'static str, other: &'static str, value: f64) -> Self {
        Self::new(rung, Quantity::RateOver { rung: other }, value)
    }

    /// `rung` moves its bytes at `value` times the rate of the best copy.
    pub fn share_of_copy(rung: &'static str, value: f64) -> Self {
        Self::new(rung, Quantity::ShareOfCopy, value)
    }

    /// `rung` reaches `value` of what the device's clocks allow.
    pub fn share_of_peak(rung: &'static str, value: f64) -> Self {
        Self::new(rung, Quantity::ShareOfPeak, value)
    }

    /// `rung` does `value` bytes or operations a second.
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

    /// The same, on the problem at `at`.
    pub fn at(self, at: f64) -> Self {
        Self { at: Some(at), ..self }
    }

    /// The same, with how the value follows from the problem.
    pub fn from(self, formula: &'static str) -> Self {
        Self { formula, ..self }
    }

    /// The same, next to the figure of another text.
    pub fn elsewhere(self, figure: &'static str, whose: &'static str) -> Self {
        Self { elsewhere: Some((figure, whose)), ..self }
    }

    /// The same, with the reason for the difference.
    pub fn why(self, why: &'static str) -> Self {
        Self { why, ..self }
    }
}

/// An H200's numbers that predictions use.
pub mod h200 {
    /// Multiprocessors.
    pub const MULTIPROCESSORS: f64 = 132.0;
    /// Bytes that its memory moves in a second, by its datasheet.
    pub const MEMORY: f64 = 4.8e12;
    /// Bytes that shared memory or L1 gives one multiprocessor in a cycle.
    pub const SHARED: f64 = 128.0;
    /// The highest clock in Hz.
    pub const CLOCK: f64 = 1.98e9;
}
