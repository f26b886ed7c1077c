//! Cross entropy of a softmax: loss and gradient in one pass over the logits.

use std::marker::PhantomData;

use bytemuck::Pod;
use gpu_kernels::softmax::cross_entropy::{Arguments, CROSS_ENTROPY, I32, I64, U8};
use gpu_kernels::softmax::operation::Memory;

use super::choice::{Operand, from_row};
use super::rowwise::Rowwise;
use super::{Matrix, MatrixMut, Real, SoftmaxError, Target, check};
use crate::device::{Buffer, BufferView, BufferViewMut, Device};

/// A vector with an element for each row.
#[derive(Clone, Copy)]
struct Vector<'a> {
    memory: Memory,
    len: usize,
    element: usize,
    device: &'a Device,
}

impl<'a> Vector<'a> {
    fn read<T: Pod>(view: BufferView<'a, T>) -> Self {
        let (len, device) = (view.len(), view.device());
        Self { memory: Memory::read(view), len, element: size_of::<T>(), device }
    }

    fn written<T: Pod>(view: BufferViewMut<'a, T>) -> Self {
        let (len, device) = (view.len(), view.device());
        Self { memory: Memory::written(view), len, element: size_of::<T>(), device }
    }

    fn check(&self, on: &Device, what: &'static str, rows: usize) -> Result<(), SoftmaxError> {
        if self.len != rows {
            return Err(SoftmaxError::LengthDiffers { what, len: self.len, rows });
        }
        check(on, what, [rows, 1], ([rows, 1], self.device))
    }

    fn skipping(self, row: usize) -> Memory {
        from_row(Operand { memory: self.memory, stride: 1 }, row, self.element)
    }
}

/// The class of each row: `i64` as PyTorch has them, `i32`, `u32` below 2^31, or `u8`.
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
    vector: Vector<'a>,
    bytes: u32,
}

