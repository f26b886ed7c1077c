//! A model of how long a kernel takes, for ranking kernels.
//!
//! For each buffer of terms, a block takes the larger of the time to multiply and the time to fetch them. Blocks on one
//! multiprocessor take turns. So the total is the time of the multiprocessor with the most blocks, but at least the time to
//! move all operands and results at the rate that its blocks request them. A split adds the time to write and read the sums,
//! and a launch. The constants were fitted to the times of all `bf16` kernels at the shapes of `cargo bench matmul --
//! --sweep 24` on an H200. The constants for rows across lines and for copies come from a few H100 measurements, without a
//! fit. The estimate ranks kernels; it does not predict a time.

use ferrowarp_device::DeviceProfile;
use matmul_kernels::operation::{THREE_PRODUCTS, WarpgroupShape};

use super::kernel_choice::{Kernel, KernelChoice, Problem};
use crate::element::Element;

/// Multiply-adds of 16-bit numbers per multiprocessor and cycle; half of it for TF32.
const MULTIPLY_ADDS: f64 = 350.0;
/// The same with `wgmma`.
const WARPGROUP_MULTIPLY_ADDS: f64 = 1610.0;
/// Bytes that a multiprocessor fetches per cycle, from L2 or memory, with its threads' asynchronous copies.
const FETCHED: f64 = 8.9;
/// The same for rows that do not start at multiples of 16 bytes.
const FETCHED_UNALIGNED: f64 = 5.9;
/// The same with tensor copies.
const WARPGROUP_FETCHED: f64 = 40.6;
/// The same for rows that are not multiples of 128 bytes apart.
const WARPGROUP_FETCHED_ACROSS_LINES: f64 = 25.0;
/// Cycles of a launch that copies an operand.
const ALIGN_CYCLES: f64 = 4000.0;
/// The copy takes this many times the time of its bytes.
const ALIGN_BYTES: f64 = 1.5;
/// Factor on a multiprocessor's fetches with tensor copies if others have no block.
const FETCHED_ALONE: f64 = 1.6;
/// A multiprocessor's share of the memory bandwidth, in bytes per cycle.
const FROM_MEMORY: f64 = 15.8;
/// Bytes per cycle that one block requests from memory, and the number of blocks on a multiprocessor.
const REQUESTED: [f64; 2] = [3.5, 2.0];
/// The same with tensor copies. The stages of every tile have about the same number of bytes.
const WARPGROUP_REQUESTED: f64 = 19.7;
/// Cycles before the first block and after the last.
const BLOCK_CYCLES: f64 = 2100.0;
/// A block's cycles before its first term and after its last.
const END_CYCLES: f64 = 1640.0;
/// Cycles per additional launch.
const LAUNCH_CYCLES: f64 = 10_400.0;
/// Bytes of sums that a multiprocessor writes and reads per cycle.
const SUMS: f64 = 10.3;

/// Properties of a kernel's blocks.
struct Blocks {
    /// Rows and columns of a tile.
    tile: [f64; 2],
    /// Terms per buffer.
    terms: f64,
    /// Multiply-adds per multiprocessor and cycle.
    speed: f64,
    /// Bytes that a multiprocessor fetches per cycle.
    fetched: f64,
    /// Bytes that a block requests from memory per cycle, and the number of blocks on a multiprocessor.
    requested: [f64; 2],
}

impl<T: Element> KernelChoice<T> {
    /// Estimates the time in cycles.
    pub(super) fn estimate(&self, profile: &DeviceProfile, problem: &Problem) -> f64 {
        let &Problem { m, n, k, batch, .. } = problem;
        let bytes = size_of::<T>() as f64;
        let multiprocessors = profile.multiprocessors as f64;
        let [m, n, k, batch] = [m, n, k, batch].map(f64::from);
        let operands = (m + n) * k * batch;
        let of_warpgroups = |shape: &WarpgroupShape, products: f64, has_lines: bool| {
            let fetched = if has_lines { WARPGROUP_FETCHED } else { WARPGROUP_FETCHED_ACROSS_LINES };
            let [rows, cols, terms] = [WarpgroupShape::ROWS, shape.cols, shape.terms].map(f64::from);
            Blocks {
                tile: [rows, cols],
                terms,
                speed: WARPGROUP_MULTIPLY_ADDS * 2.0 / bytes / products,
                fetched,
                requested: [WARPGROUP_REQUESTED, 1.0],
            }
        };
        let mut before = 0.0;
        let of_kernel = match self.kernel {
            Kernel::Serial(_) => return f64::INFINITY,
            Kernel::Tiles(kernel) => {
                let products = if kernel.is_three_products { 3.0 } else { 1.0 };
                let [rows, cols, terms] = [kernel.rows, kernel.cols, kernel.terms].map(f64::from);
                Blocks {
                    tile: [rows, cols],
                    terms,
                    speed: MULTIPLY_ADDS * 2.0 / bytes / products,
                    fetched: if problem.is_aligned { FETCHED } else { FETCHED_UNALIGNED },
                    requested: REQUESTED,
                }
            }
            // The model does not choose these.
            Kernel::FewRows(_) => return f64::INFINITY,
            Kernel::Warpgroups { kernel, aligns } => {
                if aligns {
                    before = 2.0 * ALIGN_CYCLES
                        + ALIGN_BYTES * 2.0 * bytes * operands / (FROM_MEMORY * multiprocessors);
                }
                of_warpgroups(kernel, 1.0, problem.has_whole_lines || aligns)
            }
            Kernel::ThreeProducts => {
                // A separate launch reads each operand and writes twice as much.
                before = 2.0 * LAUNCH_CYCLES + 12.0 * operands / (FROM_MEMORY * multiprocessors);
                of_warpgroups(THREE_PRODUCTS, 3.0, true)
            }
        };
        let Blocks { tile: [rows, cols], terms, speed, fetched, requested: [requested, resident] } =
            of_kernel;
        let splits = f64::from(self.splits);
        let blocks = (m / rows).ceil() * (n / cols).ceil() * batch * splits;
        let steps = (k / terms / splits).ceil();
        let fetched = match self.kernel {
            Kernel::Warpgroups { .. } => fetched * (multiprocessors / blocks).clamp(1.0, FETCHED_ALONE),
            _ => fetched,
        };
        let step = (rows * cols * terms / speed).max((rows + cols) * terms * bytes / fetched);
        let computed = (blocks / multiprocessors).ceil() * (steps * step + END_CYCLES);
        let rate = FROM_MEMORY.min(requested * resident.min(blocks / multiprocessors));
        let moved = (operands + m * n * batch) * bytes / (rate * multiprocessors);
        let split = match self.needs_sums() {
            false => 0.0,
            true => LAUNCH_CYCLES + 8.0 * m * n * batch * splits / (SUMS * multiprocessors),
        };
        before + BLOCK_CYCLES + computed.max(moved) + split
    }
}
