//! Sums, means, maxima and minima of rows or columns.

use axis_kernels::args::{ALIGNED, FinishLaunch, ReduceArgs, ReduceLaunch, SUM};
use axis_kernels::{AxisKernels, Blocks, ReduceShape};
use cuda_std::launch::{KernelOf, RawBuffer};
use ferrowarp_device::device::Queue;
use ferrowarp_device::error::Error;
use ferrowarp_device::tensor::{Rows, Tensor, TensorView, TensorViewMut};

use super::choices::choices;
use crate::element::{Element, ElementAs, is_f32};
use crate::operation::{MOST, Operation, is_aligned};

/// What becomes of a row or a column.
///
/// ```
/// use ferrowarp::device::Device;
/// use ferrowarp::{Error, Reduce, Reduction};
///
/// let device = Device::cpu();
/// let x = device.tensor(&[3.0f32, f32::NAN, 1.0, 2.0], [2, 2])?;
/// let minima = Reduce::rows(Reduction::Min).run(&device, &x)?.to_vec()?;
/// assert!(minima[0].is_nan() && minima[1] == 1.0);
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reduction {
    /// The sum; 0 if there are no elements.
    Sum,
    /// The sum divided by the number of elements; NaN if there are no elements.
    Mean,
    /// The largest element; NaN if any element is NaN, -inf if there are no elements.
    Max,
    /// The smallest element; NaN if any element is NaN, inf if there are no elements.
    Min,
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
/// The most vectors side by side in a block, unless there are fewer rows than [`ROWS_IN_FLIGHT`] for each of its threads.
const MOST_VECTORS: u32 = 32;
/// The fewest vectors side by side in a block, so that it reads whole lines, if rows have as many.
const LEAST_VECTORS: u32 = 8;
/// The most rows of a thread where one launch is faster than two.
const ROWS_OF_ONE: u32 = 16;
/// The rows that a thread loads at the same time.
const ROWS_IN_FLIGHT: u32 = 4;
/// The most rows that one thread of a block adds up: a long chain of additions loses bits.
const MOST_ROWS: u32 = 256;
/// The most elements that one CPU thread adds up.
const SERIAL: u32 = 16384;

/// A reduction of the last axis, or of all others.
///
/// ```
/// use ferrowarp::device::Device;
/// use ferrowarp::{Error, Reduce, Reduction, Tensor, bf16};
///
/// let device = Device::cpu();
/// let x = device.tensor(&[1.0f32, 2.0, 3.0, 5.0].map(bf16::from_f32), [2, 2])?;
/// let means = Reduce::rows(Reduction::Mean).run(&device, &x)?;
/// assert_eq!(means.to_vec()?, [1.5, 4.0].map(bf16::from_f32));
/// // An output has the type of the elements, or f32.
/// let mut sums = Tensor::<f32>::zeros(&device, [2])?;
/// Reduce::columns(Reduction::Sum).run_into(&device, &mut sums, &x)?;
/// assert_eq!(sums.to_vec()?, [4.0, 7.0]);
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "nothing is computed before it is run"]
pub struct Reduce {
    reduction: Reduction,
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
        let of_few = block / rows.div_ceil(ROWS_IN_FLIGHT).max(1).next_power_of_two().min(block);
        let of_few = of_few.min((vectors / (BLOCKS * multiprocessors)).max(1).next_power_of_two());
        let mut beside = vectors.next_power_of_two().min(MOST_VECTORS.max(of_few));
        let blocks = |beside: u32| vectors.div_ceil(beside);
        // A second launch takes longer than a few more rows.
        let is_short = |beside: u32| rows.div_ceil(block / beside) <= ROWS_OF_ONE;
        let least = beside.min(LEAST_VECTORS);
        if is_short(least) && blocks(beside) < BLOCKS * multiprocessors {
            while beside > least && (blocks(beside) < multiprocessors || !is_short(beside)) {
                beside /= 2;
            }
            return Self::new(beside.ilog2(), rows, 1, 1);
        }
        let groups = block / beside;
        let parts = (BLOCKS * multiprocessors / blocks(beside)).min(rows.div_ceil(groups * LEAST_OF_PART));
        Self::new(beside.ilog2(), rows, parts.max(rows.div_ceil(groups * MOST_ROWS)).max(1), 1)
    }
}

impl Reduce {
    /// Reduces each row, along the last axis: `[.., cols]` to `[..]`, and `[cols]` to `[1]`.
    pub const fn rows(reduction: Reduction) -> Self {
        Self { reduction, is_of_rows: true }
    }