macro_rules! targets {
    ($($ty:ident: $bytes:expr;)*) => {$(
        impl<'a> From<BufferView<'a, $ty>> for Targets<'a> {
            fn from(view: BufferView<'a, $ty>) -> Self {
                Self { vector: Vector::read(view), bytes: $bytes }
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

/// Cross entropy of `logits` and targets: what is read, and what is asked for.
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
/// CrossEntropy::new(&mut losses, Matrix::new(&logits, 2, 2)?, &targets)
///     .with_gradient(MatrixMut::new(&mut gradient, 2, 2)?, 1.0)
///     .run(&device)?;
/// assert!((losses.to_vec()?[0] - 2f32.ln()).abs() < 1e-6);
/// assert_eq!(gradient.to_vec()?, [0.5, -0.5, 0.0, 0.0]);
/// # Ok::<(), SoftmaxError>(())
/// ```
#[must_use = "nothing is computed before it is run"]
pub struct CrossEntropy<'a, T> {
    shape: [usize; 2],
    logits: Operand,
    logits_device: &'a Device,
    loss: Vector<'a>,
    targets: Targets<'a>,
    lse: Option<Vector<'a>>,
    correct: Option<Vector<'a>>,
    row_gradients: Option<Vector<'a>>,
    gradient: Option<(Operand, [usize; 2], &'a Device)>,
    gradient_scale: f32,
    ignored: i64,
    types: PhantomData<&'a mut T>,
}

impl<'a, T: Real> CrossEntropy<'a, T> {
    /// The loss of each row, `ln(sum(exp(x))) - x[target]`.
    ///
    /// A target that is no column gives NaN; one of -100 is [ignored](Self::ignoring). A row with a NaN or a +inf, or of
    /// -inf only, gives NaN, and a target of -inf among finite logits +inf.
    pub fn new(
        loss: impl Into<BufferViewMut<'a, f32>>,
        logits: Matrix<'a, T>,
        targets: impl Into<Targets<'a>>,
    ) -> Self {
        let device = logits.device();
        Self::of(loss.into(), logits.shape(), logits.operand(), device, targets.into())
    }

    /// As [`Self::new`], and the gradient times `scale` takes the place of the logits.
    pub fn in_place(
        loss: impl Into<BufferViewMut<'a, f32>>,
        mut logits: MatrixMut<'a, T>,
        targets: impl Into<Targets<'a>>,
        scale: f32,
    ) -> Self {
        let (device, shape, operand) = (logits.device(), logits.shape(), logits.operand());
        let this = Self::of(loss.into(), shape, operand, device, targets.into());
        Self { gradient: Some((operand, shape, device)), gradient_scale: scale, ..this }
    }

    fn of(
        loss: BufferViewMut<'a, f32>,
        shape: [usize; 2],
        logits: Operand,
        logits_device: &'a Device,
        targets: Targets<'a>,
    ) -> Self {
        Self {
            shape,
            logits,
            logits_device,
            loss: Vector::written(loss),
            targets,
            lse: None,
            correct: None,
            row_gradients: None,
            gradient: None,
            gradient_scale: 1.0,
            ignored: -100,
            types: PhantomData,
        }
    }

    /// Also the gradient times `scale`: `(softmax(x) - one_hot(target)) * scale`; for the mean of the losses the scale is
    /// 1 / rows.
    pub fn with_gradient(self, mut gradient: MatrixMut<'a, T>, scale: f32) -> Self {
        let (device, shape) = (gradient.device(), gradient.shape());
        Self { gradient: Some((gradient.operand(), shape, device)), gradient_scale: scale, ..self }
    }

    /// The gradient of each row times the gradient at its loss.
    pub fn with_row_gradients(self, row_gradients: impl Into<BufferView<'a, f32>>) -> Self {
        Self { row_gradients: Some(Vector::read(row_gradients.into())), ..self }
    }

    /// Also `ln(sum(exp(x)))` of each row; NaN for a row with a NaN or a +inf, as its loss is.
    pub fn with_log_sum_exp(self, lse: impl Into<BufferViewMut<'a, f32>>) -> Self {
        Self { lse: Some(Vector::written(lse.into())), ..self }
    }

    /// Also 1 for each row whose largest logit, of equal ones the first, is its target's, else 0.
    pub fn with_hits(self, correct: impl Into<BufferViewMut<'a, u32>>) -> Self {
        Self { correct: Some(Vector::written(correct.into())), ..self }
    }

    /// Rows with the target `index` have loss, hit and gradient 0, whatever their logits are.
    pub fn ignoring(self, index: i64) -> Self {
        Self { ignored: index, ..self }
    }

    /// Computes what was asked for. On a GPU it is queued. Without rows or columns nothing is written.
    ///
    /// # Errors
    /// A vector has not one element for each row, the gradient is not of the logits' shape, a row has 2^32 elements or
    /// more, memory lives on another device, or the device failed.
    pub fn run(self, device: &Device) -> Result<(), SoftmaxError> {
        let [rows, _] = self.shape;
        let vectors = [
            ("losses", Some(self.loss)),
            ("targets", Some(self.targets.vector)),
            ("log-sum-exps", self.lse),
            ("hits", self.correct),
            ("gradients at the losses", self.row_gradients),
        ];
        for (what, vector) in vectors {
            vector.map_or(Ok(()), |vector| vector.check(device, what, rows))?;
        }
        check(device, "logits", self.shape, (self.shape, self.logits_device))?;
        if let Some((_, shape, at)) = self.gradient {
            check(device, "gradient", self.shape, (shape, at))?;
        }
        let target = Target::from(device);
        let dtype = T::FORWARD.from;
        let Some(kernel) = Rowwise::new(CROSS_ENTROPY, dtype, &target, self.shape)? else { return Ok(()) };
        for (first, rows) in kernel.launches() {
            let of_rows =
                |vector: Option<Vector<'_>>| vector.map_or(Memory::NONE, |vector| vector.skipping(first));
            let gradient = self.gradient.map(|(operand, ..)| operand);
            let arguments = Arguments {
                loss: self.loss.skipping(first),
                lse: of_rows(self.lse),
                correct: of_rows(self.correct),
                d_logits: gradient.map_or(Memory::NONE, |gradient| from_row(gradient, first, dtype.size())),
                logits: from_row(self.logits, first, dtype.size()),
                targets: self.targets.vector.skipping(first),
                d_loss: of_rows(self.row_gradients),
                rows,
                cols: kernel.cols,
                d_stride: gradient.map_or(0, |gradient| gradient.stride as u64),
                stride: self.logits.stride as u64,
                target_bytes: self.targets.bytes,
                ignore_index: self.ignored,
                d_scale: self.gradient_scale,
                ahead: kernel.ahead(&[self.logits.stride]),
            };
            // SAFETY: all memory was checked against the shape and the device, is borrowed, what is written exclusively,
            // and later uses of it wait for the device or are queued after this; the grid is for that many rows.
            unsafe { (kernel.tier.launch)(device, kernel.tier.config(rows), arguments) }?;
        }
        Ok(())
    }
}
