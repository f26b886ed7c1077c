//! The gradient through a softmax.

use cuda_std::launch::RawBuffer;
use gpu_kernels::softmax::backward::{BackwardArgsHost, LOG};

use super::row_kernel::RowKernel;
use super::{DeviceProfile, Matrix, MatrixMut, Options, Real, SoftmaxError, check};
use crate::device::Queue;

/// Writes the gradient with respect to the logits into `dx`, given the result `y` and its gradient `dy`: `y * (dy - sum(dy *
/// y)) * scale`, or for a logarithm `(dy - exp(y) * sum(dy)) * scale`.
///
/// Pass the options of the softmax that computed `y`. A masked row (`y` is 0, or as a logarithm -inf) gets the gradient 0,
/// or as a logarithm `dy * scale`. On a GPU the work is queued.
///
/// ```
/// use ferrowarp::device::Device;
/// use ferrowarp::softmax::{Matrix, MatrixMut, Options, SoftmaxError, softmax_backward};
///
/// let device = Device::cpu();
/// let (dy, y) = (device.upload(&[1.0f32, 0.0])?, device.upload(&[0.5f32, 0.5])?);
/// let mut dx = device.alloc_zeroed::<f32>(2)?;
/// let (dy, y) = (Matrix::new(&dy, 1, 2)?, Matrix::new(&y, 1, 2)?);
/// softmax_backward(&device, &mut MatrixMut::new(&mut dx, 1, 2)?, &dy, &y, &Options::new())?;
/// assert_eq!(dx.to_vec()?, [0.25, -0.25]);
/// # Ok::<(), SoftmaxError>(())
/// ```
///
/// # Errors
/// The shapes differ, a row has 2^32 elements or more, the scale is not in (0, 2^127], a matrix lives on another device,
/// or the device
/// failed.
pub fn softmax_backward<T: Real>(
    queue: &impl Queue,
    dx: &mut MatrixMut<'_, T>,
    dy: &Matrix<'_, T>,
    y: &Matrix<'_, T>,
    options: &Options,
) -> Result<(), SoftmaxError> {
    let (device, shape) = (queue.device(), dx.shape());
    check(device, "result", shape, (y.shape(), y.device()))?;
    check(device, "gradient", shape, (dy.shape(), dy.device()))?;
    check(device, "gradient at the logits", shape, (shape, dx.device()))?;
    // SAFETY: three checked matrices of the same shape on this device; the first is borrowed exclusively.
    unsafe {
        let strides = [dx.stride(), dy.stride(), y.stride()];
        launch(queue, shape, [dx.raw(), dy.raw(), y.raw()], strides, options)
    }
}

/// Same as [`softmax_backward`], but replaces `dy` with the gradient with respect to the logits.
///
/// ```
/// use ferrowarp::device::Device;
/// use ferrowarp::softmax::{Matrix, MatrixMut, Options, SoftmaxError, softmax_backward_in_place};
///
/// let device = Device::cpu();
/// let (mut dy, y) = (device.upload(&[1.0f32, 0.0])?, device.upload(&[0.5f32, 0.5])?);
/// let y = Matrix::new(&y, 1, 2)?;
/// softmax_backward_in_place(&device, &mut MatrixMut::new(&mut dy, 1, 2)?, &y, &Options::new())?;
/// assert_eq!(dy.to_vec()?, [0.25, -0.25]);
/// # Ok::<(), SoftmaxError>(())
/// ```
///
/// # Errors
/// Same as for [`softmax_backward`].
pub fn softmax_backward_in_place<T: Real>(
    queue: &impl Queue,
    dy: &mut MatrixMut<'_, T>,
    y: &Matrix<'_, T>,
    options: &Options,
) -> Result<(), SoftmaxError> {
    let (device, shape) = (queue.device(), dy.shape());
    check(device, "result", shape, (y.shape(), y.device()))?;
    check(device, "gradient", shape, (shape, dy.device()))?;
    let (gradient, stride) = (dy.raw(), dy.stride());
    // SAFETY: as above; output and gradient are the same matrix.
    unsafe { launch(queue, shape, [gradient, gradient, y.raw()], [stride, stride, y.stride()], options) }
}

/// # Safety
/// `dx`, `dy` and `y` are matrices of this shape and these strides on the device. No other code uses `dx`; it may be `dy`.
unsafe fn launch<T: Real>(
    queue: &impl Queue,
    shape: [usize; 2],
    [dx, dy, y]: [RawBuffer<T>; 3],
    strides: [usize; 3],
    options: &Options,
) -> Result<(), SoftmaxError> {
    options.check()?;
    let profile = DeviceProfile::from(queue.device());
    let Some(kernel) = RowKernel::new::<T>(T::BACKWARD, &profile, shape)? else { return Ok(()) };
    let [dx_stride, dy_stride, y_stride] = strides.map(|stride| stride as u64);
    for (first, rows) in kernel.launches() {
        let args = BackwardArgsHost {
            dx: dx.skip(first * strides[0]),
            dy: dy.skip(first * strides[1]),
            y: y.skip(first * strides[2]),
            rows,
            dx_stride,
            dy_stride,
            cols: kernel.cols,
            y_stride,
            scale: options.factor(),
            flags: if options.is_log() { LOG } else { 0 },
            prefetch_blocks: kernel.prefetch_blocks(&[dy_stride, y_stride]),
        };
        // SAFETY: the caller's matrices, starting at a row, and a grid for this many rows.
        unsafe { kernel.spread.variant.launch(queue, kernel.config(rows), args) }?;
    }
    Ok(())
}
