//! The gradient through a softmax.

use gpu_kernels::softmax::backward::{Arguments, BACKWARD, LOG};

use super::choice::{Operand, from_row};
use super::rowwise::Rowwise;
use super::{Matrix, MatrixMut, Options, Real, SoftmaxError, Target, check};
use crate::device::Device;

/// Writes into `dx` the gradient at the logits, from the gradient `dy` at the result and the result `y`:
/// `y * (dy - sum(dy * y)) * scale`, or for a logarithm `(dy - exp(y) * sum(dy)) * scale`.
///
/// The options are those of the softmax that gave `y`. A masked row, whose `y` is 0, gets the gradient 0; as a logarithm,
/// whose `y` is -inf, it gets `dy * scale`. On a GPU it is queued.
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
/// The shapes differ, a row has 2^32 elements or more, the scale is none, a matrix lives on another device, or the device
/// failed.
pub fn softmax_backward<T: Real>(
    device: &Device,
    dx: &mut MatrixMut<'_, T>,
    dy: &Matrix<'_, T>,
    y: &Matrix<'_, T>,
    options: &Options,
) -> Result<(), SoftmaxError> {
    let shape = dx.shape();
    check(device, "result", shape, (y.shape(), y.device()))?;
    check(device, "gradient", shape, (dy.shape(), dy.device()))?;
    check(device, "gradient at the logits", shape, (shape, dx.device()))?;
    // SAFETY: three checked matrices of one shape on this device; the first is borrowed exclusively.
    unsafe { launch::<T>(device, shape, [dx.operand(), dy.operand(), y.operand()], options) }
}

/// As [`softmax_backward`], and the gradient at the logits takes the place of `dy`.
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
/// As for [`softmax_backward`].
pub fn softmax_backward_in_place<T: Real>(
    device: &Device,
    dy: &mut MatrixMut<'_, T>,
    y: &Matrix<'_, T>,
    options: &Options,
) -> Result<(), SoftmaxError> {
    let shape = dy.shape();
    check(device, "result", shape, (y.shape(), y.device()))?;
    check(device, "gradient", shape, (shape, dy.device()))?;
    let gradient = dy.operand();
    // SAFETY: as above; output and gradient are the same matrix.
    unsafe { launch::<T>(device, shape, [gradient, gradient, y.operand()], options) }
}

/// # Safety
/// `dx`, `dy` and `y` are matrices of the shape and the type on the device; nobody else uses `dx`, which may be `dy`.
unsafe fn launch<T: Real>(
    device: &Device,
    shape: [usize; 2],
    [dx, dy, y]: [Operand; 3],
    options: &Options,
) -> Result<(), SoftmaxError> {
    options.check()?;
    let dtype = T::FORWARD.from;
    let Some(kernel) = Rowwise::new(BACKWARD, dtype, &Target::from(device), shape)? else { return Ok(()) };
    for (first, rows) in kernel.launches() {
        let arguments = Arguments {
            dx: from_row(dx, first, dtype.size()),
            dy: from_row(dy, first, dtype.size()),
            y: from_row(y, first, dtype.size()),
            rows,
            cols: kernel.cols,
            dx_stride: dx.stride as u64,
            dy_stride: dy.stride as u64,
            y_stride: y.stride as u64,
            scale: options.factor(),
            flags: if options.is_log() { LOG } else { 0 },
            ahead: kernel.ahead(&[dy.stride, y.stride]),
        };
        // SAFETY: the caller's matrices from a row on, and a grid for that many rows.
        unsafe { (kernel.tier.launch)(device, kernel.tier.config(rows), arguments) }?;
    }
    Ok(())
}
