//! Sums, means, maxima and minima of rows or columns.

use bytemuck::Pod;
use cuda_std::half::{bf16, f16};
use cuda_std::launch::{KernelOf, RawBuffer};
use gpu_kernels::axis::args::{ALIGNED, FinishLaunch, ReduceArgs, ReduceLaunch, SUM};
use gpu_kernels::axis::{Blocks, ReduceShape};

use super::{AxisError, Matrix, Real, check_device, choices, counted};
use crate::DeviceProfile;
use crate::device::{BufferViewMut, Device, Queue};
use crate::rows::{is_aligned, written};

/// The reduction of a row or a column.
///
/// ```
/// use ferrowarp::axis::{AxisError, Matrix, Operation, Reduce};
/// use ferrowarp::device::Device;
///
/// let device = Device::cpu();
/// let (inp, mut out) = (device.upload(&[3.0f32, f32::NAN, 1.0, 2.0])?, device.alloc_zeroed::<f32>(2)?);
/// Reduce::rows(Operation::Min, &mut out, Matrix::new(&inp, 2, 2)?).run(&device)?;
/// let minima = out.to_vec()?;
/// assert!(minima[0].is_nan() && minima[1] == 1.0);
/// # Ok::<(), AxisError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// The sum; 0 if there are no elements.
    Sum,
    /// The sum divided by the number of elements; NaN if there are no elements.
    Mean,
    /// The largest element; NaN if any element is NaN, -inf if there are no elements.
    Max,
    /// The smallest element; NaN if any element is NaN, inf if there are no elements.
    Min,
}

/// An output type for elements of type `T`: the same type, or `f32`.
///
/// ```
/// use ferrowarp::axis::Output;
/// use ferrowarp::{bf16, f16};
///
/// fn check<T, O: Output<T>>() {}
/// check::<bf16, bf16>();
/// check::<bf16, f32>();
/// check::<f16, f16>();
/// ```
pub trait Output<T>: Pod {
    /// The buffer as launch arguments, one per output type.
    #[doc(hidden)]
    fn buffers(raw: RawBuffer<Self>) -> (RawBuffer<T>, RawBuffer<f32>);
}

impl<T> Output<T> for f32 {
    fn buffers(raw: RawBuffer<f32>) -> (RawBuffer<T>, RawBuffer<f32>) {
        (RawBuffer::NULL, raw)
    }
}

impl Output<f16> for f16 {
    fn buffers(raw: RawBuffer<f16>) -> (RawBuffer<f16>, RawBuffer<f32>) {
        (raw, RawBuffer::NULL)
    }
}

impl Output<bf16> for bf16 {
    fn buffers(raw: RawBuffer<bf16>) -> (RawBuffer<bf16>, RawBuffer<f32>) {
        (raw, RawBuffer::NULL)
    }
}

/// The name in errors.
const NAME: &str = "a reduction";
/// Blocks per multiprocessor that share the parts of few rows or columns.
const BLOCKS: u32 = 4;
/// The fewest vectors per thread of a row, if the row has more.
const LEAST_OF_ROW: u32 = 8;
/// The fewest vectors per thread of a part.
const LEAST_OF_PART: u32 = 4;
/// The fewest threads of a row, so that they read whole sectors.
const LEAST_THREADS: u32 = 8;
/// The most vectors side by side in a block.
const MOST_VECTORS: u32 = 32;
/// The most rows that one thread of a block adds up: a long chain of additions loses bits.
const MOST_ROWS: u32 = 256;
/// The most elements that one CPU thread adds up.
const SERIAL: u32 = 16384;

/// A reduction of the rows or columns of a matrix; [`run`](Self::run) computes it.
///
/// ```
/// use ferrowarp::axis::{AxisError, Matrix, Operation, Reduce};
/// use ferrowarp::bf16;
/// use ferrowarp::device::Device;
///
/// let device = Device::cpu();
/// let inp = device.upload(&[1.0f32, 2.0, 3.0, 5.0].map(bf16::from_f32))?;
/// let matrix = Matrix::new(&inp, 2, 2)?;
/// // The output has the type of the matrix, or f32.
/// let (mut means, mut sums) = (device.alloc_zeroed::<bf16>(2)?, device.alloc_zeroed::<f32>(2)?);
/// Reduce::rows(Operation::Mean, &mut means, matrix).run(&device)?;
/// Reduce::columns(Operation::Sum, &mut sums, matrix).run(&device)?;
/// assert_eq!(means.to_vec()?, [1.5, 4.0].map(bf16::from_f32));
/// assert_eq!(sums.to_vec()?, [4.0, 7.0]);
/// # Ok::<(), AxisError>(())
/// ```
pub struct Reduce<'a, T, O = T> {
    out: BufferViewMut<'a, O>,
    inp: Matrix<'a, T>,
    operation: Operation,
    is_of_rows: bool,
}

