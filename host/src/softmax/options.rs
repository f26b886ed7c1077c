//! Options of a softmax.

use gpu_kernels::softmax::forward::{LOG, ZERO_MASKED};

use super::SoftmaxError;

/// Options of a softmax: a scale, the logarithm, and the treatment of completely masked rows. By default all are off.
///
/// ```
/// use ferrowarp::softmax::Options;
///
/// let at_temperature_2 = Options::new().scale(0.5).log();
/// assert!(at_temperature_2.is_log() && at_temperature_2.factor() == 0.5);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    scale: f32,
    is_log: bool,
    zeroes_masked: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self::new()
    }
}

impl Options {
    /// The largest factor.
    const MAX_SCALE: f32 = f32::from_bits((127 + 127) << 23);

    /// Returns the options of a plain softmax.
    pub const fn new() -> Self {
        Self { scale: 1.0, is_log: false, zeroes_masked: false }
    }

    /// Multiplies the elements by `scale`, over 0 and at most 2^127: pass 1 / t for a temperature t. A row's maximum is
    /// subtracted before the factor is applied.
    pub const fn scale(self, scale: f32) -> Self {
        Self { scale, ..self }
    }

    /// Computes the logarithms of the softmax directly, so none of them is lost to underflow.
    pub const fn log(self) -> Self {
        Self { is_log: true, ..self }
    }

    /// Gives 0, or -inf for logarithms, for a row of only -inf, that is, a masked row. By default such a row gives NaN.
    pub const fn zero_masked(self) -> Self {
        Self { zeroes_masked: true, ..self }
    }

    /// The scale.
    pub const fn factor(&self) -> f32 {
        self.scale
    }

    /// Whether to compute logarithms.
    pub const fn is_log(&self) -> bool {
        self.is_log
    }

    /// Whether completely masked rows give 0.
    pub const fn zeroes_masked(&self) -> bool {
        self.zeroes_masked
    }

    pub(super) fn check(&self) -> Result<(), SoftmaxError> {
        if self.scale > 0.0 && self.scale <= Self::MAX_SCALE {
            Ok(())
        } else {
            Err(SoftmaxError::Scale { scale: self.scale })
        }
    }

    /// The options as kernel flags.
    pub(super) fn flags(&self) -> u32 {
        (if self.is_log { LOG } else { 0 }) | (if self.zeroes_masked { ZERO_MASKED } else { 0 })
    }
}

#[cfg(test)]
mod tests {
    use super::Options;

    #[test]
    fn scales_are_over_zero_and_finite() {
        for scale in [1.0, f32::from_bits(1), 2f32.powi(127)] {
            assert!(Options::new().scale(scale).check().is_ok(), "{scale}");
        }
        for scale in [0.0, -0.0, -1.0, f32::NAN, f32::INFINITY, 2f32.powi(127).next_up()] {
            let error = Options::new().scale(scale).check().unwrap_err().to_string();
            assert!(error.starts_with("softmax with a scale of "), "{error}");
        }
    }
}
