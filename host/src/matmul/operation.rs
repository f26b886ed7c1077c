//! A matrix multiplication with its epilogue.

use bytemuck::Pod;
use cuda_std::launch::RawBuffer;
use cuda_std::tensor::TensorMap;
use ferrowarp_device::device::Queue;
use ferrowarp_device::error::{Error, Kind};
use ferrowarp_device::tensor::{Operand, Shape, Tensor, TensorView, TensorViewMut};
use matmul_kernels::args::{
    A_ALIGNED, A_TRANSPOSED, AVX512, B_ALIGNED, B_TRANSPOSED, GELU, MatmulLaunch, OUT_ALIGNED, OUT_F32,
    OUT_TENSOR, RELU,
};

use super::kernel_choice::{KernelChoice, Problem};
use super::launch::{MOST_BLOCKS, launch_some};
use super::stored::{Stored, is_multiple_of};
use super::types::{Activation, NAME, Precision};

use crate::element::{Element, ElementAs, is_f32};
use crate::operation::{MOST, Operation, read};
use crate::recent::recent;

/// The options of a matrix multiplication: `out = activation(scale A B + bias + residual)`, for operands of `T` and results of
/// `O`.
///
/// ```
/// use ferrowarp::device::Device;
/// use ferrowarp::matmul::{Activation, Matmul};
/// use ferrowarp::{Error, Tensor, bf16};
///
/// let device = Device::cpu();
/// let (a, b) = (device.tensor(&[1.0f32, -1.0], [2, 1])?, device.tensor(&[2.0f32, 3.0], [1, 2])?);
/// let bias = device.upload(&[0.5f32, 0.5])?;
/// let layer = Matmul::new().bias(&bias).activation(Activation::Relu);
/// assert_eq!(layer.run(&device, &a, &b)?.to_vec()?, [2.5, 3.5, 0.0, 0.0]);
///
/// // Sums of `bf16` as `f32`, added to what is there.
/// let a = device.tensor(&[bf16::ONE; 3], [1, 3])?;
/// let mut out = device.tensor(&[100.0f32], [1, 1])?;
/// Matmul::new().accumulate().run_into(&device, &mut out, &a, a.t())?;
/// assert_eq!(out.to_vec()?, [103.0]);
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
#[must_use = "nothing is computed before it is run"]
pub struct Matmul<'a, T: Pod, O: Pod> {
    bias: Option<TensorView<'a, T>>,
    residual: Option<Residual<'a, O>>,
    scale: f32,
    activation: Activation,
    precision: Precision,
}

/// What is added to each result.
#[derive(Clone, Copy, Debug)]
enum Residual<'a, O: Pod> {
    View(TensorView<'a, O>),
    /// The output, before it is overwritten.
    Output,
}

impl<'a, T: ElementAs<O>, O: Element> Matmul<'a, T, O> {
    /// The multiplication alone.
    pub const fn new() -> Self {
        let (activation, precision) = (Activation::None, Precision::F32);
        Self { bias: None, residual: None, scale: 1.0, activation, precision }
    }

    /// Adds `bias[col]` to each result, the same for all matrices of a batch: `[n]`.
    pub fn bias(self, bias: impl Into<TensorView<'a, T>>) -> Self {
        Self { bias: Some(bias.into()), ..self }
    }

    /// Adds a tensor of the output's shape, or one matrix to each of a batch.
    pub fn residual(self, residual: impl Into<TensorView<'a, O>>) -> Self {
        Self { residual: Some(Residual::View(residual.into())), ..self }
    }

    /// Adds what is in the output, in place: with [`run_into`](Self::run_into), `out = activation(out + scale A B + bias)`. It
    /// replaces a residual.
    pub fn accumulate(self) -> Self {
        Self { residual: Some(Residual::Output), ..self }
    }

    /// Multiplies A B by `scale`, before the bias and the residual are added.
    pub const fn scale(self, scale: f32) -> Self {
        Self { scale, ..self }
    }

    /// Applies an activation to each result at the end.
    pub const fn activation(self, activation: Activation) -> Self {
        Self { activation, ..self }
    }

    /// Sets how `f32` is multiplied on a GPU.
    pub const fn precision(self, precision: Precision) -> Self {
        Self { precision, ..self }
    }

