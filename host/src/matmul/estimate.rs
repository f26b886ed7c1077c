//! A model of how long a kernel takes, for ranking kernels.
//!
//! For each buffer of terms, a block takes the time to multiply or the time to fetch them. Blocks on one multiprocessor take
//! turns. So the total is the time of the multiprocessor with the most blocks, but at least the time to move all operands and
//! results at the rate that its blocks request them. A split adds the time to write and read the sums, and a launch.
//!
//! The constants were fitted to times on an H200. Those of `wgmma`: of all `bf16` kernels at the shapes of `cargo bench matmul
//! -- --sweep 24`; those for rows across lines and for the launch after splits, of all `bf16` kernels at 138 random shapes. At 149
//! other shapes, what the model chose took 1.02 times as long as the fastest. Those of `mma.sync`: of its kernels of all types with
//! up to 24 splits at 221 random shapes; what the model chose took 1.02 times as long as the fastest, also at the half of the
//! shapes that another fit had not seen. Those for copies come from a few H100 measurements, and those that compare TF32 with and
//! without `wgmma` from eight shapes on an H200, without a fit. The estimate ranks kernels; it does not predict a time.

use ferrowarp_device::DeviceProfile;
use matmul_kernels::operation::{THREE_PRODUCTS, TileShape, WarpgroupShape};

use super::kernel_choice::{Kernel, KernelChoice, Problem, is_transposed};
use crate::element::Element;

/// Multiply-adds of 16-bit numbers per multiprocessor and cycle with `mma.sync`; half of it for TF32.
const MULTIPLY_ADDS: f64 = 2010.0;
/// Bytes per cycle that a multiprocessor reads from or writes to its shared memory.
const SHARED: f64 = 113.0;
/// Cycles to split a register of each lane into two TF32 numbers, for all warps of a multiprocessor.
const CONVERTED: f64 = 2.75;
/// A block of four warps that is alone on its multiprocessor takes this many times as long for a step.
const FOUR_WARPS: f64 = 1.32;
/// A step of TF32 takes this many times as long, compared with kernels with `wgmma`.
const TF32: f64 = 1.5;
/// Cycles for each result of a tile after its last term.
const RESULT: f64 = 0.074;
/// Cycles of the launch that adds up the splits of these tiles.
const TILES_LAUNCH_CYCLES: f64 = 2730.0;
/// [`MULTIPLY_ADDS`] with `wgmma`.
const WARPGROUP_MULTIPLY_ADDS: f64 = 1610.0;
/// Cycles that a step takes longer if threads load an operand to registers.
const FROM_REGISTERS: f64 = 145.0;
/// Bytes that a multiprocessor fetches per cycle, from L2 or memory, with its threads' asynchronous copies.
const FETCHED: f64 = 46.0;
/// The same for rows that do not start at multiples of 16 bytes.
const FETCHED_UNALIGNED: f64 = 5.9;
/// The same with tensor copies.
const WARPGROUP_FETCHED: f64 = 40.6;
/// The same for rows that are not multiples of 128 bytes apart.
const WARPGROUP_FETCHED_ACROSS_LINES: f64 = 29.0;
/// Cycles of a launch that copies an operand.
const ALIGN_CYCLES: f64 = 4000.0;
/// The copy takes this many times the time of its bytes.
const ALIGN_BYTES: f64 = 1.5;
/// Factor on a multiprocessor's fetches with tensor copies if others have no block.
const FETCHED_ALONE: f64 = 1.6;
/// A multiprocessor's share of the memory bandwidth, in bytes per cycle.
const FROM_MEMORY: f64 = 15.8;
/// Bytes per cycle that one block requests from memory, and the number of blocks on a multiprocessor.
const REQUESTED: [f64; 2] = [21.0, 2.0];
/// The same with tensor copies. The stages of every tile have about the same number of bytes.
const WARPGROUP_REQUESTED: f64 = 19.7;
/// Cycles before the first block and after the last.
const BLOCK_CYCLES: f64 = 2100.0;
/// A block's cycles before its first term and after its last.
const END_CYCLES: f64 = 1640.0;
/// Cycles per launch that splits an operand of `f32`.
const LAUNCH_CYCLES: f64 = 10_400.0;
/// Cycles of the launch that adds up splits of `wgmma` kernels.
const REDUCE_CYCLES: f64 = 4600.0;
/// Bytes of sums that a multiprocessor writes and reads per cycle.
const SUMS: f64 = 10.3;

