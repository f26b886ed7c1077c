//! A model of how long a kernel takes, to rank kernels by.
//!
//! A block takes, for each buffer of terms, the larger of the time to multiply them and the time to fetch them; blocks on one
//! multiprocessor take turns. So the time is that of the multiprocessor with the most blocks, but at least that of moving all
//! operands and results, at the rate that its blocks request them. A split adds the time to write and read the sums, and a
//! launch. The constants were fitted to the times of all kernels for `bf16` at the shapes of `cargo bench matmul -- --sweep 24`
//! on an H200. Those of pairs, of rows across lines and of copies were set from a few times on an H100, without a fit.
//! The estimate ranks kernels; it does not predict a time.

use gpu_kernels::matmul::operation::{THREE_PRODUCTS, WarpgroupShape};

use super::kernel_choice::Kernel;
use super::{KernelChoice, Problem, Real};
use crate::softmax::DeviceProfile;

/// Multiply-adds of 16-bit numbers per multiprocessor and cycle; of TF32 half as many.
const MULTIPLY_ADDS: f64 = 350.0;
/// Multiply-adds of 16-bit numbers by `wgmma`.
const WARPGROUP_MULTIPLY_ADDS: f64 = 1610.0;
/// Bytes that a multiprocessor fetches per cycle, from L2 or memory, by asynchronous copies of its threads.
const FETCHED: f64 = 8.9;
/// The same where rows start at no multiple of 16 bytes.
const FETCHED_UNALIGNED: f64 = 5.9;
/// The same by tensor copies of one block, and of two that share B. The half of B that comes from the other block counts as
/// nothing.
const WARPGROUP_FETCHED: [f64; 2] = [40.6, 28.0];
/// The same where rows are not multiples of 128 bytes apart.
const WARPGROUP_FETCHED_ACROSS_LINES: [f64; 2] = [25.0, 22.0];
/// How much faster the blocks of a pair multiply 16-bit numbers, since half of B comes from the other one, and the cycles that they take
/// to meet.
const PAIR_SPEED: f64 = 1.015;
/// As above.
const PAIR_CYCLES: f64 = 1600.0;
/// Cycles of a launch that copies an operand, and how many times as long as its bytes it takes.
const ALIGN_CYCLES: f64 = 4000.0;
/// As above.
const ALIGN_BYTES: f64 = 1.5;
/// How much more a multiprocessor fetches by tensor copies if others have no block.
const FETCHED_ALONE: f64 = 1.6;
/// Bytes of its share of the memory's bandwidth per cycle.
const FROM_MEMORY: f64 = 15.8;
/// Bytes per cycle that one block requests from memory, and blocks on a multiprocessor.
const REQUESTED: [f64; 2] = [3.5, 2.0];
/// The same by tensor copies, for tiles of at least [`WIDE`] columns.
const WARPGROUP_REQUESTED: f64 = 19.7;
/// Columns from which on a tile's stages hold enough bytes to hide the latency of memory.
const WIDE: f64 = 162.0;
/// Cycles before the first block, and after the last.
const BLOCK_CYCLES: f64 = 2100.0;
/// Cycles of a block before its first term and after its last.
const END_CYCLES: f64 = 1640.0;
/// Cycles of one launch more.
const LAUNCH_CYCLES: f64 = 10_400.0;
/// Bytes of sums that a multiprocessor writes and reads per cycle.
const SUMS: f64 = 10.3;

/// What the blocks of a kernel do.
struct Blocks {
    /// Rows and columns of the tile of a block, or of a cluster whose blocks share B.
    tile: [f64; 2],
    /// Terms of a buffer.
    terms: f64,
    /// Rows and columns that a block fetches of each term: what a cluster shares it fetches once.
    fetched_lines: f64,
    /// Multiply-adds of a multiprocessor per cycle.
    speed: f64,
    /// Bytes that a multiprocessor fetches per cycle.
    fetched: f64,
    /// Bytes that a block requests from memory per cycle, and blocks on a multiprocessor.
    requested: [f64; 2],
    /// Blocks that have a tile.
    sharing: f64,
}