    /// Writes the result: `[m, n]` for `[m, k]` and `[k, n]`, each with the same axes of a batch in front. An operand of two axes is
    /// the same for the whole batch. Without rows or columns nothing is written. With `k = 0`, `A B` is 0.
    ///
    /// # Errors
    /// The shapes do not match; an operand has gaps in both of its last axes, its matrices are not at equal distances, or its rows
    /// overlap; the output's last axis has gaps; an extent is too large; the device has no kernel; a tensor lives on another
    /// device; the device failed.
    pub fn run_into<'o, 'i>(
        &self,
        queue: &impl Queue,
        out: impl Into<TensorViewMut<'o, O>>,
        a: impl Into<TensorView<'i, T>>,
        b: impl Into<TensorView<'i, T>>,
    ) -> Result<(), Error> {
        self.run_by(queue, out.into(), a.into(), b.into(), None)
    }

    /// Runs the kernels of a choice for this problem, to compare kernels.
    #[doc(hidden)]
    pub fn run_by(
        &self,
        queue: &impl Queue,
        mut out: TensorViewMut<'_, O>,
        a: TensorView<'_, T>,
        b: TensorView<'_, T>,
        by: Option<KernelChoice<T>>,
    ) -> Result<(), Error> {
        let (all, batch) = self.args(Operation::new(NAME, queue), &mut out, &a, &b)?;
        if batch == 0 {
            return Ok(());
        }
        let choice = match by {
            Some(choice) => choice,
            None => recent(queue.device(), self.problem(&all, batch), KernelChoice::new)?,
        };
        for first in (0..batch).step_by(MOST_BLOCKS) {
            let count = (batch - first).min(MOST_BLOCKS) as u32;
            let args = MatmulLaunch {
                out: all.out.skip(first * all.out_batch as usize * size_of::<O>()),
                a: all.a.skip(first * all.a_batch as usize),
                b: all.b.skip(first * all.b_batch as usize),
                residual: all.residual.skip(first * all.residual_batch as usize * size_of::<O>()),
                ..all
            };
            // SAFETY: shapes, strides and devices were checked, the output is borrowed exclusively, and the flags follow from
            // the addresses and strides. A residual in the output is read by the thread that then writes the element, or the
            // warpgroup that then copies it; what others read of it they discard. Later uses of the memory wait for the device
            // or are queued after this.
            unsafe { launch_some(queue, choice, args, count)? };
        }
        Ok(())
    }

    /// The problem that a kernel is chosen for.
    fn problem(&self, args: &MatmulLaunch<T>, batch: usize) -> Problem {
        let &MatmulLaunch { m, n, k, flags, .. } = args;
        let has = |flag| flags & flag != 0;
        Problem {
            m,
            n,
            k,
            batch: batch.min(MOST_BLOCKS) as u32,
            a_is_transposed: has(A_TRANSPOSED),
            b_is_transposed: has(B_TRANSPOSED),
            precision: self.precision,
            is_aligned: [has(A_ALIGNED), has(B_ALIGNED)],
            b_folds: args.b.pointer.addr().is_multiple_of(16)
                && is_multiple_of::<T>(args.b_batch, 16)
                && args.b_pitch.saturating_mul(8) < MOST as u64,
            has_whole_lines: [args.a_pitch, args.b_pitch].map(|pitch| is_multiple_of::<T>(pitch, 128)),
            out_is_aligned: has(OUT_ALIGNED),
            has_residual: self.residual.is_some(),
        }
    }

