//! Copies with a conversion, and fills.

use axis_kernels::args::{ALIGNED, CastLaunch};
use axis_kernels::{Blocks, CastTo};
use cuda_std::launch::RawBuffer;
use ferrowarp_device::device::Queue;
use ferrowarp_device::error::Error;
use ferrowarp_device::tensor::{Layout, Operand as _, Shape, Tensor, TensorView, TensorViewMut};

use super::choices::choices;
use crate::element::Element;
use crate::operation::{Operation, starts_aligned};

/// A copy of a tensor of any strides, as `f32`, `f16` or `bf16`: rounded to nearest, ties to even.
///
/// It makes a transposed, sliced or broadcast view dense for operations that need rows without gaps.
///
/// ```
/// use ferrowarp::device::Device;
/// use ferrowarp::{Cast, Error, Tensor, bf16};
///
/// let device = Device::cpu();
/// let x = device.tensor(&[1.0f32, 2.0, 3.0, 4.0], [2, 2])?;
/// let y: Tensor<bf16> = Cast::new().run(&device, x.view().t())?;
/// assert_eq!(y.to_vec()?, [1.0, 3.0, 2.0, 4.0].map(bf16::from_f32));
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use = "nothing is computed before it is run"]
pub struct Cast {}

/// A tensor whose elements are all the same number, rounded to the type of the elements.
///
/// ```
/// use ferrowarp::device::Device;
/// use ferrowarp::{Error, Fill, TensorViewMut};
///
/// let device = Device::cpu();
/// let mut x = Fill::new(1.0).run::<f32>(&device, [2, 2])?;
/// Fill::new(0.5).run_into(&device, x.view_mut().slice(1, ..1)?)?;
/// assert_eq!(x.to_vec()?, [0.5, 1.0, 0.5, 1.0]);
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[must_use = "nothing is computed before it is run"]
pub struct Fill {
    value: f32,
}

impl Cast {
    /// A copy of every element.
    pub const fn new() -> Self {
        Self {}
    }

    /// Returns the copy.
    ///
    /// # Errors
    /// The input lives on another device, or the device failed or is out of memory.
    pub fn run<'i, T: Element + CastTo<O>, O: Element>(
        self,
        queue: &impl Queue,
        inp: impl Into<TensorView<'i, T>>,
    ) -> Result<Tensor<O>, Error> {
        let inp = inp.into();
        let mut out = Tensor::unwritten(queue, inp.shape())?;
        self.run_into(queue, &mut out, inp)?;
        Ok(out)
    }

    /// Writes the copy.
    ///
    /// # Errors
    /// As for [`Self::run`], or the shapes differ.
    pub fn run_into<'o, 'i, T: Element + CastTo<O>, O: Element>(
        self,
        queue: &impl Queue,
        out: impl Into<TensorViewMut<'o, O>>,
        inp: impl Into<TensorView<'i, T>>,
    ) -> Result<(), Error> {
        self.run_by(queue, out.into(), inp.into(), choices(queue.device().limits())[0])
    }

    /// Runs with the blocks of a GPU or of a CPU.
    #[doc(hidden)]
    pub fn run_by<T: Element + CastTo<O>, O: Element>(
        self,
        queue: &impl Queue,
        out: TensorViewMut<'_, O>,
        inp: TensorView<'_, T>,
        blocks: Blocks,
    ) -> Result<(), Error> {
        let operation = Operation::new("a cast", queue);
        operation.check("input", &inp, inp.shape())?;
        operation.check("output", &out, inp.shape())?;
        launch(queue, out, Ok(inp), blocks)
    }
}

impl Fill {
    /// Fills with `value`.
    pub const fn new(value: f32) -> Self {
        Self { value }
    }

    /// Returns a tensor of this shape.
    ///
    /// # Errors
    /// The device failed or is out of memory.
    pub fn run<T: Element>(self, queue: &impl Queue, shape: impl Into<Shape>) -> Result<Tensor<T>, Error> {
        let mut out = Tensor::unwritten(queue, shape)?;
        self.run_into(queue, &mut out)?;
        Ok(out)
    }

    /// Fills `out`; elements between its own are left alone.
    ///
    /// # Errors
    /// `out` lives on another device, or the device failed.
    pub fn run_into<'o, T: Element>(
        self,
        queue: &impl Queue,
        out: impl Into<TensorViewMut<'o, T>>,
    ) -> Result<(), Error> {
        let out = out.into();
        Operation::new("a fill", queue).check_device("output", &out)?;
        launch::<T, T>(queue, out, Err(self.value), choices(queue.device().limits())[0])
    }
}

/// Writes `out` from an input of the same shape, or a number; both were checked.
fn launch<I: Element + CastTo<O>, O: Element>(
    queue: &impl Queue,
    mut out: TensorViewMut<'_, O>,
    inp: Result<TensorView<'_, I>, f32>,
    blocks: Blocks,
) -> Result<(), Error> {
    let to = *out.layout();
    if to.is_empty() {
        return Ok(());
    }
    let from = inp.as_ref().map_or(to, |inp| *inp.layout());
    let [extents, out_strides, inp_strides] = merged([&to, &from]);
    let kernel = I::CAST;
    let groups = extents[..3].iter().product::<u64>() * extents[3].div_ceil(u64::from(kernel.group));
    let (raw, value) = (out.raw(), inp.as_ref().err().copied().unwrap_or_default());
    let source = inp.as_ref().map_or(RawBuffer::NULL, TensorView::raw);
    let is_aligned = is_aligned(raw, out_strides) && (inp.is_err() || is_aligned(source, inp_strides));
    let flags = if is_aligned { ALIGNED } else { 0 };
    let args = CastLaunch { out: raw, inp: source, extents, out_strides, inp_strides, value, flags };
    // SAFETY: shapes and devices were checked, and the output is borrowed exclusively. Later uses of the memory wait for the
    // device or are queued after this.
    unsafe { kernel.launch(queue, kernel.config(groups, blocks), args)? };
    Ok(())
}

/// Whether the last axis has no gaps and starts at multiples of 16 bytes. Axes of one index have a stride of 0.
fn is_aligned<T>(buffer: RawBuffer<T>, strides: [u64; 4]) -> bool {
    strides[3] == 1 && starts_aligned(&strides.map(|stride| (buffer, stride as usize))[..3])
}

/// Extents, strides of the output and strides of the input, of four axes: ordered by the output's strides, so that neighbouring
/// threads write neighbouring elements, and with those axes as one that lie without gaps in both. The tensors have elements.
fn merged([to, from]: [&Layout; 2]) -> [[u64; 4]; 3] {
    let number = |value: &usize| *value as u64;
    let (shape, strides) = (to.shape(), [to.strides(), from.strides()]);
    let mut axes: Vec<[u64; 3]> = (0..shape.len())
        .map(|axis| [&shape[axis], &strides[0][axis], &strides[1][axis]].map(number))
        .filter(|[extent, ..]| *extent > 1)
        .collect();
    axes.sort_by_key(|[_, out, inp]| (*out, *inp));
    // From the innermost axis to the outermost.
    let mut all = [[1u64, 0, 0]; 4];
    let mut last = 0;
    for axis @ [extent, out, inp] in axes {
        let [inner, of_out, of_inp] = all[last];
        if inner == 1 {
            all[last] = axis;
        } else if out == inner * of_out && inp == inner * of_inp {
            all[last][0] *= extent;
        } else {
            last += 1;
            all[last] = axis;
        }
    }
    if all[0][0] == 1 {
        all[0] = [1, 1, 1];
    }
    all.reverse();
    [0, 1, 2].map(|part| all.map(|axis| axis[part]))
}
