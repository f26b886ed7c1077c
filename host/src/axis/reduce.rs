//! Sums, means, maxima and minima of rows or columns.

use axis_kernels::args::{ALIGNED, FinishLaunch, ReduceArgs, ReduceLaunch, SUM};
use axis_kernels::{AxisKernels, Blocks, ReduceShape};
use cuda_std::launch::{KernelOf, Limits, RawBuffer};
use ferrowarp_device::device::{Device, Queue};
use ferrowarp_device::error::Error;
use ferrowarp_device::tensor::{Rows, Tensor, TensorView, TensorViewMut};

use super::choices::choices;
use crate::element::{Element, ElementAs, is_f32};
use crate::operation::{MOST, Operation, early, is_aligned};

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
/// Blocks per multiprocessor that share the parts of few rows, and of columns.
const BLOCKS: [u32; 2] = [3, 2];
/// The vectors or rows that a thread loads at the same time.
const OF_THREAD: u32 = 8;
/// Threads per multiprocessor that share few rows, or columns.
const THREADS: u32 = 384;
/// The fewest vectors per thread of many rows, if a warp has them.
const OF_ROWS: u32 = 24;
/// The fewest threads of a row, so that they read whole sectors.
const LEAST_THREADS: u32 = 4;
/// The fewest vectors per thread of a part of a row.
const OF_PART: u32 = 6;
/// The most vectors per thread of a part of a row if the parts are a cluster's blocks.
const MOST_OF_CLUSTER: u32 = 14;
/// The most rows of a thread where one launch is faster than two.
const ROWS_OF_ONE: u32 = 128;
/// Threads of a warp.
const WARP: u32 = 32;
/// The fewest vectors side by side in a block, if rows have as many, and those where one thread has all rows.
const BESIDE: [u32; 2] = [8, 64];
/// The rows that a thread has at most where it has all.
const ALL_ROWS: u32 = 8;
/// The fewest threads of a column of more rows, and the most that are one block's.
const LEAST_OF_COLUMN: u32 = 8;
const MOST_OF_COLUMN: u32 = 64;
/// The fewest blocks where one is not made narrower.
const STRIPS: u32 = 32;
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
    /// Threads of a block.
    block: u32,
    /// The base-2 logarithm of the threads per row, or of the vectors side by side in a block.
    log_threads: u32,
    parts: u32,
    /// The elements of a row or column in each part.
    chunk: u32,
}

impl Split {
    /// Splits `len` elements into at most `parts` parts. Each part except the last is a multiple of `unit`.
    fn new([block, threads]: [u32; 2], len: u32, parts: u32, unit: u32) -> Self {
        let chunk = len.div_ceil(parts).next_multiple_of(unit).min(len).max(1);
        Self { block, log_threads: threads.ilog2(), parts: len.div_ceil(chunk).max(1), chunk }
    }

    /// Splits rows that are read in vectors of `vector` elements.
    fn of_rows(
        blocks: Blocks,
        [rows, cols]: [u32; 2],
        [vector, block]: [u32; 2],
        [multiprocessors, max_cluster]: [u32; 2],
    ) -> Self {
        if blocks == Blocks::Serial {
            return Self::new([1; 2], cols, cols.div_ceil(SERIAL).max(1), 1);
        }
        let vectors = cols.div_ceil(vector).max(1);
        let of = |each: u32| vectors.div_ceil(each).next_power_of_two();
        let all = THREADS * multiprocessors;
        // Each part begins at a multiple of 1024 bytes in the row.
        let unit = 64 * vector;
        if blocks == Blocks::Clusters {
            let block = block / 2;
            let most = (all / block / rows.max(1)).clamp(1, max_cluster.max(1));
            let parts = of(block * OF_THREAD).min(1 << most.ilog2());
            return Self { parts, ..Self::new([block; 2], cols, parts, unit) };
        }
        let parts = (BLOCKS[0] * multiprocessors / rows.max(1)).min(vectors / (block * OF_PART)).max(1);
        if parts > 1 {
            return Self::new([block; 2], cols, parts, unit);
        }
        let of_few = of(OF_THREAD).max(WARP);
        let is_few = rows.saturating_mul(of_few) <= all;
        let of_many = of(OF_ROWS).max(of(OF_THREAD).min(WARP)).max(LEAST_THREADS);
        let threads = if is_few { of_few } else { of_many }.min(of(1)).min(block);
        let each = rows.saturating_mul(threads).div_ceil(multiprocessors);
        let block = each.clamp(WARP, block / 2).next_power_of_two().max(threads);
        Self::new([block, threads], cols, 1, unit)
    }

