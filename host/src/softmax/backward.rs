//! The gradient through a softmax.

use cuda_std::launch::RawBuffer;
use ferrowarp_device::device::Queue;
use ferrowarp_device::error::Error;
use ferrowarp_device::tensor::{Rows, Tensor, TensorView, TensorViewMut};
use softmax_kernels::backward::{BackwardArgsHost, LOG};

use super::options::Softmax;
use super::row_kernel::RowKernel;
use crate::element::Element;
use crate::operation::Operation;

const NAME: &str = "softmax backward";

impl Softmax {
    /// Returns the gradient with respect to the logits, given the result `y` and its gradient `dy`: `y * (dy - sum(dy * y)) *
    /// scale`, or for a logarithm `(dy - exp(y) * sum(dy)) * scale`. A masked row (`y` is 0, or as a logarithm -inf) with a finite
    /// `dy` gets the gradient 0, or as a logarithm `dy * scale`.
    ///
    /// ```
    /// use ferrowarp::device::Device;
    /// use ferrowarp::{Error, Softmax};
    ///
    /// let device = Device::cpu();
    /// let (dy, y) = (device.tensor(&[1.0f32, 0.0], [1, 2])?, device.tensor(&[0.5f32, 0.5], [1, 2])?);
    /// let dx = Softmax::new().backward(&device, &dy, &y)?;
    /// assert_eq!(dx.to_vec()?, [0.25, -0.25]);
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// Same as for [`Self::run`].
    pub fn backward<'i, T: Element>(
        &self,
        queue: &impl Queue,
        dy: impl Into<TensorView<'i, T>>,
        y: impl Into<TensorView<'i, T>>,
    ) -> Result<Tensor<T>, Error> {
        let y = y.into();
        let mut dx = Tensor::unwritten(queue, y.shape())?;
        self.backward_into(queue, &mut dx, dy, y)?;
        Ok(dx)
    }

    /// Writes the gradient with respect to the logits into `dx`.
    ///
    /// # Errors
    /// Same as for [`Self::run`].
    pub fn backward_into<'o, 'i, T: Element>(
        &self,
        queue: &impl Queue,
        dx: impl Into<TensorViewMut<'o, T>>,
        dy: impl Into<TensorView<'i, T>>,
        y: impl Into<TensorView<'i, T>>,
    ) -> Result<(), Error> {
        let (operation, mut dx, dy, y) = (Operation::new(NAME, queue), dx.into(), dy.into(), y.into());
        let of_y = operation.matrix("result", &y, y.shape())?;
        let of_dy = operation.matrix("gradient of the result", &dy, y.shape())?;
        let of_dx = operation.matrix("gradient of the input", &dx, y.shape())?;
        // SAFETY: three checked matrices of the same shape on this device; the first is borrowed exclusively.
        unsafe { self.launch_backward(queue, operation, [of_dx, of_dy, of_y], [dx.raw(), dy.raw(), y.raw()]) }
    }

    /// Replaces `dy` with the gradient with respect to the logits.
    ///
    /// # Errors
    /// Same as for [`Self::run`].
    pub fn backward_in_place<'o, 'i, T: Element>(
        &self,
        queue: &impl Queue,
        dy: impl Into<TensorViewMut<'o, T>>,
        y: impl Into<TensorView<'i, T>>,
    ) -> Result<(), Error> {
        let (operation, mut dy, y) = (Operation::new(NAME, queue), dy.into(), y.into());
        let of_y = operation.matrix("result", &y, y.shape())?;
        let of_dy = operation.matrix("gradient of the result", &dy, y.shape())?;
        let gradient = dy.raw();
        // SAFETY: as above; output and gradient are the same matrix.
        unsafe { self.launch_backward(queue, operation, [of_dy, of_dy, of_y], [gradient, gradient, y.raw()]) }
    }

    /// # Safety
    /// `dx`, `dy` and `y` are matrices of the same shape on the device. No other code uses `dx`; it may be `dy`.
    unsafe fn launch_backward<T: Element>(
        &self,
        queue: &impl Queue,
        operation: Operation<'_>,
        [of_dx, of_dy, of_y]: [Rows; 3],
        [dx, dy, y]: [RawBuffer<T>; 3],
    ) -> Result<(), Error> {
        self.check(&operation)?;
        let profile = operation.device.into();
        let shape = [of_y.rows, of_y.cols];
        let Some(kernel) = RowKernel::new::<T>(NAME, T::BACKWARD, &profile, shape)? else { return Ok(()) };
        let [dx_stride, dy_stride, y_stride] = [of_dx, of_dy, of_y].map(|of| of.stride as u64);
        for (first, rows) in kernel.launches() {
            let args = BackwardArgsHost {
                dx: dx.skip(first * of_dx.stride),
                dy: dy.skip(first * of_dy.stride),
                y: y.skip(first * of_y.stride),
                rows,
                dx_stride,
                dy_stride,
                cols: kernel.cols,
                y_stride,
                scale: self.scale,
                flags: if self.is_log { LOG } else { 0 },
                prefetch_blocks: kernel.prefetch_blocks(&[dy_stride, y_stride]),
            };
            // SAFETY: the caller's matrices, starting at a row, and a grid for this many rows.
            unsafe { kernel.spread.variant.launch(queue, kernel.config(rows), args) }?;
        }
        Ok(())
    }
}
