//! The errors of many results of one function, from the host's oracle.

use float_kernels::{Format, class, is_tiny, units};

/// The errors of some results.
#[derive(Clone, Debug, Default)]
pub struct Judged {
    /// The largest error, in units in the last place.
    pub error: f64,
    /// Inputs, result and exact result with that error, unless all are 0.
    pub worst: Option<([f64; 2], f64, f64)>,
    /// The number of results of another class: NaN, or a zero of the other sign.
    pub others: u64,
    /// Inputs, result and exact result of one of these.
    pub other: Option<([f64; 2], f64, f64)>,
}

impl Judged {
    /// Adds a result. Returns whether it is of another class.
    pub fn add(&mut self, inputs: [f64; 2], got: f64, exact: f64, format: Format) -> bool {
        let differs = class(got) != class(exact) && !is_tiny(exact, got);
        if differs {
            self.others += 1;
            self.other.get_or_insert((inputs, got, exact));
        }
        let error = units(got, exact, format);
        if error > self.error {
            (self.error, self.worst) = (error, Some((inputs, got, exact)));
        }
        differs
    }

    /// Combines both.
    pub fn and(mut self, other: Judged) -> Judged {
        if other.error > self.error {
            (self.error, self.worst) = (other.error, other.worst);
        }
        self.others += other.others;
        self.other = self.other.or(other.other);
        self
    }
}
