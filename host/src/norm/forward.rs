//! The forward pass of a norm.

use bytemuck::Pod;
use cuda_std::launch::{KernelMeta, KernelOf, Limits};
use ferrowarp_device::device::Queue;
use ferrowarp_device::error::Error;
use ferrowarp_device::tensor::{Tensor, TensorView, TensorViewMut};
use norm_kernels::args::{ALIGNED, CENTRED, NormArgs, NormLaunch};
use norm_kernels::{Blocks, RowsShape};

use super::options::Norm;
use crate::element::Element;
use crate::operation::{MOST, Operation, early, in_order, is_aligned, read, result, written};

/// The outputs of a norm: the result, and what else is wanted. A tensor alone is the result.
///
/// ```
/// use ferrowarp::device::Device;
/// use ferrowarp::norm::{Norm, Outputs};
/// use ferrowarp::{Error, Tensor};
///
/// let device = Device::cpu();
/// let x = device.tensor(&[1.0f32, 3.0], [1, 2])?;
/// let (mut out, mut mean) = (Tensor::zeros(&device, [1, 2])?, Tensor::zeros(&device, [1])?);
/// Norm::layer().run_into(&device, Outputs::new(&mut out).mean(&mut mean), &x)?;
/// assert_eq!(mean.to_vec()?, [2.0]);
/// # Ok::<(), Error>(())
/// ```
#[derive(Debug)]
#[must_use = "nothing is written before a norm runs"]
pub struct Outputs<'a, T: Pod> {
    out: TensorViewMut<'a, T>,
    sum: Option<TensorViewMut<'a, T>>,
    mean: Option<TensorViewMut<'a, f32>>,
    rstd: Option<TensorViewMut<'a, f32>>,
}

impl<'a, T: Pod> Outputs<'a, T> {
    /// The result alone, of the input's shape.
    pub fn new(out: impl Into<TensorViewMut<'a, T>>) -> Self {
        Self { out: out.into(), sum: None, mean: None, rstd: None }
    }

    /// Also the input plus the residual, of the input's shape.
    pub fn sum(self, sum: impl Into<TensorViewMut<'a, T>>) -> Self {
        Self { sum: Some(sum.into()), ..self }
    }

    /// Also the means, `[rows]`; zeros for RMSNorm.
    pub fn mean(self, mean: impl Into<TensorViewMut<'a, f32>>) -> Self {
        Self { mean: Some(mean.into()), ..self }
    }

    /// Also `1 / sqrt(variance + epsilon)` of each row, `[rows]`.
    pub fn rstd(self, rstd: impl Into<TensorViewMut<'a, f32>>) -> Self {
        Self { rstd: Some(rstd.into()), ..self }
    }
}

impl<'a, T: Pod, V: Into<TensorViewMut<'a, T>>> From<V> for Outputs<'a, T> {
    fn from(out: V) -> Self {
        Self::new(out)
    }
}

/// What the backward pass of a norm needs from the forward pass.
///
/// ```
/// use ferrowarp::device::Device;
/// use ferrowarp::{Error, Norm};
///
/// let device = Device::cpu();
/// let x = device.tensor(&[1.0f32, 3.0], [1, 2])?;
/// let (_, saved) = Norm::layer().epsilon(0.0).forward(&device, &x)?;
/// assert_eq!((saved.mean.unwrap().to_vec()?, saved.rstd.to_vec()?), (vec![2.0], vec![1.0]));
/// # Ok::<(), Error>(())
/// ```
#[derive(Debug)]
pub struct Saved<T> {
    /// The input plus the residual, if there is one.
    pub sum: Option<Tensor<T>>,
    /// The means of a LayerNorm, `[rows]`.
    pub mean: Option<Tensor<f32>>,
    /// `1 / sqrt(variance + epsilon)` of each row, `[rows]`.
    pub rstd: Tensor<f32>,
}

