//! A matrix multiplication with its epilogue.

use bytemuck::Pod;
use cuda_std::launch::RawBuffer;
use cuda_std::tensor::TensorMap;
use gpu_kernels::matmul::args::{
    A_ALIGNED, A_TRANSPOSED, AVX512, B_ALIGNED, B_TRANSPOSED, GELU, MatmulLaunch, OUT_ALIGNED, OUT_F32,
    OUT_TENSOR, RELU,
};

use super::launch::{MOST_BLOCKS, launch_some};
use super::matrix::Layout;
use super::{Activation, KernelChoice, MatmulAs, MatmulError, Matrix, MatrixMut, Precision, Problem};
use crate::DeviceProfile;
use crate::device::{BufferView, Device, Queue};

/// The operation `out = activation(scale A B + bias + residual)`; [`run`](Self::run) computes it.
///
/// ```
/// use ferrowarp::device::Device;
/// use ferrowarp::matmul::{Activation, Matmul, MatmulError, Matrix, MatrixMut};
///
/// let device = Device::cpu();
/// let (a, b) = (device.upload(&[1.0f32, -1.0])?, device.upload(&[2.0f32, 3.0])?);
/// let bias = device.upload(&[0.5f32, 0.5])?;
/// let mut out = device.alloc_zeroed::<f32>(4)?;
/// Matmul::new(MatrixMut::new(&mut out, 2, 2)?, Matrix::new(&a, 2, 1)?, Matrix::new(&b, 1, 2)?)
///     .bias(&bias)
///     .activation(Activation::Relu)
///     .run(&device)?;
/// assert_eq!(out.to_vec()?, [2.5, 3.5, 0.0, 0.0]);
/// # Ok::<(), MatmulError>(())
/// ```
pub struct Matmul<'a, T, O> {
    out: MatrixMut<'a, O>,
    a: Matrix<'a, T>,
    b: Matrix<'a, T>,
    bias: Option<BufferView<'a, T>>,
    residual: Option<Matrix<'a, O>>,
    scale: f32,
    activation: Activation,
    precision: Precision,
}

impl<'a, T: MatmulAs<O>, O: Pod> Matmul<'a, T, O> {
    /// Prepares `out = A B`: `[m, n]`, `[m, k]` and `[k, n]`.
    pub fn new(out: MatrixMut<'a, O>, a: Matrix<'a, T>, b: Matrix<'a, T>) -> Self {
        let (activation, precision) = (Activation::None, Precision::F32);
        Self { out, a, b, bias: None, residual: None, scale: 1.0, activation, precision }
    }

    /// Adds `bias[col]` to each result, the same for all matrices of the batch.
    pub fn bias(mut self, bias: impl Into<BufferView<'a, T>>) -> Self {
        self.bias = Some(bias.into());
        self
    }

    /// Adds a matrix of the output's shape.
    pub fn residual(mut self, residual: Matrix<'a, O>) -> Self {
        self.residual = Some(residual);
        self
    }

    /// Multiplies A B by `scale`, before the bias and the residual are added.
    pub fn scale(mut self, scale: f32) -> Self {
        self.scale = scale;
        self
    }

    /// Applies an activation to each result at the end.
    pub fn activation(mut self, activation: Activation) -> Self {
        self.activation = activation;
        self
    }

    /// Sets how `f32` is multiplied on a GPU.
    pub fn precision(mut self, precision: Precision) -> Self {
        self.precision = precision;
        self
    }

    /// Computes the result, queued on a GPU. Without rows or columns it writes nothing. With `k = 0`, `A B` is 0.
    ///
    /// # Errors
    /// The shapes or batches do not match, an extent is too large, the device has no kernel, a matrix lives on another
    /// device, or the device failed.
    pub fn run(self, queue: &impl Queue) -> Result<(), MatmulError> {
        let problem = self.checked(queue.device())?;
        let choice = KernelChoice::new(&DeviceProfile::from(queue.device()), &problem)?;
        self.launch(queue, &problem, choice)
    }

