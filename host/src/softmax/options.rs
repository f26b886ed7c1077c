//! The options of a softmax.

use ferrowarp_device::error::Error;
use softmax_kernels::forward::{LOG, ZERO_MASKED};
use softmax_kernels::operation::ForwardTo;

use crate::element::Element;
use crate::operation::Operation;

/// An element type with a softmax of type `O`: `f32`, `f16` and `bf16` as themselves, `f32` also as `f16` or `bf16`, and
/// both as `f32`.
///
/// ```
/// use ferrowarp::device::Device;
/// use ferrowarp::{Error, Softmax, Tensor, f16};
///
/// let device = Device::cpu();
/// let logits = device.tensor(&[f16::ONE; 4], [1, 4])?;
/// let mut probabilities = Tensor::<f32>::zeros(&device, [1, 4])?;
/// Softmax::new().run_into(&device, &mut probabilities, &logits)?;
/// assert_eq!(probabilities.to_vec()?, [0.25; 4]);
/// # Ok::<(), Error>(())
/// ```
pub trait SoftmaxAs<O: Element>: Element + ForwardTo<O> {}

impl<I: Element + ForwardTo<O>, O: Element> SoftmaxAs<O> for I {}

/// A softmax along the last axis: a scale, the logarithm, and the treatment of completely masked rows. By default all are off.
///
/// ```
/// use ferrowarp::device::Device;
/// use ferrowarp::{Error, Softmax};
///
/// let device = Device::cpu();
/// let logits = device.tensor(&[0.0f32; 8], [2, 1, 4])?;
/// let log_softmax = Softmax::new().log().scale(0.5); // at temperature 2
/// let y = log_softmax.run(&device, &logits)?;
/// assert!(y.to_vec()?.iter().all(|y| (y + 4f32.ln()).abs() < 1e-6));
///
/// let dx = log_softmax.backward(&device, &y, &y)?;
/// assert!(dx.to_vec()?.iter().all(|dx| dx.abs() < 1e-6));
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[must_use = "nothing is computed before it is run"]
pub struct Softmax {
    pub(super) scale: f32,
    pub(super) is_log: bool,
    pub(super) zeroes_masked: bool,
}

impl Default for Softmax {
    fn default() -> Self {
        Self::new()
    }
}

impl Softmax {
    /// The largest factor.
    const MAX_SCALE: f32 = f32::from_bits((127 + 127) << 23);

    /// A plain softmax.
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

    pub(super) fn check(&self, operation: &Operation<'_>) -> Result<(), Error> {
        if self.scale > 0.0 && self.scale <= Self::MAX_SCALE {
            return Ok(());
        }
        let needs = "it must be in (0, 2^127]; for a temperature t, pass 1 / t";
        Err(operation.refuse_option(format!("the scale is {}", self.scale), needs))
    }

    /// The options as kernel flags.
    pub(super) fn flags(&self) -> u32 {
        (if self.is_log { LOG } else { 0 }) | (if self.zeroes_masked { ZERO_MASKED } else { 0 })
    }
}

#[cfg(test)]
mod tests {
    use super::{Operation, Softmax};
    use ferrowarp_device::device::Device;

    #[test]
    fn scales_are_over_zero_and_finite() {
        let device = Device::cpu();
        let operation = Operation::new("softmax", &device);
        for scale in [1.0, f32::from_bits(1), 2f32.powi(127)] {
            assert!(Softmax::new().scale(scale).check(&operation).is_ok(), "{scale}");
        }
        for scale in [0.0, -0.0, -1.0, f32::NAN, f32::INFINITY, 2f32.powi(127).next_up()] {
            let error = Softmax::new().scale(scale).check(&operation).unwrap_err().to_string();
            assert!(error.starts_with(&format!("softmax failed: the scale is {scale}; ")), "{error}");
        }
    }
}
