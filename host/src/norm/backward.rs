//! The gradients of a norm.

use bytemuck::Pod;
use cuda_std::launch::{KernelMeta, KernelOf, Limits, RawBuffer};
use ferrowarp_device::device::{Buffer, Queue};
use ferrowarp_device::error::Error;
use ferrowarp_device::tensor::{Tensor, TensorView, TensorViewMut};
use norm_kernels::args::{ALIGNED, CENTRED, NormBackwardArgs, NormBackwardLaunch};
use norm_kernels::columns::SumPartsLaunch;
use norm_kernels::{Blocks, FewShape, NormKernels, RowsShape};

use super::forward::Saved;
use super::options::Norm;
use crate::element::Element;
use crate::operation::{MOST, Operation, early, in_order, is_aligned, read, written};

/// Parts of the rows, if a separate launch adds up the columns.
const PARTS: u32 = 16;
/// The most rows, and bytes of a matrix, that are so few that one launch computes all gradients; bytes of one with up to twice as
/// many rows, or of an aligned one with no more rows than columns. Rows of more than 1/256 of the first bytes take clusters.
const FEW_ROWS: usize = 512;
const FEW_BYTES: usize = 16 << 20;
const FEW_BYTES_OF_MORE: usize = 7 << 19;

/// The gradients of a norm.
///
/// ```
/// use ferrowarp::device::Device;
/// use ferrowarp::{Error, Norm};
///
/// let device = Device::cpu();
/// let (x, d_out) = (device.tensor(&[3.0f32, 4.0], [1, 2])?, device.tensor(&[1.0f32, 0.0], [1, 2])?);
/// let (_, saved) = Norm::rms().forward(&device, &x)?;
/// let gradients = Norm::rms().backward(&device, &d_out, &x, &saved)?;
/// // With y = x rstd, the gradient is rstd (d - y mean(d y)).
/// let rstd = 1.0 / 12.5f32.sqrt();
/// let (y, mean) = ([3.0 * rstd, 4.0 * rstd], 1.5 * rstd);
/// let expected = [rstd * (1.0 - y[0] * mean), rstd * (0.0 - y[1] * mean)];
/// assert!(gradients.input.to_vec()?.iter().zip(expected).all(|(got, want)| (got - want).abs() < 1e-5));
/// assert!(gradients.weight.is_none());
/// # Ok::<(), Error>(())
/// ```
#[derive(Debug)]
pub struct Gradients<T> {
    /// The gradient of the input, and of the residual.
    pub input: Tensor<T>,
    /// The gradient of the weight, if there is one.
    pub weight: Option<Tensor<T>>,
    /// The gradient of the bias, if there is one.
    pub bias: Option<Tensor<T>>,
}

/// Where gradients are written. A tensor alone is the gradient of the input.
///
/// ```
/// use ferrowarp::device::Device;
/// use ferrowarp::norm::{GradientOutputs, Norm, Statistics};
/// use ferrowarp::{Error, Tensor};
///
/// let device = Device::cpu();
/// let (x, d_out) = (device.tensor(&[1.0f32, -1.0], [1, 2])?, device.tensor(&[2.0f32, 3.0], [1, 2])?);
/// let rstd = device.upload(&[1.0f32])?;
/// let (mut d_inp, mut d_weight) = (Tensor::zeros(&device, [1, 2])?, Tensor::zeros(&device, [2])?);
/// let outputs = GradientOutputs::new(&mut d_inp).weight(&mut d_weight);
/// Norm::rms().backward_into(&device, outputs, &d_out, &x, Statistics::rms(&rstd))?;
/// assert_eq!(d_weight.to_vec()?, [2.0, -3.0]);
/// # Ok::<(), Error>(())
/// ```
#[derive(Debug)]
#[must_use = "nothing is written before the gradients are computed"]
pub struct GradientOutputs<'a, T: Pod> {
    d_inp: TensorViewMut<'a, T>,
    d_weight: Option<TensorViewMut<'a, T>>,
    d_bias: Option<TensorViewMut<'a, T>>,
}