/// Properties of a kernel's blocks.
struct Blocks {
    /// Terms per buffer.
    terms: f64,
    /// Cycles of a multiprocessor for a buffer of a block among others.
    step: f64,
    /// The least time of a block for a buffer, as a multiple of `step`.
    alone: f64,
    /// Cycles of a block before its first term and after its last.
    ends: f64,
    /// Blocks that run at the same time on a multiprocessor.
    resident: f64,
    /// Bytes that a block requests from memory per cycle, and the number of blocks on a multiprocessor.
    requested: [f64; 2],
    /// Cycles of the launch that adds up splits.
    launch: f64,
}

impl Blocks {
    /// The blocks of a kernel with `mma.sync`. The multiplications, the accesses to shared memory and the conversions of a
    /// buffer overlap in part: the time is the root of the sum of their squares.
    fn of_tiles(tile: &TileShape, most: f64, profile: &DeviceProfile, bytes: f64, is_aligned: bool) -> Self {
        let [rows, cols, terms] = [tile.rows, tile.cols, tile.terms].map(f64::from);
        let warps = f64::from(tile.threads) / 32.0;
        let loaded = warps * (f64::from(tile.warp[0]) + f64::from(tile.warp[1])) * terms;
        let products = if tile.is_three_products { 3.0 } else { 1.0 };
        let multiplied = rows * cols * terms * products * bytes / 2.0 / MULTIPLY_ADDS;
        let fetched = (rows + cols) * terms * bytes;
        let shared = (loaded * bytes + fetched) / SHARED;
        let converted = if tile.is_three_products { loaded / 32.0 * CONVERTED } else { 0.0 };
        let rate = if is_aligned { FETCHED } else { FETCHED_UNALIGNED };
        let is_tf32 = bytes == 4.0 && !tile.is_three_products;
        let step = multiplied.hypot(shared).hypot(converted).max(fetched / rate);
        let step = if is_tf32 { TF32 * step } else { step };
        let fits = (profile.limits.max_dynamic_shared_bytes / tile.shared_bytes).max(1);
        Self {
            terms,
            step,
            alone: if warps > 4.0 { 1.0 } else { FOUR_WARPS },
            ends: END_CYCLES + RESULT * rows * cols,
            resident: most.min(f64::from(fits)),
            requested: REQUESTED,
            launch: TILES_LAUNCH_CYCLES,
        }
    }

    /// The blocks of a kernel with `wgmma`; `blocks` of them run for each multiprocessor.
    fn of_warpgroups(tile: &WarpgroupShape, products: f64, bytes: f64, has_lines: bool, blocks: f64) -> Self {
        let [rows, cols, terms] = [tile.rows, tile.cols, tile.terms].map(f64::from);
        let rate = if has_lines { WARPGROUP_FETCHED } else { WARPGROUP_FETCHED_ACROSS_LINES };
        let rate = rate * if products == 1.0 { (1.0 / blocks).clamp(1.0, FETCHED_ALONE) } else { 1.0 };
        let is_in_registers = bytes == 4.0 && !(tile.a_along_k && tile.b_along_k);
        let loads = if is_in_registers { FROM_REGISTERS } else { 0.0 };
        let speed = WARPGROUP_MULTIPLY_ADDS * 2.0 / bytes / products;
        Self {
            terms,
            step: loads + (rows * cols * terms / speed).max((rows + cols) * terms * bytes / rate),
            alone: 1.0,
            ends: END_CYCLES,
            resident: 1.0,
            requested: [WARPGROUP_REQUESTED, 1.0],
            launch: REDUCE_CYCLES,
        }
    }
}

