//! Softmax cross entropy: loss and gradient in one pass over the logits.

#[cfg(feature = "ndarray")]
mod arrays;
mod slices;

use std::marker::PhantomData;

use bytemuck::Pod;
use cuda_std::launch::RawBuffer;
use gpu_kernels::softmax::cross_entropy::{CrossEntropyLaunch, I32, I64, U8};

use super::row_kernel::RowKernel;
use super::{DeviceProfile, Matrix, MatrixMut, Real, SoftmaxError, check};
use crate::device::{Buffer, BufferView, BufferViewMut, Device, Queue};

#[cfg(feature = "ndarray")]
pub use arrays::cross_entropy_of_array;
pub use slices::cross_entropy_of_slice;

/// The class of each row: `i64` as in PyTorch, `i32`, `u32` below 2^31, or `u8`.
///
/// ```
/// use ferrowarp::device::{Device, DeviceError};
/// use ferrowarp::softmax::Targets;
///
/// let classes = Device::cpu().upload(&[3u8, 1, 4])?;
/// let _targets: Targets = (&classes).into();
/// # Ok::<(), DeviceError>(())
/// ```
#[derive(Clone, Copy)]
pub struct Targets<'a> {
    classes: RawBuffer<u8>,
    /// Bytes per class.
    bytes: u32,
    len: usize,
    device: &'a Device,
}

macro_rules! targets {
    ($($ty:ident: $bytes:expr;)*) => {$(
        impl<'a> From<BufferView<'a, $ty>> for Targets<'a> {
            fn from(view: BufferView<'a, $ty>) -> Self {
                let classes = RawBuffer::read(view).cast();
                Self { classes, bytes: $bytes, len: view.len(), device: view.device() }
            }
        }
        impl<'a> From<&'a Buffer<$ty>> for Targets<'a> {
            fn from(buffer: &'a Buffer<$ty>) -> Self {
                BufferView::from(buffer).into()
            }
        }
    )*};
}

targets! { i64: I64; i32: I32; u32: I32; u8: U8; }

/// Cross entropy of logits and targets: the inputs and the requested outputs.
///
/// ```
/// use ferrowarp::device::Device;
/// use ferrowarp::softmax::{CrossEntropy, Matrix, MatrixMut, SoftmaxError};
///
/// let device = Device::cpu();
/// let logits = device.upload(&[0.0f32, 0.0, 3.0, 3.0])?;
/// let targets = device.upload(&[1i64, -100])?;
/// let mut losses = device.alloc_zeroed::<f32>(2)?;
/// let mut gradient = device.alloc_zeroed::<f32>(4)?;
/// CrossEntropy::new(&mut losses, &Matrix::new(&logits, 2, 2)?, &targets)
///     .with_gradient(MatrixMut::new(&mut gradient, 2, 2)?, 1.0)
///     .run(&device)?;
/// assert!((losses.to_vec()?[0] - 2f32.ln()).abs() < 1e-6);
/// assert_eq!(gradient.to_vec()?, [0.5, -0.5, 0.0, 0.0]);
/// # Ok::<(), SoftmaxError>(())
/// ```
#[must_use = "nothing is computed before it is run"]
pub struct CrossEntropy<'a, T> {
    args: CrossEntropyLaunch<T>,
    shape: [usize; 2],
    /// The vectors that must have one element per row, and their devices.
    vectors: Vec<(&'static str, usize, &'a Device)>,
    /// The matrices that must have the logits' shape, and their devices.
    matrices: Vec<(&'static str, [usize; 2], &'a Device)>,
    borrows: PhantomData<&'a mut T>,
}

impl<'a, T: Real> CrossEntropy<'a, T> {
    /// Prepares the loss of each row, `ln(sum(exp(x))) - x[target]`.
    ///
    /// A target that is not a column gives NaN; a target of -100 is [ignored](Self::ignoring). A row with a NaN or a +inf,
    /// or with only -inf, gives NaN. A target with the logit -inf among finite ones gives +inf.
    pub fn new(
        loss: impl Into<BufferViewMut<'a, f32>>,
        logits: &Matrix<'a, T>,
        targets: impl Into<Targets<'a>>,
    ) -> Self {
        let (elements, device) = (logits.raw(), logits.device());
        Self::of(loss.into(), elements, logits.shape(), logits.stride(), device, targets.into())
    }

    /// Same as [`Self::new`], but replaces the logits with the gradient times `scale`.
    pub fn in_place(
        loss: impl Into<BufferViewMut<'a, f32>>,
        mut logits: MatrixMut<'a, T>,
        targets: impl Into<Targets<'a>>,
        scale: f32,
    ) -> Self {
        let (elements, device) = (logits.raw(), logits.device());
        let this = Self::of(loss.into(), elements, logits.shape(), logits.stride(), device, targets.into());
        this.with_gradient(logits, scale)
    }