    /// Reduces each column, along all axes but the last: `[.., cols]` to `[cols]`.
    pub const fn columns(reduction: Reduction) -> Self {
        Self { reduction, is_of_rows: false }
    }

    /// Returns the results.
    ///
    /// # Errors
    /// The tensor is too large or has gaps within its rows, it lives on another device, or the device failed.
    pub fn run<'i, T: Element>(
        self,
        queue: &impl Queue,
        inp: impl Into<TensorView<'i, T>>,
    ) -> Result<Tensor<T>, Error> {
        let inp = inp.into();
        let shape = inp.shape();
        let shape = if self.is_of_rows { shape.without_last() } else { [shape[shape.len() - 1]].into() };
        let mut out = Tensor::unwritten(queue, shape)?;
        self.run_into(queue, &mut out, inp)?;
        Ok(out)
    }

    /// Writes the results, whose shape is as for [`Self::run`], or has one axis for all.
    ///
    /// # Errors
    /// As for [`Self::run`], or the output has another shape.
    pub fn run_into<'o, 'i, T: ElementAs<O>, O: Element>(
        self,
        queue: &impl Queue,
        out: impl Into<TensorViewMut<'o, O>>,
        inp: impl Into<TensorView<'i, T>>,
    ) -> Result<(), Error> {
        self.run_by(queue, out.into(), inp.into(), choices(queue.device().limits())[0])
    }

    /// The kernel, and its split of the rows or columns.
    fn split<T: Element>(
        self,
        blocks: Blocks,
        shape: [u32; 2],
        multiprocessors: u32,
    ) -> (&'static KernelOf<ReduceArgs<T>, ReduceShape>, Split) {
        let kernel = if self.is_of_rows { T::rows(blocks) } else { <T as AxisKernels>::columns(blocks) };
        let by = if self.is_of_rows { Split::of_rows } else { Split::of_columns };
        (kernel, by(blocks, shape, [kernel.vector, kernel.block], multiprocessors))
    }

    /// Runs the kernels for a GPU or for a CPU.
    #[doc(hidden)]
    pub fn run_by<T: ElementAs<O>, O: Element>(
        self,
        queue: &impl Queue,
        mut out: TensorViewMut<'_, O>,
        inp: TensorView<'_, T>,
        blocks: Blocks,
    ) -> Result<(), Error> {
        let operation = Operation::new(NAME, queue);
        let Rows { rows, cols, stride } = operation.matrix("input", &inp, inp.shape())?;
        let one_axis = if self.is_of_rows { rows } else { cols };
        if self.is_of_rows && out.shape() == inp.shape().without_last() {
            out = out.reshape([one_axis]).map_err(|error| error.of(NAME, Some("output")))?;
        }
        operation.vector("output", &out, one_axis)?;
        let [rows, cols] = [operation.count("rows", rows, MOST)?, operation.count("columns", cols, MOST)?];
        let (outputs, elements) = if self.is_of_rows { (rows, cols) } else { (cols, rows) };
        if outputs == 0 {
            return Ok(());
        }
        let multiprocessors = queue.device().multiprocessors().max(1) as u32;
        let (kernel, Split { log_threads, parts, chunk }) =
            self.split::<T>(blocks, [rows, cols], multiprocessors);
        let config = if self.is_of_rows {
            kernel.rows(rows, parts, log_threads)
        } else {
            kernel.columns(cols, parts, log_threads)
        };
        let (is_sum, sign, scale) = match self.reduction {
            Reduction::Sum => (SUM, 1.0, 1.0),
            Reduction::Mean => (SUM, 1.0, 1.0 / elements as f32),
            Reduction::Max => (0, 1.0, 1.0),
            Reduction::Min => (0, -1.0, -1.0),
        };
        let inp = inp.raw();
        let aligned = if is_aligned(cols as usize, &[(inp, stride)]) { ALIGNED } else { 0 };
        let out = out.raw();
        let (out, full) =
            if is_f32::<O>() { (RawBuffer::NULL, out.cast()) } else { (out.cast(), RawBuffer::NULL) };
        let args = ReduceLaunch {
            out,
            full,
            inp,
            stride: stride as u64,
            rows,
            cols,
            chunk,
            log_threads,
            sign,
            scale,
            flags: is_sum | aligned,
        };
        // SAFETY: shapes and devices were checked, outputs are borrowed exclusively, and the launch matches the split. The
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
            // It may begin before the previous launch has ended.
            let config = finish.finish(outputs).with_programmatic_stream_serialization();
            Ok(finish.launch(queue, config, args)?)
        }
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
