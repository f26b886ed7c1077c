//! Softmax cross entropy: loss and gradient in one pass over the logits.

use bytemuck::Pod;
use ferrowarp_device::device::Queue;
use ferrowarp_device::error::Error;
use ferrowarp_device::tensor::{Tensor, TensorView, TensorViewMut};
use softmax_kernels::cross_entropy::{CrossEntropyLaunch, I32, I64, U8};

use super::row_kernel::RowKernel;
use crate::element::Element;
use crate::operation::{Operation, read, result, written};

const NAME: &str = "cross entropy";

/// The type of targets, the class of each row: `i64` as in PyTorch, `i32`, `u32` below 2^31, or `u8`.
///
/// ```
/// use ferrowarp::softmax::cross_entropy::Class;
///
/// fn check<C: Class>() {}
/// check::<i64>();
/// check::<u8>();
/// ```
pub trait Class: Pod + sealed::Sealed {}

mod sealed {
    pub trait Sealed {
        /// Bytes per class.
        const BYTES: u32;

        /// The ignored class as the kernels read it; otherwise a number that no class is read as.
        fn ignored(ignore_index: i64) -> i64;
    }
}

macro_rules! classes {
    ($($ty:ident: $bytes:expr;)*) => {$(
        impl sealed::Sealed for $ty {
            const BYTES: u32 = $bytes;

            fn ignored(ignore_index: i64) -> i64 {
                // Kernels read 32-bit classes as `i32`.
                let is_class = <$ty>::try_from(ignore_index);
                is_class.map_or(i64::MIN, |class| if $bytes == I32 { i64::from(class as i32) } else { class as i64 })
            }
        }
        impl Class for $ty {}
    )*};
}

classes! { i64: I64; i32: I32; u32: I32; u8: U8; }

/// The cross entropy of logits along the last axis and a target for each row: `ln(sum(exp(x))) - x[target]`, and its gradient,
/// `softmax(x) - one_hot(target)`.
///
/// A target that is not a column gives NaN; a target of -100 is [ignored](Self::ignore_index). A row with a NaN or a +inf, or
/// with only -inf, gives NaN. A target with the logit -inf among finite ones gives +inf.
///
/// ```
/// use ferrowarp::device::Device;
/// use ferrowarp::{CrossEntropy, Error};
///
/// let device = Device::cpu();
/// let logits = device.tensor(&[0.0f32, 0.0, 3.0, 3.0], [2, 2])?;
/// let targets = device.upload(&[1i64, -100])?;
/// let (losses, gradient) = CrossEntropy::new().forward(&device, &logits, &targets)?;
/// assert!((losses.to_vec()?[0] - 2f32.ln()).abs() < 1e-6);
/// assert_eq!(gradient.to_vec()?, [0.5, -0.5, 0.0, 0.0]);
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
#[must_use = "nothing is computed before it is run"]
pub struct CrossEntropy<'a> {
    ignore_index: i64,
    scale: f32,
    row_gradients: Option<TensorView<'a, f32>>,
}

/// The outputs of a cross entropy: the losses, and what else is wanted. A tensor alone is that of the losses.
///
/// ```
/// use ferrowarp::device::Device;
/// use ferrowarp::softmax::cross_entropy::Outputs;
/// use ferrowarp::{CrossEntropy, Error, Tensor};
///
/// let device = Device::cpu();
/// let logits = device.tensor(&[0.0f32, 3.0], [1, 2])?;
/// let targets = device.upload(&[1u8])?;
/// let (mut loss, mut correct) = (Tensor::zeros(&device, [1])?, Tensor::zeros(&device, [1])?);
/// CrossEntropy::new().run_into(&device, Outputs::new(&mut loss).correct(&mut correct), &logits, &targets)?;
/// assert_eq!(correct.to_vec()?, [1]);
/// # Ok::<(), Error>(())
/// ```
#[derive(Debug)]
#[must_use = "nothing is written before a cross entropy runs"]
pub struct Outputs<'a, T: Pod> {
    losses: TensorViewMut<'a, f32>,
    gradient: Option<TensorViewMut<'a, T>>,
    log_sum_exp: Option<TensorViewMut<'a, f32>>,
    correct: Option<TensorViewMut<'a, u32>>,
}

