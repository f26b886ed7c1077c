//! The gradients of a norm.

use cuda_std::launch::{KernelMeta, Limits, RawBuffer};
use gpu_kernels::norm::Blocks;
use gpu_kernels::norm::args::{ALIGNED, CENTRED, NormBackwardLaunch};
use gpu_kernels::norm::columns::SumPartsLaunch;

use super::{
    Matrix, MatrixMut, NormError, Real, check_device, check_matrix, check_vector, counted, is_aligned, read,
    written,
};
use crate::DeviceProfile;
use crate::device::{Buffer, BufferView, BufferViewMut, Device, Queue};

/// Parts of the rows, if a separate launch adds up the columns.
const PARTS: u32 = 16;

/// The gradients of a norm; [`run`](Self::run) computes them.
///
/// ```
/// use ferrowarp::device::Device;
/// use ferrowarp::norm::{Matrix, MatrixMut, NormBackward, NormError};
///
/// let device = Device::cpu();
/// let upload = |numbers: &[f32]| device.upload(numbers);
/// let (inp, d_out, rstd) = (upload(&[3.0, 4.0])?, upload(&[1.0, 0.0])?, upload(&[0.2])?);
/// let (mut d_inp, mut d_weight) = (device.alloc_zeroed::<f32>(2)?, device.alloc_zeroed::<f32>(2)?);
/// let (inp, d_out) = (Matrix::new(&inp, 1, 2)?, Matrix::new(&d_out, 1, 2)?);
/// NormBackward::rms(MatrixMut::new(&mut d_inp, 1, 2)?, inp, d_out, &rstd).d_weight(&mut d_weight).run(&device)?;
/// // x = [0.6, 0.8], and the gradient is rstd (g - x mean(g x)).
/// let expected = [0.2 * (1.0 - 0.6 * 0.3), 0.2 * (0.0 - 0.8 * 0.3)];
/// assert!(d_inp.to_vec()?.iter().zip(expected).all(|(got, want)| (got - want).abs() < 1e-6));
/// assert!((d_weight.to_vec()?[0] - 0.6).abs() < 1e-6);
/// # Ok::<(), NormError>(())
/// ```
pub struct NormBackward<'a, T> {
    d_inp: MatrixMut<'a, T>,
    inp: Matrix<'a, T>,
    d_out: Matrix<'a, T>,
    rstd: BufferView<'a, f32>,
    mean: Option<BufferView<'a, f32>>,
    weight: Option<BufferView<'a, T>>,
    d_sum: Option<Matrix<'a, T>>,
    d_weight: Option<BufferViewMut<'a, T>>,
    d_bias: Option<BufferViewMut<'a, T>>,
}

impl<'a, T: Real> NormBackward<'a, T> {
    /// Prepares the gradients of an RMSNorm. `inp` is the normalised matrix: with a residual, the [sum](super::Norm::sum).
    /// `d_out` is the gradient of the output, and `rstd` is the forward pass's output. The matrices are `[rows, cols]`.
    pub fn rms(
        d_inp: MatrixMut<'a, T>,
        inp: Matrix<'a, T>,
        d_out: Matrix<'a, T>,
        rstd: impl Into<BufferView<'a, f32>>,
    ) -> Self {
        let rstd = rstd.into();
        Self { d_inp, inp, d_out, rstd, mean: None, weight: None, d_sum: None, d_weight: None, d_bias: None }
    }

    /// Prepares the gradients of a LayerNorm, like [`Self::rms`]. `mean` is the forward pass's output.
    pub fn layer(
        d_inp: MatrixMut<'a, T>,
        inp: Matrix<'a, T>,
        d_out: Matrix<'a, T>,
        mean: impl Into<BufferView<'a, f32>>,
        rstd: impl Into<BufferView<'a, f32>>,
    ) -> Self {
        Self { mean: Some(mean.into()), ..Self::rms(d_inp, inp, d_out, rstd) }
    }

    /// Sets the factors of the columns, `[cols]`, as in the forward pass.
    pub fn weight(mut self, weight: impl Into<BufferView<'a, T>>) -> Self {
        self.weight = Some(weight.into());
        self
    }

    /// Adds another gradient of the sum of input and residual, `[rows, cols]`.
    pub fn d_sum(mut self, d_sum: Matrix<'a, T>) -> Self {
        self.d_sum = Some(d_sum);
        self
    }

    /// Also writes the gradient of the weight, `[cols]`.
    pub fn d_weight(mut self, d_weight: impl Into<BufferViewMut<'a, T>>) -> Self {
        self.d_weight = Some(d_weight.into());
        self
    }

