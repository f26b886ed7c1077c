//! Cumulative sums of rows.

use axis_kernels::ScanShape;
use axis_kernels::args::{ALIKE, ScanLaunch};
use axis_kernels::scan::axis_scan_clear;
use cuda_std::launch::{KernelMeta, LaunchConfig, Limits, RawBuffer};
use ferrowarp_device::device::Queue;
use ferrowarp_device::error::Error;
use ferrowarp_device::tensor::{Tensor, TensorView, TensorViewMut};

use crate::element::Element;
use crate::operation::{MOST, MOST_EARLY_BYTES, Operation, early};

/// The name in errors.
const NAME: &str = "a cumulative sum";
/// The fewest lanes of a short row whose lanes have vectors of several rows, if there are many.
const LANES: usize = 8;

/// The cumulative sums along the last axis: `out[..][col]` is the sum of the row's elements up to and including `col`.
///
/// ```
/// use ferrowarp::device::Device;
/// use ferrowarp::{CumulativeSum, Error};
///
/// let device = Device::cpu();
/// let x = device.tensor(&[1.0f32, 2.0, 3.0, 4.0], [2, 2])?;
/// assert_eq!(CumulativeSum::new().run(&device, &x)?.to_vec()?, [1.0, 3.0, 3.0, 7.0]);
/// # Ok::<(), Error>(())
/// ```
///
/// Every row is read once. On a GPU, blocks share rows of more than 8192 elements if there are only a few. The sums are `f32`
/// until they are rounded to the type of the elements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use = "nothing is computed before it is run"]
pub struct CumulativeSum {}

/// The kernel to use.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScanBy {
    /// One thread per row, on a CPU.
    Serial,
    /// A few lanes per short row, or warps of a block per row.
    Rows,
    /// The same, with one vector for each thread.
    Few,
    /// A cluster per row.
    Cluster,
    /// At most this many blocks, which wait for each other.
    Grid(u32),
}

impl ScanBy {
    /// Returns the kernels that it launches.
    pub fn kernels<T: Element>(self) -> Vec<&'static KernelMeta> {
        match self {
            ScanBy::Serial => vec![T::SCAN_SERIAL.meta],
            ScanBy::Cluster => T::SCAN[4..].iter().map(|kernel| kernel.meta).collect(),
            ScanBy::Rows | ScanBy::Few => {
                let kernels =
                    T::SCAN_SHORT.iter().chain(&T::SCAN[..4]).skip(usize::from(self == ScanBy::Few));
                kernels.step_by(2).map(|kernel| kernel.meta).collect()
            }
            ScanBy::Grid(_) => vec![T::SCAN_GRID.meta, axis_scan_clear::META],
        }
    }
}

impl CumulativeSum {
    /// Sums from the first element on.
    pub const fn new() -> Self {
        Self {}
    }

