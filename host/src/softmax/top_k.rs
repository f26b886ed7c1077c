//! The largest probabilities of a softmax.

use ferrowarp_device::device::Queue;
use ferrowarp_device::error::Error;
use ferrowarp_device::tensor::{Tensor, TensorView, TensorViewMut};
use softmax_kernels::top_k::{MOST, TopKLaunch};

use super::options::Softmax;
use super::row_kernel::RowKernel;
use crate::element::Element;
use crate::operation::{Operation, result};

const NAME: &str = "top-k";

/// The `k` largest probabilities of a softmax along the last axis, the largest first, and their columns. The logits are read
/// from memory once, and no softmax is written.
///
/// ```
/// use ferrowarp::device::Device;
/// use ferrowarp::{Error, TopK};
///
/// let device = Device::cpu();
/// let logits = device.tensor(&[0.0f32, 3.0, f32::NEG_INFINITY, 3.0], [1, 4])?;
/// let (probabilities, indices) = TopK::new(2).run(&device, &logits)?;
/// assert_eq!(indices.to_vec()?, [1, 3]);
/// assert!(probabilities.to_vec()?.iter().all(|p| (p - 1.0 / (2.0 + (-3f32).exp())).abs() < 1e-6));
/// # Ok::<(), Error>(())
/// ```
///
/// # Order
/// The order is by logits, not probabilities, so rounding does not affect it: a larger logit comes first, and of equal ones
/// (0 and -0 are equal) the one in the smaller column. `torch.topk(torch.softmax(x, -1), k)` compares probabilities.
/// Rounding makes some of them equal, and it returns any of those, in any order. Probabilities and
/// [logarithms](Softmax::log) are as accurate as those of [`Softmax`] in `f32`, whatever the logits' type.
///
/// # Hard rows
/// A row with a NaN or a +inf, or with only -inf, gives NaN and the columns 0, 1, 2 and so on, up to the last. With
/// [`Softmax::zero_masked`], a row with only -inf gives 0 in the same columns. Logits of -inf among finite ones have
/// probability 0 and follow in column order. If `k` is more than the columns, the results after the last column have
/// probability 0 (logarithm -inf) and index [`u32::MAX`]; PyTorch refuses that. Without columns nothing is written.
#[derive(Clone, Copy, Debug, PartialEq)]
#[must_use = "nothing is computed before it is run"]
pub struct TopK {
    k: usize,
    softmax: Softmax,
}

impl TopK {
    /// The largest `k`.
    pub const MOST: usize = MOST;

    /// The `k` largest probabilities, `k` from 1 to 128.
    pub const fn new(k: usize) -> Self {
        Self { k, softmax: Softmax::new() }
    }

    /// Takes the probabilities from this softmax: as logarithms, with a scale, or 0 for masked rows.
    pub const fn softmax(self, softmax: Softmax) -> Self {
        Self { softmax, ..self }
    }

    /// Returns the probabilities and their columns, both of the logits' shape with `k` columns; 0 without columns.
    ///
    /// # Errors
    /// `k` is 0 or over 128, a row has 2^32 elements or more, the scale is not in (0, 2^127], an operand has another shape or
    /// lives on another device, or the device failed or is out of memory.
    pub fn run<'i, T: Element>(
        &self,
        queue: &impl Queue,
        logits: impl Into<TensorView<'i, T>>,
    ) -> Result<(Tensor<f32>, Tensor<u32>), Error> {
        let logits = logits.into();
        check_k(&Operation::new(NAME, queue), self.k)?;
        let shape = logits.shape().with_last(self.k);
        let (mut probabilities, mut indices) =
            (result(queue, shape, logits.shape())?, result(queue, shape, logits.shape())?);
        self.run_into(queue, &mut probabilities, &mut indices, logits)?;
        Ok((probabilities, indices))
    }

    /// Writes the probabilities and their columns.
    ///
    /// # Errors
    /// Same as for [`Self::run`].
    pub fn run_into<'o, 'i, T: Element>(
        &self,
        queue: &impl Queue,
        probabilities: impl Into<TensorViewMut<'o, f32>>,
        indices: impl Into<TensorViewMut<'o, u32>>,
        logits: impl Into<TensorView<'i, T>>,
    ) -> Result<(), Error> {
        let (operation, logits) = (Operation::new(NAME, queue), logits.into());
        let (mut probabilities, mut indices) = (probabilities.into(), indices.into());
        check_k(&operation, self.k)?;
        self.softmax.check(&operation)?;
        let from = operation.matrix("input", &logits, logits.shape())?;
        let selected = logits.shape().with_last(self.k);
        let of_probabilities = operation.matrix("probability tensor", &probabilities, selected)?;
        let of_indices = operation.matrix("index tensor", &indices, selected)?;
        let (profile, shape) = (operation.device.into(), [from.rows, from.cols]);
        let Some(kernel) = RowKernel::new::<T>(NAME, &T::SAMPLING.top_k, &profile, shape)? else {
            return Ok(());
        };
        let (to, columns, elements) = (probabilities.raw(), indices.raw(), logits.raw());
        for (first, rows) in kernel.launches() {
            let args = TopKLaunch {
                probabilities: to.skip(first * of_probabilities.stride),
                indices: columns.skip(first * of_indices.stride),
                logits: elements.skip(first * from.stride),
                rows,
                probabilities_stride: of_probabilities.stride as u64,
                indices_stride: of_indices.stride as u64,
                stride: from.stride as u64,
                cols: kernel.cols,
                k: self.k as u32,
                scale: self.softmax.scale,
                flags: self.softmax.flags(),
            };
            // SAFETY: three checked matrices on this device, the outputs borrowed exclusively. Later uses of them wait for the
            // device or are queued after this. The grid is for this many rows.
            unsafe { kernel.spread.variant.launch(queue, kernel.config(rows), args) }?;
        }
        Ok(())
    }
}

/// Checks that `k` elements can be selected.
pub(super) fn check_k(operation: &Operation<'_>, k: usize) -> Result<(), Error> {
    if (1..=MOST).contains(&k) {
        return Ok(());
    }
    Err(operation.refuse_option(format!("k is {k}"), "it must be from 1 to 128"))
}

const _: () = assert!(MOST == 128, "update the message of `check_k`, and the documents");
