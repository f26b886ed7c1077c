//! Softmax and log-softmax along the rows of a matrix, for `f32`, `f16` and `bf16`, with gradients ([`softmax_backward`]),
//! cross entropy ([`CrossEntropy`]), the largest probabilities ([`softmax_top_k`]), and sampling of tokens ([`sample()`]).
//!
//! ```
//! use ferrowarp::device::Device;
//! use ferrowarp::softmax::{Matrix, MatrixMut, Options, SoftmaxError, softmax};
//!
//! let device = Device::cpu(); // On a GPU: Device::cuda(0, &PtxModules::find()?)?
//! let logits = device.upload(&[0.0f32, 0.0, 1.0, f32::NEG_INFINITY])?;
//! let mut probabilities = device.alloc_zeroed::<f32>(4)?;
//! let mut out = MatrixMut::new(&mut probabilities, 2, 2)?;
//! softmax(&device, &mut out, &Matrix::new(&logits, 2, 2)?, &Options::new())?;
//! assert_eq!(probabilities.to_vec()?, [0.5, 0.5, 1.0, 0.0]);
//! # Ok::<(), SoftmaxError>(())
//! ```
//!
//! Rows may have a stride ([`Matrix::with_stride`]),
//! start at any element, and have any width up to 2^32 - 1. A matrix may have more than 2^32 elements. Without rows or
//! columns nothing is launched. Elements between the rows are neither read nor written.
//!
//! # Hard rows
//!
//! | in a row | softmax | logarithm |
//! | --- | --- | --- |
//! | some -inf | 0 there | -inf there |
//! | -inf only | NaN throughout; 0 with [`Options::zero_masked`] | NaN; -inf with `zero_masked` |
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

#[cfg(feature = "ndarray")]
mod arrays;
mod backward;
pub(crate) mod cross_entropy;
mod in_registers;
pub(crate) mod kernel_choice;
mod operations;
mod options;
mod row_kernel;
mod sample;
mod slices;
mod staged;
mod top_k;
mod types;

use bytemuck::Pod;

use crate::device::{Buffer, Device, Queue};

#[doc(hidden)]
pub use crate::DeviceProfile;
pub use crate::rows::{Matrix, MatrixMut, SoftmaxError};

#[cfg(feature = "ndarray")]
pub use arrays::softmax_of_array;
pub use backward::{softmax_backward, softmax_backward_in_place};
#[cfg(feature = "ndarray")]
pub use cross_entropy::cross_entropy_of_array;
pub use cross_entropy::{CrossEntropy, Targets, cross_entropy_of_slice};
pub use kernel_choice::KernelChoice;
pub use operations::{OPERATIONS, Operation};
pub use options::Options;
pub use sample::{Sampling, sample, sample_with_log_probabilities};
pub use slices::softmax_of_slice;
pub use top_k::{MOST_SELECTED, softmax_top_k};
pub use types::{Real, SoftmaxAs};

/// Writes the softmax of each row of `inp`, `[rows, cols]`, into the same row of `out`. On a GPU the work is queued.
///
/// ```
/// use ferrowarp::device::Device;
/// use ferrowarp::softmax::{Matrix, MatrixMut, Options, SoftmaxError, softmax};
///
/// let device = Device::cpu();
/// let logits = device.upload(&[0.0f32; 4])?;
/// let mut out = device.alloc_zeroed::<f32>(4)?;
/// let log = Options::new().log();
/// softmax(&device, &mut MatrixMut::new(&mut out, 1, 4)?, &Matrix::new(&logits, 1, 4)?, &log)?;
/// assert!(out.to_vec()?.iter().all(|x| (x + 4f32.ln()).abs() < 1e-6));
/// # Ok::<(), SoftmaxError>(())
/// ```
///
/// # Errors
/// The shapes differ, a row has 2^32 elements or more, the scale is not in (0, 2^127], a matrix lives on another device,
/// or the device
/// failed.
pub fn softmax<I: SoftmaxAs<O>, O: Pod>(
    queue: &impl Queue,
    out: &mut MatrixMut<'_, O>,
    inp: &Matrix<'_, I>,
    options: &Options,
) -> Result<(), SoftmaxError> {
    let profile = DeviceProfile::from(queue.device());
    KernelChoice::new(&profile, inp.rows(), inp.cols())?.run(queue, out, inp, options)
}

/// Replaces each row of `matrix` with its softmax. On a GPU the work is queued.
///
/// ```
/// use ferrowarp::device::Device;
/// use ferrowarp::softmax::{MatrixMut, Options, SoftmaxError, softmax_in_place};
///
/// let device = Device::cpu();
/// let mut logits = device.upload(&[5.0f32, 5.0])?;
/// softmax_in_place(&device, &mut MatrixMut::new(&mut logits, 1, 2)?, &Options::new())?;
/// assert_eq!(logits.to_vec()?, [0.5, 0.5]);
/// # Ok::<(), SoftmaxError>(())
/// ```
///
/// # Errors
/// Same as for [`softmax()`].
pub fn softmax_in_place<T: SoftmaxAs<T>>(
    queue: &impl Queue,
    matrix: &mut MatrixMut<'_, T>,
    options: &Options,
) -> Result<(), SoftmaxError> {
    let profile = DeviceProfile::from(queue.device());
    KernelChoice::new(&profile, matrix.rows(), matrix.cols())?.run_in_place(queue, matrix, options)
}

/// Returns the softmax of each row of `inp`, `[rows, cols]`, in a new buffer without gaps between the rows. On a GPU the
/// work is queued.
///
/// ```
/// use ferrowarp::device::{Buffer, Device};
/// use ferrowarp::softmax::{Matrix, Options, SoftmaxError, softmax_to_buffer};
///
/// let device = Device::cpu();
/// let logits = device.upload(&[0.0f32, 0.0, 1.0, f32::NEG_INFINITY])?;
/// let probabilities: Buffer<f32> =
///     softmax_to_buffer(&device, &Matrix::new(&logits, 2, 2)?, &Options::new())?;
/// assert_eq!(probabilities.to_vec()?, [0.5, 0.5, 1.0, 0.0]);
/// # Ok::<(), SoftmaxError>(())
/// ```
///
/// # Errors
/// Same as for [`softmax()`], or the device is out of memory.
pub fn softmax_to_buffer<I: SoftmaxAs<O>, O: Pod>(
    queue: &impl Queue,
    inp: &Matrix<'_, I>,
    options: &Options,
) -> Result<Buffer<O>, SoftmaxError> {
    let [rows, cols] = [inp.rows(), inp.cols()];
    let mut out = queue.alloc_unwritten(rows * cols)?;
    softmax(queue, &mut MatrixMut::new(&mut out, rows, cols)?, inp, options)?;
    Ok(out)
}

/// Checks that a matrix has the expected shape, and that its device works in order with `device`.
fn check(
    device: &Device,
    what: &'static str,
    expected: [usize; 2],
    (got, at): ([usize; 2], &Device),
) -> Result<(), SoftmaxError> {
    if got != expected {
        return Err(SoftmaxError::ShapesDiffer { what, got, expected });
    }
    if !device.is_in_order_with(at) {
        let (at, device) = (at.residence(), device.residence());
        return Err(SoftmaxError::WrongDevice { what, at, device });
    }
    Ok(())
}
