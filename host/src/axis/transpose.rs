//! The transpose of a matrix.

use axis_kernels::args::{LEAD, TransposeArgs, TransposeLaunch, WIDE};
use axis_kernels::{TransposeKernels, TransposeShape};
use bytemuck::Pod;
use cuda_std::launch::{KernelOf, Limits, RawBuffer};
use ferrowarp_device::device::Queue;
use ferrowarp_device::error::{Error, Kind};
use ferrowarp_device::tensor::{Rows, Tensor, TensorView, TensorViewMut};

use crate::operation::{MOST, Operation, starts_aligned};

/// The name in errors.
const NAME: &str = "a transpose";

/// The transpose of a matrix in memory; a view is transposed by [`TensorView::t`]. Elements may have any type of 2 or 4 bytes.
///
/// ```
/// use ferrowarp::device::Device;
/// use ferrowarp::{Error, Transpose};
///
/// let device = Device::cpu();
/// let x = device.tensor(&[1u16, 2, 3, 4, 5, 6], [2, 3])?;
/// assert_eq!(Transpose::new().run(&device, &x)?.to_vec()?, [1, 4, 2, 5, 3, 6]);
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use = "nothing is computed before it is run"]
pub struct Transpose {}

impl Transpose {
    /// The transpose of `[rows, cols]` as `[cols, rows]`.
    pub const fn new() -> Self {
        Self {}
    }

    /// Returns the transpose of a tensor of two axes.
    ///
    /// # Errors
    /// The tensor has another number of axes, is too large, or has gaps within its rows; it lives on another device, or the
    /// device failed.
    pub fn run<'i, T: Pod>(
        self,
        queue: &impl Queue,
        inp: impl Into<TensorView<'i, T>>,
    ) -> Result<Tensor<T>, Error> {
        let inp = inp.into();
        let mut out = Tensor::unwritten(queue, inp.t().shape())?;
        self.run_into(queue, &mut out, inp)?;
        Ok(out)
    }

    /// Writes the transpose.
    ///
    /// # Errors
    /// As for [`Self::run`], or the output has another shape.
    pub fn run_into<'o, 'i, T: Pod>(
        self,
        queue: &impl Queue,
        out: impl Into<TensorViewMut<'o, T>>,
        inp: impl Into<TensorView<'i, T>>,
    ) -> Result<(), Error> {
        self.run_by(queue, out.into(), inp.into(), None)
    }

    /// The kernels that a device can run for a matrix of words, which has whole, aligned vectors or not, the default first.
    #[doc(hidden)]
    pub fn choices<W: TransposeKernels>(
        limits: &Limits,
        multiprocessors: usize,
        shape: [u32; 2],
        is_aligned: bool,
    ) -> Vec<&'static KernelOf<TransposeArgs<W>, TransposeShape>> {
        let squares = W::SQUARES.iter().filter(|_| is_aligned).chain(W::STAGED);
        let mut wide: Vec<_> = squares.filter(|kernel| kernel.has_whole_tiles(shape)).chain(W::ANY).collect();
        let of_each = u64::from(shape[0]) * u64::from(shape[1]) / multiprocessors.max(1) as u64;
        let first = wide.iter().position(|kernel| of_each >= kernel.least.into());
        wide.swap(0, first.expect("one kernel takes any matrix"));
        let serial = Some(W::SERIAL).filter(|_| limits.runs_cpu_only);
        serial.into_iter().chain(wide).collect()
    }

    /// Runs the kernel of a choice by its number, or the default.
    #[doc(hidden)]
    pub fn run_by<T: Pod>(
        self,
        queue: &impl Queue,
        mut out: TensorViewMut<'_, T>,
        inp: TensorView<'_, T>,
        by: Option<usize>,
    ) -> Result<(), Error> {
        const { assert!(size_of::<T>() == 2 || size_of::<T>() == 4, "elements of 2 or 4 bytes can be transposed") };
        let operation = Operation::new(NAME, queue);
        let got = inp.shape();
        if got.len() != 2 {
            return Err(operation.refuse("input", Kind::Rank { got, needs: "two axes" }));
        }
        let of_inp = operation.matrix("input", &inp, got)?;
        let of_out = operation.matrix("output", &out, [got[1], got[0]])?;
        operation.count("rows", of_inp.rows, MOST)?;
        operation.count("columns", of_inp.cols, MOST)?;
        if got.contains(&0) {
            return Ok(());
        }
        let (out, inp) = (out.raw(), inp.raw());
        if size_of::<T>() == 2 {
            Self::launch::<u16>(queue, by, (out.cast(), of_out), (inp.cast(), of_inp))
        } else {
            Self::launch::<u32>(queue, by, (out.cast(), of_out), (inp.cast(), of_inp))
        }
    }

    fn launch<W: TransposeKernels>(
        queue: &impl Queue,
        by: Option<usize>,
        (out, of_out): (RawBuffer<W>, Rows),
        (inp, of_inp): (RawBuffer<W>, Rows),
    ) -> Result<(), Error> {
        let (out_stride, inp_stride) = (of_out.stride, of_inp.stride);
        let shape = [of_inp.rows as u32, of_inp.cols as u32];
        let is_aligned = starts_aligned(&[(out, out_stride), (inp, inp_stride)])
            && shape.iter().all(|extent| extent.is_multiple_of(W::VECTOR));
        let (limits, multiprocessors) = (queue.device().limits(), queue.device().multiprocessors());
        let kernel = Self::choices::<W>(limits, multiprocessors, shape, is_aligned)[by.unwrap_or(0)];
        let ([rows, cols], [log_rows, log_cols]) = (shape, kernel.tile(shape));
        let (config, is_wide) = kernel.config(shape);
        let args = TransposeLaunch {
            out,
            inp,
            out_stride: out_stride as u64,
            inp_stride: inp_stride as u64,
            rows,
            cols,
            log_rows,
            log_cols,
            flags: if is_wide { WIDE } else { 0 }
                | if starts_aligned(&[(out, out_stride)]) { 0 } else { LEAD },
        };
        // SAFETY: shapes and devices were checked, and the output is borrowed exclusively. Elements and words have the same
        // size, and buffers start at multiples of it. Later uses of the memory wait for the device or are queued after this.
        unsafe { kernel.launch(queue, config, args)? };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_matrices_have_small_tiles_and_narrow_ones_long_tiles() {
        let limits = Limits::of_gpu(90);
        let of = |shape, is_aligned| Transpose::choices::<u16>(&limits, 132, shape, is_aligned)[0];
        assert_eq!(of([2048, 1024], true).meta.name, "axis_transpose_b16");
        assert_eq!(of([2048, 1024], false).meta.name, "axis_transpose_b16_8");
        assert_eq!(of([64, 64], true).meta.name, "axis_transpose_b16_1");
        assert_eq!(of([3, 1 << 20], false).tile([3, 1 << 20]), [2, 9]);
        let (config, is_wide) = of([1 << 20, 1], false).config([1 << 20, 1]);
        assert!(!is_wide && config.shared_bytes == 2048 && config.grid.x == 1024);
    }
}
