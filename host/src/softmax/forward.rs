//! The softmax.

use cuda_std::launch::RawBuffer;
use ferrowarp_device::device::Queue;
use ferrowarp_device::error::Error;
use ferrowarp_device::tensor::{Rows, Tensor, TensorView, TensorViewMut};
use softmax_kernels::forward::ForwardLaunch;

use super::kernel_choice::KernelChoice;
use super::options::{Softmax, SoftmaxAs};
use crate::element::Element;
use crate::operation::{Operation, is_aligned, starts_aligned};

impl Softmax {
    /// Returns the softmax of `inp`.
    ///
    /// # Errors
    /// A row has 2^32 elements or more, the scale is not in (0, 2^127], an operand lives on another device or has another
    /// shape, or the device failed or is out of memory.
    pub fn run<'i, T: Element>(
        &self,
        queue: &impl Queue,
        inp: impl Into<TensorView<'i, T>>,
    ) -> Result<Tensor<T>, Error> {
        let inp = inp.into();
        let mut out = Tensor::<T>::unwritten(queue, inp.shape())?;
        self.run_into(queue, &mut out, inp)?;
        Ok(out)
    }

    /// Writes the softmax of `inp` into `out`, which may have another element type.
    ///
    /// # Errors
    /// Same as for [`Self::run`].
    pub fn run_into<'o, 'i, I: SoftmaxAs<O>, O: Element>(
        &self,
        queue: &impl Queue,
        out: impl Into<TensorViewMut<'o, O>>,
        inp: impl Into<TensorView<'i, I>>,
    ) -> Result<(), Error> {
        self.run_by(queue, out.into(), inp.into(), None)
    }

    /// Runs the kernels of a choice, to compare kernels.
    ///
    /// # Panics
    /// The choice is for another shape.
    #[doc(hidden)]
    pub fn run_by<I: SoftmaxAs<O>, O: Element>(
        &self,
        queue: &impl Queue,
        mut out: TensorViewMut<'_, O>,
        inp: TensorView<'_, I>,
        by: Option<KernelChoice<I, O>>,
    ) -> Result<(), Error> {
        let operation = Operation::new("softmax", queue);
        let from = operation.matrix("input", &inp, inp.shape())?;
        let to = operation.matrix("output", &out, inp.shape())?;
        // SAFETY: two checked matrices of the same shape on this device. They do not overlap, since one is borrowed exclusively.
        unsafe { self.launch(queue, operation, [to, from], (out.raw(), inp.raw()), by) }
    }

    /// Replaces the elements with their softmax.
    ///
    /// # Errors
    /// Same as for [`Self::run`].
    pub fn run_in_place<'o, T: Element>(
        &self,
        queue: &impl Queue,
        tensor: impl Into<TensorViewMut<'o, T>>,
    ) -> Result<(), Error> {
        let (operation, mut tensor) = (Operation::new("softmax", queue), tensor.into());
        let rows = operation.matrix("tensor", &tensor, tensor.shape())?;
        let elements = tensor.raw();
        // SAFETY: as in `run_into`; output and input are the same matrix.
        unsafe { self.launch(queue, operation, [rows; 2], (elements, elements), None) }
    }

    /// # Safety
    /// `out` and `inp` are matrices of these strides on the queue's device and may be the same; `out` is borrowed exclusively.
    unsafe fn launch<I: SoftmaxAs<O>, O: Element>(
        &self,
        queue: &impl Queue,
        operation: Operation<'_>,
        [to, from]: [Rows; 2],
        (out, inp): (RawBuffer<O>, RawBuffer<I>),
        by: Option<KernelChoice<I, O>>,
    ) -> Result<(), Error> {
        self.check(&operation)?;
        let shape = [from.rows, from.cols];
        let is_whole = is_aligned(from.cols, &[(inp, from.stride)]) && starts_aligned(&[(out, to.stride)]);
        let choice = by.map_or_else(|| KernelChoice::of_rows(&queue.device().into(), shape, is_whole), Ok)?;
        assert_eq!(choice.shape(), shape, "the kernels were chosen for another shape");
        let mut pairs = queue.alloc_unwritten::<u64>(choice.workspace_bytes().div_ceil(8))?;
        let pairs = RawBuffer::<u64>::written(&mut pairs).cast();
        let args = ForwardLaunch { pairs, ..ForwardLaunch::new(out, inp, [to.stride, from.stride]) };
        // SAFETY: the caller's matrices; the pairs have the size that the choice needs. Later uses of all three wait for the
        // device, or are queued after this.
        Ok(unsafe { choice.launch(queue, args, self) }?)
    }
}
