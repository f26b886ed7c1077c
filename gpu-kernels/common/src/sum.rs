//! Sums of many terms.
//!
//! A chain of additions of `f32` is off by up to half a unit of its sum per term: by 1e-4 after a few thousand equal terms. So
//! a thread adds up short runs of terms, and adds the sums of the runs with [`Sum`].

/// A sum whose rounding errors are added up on their own.
#[derive(Clone, Copy)]
pub struct Sum {
    rounded: f32,
    lost: f32,
}

impl Sum {
    /// The sum of no terms.
    pub const ZERO: Self = Self { rounded: 0.0, lost: 0.0 };

    /// Adds a term.
    #[inline(always)]
    pub fn add(&mut self, term: f32) {
        let rounded = self.rounded + term;
        let added = rounded - self.rounded;
        self.lost += (self.rounded - (rounded - added)) + (term - added);
        self.rounded = rounded;
    }

    /// Returns the sum.
    #[inline(always)]
    pub fn value(self) -> f32 {
        let sum = self.rounded + self.lost;
        // What is lost of an infinite sum is NaN.
        if sum.is_nan() { self.rounded } else { sum }
    }
}