    /// Runs it with the kernels of `choice`, to compare kernels.
    #[doc(hidden)]
    pub fn run_by(self, queue: &impl Queue, choice: KernelChoice<T>) -> Result<(), MatmulError> {
        let problem = self.checked(queue.device())?;
        self.launch(queue, &problem, choice)
    }

    /// Checks all shapes and returns the problem that a kernel is chosen for.
    fn checked(&self, device: &Device) -> Result<Problem, MatmulError> {
        let [a, b] = [self.a.layout.shape(), self.b.layout.shape()];
        let ([m, k], n) = (a, b[1]);
        let mut matrices = vec![("output", self.out.layout, self.out.device(), [m, n])];
        matrices.push(("first operand", self.a.layout, self.a.device(), [m, k]));
        matrices.push(("second operand", self.b.layout, self.b.device(), [k, n]));
        if let Some(residual) = &self.residual {
            matrices.push(("residual", residual.layout, residual.device(), [m, n]));
        }
        let expected_batch = self.out.layout.batch;
        for (what, layout, at, expected) in matrices {
            let got = layout.shape();
            if got != expected {
                return Err(MatmulError::ShapesDiffer { a, b, what, got, expected });
            }
            if layout.batch != expected_batch {
                let (got, expected) = (layout.batch, expected_batch);
                return Err(MatmulError::BatchesDiffer { what, got, expected });
            }
            check_device(device, what, at)?;
        }
        if let Some(bias) = &self.bias {
            if bias.len() != n {
                return Err(MatmulError::BiasLength { len: bias.len(), cols: n });
            }
            check_device(device, "bias", bias.device())?;
        }
        let extent = |what, value: usize| {
            let most = i32::MAX as usize;
            let fits = u32::try_from(value).ok().filter(|_| value <= most);
            fits.ok_or(MatmulError::TooLarge { what, value, most })
        };
        let (m, n, k) = (extent("m", m)?, extent("n", n)?, extent("k", k)?);
        // The grid counts tiles of at least 16 x 64 along x, and tiles of 128 columns along y on a CPU.
        extent("m * n / 1024", (m as usize).div_ceil(16).saturating_mul((n as usize).div_ceil(64)))?;
        if n.div_ceil(128) as usize > MOST_BLOCKS {
            return Err(MatmulError::TooLarge { what: "n", value: n as usize, most: 128 * MOST_BLOCKS });
        }
        Ok(Problem {
            m,
            n,
            k,
            batch: expected_batch.min(MOST_BLOCKS) as u32,
            a_is_transposed: self.a.layout.is_transposed,
            b_is_transposed: self.b.layout.is_transposed,
            precision: self.precision,
            is_aligned: is_aligned(self.a.raw().pointer, &self.a.layout, 16)
                && is_aligned(self.b.raw().pointer, &self.b.layout, 16),
            has_whole_lines: [&self.a.layout, &self.b.layout]
                .iter()
                .all(|layout| layout.rows <= 1 || is_multiple_of::<T>(layout.stride, 128)),
        })
    }

    fn launch(
        mut self,
        queue: &impl Queue,
        problem: &Problem,
        choice: KernelChoice<T>,
    ) -> Result<(), MatmulError> {
        let &Problem { m, n, k, .. } = problem;
        let batch = self.out.layout.batch;
        if m == 0 || n == 0 || batch == 0 {
            return Ok(());
        }
        let all = self.args([m, n, k]);
        for first in (0..batch).step_by(MOST_BLOCKS) {
            let count = (batch - first).min(MOST_BLOCKS) as u32;
            let out_bytes = if T::IS_OUT_F32 { 4 } else { size_of::<T>() };
            let args = MatmulLaunch {
                out: all.out.skip(first * all.out_batch as usize * out_bytes),
                a: all.a.skip(first * all.a_batch as usize),
                b: all.b.skip(first * all.b_batch as usize),
                residual: all.residual.skip(first * all.residual_batch as usize * out_bytes),
                ..all
            };
            // SAFETY: shapes, batches and devices were checked, the output is borrowed exclusively, and the flags follow from
            // the addresses and strides. Later uses of the memory wait for the device or are queued after this.
            unsafe { launch_some(queue, choice, args, count)? };
        }
        Ok(())
    }