impl<'a, T: Pod> Outputs<'a, T> {
    /// The losses alone, one for each row: of the logits' shape without the last axis, or of one axis.
    pub fn new(losses: impl Into<TensorViewMut<'a, f32>>) -> Self {
        Self { losses: losses.into(), gradient: None, log_sum_exp: None, correct: None }
    }

    /// Also the gradient, of the logits' shape.
    pub fn gradient(self, gradient: impl Into<TensorViewMut<'a, T>>) -> Self {
        Self { gradient: Some(gradient.into()), ..self }
    }

    /// Also `ln(sum(exp(x)))` of each row; NaN for a row with a NaN or a +inf, like its loss.
    pub fn log_sum_exp(self, log_sum_exp: impl Into<TensorViewMut<'a, f32>>) -> Self {
        Self { log_sum_exp: Some(log_sum_exp.into()), ..self }
    }

    /// Also 1 for each row if its largest logit (the first of equal ones) is the target's, otherwise 0.
    pub fn correct(self, correct: impl Into<TensorViewMut<'a, u32>>) -> Self {
        Self { correct: Some(correct.into()), ..self }
    }
}

impl<'a, T: Pod, V: Into<TensorViewMut<'a, f32>>> From<V> for Outputs<'a, T> {
    fn from(losses: V) -> Self {
        Self::new(losses)
    }
}

impl Default for CrossEntropy<'_> {
    fn default() -> Self {
        Self::new()
    }
}

impl<'a> CrossEntropy<'a> {
    /// Ignores the target -100, and does not scale the gradient.
    pub const fn new() -> Self {
        Self { ignore_index: -100, scale: 1.0, row_gradients: None }
    }

    /// Ignores rows with this target: their loss, correctness and gradient are 0, whatever their logits are.
    pub const fn ignore_index(self, ignore_index: i64) -> Self {
        Self { ignore_index, ..self }
    }

    /// Multiplies the gradient by `scale`: pass 1 / rows for the gradient of the mean loss.
    pub const fn gradient_scale(self, scale: f32) -> Self {
        Self { scale, ..self }
    }

    /// Multiplies each row's gradient by the given gradient of its loss.
    pub fn row_gradients(self, row_gradients: impl Into<TensorView<'a, f32>>) -> Self {
        Self { row_gradients: Some(row_gradients.into()), ..self }
    }