    /// Returns the sums.
    ///
    /// # Errors
    /// The tensor is too large or has gaps within its rows, it lives on another device, or the device failed.
    pub fn run<'i, T: Element>(
        self,
        queue: &impl Queue,
        inp: impl Into<TensorView<'i, T>>,
    ) -> Result<Tensor<T>, Error> {
        let inp = inp.into();
        let mut out = Tensor::unwritten(queue, inp.shape())?;
        self.run_into(queue, &mut out, inp)?;
        Ok(out)
    }

    /// Writes the sums; the output has the input's shape.
    ///
    /// # Errors
    /// As for [`Self::run`], or the shapes differ.
    pub fn run_into<'o, 'i, T: Element>(
        self,
        queue: &impl Queue,
        out: impl Into<TensorViewMut<'o, T>>,
        inp: impl Into<TensorView<'i, T>>,
    ) -> Result<(), Error> {
        self.run_by(queue, out.into(), inp.into(), None)
    }

    /// The kernels, the default for a matrix of this shape first.
    #[doc(hidden)]
    pub fn choices<T: Element>(
        limits: &Limits,
        multiprocessors: usize,
        [rows, cols]: [usize; 2],
    ) -> impl Iterator<Item = ScanBy> + use<T> {
        let serial = limits.runs_cpu_only.then_some(ScanBy::Serial);
        let (tiles, bytes) = (cols.div_ceil(T::SCAN_GRID.tile as usize), rows * cols * size_of::<T>());
        let has_clusters = (2..=limits.max_cluster as usize).contains(&tiles) && limits.runs(T::SCAN[4].meta);
        let mut by = vec![ScanBy::Rows, ScanBy::Few, ScanBy::Grid(ScanShape::MOST_BLOCKS)];
        by.extend(has_clusters.then_some(ScanBy::Cluster));
        let (lanes, short) = (cols * size_of::<T>() / 16, T::SCAN_SHORT[0].tile as usize);
        let first = if tiles > 1 && 4 * rows < 3 * multiprocessors {
            // All blocks are on the device at once.
            if has_clusters && rows * tiles <= 3 * multiprocessors { 3 } else { 2 }
        } else {
            let is_small = bytes <= MOST_EARLY_BYTES && cols <= T::SCAN[1].tile as usize;
            usize::from(is_small || cols <= short && lanes < LANES)
        };
        by.swap(0, first);
        serial.into_iter().chain(by)
    }

    /// Runs one of the [`choices`](Self::choices).
    #[doc(hidden)]
    pub fn run_by<T: Element>(
        self,
        queue: &impl Queue,
        mut out: TensorViewMut<'_, T>,
        inp: TensorView<'_, T>,
        by: Option<ScanBy>,
    ) -> Result<(), Error> {
        let operation = Operation::new(NAME, queue);
        let of_inp = operation.matrix("input", &inp, inp.shape())?;
        let of_out = operation.matrix("output", &out, inp.shape())?;
        let device = queue.device();
        let [rows, cols] =
            [operation.count("rows", of_inp.rows, MOST)?, operation.count("columns", of_inp.cols, MOST)?];
        if rows == 0 || cols == 0 {
            return Ok(());
        }
        let (out_stride, inp_stride) = (of_out.stride, of_inp.stride);
        let (out, inp) = (out.raw(), inp.raw());
        // Where the rows start in their vectors of 16 bytes.
        let start = |raw: RawBuffer<T>, stride: usize| {
            let to_next = if rows > 1 { stride.wrapping_mul(size_of::<T>()) } else { 0 };
            [raw.pointer.addr() % 16, to_next % 16]
        };
        let is_alike = start(out, out_stride) == start(inp, inp_stride);
        let starts_within = start(out, out_stride) != [0, 0];
        let instance = usize::from(starts_within || !is_alike);
        let span = cols + if starts_within { 16 / size_of::<T>() as u32 - 1 } else { 0 };
        let shape = [rows as usize, span as usize];
        let by = by.or_else(|| Self::choices::<T>(device.limits(), device.multiprocessors(), shape).next());
        let args = ScanLaunch {
            out,
            inp,
            sums: RawBuffer::NULL,
            out_stride: out_stride as u64,
            inp_stride: inp_stride as u64,
            rows,
            cols,
            tiles: span.div_ceil(T::SCAN_GRID.tile),
            threads: 0,
            flags: if is_alike { ALIKE } else { 0 },
        };
        let (tiles, row_bytes) = (args.tiles, cols as usize * size_of::<T>());
        // SAFETY: shapes and devices were checked, outputs are borrowed exclusively, and the kernel can do the columns.
        // Launches run in order. Later uses of the memory wait for the device or are queued after this.
        unsafe {
            let by = by.expect("one kernel takes any rows");
            match by {
                ScanBy::Serial => T::SCAN_SERIAL.launch(queue, LaunchConfig::new(rows, 1), args)?,
                ScanBy::Rows | ScanBy::Few | ScanBy::Cluster => {
                    let is_short = span <= T::SCAN_SHORT[0].tile && by != ScanBy::Cluster;
                    let kernels = if is_short { T::SCAN_SHORT } else { T::SCAN };
                    let kernel = match by {
                        ScanBy::Cluster => &kernels[4 + instance],
                        _ => &kernels[2 * instance + usize::from(by == ScanBy::Few)],
                    };
                    let tiles = span.div_ceil(kernel.tile);
                    let (threads, config) = match by {
                        ScanBy::Cluster => kernel.clusters(rows, tiles),
                        _ if is_short => kernel.short(rows, span),
                        _ => kernel.rows(rows, span),
                    };
                    let args = ScanLaunch { threads, tiles, ..args };
                    kernel.launch(queue, early(config, rows, row_bytes), args)?;
                }
                ScanBy::Grid(most) => {
                    // The kernel adds the number of blocks to a tile's number twice.
                    let most_tiles = u32::MAX - 2 * ScanShape::MOST_BLOCKS;
                    let count =
                        operation.count("tiles", rows as usize * tiles as usize, most_tiles as usize)?;
                    let block = T::SCAN_GRID.block;
                    let fit = device.resident_blocks(T::SCAN_GRID.meta, &LaunchConfig::new(1, block))?;
                    let blocks = most.min(ScanShape::MOST_BLOCKS).min(count).min(fit as u32).max(1);
                    let mut sums = queue.alloc_unwritten::<u32>(4 * count as usize)?;
                    let sums = RawBuffer::<u32>::written(&mut sums);
                    axis_scan_clear::launch(queue, LaunchConfig::cover(count as usize, 256), sums, count)?;
                    let args = ScanLaunch { sums, ..args };
                    T::SCAN_GRID.launch(queue, LaunchConfig::new(blocks, block), args)?;
                }
            }
        }
        Ok(())
    }
}