    /// Returns the launch arguments.
    fn args(&mut self, [m, n, k]: [u32; 3]) -> MatmulLaunch<T> {
        let out_bytes = if T::IS_OUT_F32 { 4 } else { size_of::<T>() };
        let (out, residual) = (self.out.raw(), self.residual.as_ref());
        let (a, b) = (self.a.raw(), self.b.raw());
        let residual_layout = residual.map_or(self.out.layout, |residual| residual.layout);
        let residual = residual.map_or(RawBuffer::NULL, |residual| residual.raw());
        let mut flags = match self.activation {
            Activation::None => 0,
            Activation::Relu => RELU,
            Activation::Gelu => GELU,
        };
        let mut set = |condition: bool, flag: u32| flags |= if condition { flag } else { 0 };
        set(T::IS_OUT_F32, OUT_F32);
        set(is_aligned(a.pointer, &self.a.layout, 16), A_ALIGNED);
        set(is_aligned(b.pointer, &self.b.layout, 16), B_ALIGNED);
        set(is_aligned(out.pointer, &self.out.layout, 4 * out_bytes), OUT_ALIGNED);
        // A tensor copy writes 16 bytes at a time, even at the end of a row.
        let has_whole_rows = (n as usize * size_of::<T>()).is_multiple_of(16);
        set(!T::IS_OUT_F32 && has_whole_rows && is_aligned(out.pointer, &self.out.layout, 16), OUT_TENSOR);
        set(has_avx512(), AVX512);
        set(self.a.layout.is_transposed, A_TRANSPOSED);
        set(self.b.layout.is_transposed, B_TRANSPOSED);
        let no_map = TensorMap::from_words([0; 16]);
        MatmulLaunch {
            a_map: no_map,
            b_map: no_map,
            out_map: no_map,
            out: out.cast(),
            a,
            b,
            bias: self.bias.map_or(RawBuffer::NULL, RawBuffer::read),
            residual: residual.cast(),
            sums: RawBuffer::NULL,
            out_pitch: self.out.layout.stride as u64,
            a_pitch: self.a.layout.stride as u64,
            b_pitch: self.b.layout.stride as u64,
            residual_pitch: residual_layout.stride as u64,
            out_batch: self.out.layout.batch_stride as u64,
            a_batch: self.a.layout.batch_stride as u64,
            b_batch: self.b.layout.batch_stride as u64,
            residual_batch: residual_layout.batch_stride as u64,
            split_pitch: 0,
            m,
            n,
            k,
            batch: 1,
            splits: 1,
            alpha: self.scale,
            flags,
        }
    }
}

/// Whether each stored row of each matrix starts at a multiple of `bytes` bytes.
fn is_aligned<T>(pointer: *mut T, layout: &Layout, bytes: usize) -> bool {
    let rows = layout.rows <= 1 || is_multiple_of::<T>(layout.stride, bytes);
    let matrices = layout.batch <= 1 || is_multiple_of::<T>(layout.batch_stride, bytes);
    pointer.addr().is_multiple_of(bytes) && rows && matrices
}

/// Whether the bytes of `elements` are a multiple of `bytes`, a power of 2. The stride of empty rows may be more elements than
/// an address space has bytes; wrapping does not change the remainder.
fn is_multiple_of<T>(elements: usize, bytes: usize) -> bool {
    elements.wrapping_mul(size_of::<T>()).is_multiple_of(bytes)
}

/// Whether the processor has AVX-512 registers, which the CPU kernel can use.
fn has_avx512() -> bool {
    #[cfg(target_arch = "x86_64")]
    return std::arch::is_x86_feature_detected!("avx512f");
    #[cfg(not(target_arch = "x86_64"))]
    return false;
}

fn check_device(device: &Device, what: &'static str, at: &Device) -> Result<(), MatmulError> {
    if device.is_in_order_with(at) {
        return Ok(());
    }
    let (at, device) = (at.residence(), device.residence());
    Err(MatmulError::WrongDevice { what, at, device })
}