impl<T: Real> KernelChoice<T> {
    /// About how many cycles it takes.
    pub(super) fn estimate(&self, profile: &DeviceProfile, problem: &Problem) -> f64 {
        let &Problem { m, n, k, batch, .. } = problem;
        let bytes = size_of::<T>() as f64;
        let multiprocessors = profile.multiprocessors as f64;
        let [m, n, k, batch] = [m, n, k, batch].map(f64::from);
        let operands = (m + n) * k * batch;
        let of_warpgroups = |shape: &WarpgroupShape, products: f64, has_lines: bool| {
            let fetched = if has_lines { WARPGROUP_FETCHED } else { WARPGROUP_FETCHED_ACROSS_LINES };
            let fetched = fetched[usize::from(shape.sharing > 1)];
            let [rows, cols, terms, sharing] =
                [WarpgroupShape::ROWS, shape.cols, shape.terms, shape.sharing].map(f64::from);
            Blocks {
                tile: [rows * sharing, cols],
                terms,
                fetched_lines: rows + cols / sharing,
                speed: WARPGROUP_MULTIPLY_ADDS * 2.0 / bytes / products,
                fetched,
                requested: [WARPGROUP_REQUESTED * (cols / WIDE).min(1.0), 1.0],
                sharing,
            }
        };
        let (mut before, mut pair_speed) = (0.0, 1.0);
        let of_kernel = match self.kernel {
            Kernel::Serial(_) => return f64::INFINITY,
            Kernel::Tiles(kernel) => {
                let products = if kernel.is_three_products { 3.0 } else { 1.0 };
                let [rows, cols, terms] = [kernel.rows, kernel.cols, kernel.terms].map(f64::from);
                Blocks {
                    tile: [rows, cols],
                    terms,
                    fetched_lines: rows + cols,
                    speed: MULTIPLY_ADDS * 2.0 / bytes / products,
                    fetched: if problem.is_aligned { FETCHED } else { FETCHED_UNALIGNED },
                    requested: REQUESTED,
                    sharing: 1.0,
                }
            }
            // They are not chosen by the model.
            Kernel::FewRows(_) => return f64::INFINITY,
            Kernel::Warpgroups { kernel, aligns } => {
                if aligns {
                    before = 2.0 * ALIGN_CYCLES
                        + ALIGN_BYTES * 2.0 * bytes * operands / (FROM_MEMORY * multiprocessors);
                }
                if kernel.sharing > 1 {
                    before += PAIR_CYCLES;
                    pair_speed = if size_of::<T>() == 2 { PAIR_SPEED } else { 1.0 };
                }
                of_warpgroups(kernel, 1.0, problem.has_whole_lines || aligns)
            }
            Kernel::ThreeProducts => {
                // Each operand is read, and twice as much is written, by a launch of its own.
                before = 2.0 * LAUNCH_CYCLES + 12.0 * operands / (FROM_MEMORY * multiprocessors);
                of_warpgroups(THREE_PRODUCTS, 3.0, true)
            }
        };
        let Blocks { tile: [rows, cols], terms, fetched_lines, speed, fetched, requested, sharing } =
            of_kernel;
        let [requested, resident] = requested;
        let splits = f64::from(self.splits);
        let units = (m / rows).ceil() * (n / cols).ceil() * batch * splits;
        let blocks = units * sharing;
        let steps = (k / terms / splits).ceil();
        let fetched = match self.kernel {
            Kernel::Warpgroups { .. } => fetched * (multiprocessors / blocks).clamp(1.0, FETCHED_ALONE),
            _ => fetched,
        };
        let multiplied = rows / sharing * cols * terms / (speed * pair_speed);
        let step = multiplied.max(fetched_lines * terms * bytes / fetched);
        let computed = (units / (multiprocessors / sharing).floor()).ceil() * (steps * step + END_CYCLES);
        let rate = FROM_MEMORY.min(requested * resident.min(blocks / multiprocessors));
        let moved = (operands + m * n * batch) * bytes / (rate * multiprocessors);
        let split = match self.needs_sums() {
            false => 0.0,
            true => LAUNCH_CYCLES + 8.0 * m * n * batch * splits / (SUMS * multiprocessors),
        };
        before + BLOCK_CYCLES + computed.max(moved) + split
    }
}
