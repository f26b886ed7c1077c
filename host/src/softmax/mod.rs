//! Softmax and log-softmax along the last axis of a tensor, for `f32`, `f16` and `bf16`, with gradients, cross entropy
//! ([`CrossEntropy`]), the largest probabilities ([`TopK`]), and sampling of tokens ([`Sample`]).
//!
//! ```
//! use ferrowarp::device::Device;
//! use ferrowarp::{CrossEntropy, Error, Softmax};
//!
//! let device = Device::cpu(); // On a GPU: Device::open()?
//! let logits = device.tensor(&[0.0f32, 0.0, 1.0, f32::NEG_INFINITY], [2, 2])?;
//! let probabilities = Softmax::new().run(&device, &logits)?;
//! assert_eq!(probabilities.to_vec()?, [0.5, 0.5, 1.0, 0.0]);
//!
//! let targets = device.upload(&[1i64, 0])?;
//! let (losses, gradient) = CrossEntropy::new().forward(&device, &logits, &targets)?;
//! assert!((losses.to_vec()?[0] - 2f32.ln()).abs() < 1e-6);
//! assert_eq!(gradient.to_vec()?, [0.5, -0.5, 0.0, 0.0]);
//! # Ok::<(), Error>(())
//! ```
//!
//! The axes before the last one are rows. Rows may have a stride, start at any element, and have any width up to 2^32 - 1. A
//! tensor may have more than 2^32 elements. Without rows or columns nothing is launched. Elements between the rows are neither
//! read nor written.
//!
//! # Hard rows
//!
//! | in a row | softmax | logarithm |
//! | --- | --- | --- |
//! | some -inf | 0 there | -inf there |
//! | -inf only | NaN throughout; 0 with [`Softmax::zero_masked`] | NaN; -inf with `zero_masked` |
//! | a NaN, or a +inf | NaN throughout | NaN throughout |
//! | one element, finite | 1 | 0 |
//! | `f32::MIN` only, as some masks fill a row | 1 / cols | -ln(cols) |
//! | a result under 2^-126 | as `f32` kept to the last subnormal; as `f16` or `bf16` it may be 0 | exact |
//!
//! A difference from the row's maximum of more than `f32::MAX`, before the scale, counts as infinite.
//!
//! # Accuracy
//!
//! Everything is computed in `f32` and rounded to the output type once. The maximum is subtracted before any multiplication,
//! so large logits lose no accuracy. The relative error of an `f32` probability of x is at most 2e-6, plus 2^-24 |x - max| if
//! the difference is not exact (it is for close values); with a scale s, plus 3 * 2^-24 s |x - max|. The absolute error of a
//! logarithm is at most 2e-6, plus 2^-21 of its magnitude, plus 2^-24 s |x - max| if the difference is not exact; near 0 its
//! relative error may be large. For one device, shape and alignment, results have the same bits in every run, because all
//! sums have a fixed order.

mod backward;
pub mod cross_entropy;
mod in_registers;
pub(crate) mod kernel_choice;
mod row_kernel;
pub mod sample;
mod staged;
mod top_k;

use cuda_std::launch::RawBuffer;
use softmax_kernels::forward::{ForwardLaunch, LOG, ZERO_MASKED};
use softmax_kernels::operation::ForwardTo;

use crate::device::Queue;
use crate::element::Element;
use crate::error::Error;
use crate::operation::Operation;
use crate::tensor::{Rows, Tensor, TensorView, TensorViewMut};

#[doc(hidden)]
pub use crate::DeviceProfile;
pub use cross_entropy::CrossEntropy;
pub use kernel_choice::KernelChoice;
pub use sample::Sample;
pub use top_k::TopK;

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
    scale: f32,
    is_log: bool,
    zeroes_masked: bool,
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

    fn check(&self, operation: &Operation<'_>) -> Result<(), Error> {
        if self.scale > 0.0 && self.scale <= Self::MAX_SCALE {
            return Ok(());
        }
        let needs = "it must be in (0, 2^127]; for a temperature t, pass 1 / t";
        Err(operation.refuse_option(format!("the scale is {}", self.scale), needs))
    }

    /// The options as kernel flags.
    fn flags(&self) -> u32 {
        (if self.is_log { LOG } else { 0 }) | (if self.zeroes_masked { ZERO_MASKED } else { 0 })
    }

    /// Returns the softmax of `inp`.
    ///
    /// # Errors
    /// A row has 2^32 elements or more, the scale is not in (0, 2^127], an operand lives on another device or has another
    /// shape, or the device failed or is out of memory.
    pub fn run<'i, T: Element>(
        &self,
        queue: &impl Queue,
        inp: impl Into<TensorView<'i, T>>,
    ) -> Result<Tensor<T>, Error> {
        let inp = inp.into();
        let mut out = Tensor::<T>::unwritten(queue, inp.shape())?;
        self.run_into(queue, &mut out, inp)?;
        Ok(out)
    }

    /// Writes the softmax of `inp` into `out`, which may have another element type.
    ///
    /// # Errors
    /// Same as for [`Self::run`].
    pub fn run_into<'o, 'i, I: SoftmaxAs<O>, O: Element>(
        &self,
        queue: &impl Queue,
        out: impl Into<TensorViewMut<'o, O>>,
        inp: impl Into<TensorView<'i, I>>,
    ) -> Result<(), Error> {
        let (operation, mut out, inp) = (Operation::new("softmax", queue), out.into(), inp.into());
        let from = operation.matrix("input", &inp, inp.shape())?;
        let to = operation.matrix("output", &out, inp.shape())?;
        // SAFETY: two checked matrices of the same shape on this device. They do not overlap, since one is borrowed exclusively.
        unsafe { self.launch(queue, operation, [to, from], out.raw(), inp.raw()) }
    }

    /// Replaces the elements with their softmax.
    ///
    /// # Errors
    /// Same as for [`Self::run`].
    pub fn run_in_place<'o, T: Element>(
        &self,
        queue: &impl Queue,
        tensor: impl Into<TensorViewMut<'o, T>>,
    ) -> Result<(), Error> {
        let (operation, mut tensor) = (Operation::new("softmax", queue), tensor.into());
        let rows = operation.matrix("tensor", &tensor, tensor.shape())?;
        let elements = tensor.raw();
        // SAFETY: as in `run_into`; output and input are the same matrix.
        unsafe { self.launch(queue, operation, [rows; 2], elements, elements) }
    }

    /// # Safety
    /// `out` and `inp` are matrices of these strides on the queue's device and may be the same; `out` is borrowed exclusively.
    unsafe fn launch<I: SoftmaxAs<O>, O: Element>(
        &self,
        queue: &impl Queue,
        operation: Operation<'_>,
        [to, from]: [Rows; 2],
        out: RawBuffer<O>,
        inp: RawBuffer<I>,
    ) -> Result<(), Error> {
        self.check(&operation)?;
        let choice = KernelChoice::new(&queue.device().into(), from.rows, from.cols)?;
        let mut pairs = queue.alloc_unwritten::<u64>(choice.workspace_bytes().div_ceil(8))?;
        let pairs = RawBuffer::<u64>::written(&mut pairs).cast();
        let args = ForwardLaunch { pairs, ..ForwardLaunch::new(out, inp, [to.stride, from.stride]) };
        // SAFETY: the caller's matrices; the pairs have the size that the choice needs. Later uses of all three wait for the
        // device, or are queued after this.
        Ok(unsafe { choice.launch(queue, args, self) }?)
    }
}

#[cfg(test)]
mod tests {
    use super::{Operation, Softmax};
    use crate::device::Device;

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