impl<'a, T: Pod> GradientOutputs<'a, T> {
    /// The gradient of the input alone, of its shape.
    pub fn new(d_inp: impl Into<TensorViewMut<'a, T>>) -> Self {
        Self { d_inp: d_inp.into(), d_weight: None, d_bias: None }
    }

    /// Also the gradient of the weight, `[cols]`.
    pub fn weight(self, d_weight: impl Into<TensorViewMut<'a, T>>) -> Self {
        Self { d_weight: Some(d_weight.into()), ..self }
    }

    /// Also the gradient of the bias, `[cols]`.
    pub fn bias(self, d_bias: impl Into<TensorViewMut<'a, T>>) -> Self {
        Self { d_bias: Some(d_bias.into()), ..self }
    }
}

impl<'a, T: Pod, V: Into<TensorViewMut<'a, T>>> From<V> for GradientOutputs<'a, T> {
    fn from(d_inp: V) -> Self {
        Self::new(d_inp)
    }
}

/// What the forward pass found about the rows: `rstd`, for an RMSNorm alone, and the means of a LayerNorm.
///
/// ```
/// use ferrowarp::device::Device;
/// use ferrowarp::norm::{Norm, Statistics};
/// use ferrowarp::{Error, Tensor};
///
/// let device = Device::cpu();
/// let x = device.tensor(&[1.0f32, 3.0], [1, 2])?;
/// let (_, saved) = Norm::layer().forward(&device, &x)?;
/// let mut d_inp = Tensor::zeros(&device, [1, 2])?;
/// Norm::layer().backward_into(&device, &mut d_inp, &x, &x, Statistics::from(&saved))?;
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Statistics<'a> {
    mean: Option<TensorView<'a, f32>>,
    rstd: TensorView<'a, f32>,
}

impl<'a> Statistics<'a> {
    /// Those of an RMSNorm, `[rows]`.
    pub fn rms(rstd: impl Into<TensorView<'a, f32>>) -> Self {
        Self { mean: None, rstd: rstd.into() }
    }

    /// Those of a LayerNorm, `[rows]` each.
    pub fn layer(mean: impl Into<TensorView<'a, f32>>, rstd: impl Into<TensorView<'a, f32>>) -> Self {
        Self { mean: Some(mean.into()), rstd: rstd.into() }
    }
}

impl<'a, T> From<&'a Saved<T>> for Statistics<'a> {
    fn from(saved: &'a Saved<T>) -> Self {
        Self { mean: saved.mean.as_ref().map(Tensor::view), rstd: saved.rstd.view() }
    }
}