    /// Checks everything. Returns the launch arguments for the whole batch, and its size: 0 if there is nothing to write.
    fn args(
        &self,
        operation: Operation<'_>,
        out: &mut TensorViewMut<'_, O>,
        a: &TensorView<'_, T>,
        b: &TensorView<'_, T>,
    ) -> Result<(MatmulLaunch<T>, usize), Error> {
        let [[m, k], [_, n]] =
            [matrix(operation, "first operand", a)?, matrix(operation, "second operand", b)?];
        matrix(operation, "output", out)?;
        let shape = out.shape();
        let of_out = stored(operation, "output", out, shape.with_matrix([m, n]), false)?;
        let of_a = stored(operation, "first operand", a, shape.with_matrix([m, k]), true)?;
        let of_b = stored(operation, "second operand", b, shape.with_matrix([k, n]), true)?;
        let (raw, a, b) = (out.raw(), a.raw(), b.raw());
        let (residual, of_residual) = match &self.residual {
            None => (RawBuffer::NULL, of_out),
            Some(Residual::Output) => (raw, of_out),
            Some(Residual::View(view)) => {
                matrix(operation, "residual", view)?;
                (view.raw(), stored(operation, "residual", view, shape, false)?)
            }
        };
        self.bias.iter().try_for_each(|bias| operation.vector("bias", bias, n))?;
        // The grid counts tiles of at least 16 x 64 along x, and tiles of 128 columns along y on a CPU.
        operation.count("tiles of 16 x 64", m.div_ceil(16).saturating_mul(n.div_ceil(64)), MOST)?;
        let (m, k) = (operation.count("rows", m, MOST)?, operation.count("terms", k, MOST)?);
        let n = operation.count("columns", n, 128 * MOST_BLOCKS)?;
        let mut flags = match self.activation {
            Activation::None => 0,
            Activation::Relu => RELU,
            Activation::Gelu => GELU,
        };
        let mut set = |condition: bool, flag: u32| flags |= if condition { flag } else { 0 };
        let is_f32 = is_f32::<O>();
        set(is_f32, OUT_F32);
        set(of_a.is_aligned(a.pointer, 16), A_ALIGNED);
        set(of_b.is_aligned(b.pointer, 16), B_ALIGNED);
        set(of_out.is_aligned(raw.pointer, 4 * size_of::<O>()), OUT_ALIGNED);
        // A tensor copy writes 16 bytes at a time, even at the end of a row.
        let has_whole_rows = is_multiple_of::<O>(n.into(), 16);
        set(!is_f32 && has_whole_rows && of_out.is_aligned(raw.pointer, 16), OUT_TENSOR);
        set(has_avx512(), AVX512);
        set(of_a.is_transposed, A_TRANSPOSED);
        set(of_b.is_transposed, B_TRANSPOSED);
        let no_map = TensorMap::from_words([0; 16]);
        let args = MatmulLaunch {
            a_map: no_map,
            b_map: no_map,
            out_map: no_map,
            out: raw.cast(),
            a,
            b,
            bias: read(&self.bias),
            residual: residual.cast(),
            sums: RawBuffer::NULL,
            out_pitch: of_out.stride,
            a_pitch: of_a.stride,
            b_pitch: of_b.stride,
            residual_pitch: of_residual.stride,
            out_batch: of_out.batch_stride,
            a_batch: of_a.batch_stride,
            b_batch: of_b.batch_stride,
            residual_batch: of_residual.batch_stride,
            split_pitch: 0,
            m,
            n,
            k,
            batch: 1,
            folded: 0,
            splits: 1,
            alpha: self.scale,
            flags,
        };
        Ok((args, of_out.batch))
    }
}

impl<T: Element> Matmul<'_, T, T> {
    /// Returns the result, in the operands' type; [`run_into`](Self::run_into) describes it.
    ///
    /// # Errors
    /// Same as for [`Self::run_into`]; an output is to be [accumulated](Self::accumulate); the device is out of memory.
    pub fn run<'i>(
        &self,
        queue: &impl Queue,
        a: impl Into<TensorView<'i, T>>,
        b: impl Into<TensorView<'i, T>>,
    ) -> Result<Tensor<T>, Error> {
        let (a, b, operation) = (a.into(), b.into(), Operation::new(NAME, queue));
        if let Some(Residual::Output) = self.residual {
            let option = "accumulate without an output".to_owned();
            return Err(operation.refuse_option(option, "pass the output to `run_into`"));
        }
        let [[m, _], [_, n]] =
            [matrix(operation, "first operand", &a)?, matrix(operation, "second operand", &b)?];
        let batch = if b.shape().len() > a.shape().len() { b.shape() } else { a.shape() };
        let mut out = Tensor::unwritten(queue, batch.with_matrix([m, n]))?;
        self.run_into(queue, &mut out, a, b)?;
        Ok(out)
    }
}

impl<T: ElementAs<O>, O: Element> Default for Matmul<'_, T, O> {
    fn default() -> Self {
        Self::new()
    }
}

/// The extents of the last two axes.
fn matrix(operation: Operation<'_>, operand: &'static str, view: &impl Operand) -> Result<[usize; 2], Error> {
    let got = view.layout().shape();
    let needs = "two axes, or more with a batch in front";
    got.last_chunk().copied().ok_or_else(|| operation.refuse(operand, Kind::Rank { got, needs }))
}

/// How an operand of this shape, or a single matrix, is stored.
fn stored(
    operation: Operation<'_>,
    operand: &'static str,
    view: &impl Operand,
    shape: Shape,
    may_be_transposed: bool,
) -> Result<Stored, Error> {
    let is_single = view.layout().shape().len() == 2;
    let matrix: Option<&[usize; 2]> = shape.last_chunk().filter(|_| is_single);
    operation.check(operand, view, matrix.map_or(shape, |&matrix| matrix.into()))?;
    Stored::new(view.layout(), may_be_transposed).map_err(|error| error.of(operation.name, Some(operand)))
}

/// Whether the processor has AVX-512 registers, which the CPU kernel can use.
fn has_avx512() -> bool {
    #[cfg(target_arch = "x86_64")]
    return std::arch::is_x86_feature_detected!("avx512f");
    #[cfg(not(target_arch = "x86_64"))]
    return false;
}