/// How the elements are divided among threads and blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Split {
    /// The base-2 logarithm of the threads per row, or of the vectors side by side in a block.
    log_threads: u32,
    parts: u32,
    /// The elements of a row or column in each part.
    chunk: u32,
}

impl Split {
    /// Splits `len` elements into at most `parts` parts. Each part except the last is a multiple of `unit`.
    fn new(log_threads: u32, len: u32, parts: u32, unit: u32) -> Self {
        let chunk = len.div_ceil(parts).next_multiple_of(unit).min(len).max(1);
        Self { log_threads, parts: len.div_ceil(chunk).max(1), chunk }
    }

    /// Splits rows that are read in vectors of `vector` elements.
    fn of_rows(
        blocks: Blocks,
        [rows, cols]: [u32; 2],
        [vector, block]: [u32; 2],
        multiprocessors: u32,
    ) -> Self {
        if blocks == Blocks::Serial {
            return Self::new(0, cols, cols.div_ceil(SERIAL).max(1), 1);
        }
        let vectors = cols.div_ceil(vector).max(1);
        let least = vectors.next_power_of_two().min(LEAST_THREADS);
        let threads = (vectors / LEAST_OF_ROW).max(1).next_power_of_two().clamp(least, block);
        let parts = if threads == block {
            (BLOCKS * multiprocessors / rows.max(1)).min(vectors / (block * LEAST_OF_PART))
        } else {
            1
        };
        // Each part begins at a multiple of 1024 bytes in the row.
        Self::new(threads.ilog2(), cols, parts.max(1), 64 * vector)
    }

    /// Splits columns, like [`Self::of_rows`].
    fn of_columns(
        blocks: Blocks,
        [rows, cols]: [u32; 2],
        [vector, block]: [u32; 2],
        multiprocessors: u32,
    ) -> Self {
        if blocks == Blocks::Serial {
            return Self::new(0, rows, rows.div_ceil(SERIAL).max(1), 1);
        }
        let vectors = cols.div_ceil(vector);
        let beside = vectors.next_power_of_two().min(MOST_VECTORS);
        let groups = block / beside;
        let parts =
            (BLOCKS * multiprocessors / vectors.div_ceil(beside)).min(rows.div_ceil(groups * LEAST_OF_PART));
        Self::new(beside.ilog2(), rows, parts.max(rows.div_ceil(groups * MOST_ROWS)).max(1), 1)
    }
}

impl<'a, T: Real, O: Output<T>> Reduce<'a, T, O> {
    /// Reduces each row of `inp`, `[rows, cols]`, along axis 1. The output is `[rows]`.
    pub fn rows(operation: Operation, out: impl Into<BufferViewMut<'a, O>>, inp: Matrix<'a, T>) -> Self {
        Self { out: out.into(), inp, operation, is_of_rows: true }
    }

    /// Reduces each column of `inp`, `[rows, cols]`, along axis 0. The output is `[cols]`.
    pub fn columns(operation: Operation, out: impl Into<BufferViewMut<'a, O>>, inp: Matrix<'a, T>) -> Self {
        Self { out: out.into(), inp, operation, is_of_rows: false }
    }

    /// Computes the results. On a GPU the work is queued.
    ///
    /// # Errors
    /// The output has another length, the matrix is too large, an operand lives on another device, or the device failed.
    pub fn run(self, queue: &impl Queue) -> Result<(), AxisError> {
        self.run_by(queue, choices(queue.device().limits())[0])
    }

    /// The kernel, and its split of the rows or columns.
    fn split(
        &self,
        blocks: Blocks,
        shape: [u32; 2],
        multiprocessors: u32,
    ) -> (&'static KernelOf<ReduceArgs<T>, ReduceShape>, Split) {
        let kernel = if self.is_of_rows { T::rows(blocks) } else { T::columns(blocks) };
        let by = if self.is_of_rows { Split::of_rows } else { Split::of_columns };
        (kernel, by(blocks, shape, [kernel.vector, kernel.block], multiprocessors))
    }

