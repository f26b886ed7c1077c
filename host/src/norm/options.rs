//! The options of a norm.

use bytemuck::Pod;
use ferrowarp_device::tensor::TensorView;

use crate::element::Element;

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
    pub(super) weight: Option<TensorView<'a, T>>,
    pub(super) bias: Option<TensorView<'a, T>>,
    pub(super) residual: Option<TensorView<'a, T>>,
    pub(super) d_sum: Option<TensorView<'a, T>>,
    pub(super) epsilon: f32,
    pub(super) is_centred: bool,
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

    pub(super) fn name(&self, is_backward: bool) -> &'static str {
        match (self.is_centred, is_backward) {
            (false, false) => "RMSNorm",
            (false, true) => "RMSNorm backward",
            (true, false) => "LayerNorm",
            (true, true) => "LayerNorm backward",
        }
    }
}