    /// Splits columns, like [`Self::of_rows`].
    fn of_columns(
        blocks: Blocks,
        [rows, cols]: [u32; 2],
        [vector, block]: [u32; 2],
        [multiprocessors, max_cluster]: [u32; 2],
        is_aligned: bool,
    ) -> Self {
        if blocks == Blocks::Serial {
            return Self::new([1; 2], rows, rows.div_ceil(SERIAL).max(1), 1);
        }
        let vectors = cols.div_ceil(vector).max(1);
        let beside = |most: u32| vectors.next_power_of_two().min(most);
        if rows <= ALL_ROWS {
            let beside = beside(BESIDE[1]);
            return Self::new([beside.max(WARP), beside], rows, 1, 1);
        }
        // Threads of a column: so many that each loads its rows at the same time, if multiprocessors are not full before.
        let most = 1 << (THREADS * multiprocessors / vectors).max(1).ilog2();
        // Single elements are loaded of more columns side by side, and of fewer rows.
        let times = if is_aligned { 1 } else { 2 };
        let threads = (times * rows).div_ceil(OF_THREAD).next_power_of_two().max(LEAST_OF_COLUMN).min(most);
        let mut least = beside(BESIDE[0] * times);
        if blocks == Blocks::Clusters {
            let most = 1 << max_cluster.max(1).ilog2();
            let block = if threads * least > most * block / 2 { block } else { block / 2 };
            let parts = (threads * least / block).clamp(1, most);
            return Self { parts, ..Self::new([block, least], rows, parts, 1) };
        }
        if threads <= MOST_OF_COLUMN / (times * times) && rows <= ROWS_OF_ONE * threads {
            // Narrower blocks, so that more multiprocessors have some.
            while least > 1
                && (least * threads > block || least * threads > 64 && vectors.div_ceil(least) < STRIPS)
            {
                least /= 2;
            }
            let least = least.max(beside(WARP / threads.min(WARP)));
            return Self::new([(threads * least).max(WARP), least], rows, 1, 1);
        }
        let least = beside(2 * BESIDE[0] * times);
        let parts = (BLOCKS[1] * multiprocessors / vectors.div_ceil(least)).min(rows / (block / least));
        let parts = parts.max(rows.div_ceil(block / least * MOST_ROWS)).max(1);
        Self::new([block, least], rows, parts, 1)
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
        self.run_by(queue, out.into(), inp.into(), None)
    }

    /// The kernels that a device can run.
    #[doc(hidden)]
    pub fn choices<T: Element>(self, limits: &Limits) -> impl Iterator<Item = Blocks> {
        let clusters = Some(Blocks::Clusters).filter(|by| limits.runs(self.kernel::<T>(*by).meta));
        choices(limits).iter().copied().chain(clusters)
    }