    /// Runs it with the kernels for a GPU or for a CPU.
    #[doc(hidden)]
    pub fn run_by(self, queue: &impl Queue, blocks: Blocks) -> Result<(), AxisError> {
        let device = queue.device();
        let [rows, cols] = self.checked(device)?;
        let (outputs, elements) = if self.is_of_rows { (rows, cols) } else { (cols, rows) };
        if outputs == 0 {
            return Ok(());
        }
        let multiprocessors = DeviceProfile::from(device).multiprocessors.max(1) as u32;
        let (kernel, Split { log_threads, parts, chunk }) = self.split(blocks, [rows, cols], multiprocessors);
        let config = if self.is_of_rows {
            kernel.rows(rows, parts, log_threads)
        } else {
            kernel.columns(cols, parts, log_threads)
        };
        let (is_sum, sign, scale) = match self.operation {
            Operation::Sum => (SUM, 1.0, 1.0),
            Operation::Mean => (SUM, 1.0, 1.0 / elements as f32),
            Operation::Max => (0, 1.0, 1.0),
            Operation::Min => (0, -1.0, -1.0),
        };
        let inp = self.inp.raw();
        let aligned = if is_aligned(cols as usize, &[(inp, self.inp.stride())]) { ALIGNED } else { 0 };
        let (out, full) = O::buffers(written(&mut Some(self.out)));
        let args = ReduceLaunch {
            out,
            full,
            inp,
            stride: self.inp.stride() as u64,
            rows,
            cols,
            chunk,
            log_threads,
            sign,
            scale,
            flags: is_sum | aligned,
        };
        // SAFETY: lengths and devices were checked, outputs are borrowed exclusively, and the launch matches the split. The
        // launches run one after the other. Later uses of the memory wait for the device or are queued after this.
        unsafe {
            if parts == 1 {
                return Ok(kernel.launch(queue, config, args)?);
            }
            let mut of_parts = queue.alloc_unwritten::<f32>(parts as usize * outputs as usize)?;
            let of_parts = RawBuffer::<f32>::written(&mut of_parts);
            let first = ReduceLaunch { out: RawBuffer::NULL, full: of_parts, scale: 1.0, ..args };
            kernel.launch(queue, config, first)?;
            let args =
                FinishLaunch { out, full, parts: of_parts, count: parts, outputs, scale, flags: is_sum };
            let finish = T::finish(blocks);
            Ok(finish.launch(queue, finish.finish(outputs), args)?)
        }
    }

    /// Checks everything and returns the rows and columns.
    fn checked(&self, device: &Device) -> Result<[u32; 2], AxisError> {
        let shape @ [rows, cols] = self.inp.shape();
        check_device(NAME, device, "input", self.inp.device())?;
        check_device(NAME, device, "output", self.out.device())?;
        let (len, expected) = (self.out.len(), if self.is_of_rows { rows } else { cols });
        if len != expected {
            return Err(AxisError::Length { operation: NAME, len, expected });
        }
        counted(NAME, shape)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const H100: u32 = 132;

    #[test]
    fn few_long_rows_are_split_evenly_over_the_multiprocessors() {
        let rows = |rows, cols| Split::of_rows(Blocks::Wide, [rows, cols], [4, 256], H100);
        let split = rows(1, 1 << 28);
        assert_eq!((split.log_threads, split.parts), (8, 528));
        assert!(split.chunk.is_multiple_of(256) && u64::from(split.chunk) * 527 < 1 << 28);
        assert_eq!(rows(1024, 131_072), Split { log_threads: 8, parts: 1, chunk: 131_072 });
        assert_eq!(rows(131_072, 256), Split { log_threads: 3, parts: 1, chunk: 256 });
        assert_eq!(rows(7, 3), Split { log_threads: 0, parts: 1, chunk: 3 });
        assert_eq!(rows(7, 0).parts, 1);
    }

    #[test]
    fn columns_of_narrow_matrices_use_all_threads() {
        let columns = |rows, cols| Split::of_columns(Blocks::Wide, [rows, cols], [4, 256], H100);
        assert_eq!(columns(1 << 24, 8).log_threads, 1);
        assert_eq!(columns(131_072, 256).parts, 264);
        assert_eq!(columns(1024, 131_072), Split { log_threads: 5, parts: 1, chunk: 1024 });
        assert!(columns(i32::MAX as u32, 8).chunk <= 128 * MOST_ROWS);
        assert_eq!(columns(0, 8).parts, 1);
    }

    #[test]
    fn a_thread_of_a_cpu_adds_up_few_elements() {
        let split = Split::of_rows(Blocks::Serial, [1, 1 << 28], [4, 1], 1);
        assert_eq!(split, Split { log_threads: 0, parts: 16384, chunk: SERIAL });
    }
}
