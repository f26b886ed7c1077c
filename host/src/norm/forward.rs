//! The forward pass of a norm.

use cuda_std::launch::{KernelMeta, KernelOf, Limits, RawBuffer};
use gpu_kernels::norm::args::{ALIGNED, CENTRED, NormLaunch};
use gpu_kernels::norm::{Blocks, RowsShape};

use super::{
    Matrix, MatrixMut, NormError, Real, check_device, check_matrix, check_vector, counted, is_aligned, read,
    written,
};
use crate::device::{BufferView, BufferViewMut, Device, Queue};

/// The operation `out = (x - mean) rstd weight + bias` along each row; [`run`](Self::run) computes it. `x` is the input plus
/// the residual, and `rstd` is `1 / sqrt(variance + epsilon)`. For RMSNorm the mean is 0 and the variance the mean square.
///
/// ```
/// use ferrowarp::device::Device;
/// use ferrowarp::norm::{Matrix, MatrixMut, Norm, NormError};
///
/// let device = Device::cpu();
/// let (inp, residual) = (device.upload(&[1.0f32, 2.0])?, device.upload(&[2.0f32, 2.0])?);
/// let (mut out, mut sum) = (device.alloc_zeroed::<f32>(2)?, device.alloc_zeroed::<f32>(2)?);
/// let mut rstd = device.alloc_zeroed::<f32>(1)?;
/// Norm::rms(MatrixMut::new(&mut out, 1, 2)?, Matrix::new(&inp, 1, 2)?)
///     .residual(Matrix::new(&residual, 1, 2)?)
///     .sum(MatrixMut::new(&mut sum, 1, 2)?)
///     .rstd(&mut rstd)
///     .run(&device)?;
/// assert_eq!(sum.to_vec()?, [3.0, 4.0]);
/// assert!((rstd.to_vec()?[0] - 1.0 / 12.5f32.sqrt()).abs() < 1e-6);
/// # Ok::<(), NormError>(())
/// ```
pub struct Norm<'a, T> {
    out: MatrixMut<'a, T>,
    inp: Matrix<'a, T>,
    residual: Option<Matrix<'a, T>>,
    sum: Option<MatrixMut<'a, T>>,
    weight: Option<BufferView<'a, T>>,
    bias: Option<BufferView<'a, T>>,
    mean: Option<BufferViewMut<'a, f32>>,
    rstd: Option<BufferViewMut<'a, f32>>,
    epsilon: f32,
    is_centred: bool,
}

impl<'a, T: Real> Norm<'a, T> {
    /// Prepares an RMSNorm with an epsilon of 1e-6. Both matrices are `[rows, cols]`.
    pub fn rms(out: MatrixMut<'a, T>, inp: Matrix<'a, T>) -> Self {
        Self {
            out,
            inp,
            residual: None,
            sum: None,
            weight: None,
            bias: None,
            mean: None,
            rstd: None,
            epsilon: 1e-6,
            is_centred: false,
        }
    }

    /// Prepares a LayerNorm with an epsilon of 1e-5. Both matrices are `[rows, cols]`.
    pub fn layer(out: MatrixMut<'a, T>, inp: Matrix<'a, T>) -> Self {
        Self { epsilon: 1e-5, is_centred: true, ..Self::rms(out, inp) }
    }

    /// Adds `epsilon`, at least 0, to the variance. With 0, a row of variance 0 gives NaN.
    pub fn epsilon(mut self, epsilon: f32) -> Self {
        self.epsilon = epsilon;
        self
    }

    /// Multiplies the columns by these factors, `[cols]`.
    pub fn weight(mut self, weight: impl Into<BufferView<'a, T>>) -> Self {
        self.weight = Some(weight.into());
        self
    }

    /// Adds this bias, `[cols]`, at the end.
    pub fn bias(mut self, bias: impl Into<BufferView<'a, T>>) -> Self {
        self.bias = Some(bias.into());
        self
    }

    /// Adds a residual, `[rows, cols]`, to the input first, and rounds the sum to the type of the matrices.
    pub fn residual(mut self, residual: Matrix<'a, T>) -> Self {
        self.residual = Some(residual);
        self
    }

    /// Also writes the input plus the residual, `[rows, cols]`.
    pub fn sum(mut self, sum: MatrixMut<'a, T>) -> Self {
        self.sum = Some(sum);
        self
    }

    /// Also writes the means, `[rows]`; zeros for RMSNorm.
    pub fn mean(mut self, mean: impl Into<BufferViewMut<'a, f32>>) -> Self {
        self.mean = Some(mean.into());
        self
    }

    /// Also writes `1 / sqrt(variance + epsilon)` of each row, `[rows]`.
    pub fn rstd(mut self, rstd: impl Into<BufferViewMut<'a, f32>>) -> Self {
        self.rstd = Some(rstd.into());
        self
    }

    /// Computes the norm. On a GPU the work is queued. Without columns nothing is written.
    ///
    /// # Errors
    /// Shapes or lengths differ, epsilon is out of range, the matrix is too large, an operand lives on another device, or the device
    /// failed.
    pub fn run(mut self, queue: &impl Queue) -> Result<(), NormError> {
        let device = queue.device();
        let choices =
            Self::kernels(device.limits(), device.multiprocessors(), self.inp.shape(), self.is_aligned());
        self.run_by(queue, choices[0])
    }