    /// The kernel that reads the matrix.
    #[doc(hidden)]
    pub fn kernel<T: Element>(self, blocks: Blocks) -> &'static KernelOf<ReduceArgs<T>, ReduceShape> {
        if self.is_of_rows { T::rows(blocks) } else { <T as AxisKernels>::columns(blocks) }
    }

    /// The kernel's split of the rows or columns.
    fn split<T: Element>(self, device: &Device, blocks: Blocks, shape: [u32; 2], is_aligned: bool) -> Split {
        let kernel = self.kernel::<T>(blocks);
        let of_kernel = [kernel.vector, kernel.block];
        let of_device = [device.multiprocessors().max(1) as u32, device.limits().max_cluster];
        match self.is_of_rows {
            true => Split::of_rows(blocks, shape, of_kernel, of_device),
            false => Split::of_columns(blocks, shape, of_kernel, of_device, is_aligned),
        }
    }

    /// The kernels for a matrix, and their split of it.
    fn choose<T: Element>(self, device: &Device, shape: [u32; 2], is_aligned: bool) -> (Blocks, Split) {
        let blocks = choices(device.limits())[0];
        let split = self.split::<T>(device, blocks, shape, is_aligned);
        let clusters = self.choices::<T>(device.limits()).find(|by| *by == Blocks::Clusters);
        // The clusters' barrier takes less time than a second launch, and than long rows of one block.
        let kernel = self.kernel::<T>(blocks);
        let is_long = match self.is_of_rows {
            true => shape[1] > OF_THREAD * kernel.block * kernel.vector,
            false => split.parts > 1,
        };
        if let Some(clusters) = clusters.filter(|_| blocks == Blocks::Wide && is_long) {
            let of_clusters = self.split::<T>(device, clusters, shape, is_aligned);
            let Split { block, log_threads, parts, chunk } = of_clusters;
            let is_short = match self.is_of_rows {
                true => parts >= split.parts || chunk / (block * kernel.vector) <= MOST_OF_CLUSTER,
                false => chunk / (block >> log_threads) <= ROWS_OF_ONE,
            };
            if parts > 1 && is_short {
                return (clusters, of_clusters);
            }
        }
        (blocks, split)
    }

    /// Runs the kernels of a choice, or those that suit the matrix.
    #[doc(hidden)]
    pub fn run_by<T: ElementAs<O>, O: Element>(
        self,
        queue: &impl Queue,
        mut out: TensorViewMut<'_, O>,
        inp: TensorView<'_, T>,
        by: Option<Blocks>,
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
        let inp = inp.raw();
        let is_aligned = is_aligned(cols as usize, &[(inp, stride)]);
        let of = |by| (by, self.split::<T>(queue.device(), by, [rows, cols], is_aligned));
        let (blocks, split) =
            by.map_or_else(|| self.choose::<T>(queue.device(), [rows, cols], is_aligned), of);
        let (kernel, Split { block, log_threads, parts, chunk }) = (self.kernel::<T>(blocks), split);
        let config = if self.is_of_rows {
            kernel.rows(blocks, rows, parts, [block, log_threads])
        } else {
            kernel.columns(blocks, cols, parts, [block, log_threads])
        };
        // Long columns of a few blocks need them spread evenly over the multiprocessors.
        let config = if self.is_of_rows || chunk / (block >> log_threads) <= 2 * OF_THREAD {
            config.with_programmatic_stream_serialization()
        } else {
            early(config, rows, cols as usize * size_of::<T>())
        };
        let (is_sum, sign, scale) = match self.reduction {
            Reduction::Sum => (SUM, 1.0, 1.0),
            Reduction::Mean => (SUM, 1.0, 1.0 / elements as f32),
            Reduction::Max => (0, 1.0, 1.0),
            Reduction::Min => (0, -1.0, -1.0),
        };
        let aligned = if is_aligned { ALIGNED } else { 0 };
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
            if parts == 1 || blocks == Blocks::Clusters {
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
}

#[cfg(test)]
mod tests {
    use super::*;

    const H100: [u32; 2] = [132, 16];

    #[test]
    fn few_long_rows_are_split_evenly_over_the_multiprocessors() {
        let rows = |rows, cols| Split::of_rows(Blocks::Wide, [rows, cols], [4, 256], H100);
        let split = rows(1, 1 << 28);
        assert_eq!((split.log_threads, split.parts), (8, 396));
        assert!(split.chunk.is_multiple_of(256) && u64::from(split.chunk) * 395 < 1 << 28);
        assert_eq!(rows(1024, 131_072), Split { block: 256, log_threads: 8, parts: 1, chunk: 131_072 });
        assert_eq!(rows(131_072, 256), Split { block: 128, log_threads: 3, parts: 1, chunk: 256 });
        assert_eq!(rows(27, 688), Split { block: 32, log_threads: 5, parts: 1, chunk: 688 });
        assert_eq!(rows(7, 3), Split { block: 32, log_threads: 0, parts: 1, chunk: 3 });
        assert_eq!(rows(7, 0).parts, 1);
        let cluster = Split::of_rows(Blocks::Clusters, [7, 140_304], [8, 256], H100);
        assert_eq!((cluster.block, cluster.parts), (128, 16));
    }

    #[test]
    fn columns_of_narrow_matrices_use_all_threads() {
        let columns = |rows, cols| Split::of_columns(Blocks::Wide, [rows, cols], [4, 256], H100, true);
        assert_eq!(columns(1 << 24, 8).log_threads, 1);
        assert_eq!(columns(131_072, 256).parts, 66);
        assert_eq!(columns(100, 131_072), Split { block: 32, log_threads: 5, parts: 1, chunk: 100 });
        assert_eq!(columns(2, 1152), Split { block: 64, log_threads: 6, parts: 1, chunk: 2 });
        assert!(columns(i32::MAX as u32, 8).chunk <= 128 * MOST_ROWS);
        assert_eq!(columns(0, 8).parts, 1);
    }

    #[test]
    fn a_thread_of_a_cpu_adds_up_few_elements() {
        let split = Split::of_rows(Blocks::Serial, [1, 1 << 28], [4, 1], [1, 16]);
        assert_eq!(split, Split { block: 1, log_threads: 0, parts: 16384, chunk: SERIAL });
    }
}