    /// Also writes the gradient of the bias, `[cols]`.
    pub fn d_bias(mut self, d_bias: impl Into<BufferViewMut<'a, T>>) -> Self {
        self.d_bias = Some(d_bias.into());
        self
    }

    /// Computes them, queued on a GPU. Without columns it writes nothing; without rows `d_weight` and `d_bias` are 0.
    ///
    /// # Errors
    /// Shapes or lengths differ, the matrix is too large, an operand lives on another device, or the device failed.
    pub fn run(mut self, queue: &impl Queue) -> Result<(), NormError> {
        let choices = Self::kernels(queue.device().limits(), self.inp.cols(), self.is_dense());
        self.run_by(queue, choices[0])
    }

    /// Whether rows follow each other without gaps in all matrices, which start at multiples of 16 bytes, and `d_inp` is not
    /// one of the inputs.
    fn is_dense(&mut self) -> bool {
        let (to, cols) = (self.d_inp.raw().pointer, self.inp.cols());
        let is_dense = |pointer: *mut T, stride| stride == cols && pointer.addr().is_multiple_of(16);
        let inputs = [Some(self.inp), Some(self.d_out), self.d_sum];
        is_dense(to, self.d_inp.stride())
            && inputs.iter().flatten().all(|matrix| {
                let pointer = matrix.raw().pointer;
                is_dense(pointer, matrix.stride()) && pointer != to
            })
    }

