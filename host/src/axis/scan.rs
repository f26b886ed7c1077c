//! Cumulative sums of rows.

use cuda_std::launch::{KernelMeta, LaunchConfig, Limits, RawBuffer};
use gpu_kernels::axis::ScanShape;
use gpu_kernels::axis::args::{ALIGNED, ScanLaunch};
use gpu_kernels::axis::scan::axis_scan_clear;

use super::{AxisError, Matrix, MatrixMut, Real, check_device, counted};
use crate::device::{Device, Queue};
use crate::rows::is_aligned;

/// The name in errors.
const NAME: &str = "a cumulative sum";

/// The cumulative sums of the rows of a matrix: `out[row][col]` is the sum of the row's elements up to and including `col`.
/// [`run`](Self::run) computes them.
///
/// ```
/// use ferrowarp::axis::{AxisError, CumulativeSum, Matrix, MatrixMut};
/// use ferrowarp::device::Device;
///
/// let device = Device::cpu();
/// let (inp, mut out) = (device.upload(&[1.0f32, 2.0, 3.0, 4.0])?, device.alloc_zeroed::<f32>(4)?);
/// CumulativeSum::new(MatrixMut::new(&mut out, 2, 2)?, Matrix::new(&inp, 2, 2)?).run(&device)?;
/// assert_eq!(out.to_vec()?, [1.0, 3.0, 3.0, 7.0]);
/// # Ok::<(), AxisError>(())
/// ```
///
/// Every row is read once. On a GPU, several blocks share a row of more than 8192 elements. The sums are `f32` until they
/// are rounded to the matrix type.
pub struct CumulativeSum<'a, T> {
    out: MatrixMut<'a, T>,
    inp: Matrix<'a, T>,
}

/// The kernel to use.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScanBy {
    /// One thread per row, on a CPU.
    Serial,
    /// Warps per row; a row is one tile.
    Rows,
    /// At most this many blocks, which wait for each other.
    Grid(u32),
}

impl ScanBy {
    /// Returns the kernels that it launches.
    pub fn kernels<T: Real>(self) -> Vec<&'static KernelMeta> {
        match self {
            ScanBy::Serial => vec![T::SCAN_SERIAL.meta],
            ScanBy::Rows => vec![T::SCAN.meta],
            ScanBy::Grid(_) => vec![T::SCAN_GRID.meta, axis_scan_clear::META],
        }
    }
}

impl<'a, T: Real> CumulativeSum<'a, T> {
    /// Prepares the sums of `inp`. Both matrices are `[rows, cols]`.
    pub fn new(out: MatrixMut<'a, T>, inp: Matrix<'a, T>) -> Self {
        Self { out, inp }
    }

    /// Computes the sums. On a GPU the work is queued.
    ///
    /// # Errors
    /// The shapes differ, the matrix is too large, an operand lives on another device, or the device failed.
    pub fn run(self, queue: &impl Queue) -> Result<(), AxisError> {
        let choices = Self::choices(queue.device().limits(), self.inp.cols());
        self.run_by(queue, choices[0])
    }

    /// The kernels that can do rows of `cols` columns, the default first.
    #[doc(hidden)]
    pub fn choices(limits: &Limits, cols: usize) -> Vec<ScanBy> {
        let serial = limits.runs_cpu_only.then_some(ScanBy::Serial);
        let rows = (cols <= T::SCAN.tile as usize).then_some(ScanBy::Rows);
        serial.into_iter().chain(rows).chain([ScanBy::Grid(ScanShape::MOST_BLOCKS)]).collect()
    }

    /// Runs it with one of its [`choices`](Self::choices).
    #[doc(hidden)]
    pub fn run_by(mut self, queue: &impl Queue, by: ScanBy) -> Result<(), AxisError> {
        let device = queue.device();
        let [rows, cols] = self.checked(device)?;
        if rows == 0 || cols == 0 {
            return Ok(());
        }
        let (out_stride, inp_stride) = (self.out.stride(), self.inp.stride());
        let (out, inp) = (self.out.raw(), self.inp.raw());
        let is_aligned = is_aligned(cols as usize, &[(out, out_stride), (inp, inp_stride)]);
        let (tiles, warps) = (cols.div_ceil(T::SCAN_GRID.tile), cols.div_ceil(T::SCAN.of_warp));
        let args = ScanLaunch {
            out,
            inp,
            sums: RawBuffer::NULL,
            out_stride: out_stride as u64,
            inp_stride: inp_stride as u64,
            rows,
            cols,
            tiles,
            log_warps: warps.next_power_of_two().ilog2(),
            flags: if is_aligned { ALIGNED } else { 0 },
        };
        // SAFETY: shapes and devices were checked, outputs are borrowed exclusively, and the kernel can do the columns.
        // Launches run in order. Later uses of the memory wait for the device or are queued after this.
        unsafe {
            match by {
                ScanBy::Serial => T::SCAN_SERIAL.launch(queue, LaunchConfig::new(rows, 1), args)?,
                ScanBy::Rows => T::SCAN.launch(queue, T::SCAN.rows(rows, args.log_warps), args)?,
                ScanBy::Grid(most) => {
                    let all = u64::from(rows) * u64::from(tiles);
                    // The kernel adds the number of blocks to a tile's number twice.
                    let largest = u32::MAX - 2 * ScanShape::MOST_BLOCKS;
                    if all > u64::from(largest) {
                        let (value, most) = (all as usize, largest as usize);
                        return Err(AxisError::TooLarge { operation: NAME, what: "tiles", value, most });
                    }
                    let count = all as u32;
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

    /// Checks everything and returns the rows and columns.
    fn checked(&self, device: &Device) -> Result<[u32; 2], AxisError> {
        let shape = self.inp.shape();
        check_device(NAME, device, "input", self.inp.device())?;
        check_device(NAME, device, "output", self.out.device())?;
        if self.out.shape() != shape {
            return Err(AxisError::ShapesDiffer { operation: NAME, got: self.out.shape(), expected: shape });
        }
        counted(NAME, shape)
    }
}