/// A kernel of the forward pass.
#[derive(Clone, Copy)]
#[doc(hidden)]
pub enum Forward<T: Element> {
    Rows(&'static KernelOf<NormArgs<T>, RowsShape>),
    Wide(Blocks),
}

impl<T: Element> Forward<T> {
    /// The kernels that can do a matrix of this shape on the device, the fastest first.
    pub fn choices(
        limits: &Limits,
        multiprocessors: usize,
        [rows, cols]: [usize; 2],
        is_aligned: bool,
    ) -> impl Iterator<Item = Self> {
        let wide = [Blocks::Serial, Blocks::Wide].into_iter();
        let wide = wide.filter(|blocks| limits.check_kernel(T::wide(*blocks).meta).is_ok()).map(Self::Wide);
        let can = move |kernel: &&'static KernelOf<_, RowsShape>| {
            kernel.holds(cols, limits.max_cluster)
                && limits.runs(kernel.meta)
                && (is_aligned || !kernel.is_whole)
        };
        let is_fast = move |kernel: &KernelOf<_, RowsShape>| {
            let is_few = rows.div_ceil(kernel.rows(cols as u32) as usize) <= multiprocessors;
            cols >= kernel.in_shared_from as usize && (is_few || !kernel.is_for_few)
        };
        let all = T::IN_SHARED.iter().chain(T::ROWS).filter(can);
        let rows = all
            .clone()
            .filter(move |it| is_fast(it))
            .chain(all.filter(move |it| !is_fast(it)))
            .map(Self::Rows);
        in_order(limits, wide, rows)
    }

    /// The kernel.
    pub fn meta(&self) -> &'static KernelMeta {
        match self {
            Self::Rows(kernel) => kernel.meta,
            Self::Wide(blocks) => T::wide(*blocks).meta,
        }
    }
}