    fn of(
        loss: BufferViewMut<'a, f32>,
        logits: RawBuffer<T>,
        shape: [usize; 2],
        stride: usize,
        device: &'a Device,
        targets: Targets<'a>,
    ) -> Self {
        let vectors = vec![("losses", loss.len(), loss.device()), ("targets", targets.len, targets.device)];
        let args = CrossEntropyLaunch::new(RawBuffer::written(loss), logits, targets.classes, targets.bytes);
        Self {
            args: CrossEntropyLaunch { stride: stride as u64, ..args },
            shape,
            vectors,
            matrices: vec![("logits", shape, device)],
            borrows: PhantomData,
        }
    }

    /// Also writes the gradient times `scale`: `(softmax(x) - one_hot(target)) * scale`. For the mean loss, pass 1 / rows.
    pub fn with_gradient(mut self, mut gradient: MatrixMut<'a, T>, scale: f32) -> Self {
        self.matrices.push(("gradient", gradient.shape(), gradient.device()));
        self.args.d_logits = gradient.raw();
        self.args.d_stride = gradient.stride() as u64;
        self.args.d_scale = scale;
        self
    }

    /// Multiplies each row's gradient by the given gradient of its loss.
    pub fn with_row_gradients(mut self, row_gradients: impl Into<BufferView<'a, f32>>) -> Self {
        let view = row_gradients.into();
        self.vectors.push(("gradients at the losses", view.len(), view.device()));
        self.args.d_loss = RawBuffer::read(view);
        self
    }

    /// Also writes `ln(sum(exp(x)))` of each row; NaN for a row with a NaN or a +inf, like its loss.
    pub fn with_log_sum_exp(mut self, lse: impl Into<BufferViewMut<'a, f32>>) -> Self {
        self.args.lse = self.written("log-sum-exps", lse.into());
        self
    }

    /// Also writes 1 for each row if its largest logit (the first of equal ones) is the target's, otherwise 0.
    pub fn with_correct(mut self, correct: impl Into<BufferViewMut<'a, u32>>) -> Self {
        self.args.correct = self.written("marks of correct rows", correct.into());
        self
    }

    /// Ignores rows with the target `index`: their loss, correctness and gradient are 0, whatever their logits are.
    pub fn ignoring(mut self, index: i64) -> Self {
        self.args.ignore_index = index;
        self
    }

    fn written<E: Pod>(&mut self, what: &'static str, view: BufferViewMut<'a, E>) -> RawBuffer<E> {
        self.vectors.push((what, view.len(), view.device()));
        RawBuffer::written(view)
    }

    /// Computes the requested outputs. On a GPU the work is queued. Without rows or columns nothing is written.
    ///
    /// # Errors
    /// A vector does not have one element per row, the gradient does not have the logits' shape, a row has 2^32 elements or
    /// more, memory lives on another device, or the device failed.
    pub fn run(self, queue: &impl Queue) -> Result<(), SoftmaxError> {
        let (args, shape) = self.checked(queue.device())?;
        launch(queue, args, shape)
    }

    /// Checks the launch arguments against the device and the logits, and returns them with the shape of the logits.
    pub(crate) fn checked(
        self,
        device: &Device,
    ) -> Result<(CrossEntropyLaunch<T>, [usize; 2]), SoftmaxError> {
        let Self { args, shape, vectors, matrices, .. } = self;
        for (what, len, at) in vectors {
            if len != shape[0] {
                let (operation, rows) = ("cross entropy", shape[0]);
                return Err(SoftmaxError::LengthDiffers { operation, what, len, rows });
            }
            check(device, what, [len, 1], ([len, 1], at))?;
        }
        for (what, got, at) in matrices {
            check(device, what, shape, (got, at))?;
        }
        Ok((args, shape))
    }
}

/// Launches the device's kernels on `on`. The arguments are [checked](CrossEntropy::checked), and their memory is still
/// borrowed.
pub(crate) fn launch<T: Real>(
    queue: &impl Queue,
    args: CrossEntropyLaunch<T>,
    shape: [usize; 2],
) -> Result<(), SoftmaxError> {
    let profile = DeviceProfile::from(queue.device());
    let Some(kernel) = RowKernel::new::<T>(&T::CROSS_ENTROPY.rows, &profile, shape)? else { return Ok(()) };
    for (first, rows) in kernel.launches() {
        let args = CrossEntropyLaunch {
            loss: args.loss.skip(first),
            lse: args.lse.skip(first),
            correct: args.correct.skip(first),
            d_logits: args.d_logits.skip(first * args.d_stride as usize),
            logits: args.logits.skip(first * args.stride as usize),
            targets: args.targets.skip(first * args.target_bytes as usize),
            d_loss: args.d_loss.skip(first),
            rows,
            cols: kernel.cols,
            prefetch_blocks: kernel.prefetch_blocks(&[args.stride]),
            ..args
        };
        // SAFETY: all memory was checked against the shape and the device and is borrowed, outputs exclusively. Later uses
        // of it wait for the device or are queued after this. The grid is for this many rows.
        unsafe { kernel.spread.variant.launch(queue, kernel.config(rows), args) }?;
    }
    Ok(())
}