    /// Returns the loss of each row, of the logits' shape without the last axis; 0 without columns.
    ///
    /// # Errors
    /// A vector does not have one element per row, the gradient does not have the logits' shape, a row has 2^32 elements or
    /// more, an operand lives on another device, or the device failed or is out of memory.
    pub fn run<'i, T: Element, C: Class>(
        &self,
        queue: &impl Queue,
        logits: impl Into<TensorView<'i, T>>,
        targets: impl Into<TensorView<'i, C>>,
    ) -> Result<Tensor<f32>, Error> {
        let logits = logits.into();
        let mut losses = result(queue, logits.shape().without_last(), logits.shape())?;
        self.run_into(queue, &mut losses, logits, targets)?;
        Ok(losses)
    }

    /// Returns the loss of each row, as [`Self::run`], and the gradient with respect to the logits, of their shape.
    ///
    /// # Errors
    /// Same as for [`Self::run`].
    pub fn forward<'i, T: Element, C: Class>(
        &self,
        queue: &impl Queue,
        logits: impl Into<TensorView<'i, T>>,
        targets: impl Into<TensorView<'i, C>>,
    ) -> Result<(Tensor<f32>, Tensor<T>), Error> {
        let logits = logits.into();
        let mut losses = result(queue, logits.shape().without_last(), logits.shape())?;
        let mut gradient = Tensor::unwritten(queue, logits.shape())?;
        self.run_into(queue, Outputs::new(&mut losses).gradient(&mut gradient), logits, targets)?;
        Ok((losses, gradient))
    }

    /// Writes the outputs. Without rows or columns nothing is written.
    ///
    /// # Errors
    /// Same as for [`Self::run`].
    pub fn run_into<'o, 'i, T: Element, C: Class>(
        &self,
        queue: &impl Queue,
        outputs: impl Into<Outputs<'o, T>>,
        logits: impl Into<TensorView<'i, T>>,
        targets: impl Into<TensorView<'i, C>>,
    ) -> Result<(), Error> {
        let (operation, mut outputs) = (Operation::new(NAME, queue), outputs.into());
        let (args, shape) = self.args(operation, &mut outputs, &logits.into(), &targets.into())?;
        launch(queue, args, shape)
    }

    /// Replaces the logits with the gradient, and writes the other outputs.
    ///
    /// # Errors
    /// Same as for [`Self::run`]; or the outputs have a gradient of their own.
    pub fn run_in_place<'o, 'i, T: Element, C: Class>(
        &self,
        queue: &impl Queue,
        outputs: impl Into<Outputs<'o, T>>,
        logits: impl Into<TensorViewMut<'o, T>>,
        targets: impl Into<TensorView<'i, C>>,
    ) -> Result<(), Error> {
        let (operation, mut outputs) = (Operation::new(NAME, queue), outputs.into());
        let (args, shape) =
            self.args_in_place(operation, &mut outputs, &mut logits.into(), &targets.into())?;
        launch(queue, args, shape)
    }

    /// Checks everything, and returns the launch arguments and the shape of the logits as a matrix.
    pub(crate) fn args<T: Element, C: Class>(
        &self,
        operation: Operation<'_>,
        outputs: &mut Outputs<'_, T>,
        logits: &TensorView<'_, T>,
        targets: &TensorView<'_, C>,
    ) -> Result<(CrossEntropyLaunch<T>, [usize; 2]), Error> {
        let Outputs { losses, gradient, log_sum_exp, correct } = outputs;
        let from = operation.matrix("input", logits, logits.shape())?;
        let to = gradient.as_ref().map(|it| operation.matrix("gradient", it, logits.shape())).transpose()?;
        let (shape, rows) = (logits.shape(), from.rows);
        operation.per_row("loss vector", losses, shape, rows)?;
        operation.per_row("target vector", targets, shape, rows)?;
        log_sum_exp.iter().try_for_each(|it| operation.per_row("log-sum-exp vector", it, shape, rows))?;
        correct.iter().try_for_each(|it| operation.per_row("correctness vector", it, shape, rows))?;
        let mut row_gradients = self.row_gradients.iter();
        row_gradients.try_for_each(|it| operation.per_row("row gradient vector", it, shape, rows))?;
        let args = CrossEntropyLaunch {
            lse: written(log_sum_exp),
            correct: written(correct),
            d_logits: written(gradient),
            d_loss: read(&self.row_gradients),
            d_stride: to.map_or(0, |to| to.stride as u64),
            stride: from.stride as u64,
            ignore_index: C::ignored(self.ignore_index),
            d_scale: self.scale,
            ..CrossEntropyLaunch::new(losses.raw(), logits.raw(), targets.raw().cast(), C::BYTES)
        };
        Ok((args, [rows, from.cols]))
    }

    /// Same as [`Self::args`], with the gradient in place of the logits.
    pub(crate) fn args_in_place<T: Element, C: Class>(
        &self,
        operation: Operation<'_>,
        outputs: &mut Outputs<'_, T>,
        logits: &mut TensorViewMut<'_, T>,
        targets: &TensorView<'_, C>,
    ) -> Result<(CrossEntropyLaunch<T>, [usize; 2]), Error> {
        if outputs.gradient.is_some() {
            let needs = "the gradient replaces the logits, so omit it from the outputs";
            return Err(operation.refuse_option("there is a second gradient".to_owned(), needs));
        }
        let (args, shape) = self.args(operation, outputs, &logits.as_view(), targets)?;
        let elements = logits.raw();
        Ok((
            CrossEntropyLaunch { logits: elements, d_logits: elements, d_stride: args.stride, ..args },
            shape,
        ))
    }
}

/// Launches the device's kernels on `queue`. The arguments are [checked](CrossEntropy::args), and their memory is still
/// borrowed.
pub(crate) fn launch<T: Element>(
    queue: &impl Queue,
    args: CrossEntropyLaunch<T>,
    shape: [usize; 2],
) -> Result<(), Error> {
    let profile = queue.device().into();
    let Some(kernel) = RowKernel::new::<T>(NAME, &T::CROSS_ENTROPY.rows, &profile, shape)? else {
        return Ok(());
    };
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