    /// Whether rows are whole vectors of 16 bytes, and all matrices and vectors of the columns are aligned to 16 bytes.
    fn is_aligned(&mut self) -> bool {
        let mut strides =
            vec![(self.inp.raw(), self.inp.stride()), (read(self.weight), 0), (read(self.bias), 0)];
        strides.push((self.out.raw(), self.out.stride()));
        strides.extend(self.residual.map(|residual| (residual.raw(), residual.stride())));
        strides.extend(self.sum.as_mut().map(|sum| (sum.raw(), sum.stride())));
        is_aligned(self.inp.cols(), &strides)
    }

    /// The kernels that can do a matrix of `rows` rows and `cols` columns, the fastest first.
    #[doc(hidden)]
    pub fn kernels(
        limits: &Limits,
        multiprocessors: usize,
        [rows, cols]: [usize; 2],
        is_aligned: bool,
    ) -> Vec<&'static KernelMeta> {
        let wide = [Blocks::Serial, Blocks::Wide].into_iter();
        let wide = wide.filter(|blocks| limits.check_kernel(T::wide(*blocks).meta).is_ok());
        let wide = wide.map(|blocks| T::wide(blocks).meta);
        let can = |kernel: &&KernelOf<_, RowsShape>| {
            kernel.holds(cols) && limits.runs(kernel.meta) && (is_aligned || !kernel.is_whole)
        };
        let is_fast = |kernel: &&KernelOf<_, RowsShape>| {
            let is_few = rows.div_ceil(kernel.rows as usize) <= multiprocessors;
            cols >= kernel.in_shared_from as usize && (is_few || !kernel.is_for_few)
        };
        let (first, last): (Vec<_>, Vec<_>) =
            T::IN_SHARED.iter().chain(T::ROWS).filter(can).partition(is_fast);
        let rows = first.into_iter().chain(last).map(|kernel| kernel.meta);
        if limits.runs_cpu_only { wide.chain(rows).collect() } else { rows.chain(wide).collect() }
    }

    /// Runs it with one of its [`kernels`](Self::kernels).
    ///
    /// # Panics
    /// The kernel takes aligned rows, and these are not.
    #[doc(hidden)]
    pub fn run_by(mut self, queue: &impl Queue, kernel: &'static KernelMeta) -> Result<(), NormError> {
        let [rows, cols] = self.checked(queue.device())?;
        if rows == 0 || cols == 0 {
            return Ok(());
        }
        let args = self.args([rows, cols]);
        let in_rows = T::ROWS.iter().chain(T::IN_SHARED).find(|it| it.meta.name == kernel.name);
        assert!(
            args.flags & ALIGNED != 0 || in_rows.is_none_or(|it| !it.is_whole),
            "{} takes aligned rows",
            kernel.name
        );
        let is_serial = T::wide(Blocks::Serial).meta.name == kernel.name;
        let blocks = if is_serial { Blocks::Serial } else { Blocks::Wide };
        // SAFETY: shapes, lengths and devices were checked, and outputs are borrowed exclusively. The kernel holds the
        // columns. Later uses of the memory wait for the device or are queued after this.
        unsafe {
            match in_rows {
                Some(kernel) => kernel.launch(queue, kernel.config([rows, cols]), args)?,
                None => T::wide(blocks).launch(queue, blocks.config(rows), args)?,
            }
        }
        Ok(())
    }

    /// Checks everything and returns the rows and columns.
    fn checked(&self, device: &Device) -> Result<[u32; 2], NormError> {
        let shape @ [rows, cols] = self.inp.shape();
        check_device(device, "inputs", self.inp.device())?;
        check_matrix(device, "output", [self.out.shape(), shape], self.out.device())?;
        if let Some(residual) = &self.residual {
            check_matrix(device, "residual", [residual.shape(), shape], residual.device())?;
        }
        if let Some(sum) = &self.sum {
            check_matrix(device, "sum", [sum.shape(), shape], sum.device())?;
        }
        for (what, vector) in [("weights", &self.weight), ("elements of the bias", &self.bias)] {
            if let Some(vector) = vector {
                check_vector(device, what, [vector.len(), cols], vector.device())?;
            }
        }
        for (what, vector) in [("means", &self.mean), ("elements of rstd", &self.rstd)] {
            if let Some(vector) = vector {
                check_vector(device, what, [vector.len(), rows], vector.device())?;
            }
        }
        // False for NaN too.
        let is_in_range = self.epsilon >= 0.0 && self.epsilon < f32::INFINITY;
        if !is_in_range {
            return Err(NormError::Epsilon { epsilon: self.epsilon });
        }
        counted(shape)
    }

    fn args(&mut self, [rows, cols]: [u32; 2]) -> NormLaunch<T> {
        let aligned = if self.is_aligned() { ALIGNED } else { 0 };
        let residual_stride = self.residual.map_or(0, |residual| residual.stride());
        let sum_stride = self.sum.as_ref().map_or(0, |sum| sum.stride());
        let (out_stride, inp_stride) = (self.out.stride(), self.inp.stride());
        let (out, inp) = (self.out.raw(), self.inp.raw());
        let residual = self.residual.map_or(RawBuffer::NULL, |residual| residual.raw());
        let sum = self.sum.as_mut().map_or(RawBuffer::NULL, MatrixMut::raw);
        let (weight, bias) = (read(self.weight), read(self.bias));
        NormLaunch {
            out,
            inp,
            residual,
            sum,
            weight,
            bias,
            mean: written(&mut self.mean),
            rstd: written(&mut self.rstd),
            out_stride: out_stride as u64,
            inp_stride: inp_stride as u64,
            residual_stride: residual_stride as u64,
            sum_stride: sum_stride as u64,
            rows,
            cols,
            per_column: 1.0 / cols as f32,
            epsilon: self.epsilon,
            flags: aligned | if self.is_centred { CENTRED } else { 0 },
        }
    }
}
