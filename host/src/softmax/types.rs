//! The pairs of types with kernels.

use bytemuck::Pod;
use gpu_kernels::softmax::operation::{ForwardTo, RowKernels};

/// An input type with a softmax of type `O`: `f32`, `f16` and `bf16` as themselves; with the feature `softmax-mixed`, also
/// `f32` as `f16` or `bf16`, and both as `f32`.
///
/// All are computed in `f32` and rounded once.
///
/// ```
/// use ferrowarp::device::Device;
/// use ferrowarp::f16;
/// use ferrowarp::softmax::{Options, SoftmaxError, softmax_of_slice};
///
/// let logits = [f16::ONE; 4];
/// let probabilities: Vec<f32> = softmax_of_slice(&Device::cpu(), &logits, [1, 4], &Options::new())?;
/// assert_eq!(probabilities, [0.25; 4]);
/// # Ok::<(), SoftmaxError>(())
/// ```
pub trait SoftmaxAs<O: Pod>: Pod + ForwardTo<O> {}

impl<I: Pod + ForwardTo<O>, O: Pod> SoftmaxAs<O> for I {}

/// `f32`, `f16` or `bf16`: the element type of logits, with softmax of the same type.
///
/// ```
/// use ferrowarp::device::Device;
/// use ferrowarp::softmax::{Options, Real, SoftmaxError, softmax_of_slice};
///
/// fn row<T: Real>(logits: &[T]) -> Result<Vec<T>, SoftmaxError> {
///     softmax_of_slice(&Device::cpu(), logits, [1, logits.len()], &Options::new())
/// }
/// assert_eq!(row(&[2.0f32, 2.0])?, [0.5, 0.5]);
/// # Ok::<(), SoftmaxError>(())
/// ```
pub trait Real: SoftmaxAs<Self> + RowKernels {}

impl<T: SoftmaxAs<T> + RowKernels> Real for T {}
