//! RMSNorm and LayerNorm along the last axis of a tensor, for `f32`, `f16` and `bf16`, forward and backward, fused with the
//! addition of a residual.
//!
//! ```
//! use ferrowarp::device::Device;
//! use ferrowarp::{Error, Norm};
//!
//! let device = Device::cpu(); // On a GPU: Device::open()?
//! let x = device.tensor(&[3.0f32, 4.0], [1, 2])?;
//! let weight = device.upload(&[1.0f32, 2.0])?;
//! let norm = Norm::rms().weight(&weight);
//! let (out, saved) = norm.forward(&device, &x)?;
//! let rms = 12.5f32.sqrt(); // sqrt((3^2 + 4^2) / 2)
//! assert!(out.to_vec()?.iter().zip([3.0 / rms, 8.0 / rms]).all(|(got, want)| (got - want).abs() < 1e-5));
//!
//! let gradients = norm.backward(&device, &out, &x, &saved)?;
//! assert_eq!(gradients.weight.unwrap().shape().to_vec(), [2]);
//! # Ok::<(), Error>(())
//! ```
//!
//! The axes before the last one are rows; they may have any number, stride and alignment. Rows whose starts and lengths are
//! multiples of 16 bytes are the fastest. On a GPU with compute capability 9.0, rows of up to 128 KiB are read from memory once.
//!
//! # Accuracy
//! Arithmetic is in `f32`. The variance of a LayerNorm is that of the differences to the mean, corrected by the roundings of
//! the mean: a row of equal elements gives the bias. A result is rounded once. For one device and shape, results, including the
//! gradients of weight and bias, have the same bits in every run.
//!
//! Squares are `f32` too, so a row with deviations of about 1e19 or more gives zeros, as its variance is infinite. With an
//! epsilon of 0, a row whose variance is 0 or too small for `f32` gives NaN or infinities.

mod backward;
mod forward;

use bytemuck::Pod;

use crate::element::Element;
use crate::tensor::{Tensor, TensorView, TensorViewMut};

#[doc(hidden)]
pub use backward::Backward;
pub use backward::{GradientOutputs, Gradients, Statistics};
#[doc(hidden)]
pub use forward::Forward;
pub use forward::{Outputs, Saved};

/// The options of a norm along the last axis: `out = (x - mean) rstd weight + bias`. `x` is the input plus the residual, and `rstd` is
/// `1 / sqrt(variance + epsilon)`. For RMSNorm the mean is 0 and the variance the mean square.
///
/// ```
/// use ferrowarp::device::Device;
/// use ferrowarp::{Error, Norm};
///
/// let device = Device::cpu();
/// let (x, residual) = (device.tensor(&[1.0f32, 2.0], [1, 2])?, device.tensor(&[2.0f32, 2.0], [1, 2])?);
/// let (_, saved) = Norm::rms().residual(&residual).forward(&device, &x)?;
/// assert_eq!(saved.sum.unwrap().to_vec()?, [3.0, 4.0]);
/// assert!((saved.rstd.to_vec()?[0] - 1.0 / 12.5f32.sqrt()).abs() < 1e-6);
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
#[must_use = "nothing is computed before it is run"]
pub struct Norm<'a, T: Pod> {
    weight: Option<TensorView<'a, T>>,
    bias: Option<TensorView<'a, T>>,
    residual: Option<TensorView<'a, T>>,
    d_sum: Option<TensorView<'a, T>>,
    epsilon: f32,
    is_centred: bool,
}

impl<'a, T: Element> Norm<'a, T> {
    /// An RMSNorm with an epsilon of 1e-6.
    pub const fn rms() -> Self {
        Self { weight: None, bias: None, residual: None, d_sum: None, epsilon: 1e-6, is_centred: false }
    }

    /// A LayerNorm with an epsilon of 1e-5.
    pub const fn layer() -> Self {
        Self { epsilon: 1e-5, is_centred: true, ..Self::rms() }
    }

    /// Adds `epsilon`, at least 0, to the variance. With 0, a row of variance 0 gives NaN.
    pub const fn epsilon(self, epsilon: f32) -> Self {
        Self { epsilon, ..self }
    }

    /// Multiplies the columns by these factors, `[cols]`.
    pub fn weight(self, weight: impl Into<TensorView<'a, T>>) -> Self {
        Self { weight: Some(weight.into()), ..self }
    }

    /// Adds this bias, `[cols]`, at the end.
    pub fn bias(self, bias: impl Into<TensorView<'a, T>>) -> Self {
        Self { bias: Some(bias.into()), ..self }
    }

    /// Adds a residual of the input's shape to the input first, and rounds the sum to the type of the elements.
    pub fn residual(self, residual: impl Into<TensorView<'a, T>>) -> Self {
        Self { residual: Some(residual.into()), ..self }
    }

    /// Adds this gradient of the sum of input and residual, of the input's shape, to that of the input, in the backward pass.
    pub fn sum_gradient(self, d_sum: impl Into<TensorView<'a, T>>) -> Self {
        Self { d_sum: Some(d_sum.into()), ..self }
    }

    fn name(&self, is_backward: bool) -> &'static str {
        match (self.is_centred, is_backward) {
            (false, false) => "RMSNorm",
            (false, true) => "RMSNorm backward",
            (true, false) => "LayerNorm",
            (true, true) => "LayerNorm backward",
        }
    }
}