impl<T: Element> KernelChoice<T> {
    /// Estimates the time in cycles.
    pub(super) fn estimate(&self, profile: &DeviceProfile, problem: &Problem) -> f64 {
        let &Problem { m, n, k, batch, .. } = problem;
        let bytes = size_of::<T>() as f64;
        let multiprocessors = profile.multiprocessors as f64;
        let [m, n, k, batch] = [m, n, k, batch].map(f64::from);
        let splits = f64::from(self.splits);
        let operands = (m + n) * k * batch;
        // Blocks for each multiprocessor, with tiles of these rows and columns.
        let count = |rows: u32, cols: u32| {
            (m / f64::from(rows)).ceil() * (n / f64::from(cols)).ceil() * batch * splits / multiprocessors
        };
        // Separate launches read and write the operands.
        let copies = |launches: f64, elements: f64| {
            launches * ALIGN_CYCLES + ALIGN_BYTES * 2.0 * bytes * elements / (FROM_MEMORY * multiprocessors)
        };
        let aligned = |aligns: bool| if aligns { copies(2.0, operands) } else { 0.0 };
        let (before, blocks, of_kernel) = match self.kernel {
            // The model does not choose these.
            Kernel::Serial(_) | Kernel::FewRows { .. } => return f64::INFINITY,
            Kernel::Tiles { kernel, aligns } => {
                let (is_aligned, most) = (problem.is_aligned || aligns, kernel.meta.min_blocks.into());
                let of_tiles = Blocks::of_tiles(&kernel.facts, most, profile, bytes, is_aligned);
                (aligned(aligns), count(kernel.rows, kernel.cols), of_tiles)
            }
            Kernel::Warpgroups { kernel, aligns, .. } => {
                let (blocks, has_lines) =
                    (count(kernel.rows, kernel.cols), problem.has_whole_lines || aligns);
                let of_warpgroups = Blocks::of_warpgroups(kernel, 1.0, bytes, has_lines, blocks);
                let along_k = [!problem.a_is_transposed, problem.b_is_transposed];
                let transposed = is_transposed(along_k, [kernel.a_along_k, kernel.b_along_k]);
                let transposed = transposed.unwrap_or_default().map(|it| if it { 1.0 } else { 0.0 });
                let elements = (transposed[0] * m + transposed[1] * n) * k * batch;
                let before =
                    if aligns { aligned(true) } else { copies(transposed[0] + transposed[1], elements) };
                (before, blocks, of_warpgroups)
            }
            Kernel::ThreeProducts => {
                // A separate launch reads each operand and writes twice as much.
                let before = 2.0 * LAUNCH_CYCLES + 12.0 * operands / (FROM_MEMORY * multiprocessors);
                let blocks = count(THREE_PRODUCTS.rows, THREE_PRODUCTS.cols);
                (before, blocks, Blocks::of_warpgroups(THREE_PRODUCTS, 3.0, bytes, true, blocks))
            }
        };
        let Blocks { terms, step, alone, ends, resident, requested: [requested, most], launch } = of_kernel;
        let steps = (k / terms / splits).ceil();
        let most_blocks = blocks.ceil();
        let in_turns = if resident == 1.0 { most_blocks * alone } else { most_blocks.max(alone) };
        let computed = in_turns * steps * step + (most_blocks / resident).ceil() * ends;
        let rate = FROM_MEMORY.min(requested * most.min(blocks));
        let moved = (operands + m * n * batch) * bytes / (rate * multiprocessors);
        let split = match self.needs_sums() {
            false => 0.0,
            true => launch + 8.0 * m * n * batch * splits / (SUMS * multiprocessors),
        };
        before + BLOCK_CYCLES + computed.max(moved) + split
    }
}