/// A kernel of the backward pass.
#[derive(Clone, Copy)]
#[doc(hidden)]
pub enum Backward<T: Element> {
    Few(&'static KernelOf<NormBackwardArgs<T>, FewShape>),
    Rows(&'static KernelOf<NormBackwardArgs<T>, RowsShape>),
    Wide(Blocks),
}

impl<T: Element> Backward<T> {
    /// The kernels that can do a matrix of this shape, the default first. If `is_dense`, rows have no gaps between them, and
    /// the matrices start at multiples of 16 bytes. If `is_apart`, the gradient of the input is not written in place. If
    /// `is_aligned`, rows are whole vectors of 16 bytes.
    pub fn choices(
        limits: &Limits,
        [rows, cols]: [usize; 2],
        [is_dense, is_apart, is_aligned]: [bool; 3],
    ) -> impl Iterator<Item = Self> {
        let is_shifted = is_dense && is_apart && !cols.wrapping_mul(size_of::<T>()).is_multiple_of(16);
        let wide = [Blocks::Serial, Blocks::Wide].into_iter();
        let wide =
            wide.filter(|blocks| limits.check_kernel(T::backward_wide(*blocks).meta).is_ok()).map(Self::Wide);
        let few = Some(&T::BACKWARD_FEW[usize::from(!is_aligned)]);
        let few = few.filter(|few| is_apart && limits.runs(few.meta));
        let bytes = rows.saturating_mul(cols).saturating_mul(size_of::<T>());
        let is_more = rows <= 2 * FEW_ROWS || is_aligned && rows <= cols;
        let is_few = bytes <= rows.saturating_mul(FEW_BYTES >> 8)
            && (rows <= FEW_ROWS && bytes <= FEW_BYTES || is_more && bytes <= FEW_BYTES_OF_MORE);
        let [first, last] = [is_few, !is_few].map(|is| few.filter(|_| is).map(Self::Few));
        let holds = move |kernel: &RowsShape| {
            kernel.holds(cols, limits.max_cluster) && (is_shifted || !kernel.is_shifted())
        };
        let rows = T::BACKWARD_ROWS.iter().filter(move |it| holds(it) && limits.runs(it.meta));
        // Whole vectors are faster, but not where most threads have none.
        let is_fast = move |kernel: &RowsShape| !kernel.is_shifted() || 3 * cols > kernel.cols as usize;
        let all = rows.clone().filter(move |it| is_fast(it)).chain(rows.filter(move |it| !is_fast(it)));
        in_order(limits, wide, first.into_iter().chain(all.map(Self::Rows)).chain(last))
    }

    /// The kernel.
    pub fn meta(&self) -> &'static KernelMeta {
        match self {
            Self::Few(kernel) => kernel.meta,
            Self::Rows(kernel) => kernel.meta,
            Self::Wide(blocks) => T::backward_wide(*blocks).meta,
        }
    }
}

impl<T: Element> Norm<'_, T> {
    /// Returns the gradients of the input, and of weight and bias as far as there are some. `d_out` is the gradient of the output,
    /// `inp` the input of the forward pass, and `saved` what that returned.
    ///
    /// # Errors
    /// Same as for [`Self::run`].
    pub fn backward<'i>(
        &self,
        queue: &impl Queue,
        d_out: impl Into<TensorView<'i, T>>,
        inp: impl Into<TensorView<'i, T>>,
        saved: &Saved<T>,
    ) -> Result<Gradients<T>, Error> {
        let (d_out, inp) = (d_out.into(), inp.into());
        if self.residual.is_some() && saved.sum.is_none() {
            let option = "the norm has a residual, and the saved forward pass had none".to_owned();
            let needs = "pass what `forward` of the same norm returned";
            return Err(Operation::new(self.name(true), queue).refuse_option(option, needs));
        }
        let x = saved.sum.as_ref().map_or(inp, Tensor::view);
        let mut input = Tensor::unwritten(queue, inp.shape())?;
        let of = |columns: Option<TensorView<'_, T>>| {
            columns.map(|columns| Tensor::unwritten(queue, columns.shape())).transpose()
        };
        let (mut weight, mut bias) = (of(self.weight)?, of(self.bias)?);
        let outputs = GradientOutputs {
            d_inp: input.view_mut(),
            d_weight: weight.as_mut().map(Tensor::view_mut),
            d_bias: bias.as_mut().map(Tensor::view_mut),
        };
        self.run_backward_by(queue, outputs, d_out, x, saved.into(), None)?;
        Ok(Gradients { input, weight, bias })
    }

    /// Writes gradients. `d_out` is the gradient of the output, and `x` is what was normalised: the input or, with a residual,
    /// the sum. Without columns it writes nothing; without rows the gradients of weight and bias are 0.
    ///
    /// # Errors
    /// Same as for [`Self::run`].
    pub fn backward_into<'o, 'i>(
        &self,
        queue: &impl Queue,
        outputs: impl Into<GradientOutputs<'o, T>>,
        d_out: impl Into<TensorView<'i, T>>,
        x: impl Into<TensorView<'i, T>>,
        statistics: impl Into<Statistics<'i>>,
    ) -> Result<(), Error> {
        self.run_backward_by(queue, outputs.into(), d_out.into(), x.into(), statistics.into(), None)
    }

    /// Runs one of the [`Backward::choices`].
    ///
    /// # Panics
    /// The kernel needs dense rows, and these are not; or it does not write in place, and should.
    #[doc(hidden)]
    pub fn run_backward_by(
        &self,
        queue: &impl Queue,
        mut outputs: GradientOutputs<'_, T>,
        d_out: TensorView<'_, T>,
        x: TensorView<'_, T>,
        statistics: Statistics<'_>,
        by: Option<Backward<T>>,
    ) -> Result<(), Error> {
        let operation = Operation::new(self.name(true), queue);
        let (args, stored) = self.backward_args(operation, &mut outputs, &d_out, &x, &statistics)?;
        let (rows, cols) = (args.rows, args.cols);
        if cols == 0 {
            return Ok(());
        }
        let shape = [rows as usize, cols as usize];
        let by = by.or_else(|| Backward::choices(queue.device().limits(), shape, stored).next());
        let by = by.expect("one kernel takes any rows");
        let multiprocessors = queue.device().multiprocessors().max(1) as u32;
        let parts = match by {
            Backward::Few(kernel) => {
                assert!(stored[1], "{} does not write in place", kernel.meta.name);
                let GradientOutputs { d_weight, d_bias, .. } = &mut outputs;
                let [d_weight, d_bias] = [d_weight, d_bias].map(|it| written(it).cast::<f32>());
                let has_columns = !d_weight.pointer.is_null() || !d_bias.pointer.is_null();
                if rows == 0 && !has_columns {
                    return Ok(());
                }
                let config = kernel.config([rows, cols], has_columns, multiprocessors);
                let config = early(config, rows, shape[1] * size_of::<T>());
                let args = NormBackwardLaunch { d_weight, d_bias, ..args };
                // SAFETY: as below; the gradients of weight and bias have one part.
                return Ok(unsafe { kernel.launch(queue, config, args) }?);
            }
            Backward::Rows(kernel) => {
                let is_dense = stored[0] && stored[1];
                assert!(is_dense || !kernel.is_shifted(), "{} needs dense rows", kernel.meta.name);
                kernel.parts([rows, cols], multiprocessors)
            }
            Backward::Wide(_) => rows.clamp(1, PARTS),
        };
        let pitch = cols.next_multiple_of(8);
        let GradientOutputs { d_weight, d_bias, .. } = &mut outputs;
        let is_wanted = [d_weight.is_some(), d_bias.is_some()];
        // The parts of both gradients.
        let count = is_wanted.into_iter().filter(|is| *is).count();
        let mut of_parts = queue.alloc_unwritten::<f32>(count * parts as usize * pitch as usize)?;
        let sums = Self::sums(&mut of_parts, is_wanted)?;
        let args = NormBackwardLaunch { d_weight: sums[0], d_bias: sums[1], pitch, ..args };
        // SAFETY: shapes and devices were checked, outputs are borrowed exclusively, and the kernel holds the columns. Launches
        // run in order. Later uses of the memory wait for the device or are queued after this.
        unsafe {
            match by {
                Backward::Few(_) => unreachable!("it was launched"),
                Backward::Rows(kernel) => kernel.launch(queue, kernel.config_of_parts(parts, cols), args)?,
                Backward::Wide(blocks) => {
                    if is_wanted != [false; 2] {
                        let columns = <T as NormKernels>::columns(blocks);
                        columns.launch(queue, columns.config(cols, parts), NormBackwardLaunch { ..args })?;
                    }
                    if rows > 0 {
                        T::backward_wide(blocks).launch(queue, blocks.config(rows), args)?;
                    }
                }
            }
            if count > 0 {
                let args = SumPartsLaunch {
                    d_weight: written(d_weight),
                    d_bias: written(d_bias),
                    of_weight: sums[0],
                    of_bias: sums[1],
                    count: parts,
                    pitch,
                    cols,
                };
                // It may begin before the previous launch has ended.
                let config = T::SUM_PARTS.config(cols, count as u32).with_programmatic_stream_serialization();
                T::SUM_PARTS.launch(queue, config, args)?;
            }
        }
        Ok(())
    }

    /// Divides memory for the parts of the gradients of weight and bias, as far as they are wanted.
    fn sums(of_parts: &mut Buffer<f32>, is_wanted: [bool; 2]) -> Result<[RawBuffer<f32>; 2], Error> {
        let middle = if is_wanted[0] { of_parts.len() / if is_wanted[1] { 2 } else { 1 } } else { 0 };
        let (first, second) = of_parts.split_at_mut(middle)?;
        let mut parts = [RawBuffer::written(first), RawBuffer::written(second)].into_iter();
        Ok(is_wanted.map(|is| parts.next().filter(|_| is).unwrap_or(RawBuffer::NULL)))
    }

    /// Checks everything. Returns the launch arguments without the sums of columns, and how the matrices are stored, as
    /// [`Backward::choices`] takes it.
    fn backward_args(
        &self,
        operation: Operation<'_>,
        outputs: &mut GradientOutputs<'_, T>,
        d_out: &TensorView<'_, T>,
        x: &TensorView<'_, T>,
        statistics: &Statistics<'_>,
    ) -> Result<(NormBackwardLaunch<T>, [bool; 3]), Error> {
        let Self { weight, d_sum, is_centred, .. } = self;
        let (GradientOutputs { d_inp, d_weight, d_bias }, Statistics { mean, rstd }) = (outputs, statistics);
        let shape = x.shape();
        let of_x = operation.matrix("input", x, shape)?;
        let of_d_inp = operation.matrix("gradient of the input", d_inp, shape)?;
        let of_d_out = operation.matrix("gradient of the output", d_out, shape)?;
        let of_d_sum =
            d_sum.as_ref().map(|it| operation.matrix("gradient of the sum", it, shape)).transpose()?;
        let (len, cols) = (of_x.rows, of_x.cols);
        operation.vector("rstd", rstd, len)?;
        if *is_centred != mean.is_some() {
            let option =
                format!("the number of means is {}", mean.as_ref().map_or(0, |mean| mean.shape().elements()));
            return Err(operation.refuse_option(option, "pass the means to a LayerNorm, and only to that"));
        }
        mean.iter().try_for_each(|mean| operation.vector("mean", mean, len))?;
        weight.iter().try_for_each(|weight| operation.vector("weight", weight, cols))?;
        for (name, vector) in [("gradient of the weight", &*d_weight), ("gradient of the bias", &*d_bias)] {
            vector.iter().try_for_each(|it| operation.vector(name, it, cols))?;
        }
        let [rows, cols] = [operation.count("rows", len, MOST)?, operation.count("columns", cols, MOST)?];
        let (d_inp, d_out, inp, d_sum, weight) =
            (d_inp.raw(), d_out.raw(), x.raw(), read(d_sum), read(weight));
        let strides = [
            (d_inp, of_d_inp.stride),
            (d_out, of_d_out.stride),
            (inp, of_x.stride),
            (d_sum, of_d_sum.map_or(0, |of| of.stride)),
        ];
        let is_dense = strides.iter().all(|(buffer, stride)| {
            buffer.pointer.is_null() || *stride == of_x.cols && buffer.pointer.addr().is_multiple_of(16)
        });
        let is_apart = strides[1..].iter().all(|(buffer, _)| buffer.pointer != d_inp.pointer);
        let is_aligned = is_aligned(of_x.cols, &strides) && weight.pointer.addr().is_multiple_of(16);
        let [d_inp_stride, d_out_stride, inp_stride, d_sum_stride] = strides.map(|(_, stride)| stride as u64);
        let args = NormBackwardLaunch {
            d_inp,
            d_out,
            d_sum,
            inp,
            weight,
            mean: read(mean),
            rstd: rstd.raw(),
            d_weight: RawBuffer::NULL,
            d_bias: RawBuffer::NULL,
            d_inp_stride,
            d_out_stride,
            d_sum_stride,
            inp_stride,
            pitch: 0,
            rows,
            cols,
            per_column: 1.0 / cols as f32,
            flags: if is_aligned { ALIGNED } else { 0 } | if *is_centred { CENTRED } else { 0 },
        };
        Ok((args, [is_dense, is_apart, is_aligned]))
    }
}
