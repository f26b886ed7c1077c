//! The largest probabilities of a softmax.

use gpu_kernels::softmax::top_k::{MOST, TopKLaunch};

use super::row_kernel::RowKernel;
use super::{DeviceProfile, Matrix, MatrixMut, Options, Real, SoftmaxError, check};
use crate::device::Queue;

/// The largest `k`: 1 to 128 elements of a row can be selected.
pub const MOST_SELECTED: usize = MOST;

const _: () = assert!(MOST_SELECTED == 128, "update the message of `SoftmaxError::TopK`");

/// Writes the `k` largest softmax probabilities of each row of `logits`, the largest first, and their columns. Both are
/// `[rows, k]`. The logits are read from memory once, and no softmax is written. On a GPU the work is queued.
///
/// ```
/// use ferrowarp::device::Device;
/// use ferrowarp::softmax::{Matrix, MatrixMut, Options, SoftmaxError, softmax_top_k};
///
/// let device = Device::cpu();
/// let logits = device.upload(&[0.0f32, 3.0, f32::NEG_INFINITY, 3.0])?;
/// let mut probabilities = device.alloc_zeroed::<f32>(2)?;
/// let mut indices = device.alloc_zeroed::<u32>(2)?;
/// softmax_top_k(
///     &device,
///     &mut MatrixMut::new(&mut probabilities, 1, 2)?,
///     &mut MatrixMut::new(&mut indices, 1, 2)?,
///     &Matrix::new(&logits, 1, 4)?,
///     &Options::new(),
/// )?;
/// assert_eq!(indices.to_vec()?, [1, 3]);
/// assert!(probabilities.to_vec()?.iter().all(|p| (p - 1.0 / (2.0 + (-3f32).exp())).abs() < 1e-6));
/// # Ok::<(), SoftmaxError>(())
/// ```
///
/// # Order
/// The order is by logits, not probabilities, so rounding does not affect it: a larger logit comes first, and of equal ones
/// (0 and -0 are equal) the one in the smaller column. `torch.topk(torch.softmax(x, -1), k)` compares probabilities.
/// Rounding makes some of them equal, and it returns any of those, in any order. Probabilities and
/// [logarithms](Options::log) are as accurate as those of [`softmax()`](super::softmax()) in `f32`, whatever the logits'
/// type.
///
/// # Hard rows
/// A row with a NaN or a +inf, or with only -inf, gives NaN and the columns 0, 1, 2 and so on. With
/// [`Options::zero_masked`], a row with only -inf gives 0 in the same columns. Logits of -inf among finite ones have
/// probability 0 and follow in column order. If `k` is more than the columns, the results after the last column have
/// probability 0 (logarithm -inf) and index [`u32::MAX`]; PyTorch refuses that. Without columns nothing is written.
///
/// # Errors
/// `k` is 0 or over 128, the outputs do not have the same shape with one row per row of logits, a row has 2^32 elements or
/// more, the scale is not in (0, 2^127], a matrix lives on another device, or the device failed.
pub fn softmax_top_k<T: Real>(
    queue: &impl Queue,
    probabilities: &mut MatrixMut<'_, f32>,
    indices: &mut MatrixMut<'_, u32>,
    logits: &Matrix<'_, T>,
    options: &Options,
) -> Result<(), SoftmaxError> {
    let (device, shape, k) = (queue.device(), logits.shape(), probabilities.cols());
    check_k(k)?;
    options.check()?;
    check(device, "logits", shape, (shape, logits.device()))?;
    let of_outputs = [shape[0], k];
    check(device, "probabilities", of_outputs, (probabilities.shape(), probabilities.device()))?;
    check(device, "indices", of_outputs, (indices.shape(), indices.device()))?;
    let profile = DeviceProfile::from(device);
    let Some(kernel) = RowKernel::new::<T>(&T::SAMPLING.top_k, &profile, shape)? else { return Ok(()) };
    let strides = [probabilities.stride(), indices.stride(), logits.stride()];
    let (to, columns, from) = (probabilities.raw(), indices.raw(), logits.raw());
    let [probabilities_stride, indices_stride, stride] = strides.map(|stride| stride as u64);
    for (first, rows) in kernel.launches() {
        let args = TopKLaunch {
            probabilities: to.skip(first * strides[0]),
            indices: columns.skip(first * strides[1]),
            logits: from.skip(first * strides[2]),
            rows,
            probabilities_stride,
            indices_stride,
            stride,
            cols: kernel.cols,
            k: k as u32,
            scale: options.factor(),
            flags: options.flags(),
        };
        // SAFETY: three checked matrices on this device, the outputs borrowed exclusively. Later uses of them wait for the
        // device or are queued after this. The grid is for this many rows.
        unsafe { kernel.spread.variant.launch(queue, kernel.config(rows), args) }?;
    }
    Ok(())
}

/// Checks that `k` elements can be selected.
pub(super) fn check_k(k: usize) -> Result<(), SoftmaxError> {
    if (1..=MOST).contains(&k) { Ok(()) } else { Err(SoftmaxError::TopK { k }) }
}