impl<T: Element> Norm<'_, T> {
    /// Returns the norm of `inp`.
    ///
    /// # Errors
    /// Shapes differ, epsilon is out of range, the tensor is too large, an operand lives on another device, or the device
    /// failed.
    pub fn run<'i>(&self, queue: &impl Queue, inp: impl Into<TensorView<'i, T>>) -> Result<Tensor<T>, Error> {
        let inp = inp.into();
        let mut out = Tensor::unwritten(queue, inp.shape())?;
        self.run_into(queue, &mut out, inp)?;
        Ok(out)
    }

    /// Returns the norm of `inp`, and what [`backward`](Self::backward) needs: 0 for rows without columns.
    ///
    /// # Errors
    /// Same as for [`Self::run`].
    pub fn forward<'i>(
        &self,
        queue: &impl Queue,
        inp: impl Into<TensorView<'i, T>>,
    ) -> Result<(Tensor<T>, Saved<T>), Error> {
        let inp = inp.into();
        let rows = Operation::new(self.name(false), queue).rows("input", &inp)?.rows;
        let mut out = Tensor::unwritten(queue, inp.shape())?;
        let mut sum = self.residual.map(|_| Tensor::unwritten(queue, inp.shape())).transpose()?;
        let mut mean = self.is_centred.then(|| result(queue, [rows], inp.shape())).transpose()?;
        let mut rstd = result(queue, [rows], inp.shape())?;
        let outputs = Outputs {
            out: out.view_mut(),
            sum: sum.as_mut().map(Tensor::view_mut),
            mean: mean.as_mut().map(Tensor::view_mut),
            rstd: Some(rstd.view_mut()),
        };
        self.run_into(queue, outputs, inp)?;
        Ok((out, Saved { sum, mean, rstd }))
    }

    /// Writes the norm of `inp`. Without columns nothing is written.
    ///
    /// # Errors
    /// Same as for [`Self::run`].
    pub fn run_into<'o, 'i>(
        &self,
        queue: &impl Queue,
        outputs: impl Into<Outputs<'o, T>>,
        inp: impl Into<TensorView<'i, T>>,
    ) -> Result<(), Error> {
        self.run_by(queue, outputs.into(), inp.into(), None)
    }

    /// Runs one of the [`Forward::choices`].
    ///
    /// # Panics
    /// The kernel takes aligned rows, and these are not.
    #[doc(hidden)]
    pub fn run_by(
        &self,
        queue: &impl Queue,
        mut outputs: Outputs<'_, T>,
        inp: TensorView<'_, T>,
        by: Option<Forward<T>>,
    ) -> Result<(), Error> {
        let args = self.args(Operation::new(self.name(false), queue), &mut outputs, &inp)?;
        let (rows, cols) = (args.rows, args.cols);
        if rows == 0 || cols == 0 {
            return Ok(());
        }
        let is_aligned = args.flags & ALIGNED != 0;
        let (device, shape) = (queue.device(), [rows as usize, cols as usize]);
        let by = by.or_else(|| {
            Forward::choices(device.limits(), device.multiprocessors(), shape, is_aligned).next()
        });
        let by = by.expect("one kernel takes any rows");
        // SAFETY: shapes and devices were checked, and outputs are borrowed exclusively. The kernel holds the columns. Later
        // uses of the memory wait for the device or are queued after this.
        unsafe {
            match by {
                Forward::Rows(kernel) => {
                    assert!(is_aligned || !kernel.is_whole, "{} takes aligned rows", kernel.meta.name);
                    let row_bytes = shape[1] * size_of::<T>();
                    kernel.launch(queue, early(kernel.config([rows, cols]), rows, row_bytes), args)?;
                }
                Forward::Wide(blocks) => T::wide(blocks).launch(queue, blocks.config(rows), args)?,
            }
        }
        Ok(())
    }

    /// Checks everything and returns the launch arguments.
    fn args(
        &self,
        operation: Operation<'_>,
        outputs: &mut Outputs<'_, T>,
        inp: &TensorView<'_, T>,
    ) -> Result<NormLaunch<T>, Error> {
        let Self { weight, bias, residual, epsilon, is_centred, .. } = self;
        let Outputs { out, sum, mean, rstd } = outputs;
        let shape = inp.shape();
        let of_inp = operation.matrix("input", inp, shape)?;
        let of_out = operation.matrix("output", out, shape)?;
        let of_residual = residual.as_ref().map(|it| operation.matrix("residual", it, shape)).transpose()?;
        let of_sum = sum.as_ref().map(|it| operation.matrix("sum", it, shape)).transpose()?;
        for (name, vector) in [("weight", weight), ("bias", bias)] {
            vector.iter().try_for_each(|it| operation.vector(name, it, of_inp.cols))?;
        }
        for (name, vector) in [("mean", &*mean), ("rstd", &*rstd)] {
            vector.iter().try_for_each(|it| operation.vector(name, it, of_inp.rows))?;
        }
        // False for NaN too.
        let is_in_range = *epsilon >= 0.0 && *epsilon < f32::INFINITY;
        if !is_in_range {
            return Err(
                operation.refuse_option(format!("epsilon is {epsilon}"), "it must be at least 0 and finite")
            );
        }
        let [rows, cols] =
            [operation.count("rows", of_inp.rows, MOST)?, operation.count("columns", of_inp.cols, MOST)?];
        let (out, inp, residual, sum) = (out.raw(), inp.raw(), read(residual), written(sum));
        let (weight, bias) = (read(weight), read(bias));
        let stride = |of: Option<ferrowarp_device::tensor::Rows>| of.map_or(0, |of| of.stride);
        let strides = [
            (out, of_out.stride),
            (inp, of_inp.stride),
            (residual, stride(of_residual)),
            (sum, stride(of_sum)),
            (weight, 0),
            (bias, 0),
        ];
        let aligned = if is_aligned(of_inp.cols, &strides) { ALIGNED } else { 0 };
        let [out_stride, inp_stride, residual_stride, sum_stride] = [0, 1, 2, 3].map(|i| strides[i].1 as u64);
        Ok(NormLaunch {
            out,
            inp,
            residual,
            sum,
            weight,
            bias,
            mean: written(mean),
            rstd: written(rstd),
            out_stride,
            inp_stride,
            residual_stride,
            sum_stride,
            rows,
            cols,
            per_column: 1.0 / cols as f32,
            epsilon: *epsilon,
            flags: aligned | if *is_centred { CENTRED } else { 0 },
        })
    }
}