    /// The kernels that can do rows of `cols` columns, the default first. If `is_dense`, rows have no gaps between them, the
    /// matrices start at multiples of 16 bytes, and the gradient of the input is not written in place.
    #[doc(hidden)]
    pub fn kernels(limits: &Limits, cols: usize, is_dense: bool) -> Vec<&'static KernelMeta> {
        let is_shifted = is_dense && !cols.wrapping_mul(size_of::<T>()).is_multiple_of(16);
        let wide = [Blocks::Serial, Blocks::Wide].into_iter();
        let wide = wide.filter(|blocks| limits.check_kernel(T::backward_wide(*blocks).meta).is_ok());
        let wide = wide.map(|blocks| T::backward_wide(blocks).meta);
        let rows = T::BACKWARD_ROWS.iter().filter(|kernel| kernel.holds(cols) && limits.runs(kernel.meta));
        let rows = rows.filter(|kernel| is_shifted || !kernel.is_shifted()).map(|kernel| kernel.meta);
        if limits.runs_cpu_only { wide.chain(rows).collect() } else { rows.chain(wide).collect() }
    }

    /// Runs it with one of its [`kernels`](Self::kernels).
    ///
    /// # Panics
    /// The kernel needs dense rows, and these are not.
    #[doc(hidden)]
    pub fn run_by(mut self, queue: &impl Queue, kernel: &'static KernelMeta) -> Result<(), NormError> {
        let [rows, cols] = self.checked(queue.device())?;
        if cols == 0 {
            return Ok(());
        }
        let (in_rows, blocks) = (
            T::BACKWARD_ROWS.iter().find(|it| it.meta.name == kernel.name),
            if T::backward_wide(Blocks::Serial).meta.name == kernel.name {
                Blocks::Serial
            } else {
                Blocks::Wide
            },
        );
        assert!(
            self.is_dense() || !in_rows.is_some_and(|it| it.is_shifted()),
            "{} needs dense rows",
            kernel.name
        );
        let multiprocessors = DeviceProfile::from(queue.device()).multiprocessors.max(1);
        let parts = match in_rows {
            Some(kernel) => kernel.parts([rows, cols], multiprocessors as u32),
            None => rows.clamp(1, PARTS),
        };
        let pitch = cols.next_multiple_of(8);
        let is_wanted = [self.d_weight.is_some(), self.d_bias.is_some()];
        // The parts of both gradients.
        let count = is_wanted.into_iter().filter(|is| *is).count();
        let mut of_parts = queue.alloc_unwritten::<f32>(count * parts as usize * pitch as usize)?;
        let sums = Self::sums(&mut of_parts, is_wanted)?;
        let args = self.args([rows, cols], sums, pitch);
        // SAFETY: shapes, lengths and devices were checked, outputs are borrowed exclusively, and the kernel holds the
        // columns. Launches run in order. Later uses of the memory wait for the device or are queued after this.
        unsafe {
            match in_rows {
                Some(kernel) => kernel.launch(queue, kernel.config_of_parts(parts, cols), args)?,
                None => {
                    if is_wanted != [false; 2] {
                        let columns = T::columns(blocks);
                        columns.launch(queue, columns.config(cols, parts), NormBackwardLaunch { ..args })?;
                    }
                    if rows > 0 {
                        T::backward_wide(blocks).launch(queue, blocks.config(rows), args)?;
                    }
                }
            }
            for (out, sums) in [&mut self.d_weight, &mut self.d_bias].into_iter().zip(sums) {
                if out.is_some() {
                    let args = SumPartsLaunch { out: written(out), parts: sums, count: parts, pitch, cols };
                    // It may begin before the previous launch has ended.
                    let config = T::SUM_PARTS.config(cols, 1).with_programmatic_stream_serialization();
                    T::SUM_PARTS.launch(queue, config, args)?;
                }
            }
        }
        Ok(())
    }

    /// Divides memory for the parts of the gradients of weight and bias, as far as they are wanted.
    fn sums(of_parts: &mut Buffer<f32>, is_wanted: [bool; 2]) -> Result<[RawBuffer<f32>; 2], NormError> {
        let middle = if is_wanted == [true; 2] { of_parts.len() / 2 } else { of_parts.len() };
        let (first, second) = of_parts.split_at_mut(middle)?;
        Ok(match is_wanted {
            [true, true] => [RawBuffer::written(first), RawBuffer::written(second)],
            [true, false] => [RawBuffer::written(first), RawBuffer::NULL],
            [false, true] => [RawBuffer::NULL, RawBuffer::written(first)],
            [false, false] => [RawBuffer::NULL; 2],
        })
    }

    /// Checks everything and returns the rows and columns.
    fn checked(&self, device: &Device) -> Result<[u32; 2], NormError> {
        let shape @ [rows, cols] = self.inp.shape();
        check_device(device, "inputs", self.inp.device())?;
        check_matrix(device, "gradient of the input", [self.d_inp.shape(), shape], self.d_inp.device())?;
        check_matrix(device, "gradient of the output", [self.d_out.shape(), shape], self.d_out.device())?;
        if let Some(d_sum) = &self.d_sum {
            check_matrix(device, "gradient of the sum", [d_sum.shape(), shape], d_sum.device())?;
        }
        check_vector(device, "elements of rstd", [self.rstd.len(), rows], self.rstd.device())?;
        if let Some(mean) = &self.mean {
            check_vector(device, "means", [mean.len(), rows], mean.device())?;
        }
        if let Some(weight) = &self.weight {
            check_vector(device, "weights", [weight.len(), cols], weight.device())?;
        }
        let gradients =
            [("gradients of the weight", &self.d_weight), ("gradients of the bias", &self.d_bias)];
        for (what, vector) in gradients {
            if let Some(vector) = vector {
                check_vector(device, what, [vector.len(), cols], vector.device())?;
            }
        }
        counted(shape)
    }

    fn args(
        &mut self,
        [rows, cols]: [u32; 2],
        [d_weight, d_bias]: [RawBuffer<f32>; 2],
        pitch: u32,
    ) -> NormBackwardLaunch<T> {
        let d_sum_stride = self.d_sum.map_or(0, |d_sum| d_sum.stride());
        let [d_inp_stride, d_out_stride, inp_stride] =
            [self.d_inp.stride(), self.d_out.stride(), self.inp.stride()];
        let (d_inp, d_out, inp) = (self.d_inp.raw(), self.d_out.raw(), self.inp.raw());
        let d_sum = self.d_sum.map_or(RawBuffer::NULL, |d_sum| d_sum.raw());
        let weight = read(self.weight);
        let strides = [
            (d_inp, d_inp_stride),
            (d_out, d_out_stride),
            (inp, inp_stride),
            (d_sum, d_sum_stride),
            (weight, 0),
        ];
        let aligned = if is_aligned(cols as usize, &strides) { ALIGNED } else { 0 };
        NormBackwardLaunch {
            d_inp,
            d_out,
            d_sum,
            inp,
            weight,
            mean: read(self.mean),
            rstd: RawBuffer::read(self.rstd),
            d_weight,
            d_bias,
            d_inp_stride: d_inp_stride as u64,
            d_out_stride: d_out_stride as u64,
            d_sum_stride: d_sum_stride as u64,
            inp_stride: inp_stride as u64,
            pitch,
            rows,
            cols,
            per_column: 1.0 / cols as f32,
            flags: aligned | if self.mean.is_some() { CENTRED } else { 0 },
        }
    }
}
