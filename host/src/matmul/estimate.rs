//! A model of how long the launches of a choice take, for ranking choices.
//!
//! For each buffer of terms (a step), a block takes the time to multiply or the time to fetch them, and for each tile the time
//! before its first term and after its last. So the total is the time of the multiprocessor with the most blocks, but at least
//! the time to move all operands and results at the rate that its blocks request them. Copies of operands and the sums of splits
//! are launches of their own.
//!
//! The constants were fitted to the times of all kernels at random problems on an H200: `cargo bench random -- --every` times
//! them, and reports how much longer the chosen kernels take than the fastest. The estimate ranks kernels; it does not
//! predict a time.

use ferrowarp_device::DeviceProfile;
use matmul_kernels::operation::{FewRowsShape, THREE_PRODUCTS, TileShape};

use super::kernel_choice::{Kernel, KernelChoice, Problem, is_transposed};
use crate::element::Element;

/// What the kernels of one kind cost: cycles, and bytes per cycle of a multiprocessor.
struct Costs {
    /// Cycles of the launch.
    launch: f64,
    /// Cycles of a tile before its first term and after its last, without what grows with the tile.
    ends: f64,
    /// Cycles for each result of a tile, of 2 and of 4 bytes.
    result: [f64; 2],
    /// More cycles for each result if rows do not start at multiples of four elements.
    unaligned: f64,
    /// More cycles for each result with a residual.
    residual: f64,
    /// Bytes that a multiprocessor fetches per cycle, from L2 or memory.
    fetched: f64,
    /// Bytes that one block requests from memory per cycle.
    requested: f64,
}

/// Of the kernels with `mma.sync`.
const TILES: Costs = Costs {
    launch: 991.0,
    ends: 4160.0,
    result: [0.498, 0.241],
    unaligned: 0.294,
    residual: 1.12,
    fetched: 51.8,
    requested: 31.9,
};
/// Of the kernels for few rows.
const FEW_ROWS: Costs = Costs {
    launch: 1500.0,
    ends: 2160.0,
    result: [0.386; 2],
    residual: 0.867,
    fetched: 37.3,
    requested: 76.1,
    ..TILES
};
/// Of the kernels with `wgmma` for any shape.
const WARPGROUPS: Costs = Costs {
    launch: 2720.0,
    ends: 1760.0,
    result: [0.0613, 0.212],
    unaligned: 0.554,
    residual: 0.555,
    fetched: 42.4,
    requested: 92.9,
};

/// Multiply-adds of 16-bit numbers per multiprocessor and cycle with `mma.sync`; half of it for TF32.
const MULTIPLY_ADDS: f64 = 1090.0;
/// Bytes per cycle that a multiprocessor reads from or writes to its shared memory.
const SHARED: f64 = 164.0;
/// Cycles to split a register of each lane into two TF32 numbers, for all warps of a multiprocessor.
const CONVERTED: f64 = 3.92;
/// Cycles that a block of four warps alone on its multiprocessor takes longer for a step of `mma.sync`, and the factor on it.
const ALONE: [f64; 2] = [206.0, 1.11];
/// Bytes per cycle of operands that threads gather, in elements of 2 and of 4 bytes.
const GATHERED: [f64; 2] = [13.4, 35.1];
/// A step of a kernel that can gather takes this many times as long, even if it does not.
const GATHERS: f64 = 1.4;
/// Multiply-adds of 16-bit numbers per multiprocessor and cycle with `wgmma`; half of it for TF32.
const WARPGROUP_MULTIPLY_ADDS: f64 = 1890.0;
/// Cycles that a step takes longer if threads load an operand to registers.
const FROM_REGISTERS: f64 = 221.0;
/// Multiplications for each product of `f32`, of TF32.
const THREE: f64 = 3.1;
/// Factor on the fetches of tensor copies if the rows are not multiples of 128 bytes apart.
const ACROSS_LINES: f64 = 0.759;
/// The most of the factor on them if other multiprocessors have no block.
const FETCHED_ALONE: f64 = 1.68;
/// One warpgroup takes this many times as long for the results of a tile as two.
const ONE_WARPGROUP: f64 = 1.98;
/// Cycles that the blocks of a cluster take longer.
const CLUSTER_CYCLES: f64 = 1720.0;
/// A multiprocessor's share of the memory bandwidth, in bytes per cycle.
const FROM_MEMORY: f64 = 20.9;
/// Cycles of a launch that copies an operand.
const COPY_CYCLES: f64 = 2980.0;
/// Cycles of a launch that transposes or splits an operand, and the bytes that it moves per cycle.
const TRANSPOSE: [f64; 2] = [4790.0, 12.3];
/// Bytes per cycle of a launch that copies A for folded rows: it reads one element at a time.
const FOLDED: f64 = 2.3;
/// Cycles of the launch that adds up splits, and the bytes of sums that it moves per cycle.
const REDUCE: [f64; 2] = [3400.0, 23.7];

/// The cycles of a step of a kernel with `mma.sync`. The multiplications, the accesses to shared memory and the conversions
/// overlap in part.
fn tile_step(tile: &TileShape, bytes: f64) -> f64 {
    let [rows, cols, terms] = [tile.rows, tile.cols, tile.terms].map(f64::from);
    let loaded = f64::from(tile.threads / 32 * (tile.warp[0] + tile.warp[1])) * terms;
    let products = if tile.is_three_products { 3.0 } else { 1.0 };
    let multiplied = rows * cols * terms * products * bytes / 2.0 / MULTIPLY_ADDS;
    let shared = (loaded + (rows + cols) * terms) * bytes / SHARED;
    let converted = if tile.is_three_products { loaded / 32.0 * CONVERTED } else { 0.0 };
    multiplied.hypot(shared).hypot(converted)
}

/// The time of two things that overlap, except for a part if they take equally long.
fn overlapped(a: f64, b: f64) -> f64 {
    (a.powi(4) + b.powi(4)).sqrt().sqrt()
}

impl<T: Element> KernelChoice<T> {
    /// Estimates the time in cycles.
    pub(super) fn estimate(&self, profile: &DeviceProfile, problem: &Problem) -> f64 {
        let [m, n, k, batch] = [problem.m, problem.n, problem.k, problem.batch].map(f64::from);
        let (bytes, splits) = (size_of::<T>() as f64, f64::from(self.splits));
        let multiprocessors = profile.multiprocessors as f64;
        let operands = [m, n].map(|side| side * k * batch * bytes);
        let results = m * n * batch;
        let moved = |bytes: f64, rate: f64| bytes / (rate * multiprocessors);

        let (costs, [rows, cols, terms]) = match self.kernel {
            // The model does not choose it.
            Kernel::Serial(_) => return f64::INFINITY,
            Kernel::Tiles(kernel) => (&TILES, [kernel.rows, kernel.cols, kernel.terms]),
            Kernel::FewRows { kernel, folds } => {
                let cols = FewRowsShape::COLS - if folds { self.splits } else { 0 };
                (&FEW_ROWS, [kernel.rows, cols, kernel.terms])
            }
            Kernel::Warpgroups { kernel, .. } => (&WARPGROUPS, [kernel.rows, kernel.cols, kernel.terms]),
            Kernel::ThreeProducts => {
                (&WARPGROUPS, [THREE_PRODUCTS.rows, THREE_PRODUCTS.cols, THREE_PRODUCTS.terms])
            }
        };
        let [rows, cols, terms] = [rows, cols, terms].map(f64::from);
        // Blocks for each multiprocessor.
        let blocks = (m / rows).ceil() * (n / cols).ceil() * batch * splits / multiprocessors;
        let steps = ((k / terms).ceil() / splits).ceil();

        // Launches that copy operands first, and what is read from memory: copies may still be in L2.
        let (along_k, is_split) = (
            [!problem.a_is_transposed, problem.b_is_transposed],
            matches!(self.kernel, Kernel::ThreeProducts),
        );
        let transposed = match self.kernel {
            Kernel::Warpgroups { kernel, .. } => is_transposed(along_k, [kernel.a_along_k, kernel.b_along_k]),
            _ => Some([is_split; 2]),
        };
        let transposed = transposed.unwrap_or_default();
        let folds = matches!(self.kernel, Kernel::FewRows { folds: true, .. });
        let mut before = if folds { COPY_CYCLES + moved(2.0 * operands[0], FOLDED) } else { 0.0 };
        let mut read = 0.0;
        for (i, operand) in operands.into_iter().enumerate() {
            let written = operand * if is_split { 2.0 } else { 1.0 };
            if transposed[i] {
                before += TRANSPOSE[0] + moved(operand + written, TRANSPOSE[1]);
            } else if self.aligns[i] {
                before += COPY_CYCLES + moved(operand + written, FROM_MEMORY);
            }
            read += written;
        }

        // Cycles of a step of a block among others on its multiprocessor, and of one alone.
        let is_tile = matches!(self.kernel, Kernel::Tiles(_));
        let gathers = [0, 1].map(|i| is_tile && !self.aligns[i] && !problem.is_aligned[i]);
        let rates = [0, 1].map(|i| {
            let has_lines = problem.has_whole_lines[i] || self.aligns[i] || transposed[i] || folds;
            match (gathers[i], has_lines || is_tile) {
                (true, _) => GATHERED[usize::from(bytes == 4.0)],
                (false, true) => costs.fetched,
                (false, false) => costs.fetched * ACROSS_LINES,
            }
        });
        let parts = if is_split { 2.0 } else { 1.0 };
        let fetched = parts * terms * bytes * (rows / rates[0] + cols / rates[1]);
        let from_registers = |along_k: bool| if bytes == 4.0 && !along_k { FROM_REGISTERS } else { 0.0 };
        let (resident, step, alone) = match self.kernel {
            Kernel::Serial(_) => return f64::INFINITY,
            Kernel::Tiles(kernel) => {
                let fits = (profile.limits.max_dynamic_shared_bytes / kernel.shared_bytes).max(1);
                // Those that gather have fewer buffers.
                let most = kernel.meta.min_blocks + u32::from(kernel.gathers);
                let resident = f64::from(most.min(fits));
                let step =
                    tile_step(kernel, bytes).hypot(fetched) * if kernel.gathers { GATHERS } else { 1.0 };
                let alone = if kernel.threads == 128 { ALONE[0] + ALONE[1] * step } else { step };
                (resident, step, alone)
            }
            Kernel::FewRows { kernel, .. } => {
                let step = fetched + from_registers(kernel.b_along_k || !kernel.has_tensor_cores);
                (2.0, step, step)
            }
            Kernel::Warpgroups { .. } | Kernel::ThreeProducts => {
                let along_k = match self.kernel {
                    Kernel::Warpgroups { kernel, .. } => kernel.a_along_k && kernel.b_along_k,
                    _ => true,
                };
                let products = if is_split { THREE } else { 1.0 };
                let multiplied = rows * cols * terms * products * bytes / 2.0 / WARPGROUP_MULTIPLY_ADDS;
                let fetched = fetched / (1.0 / blocks).clamp(1.0, FETCHED_ALONE);
                let step = overlapped(multiplied + from_registers(along_k), fetched);
                (1.0, step, step)
            }
        };

        // Results, or sums of splits, which another launch adds up.
        let sums = self.needs_sums();
        let also = |applies: bool, cycles: f64| if applies && !sums { cycles } else { 0.0 };
        let alternates = matches!(self.kernel, Kernel::Warpgroups { kernel, .. } if kernel.alternates);
        let of_each =
            also(!problem.out_is_aligned, costs.unaligned) + also(problem.has_residual, costs.residual);
        let inside = results * splits / (blocks * multiprocessors);
        let of_tile = costs.result[usize::from(sums || bytes == 4.0)] * rows * cols + of_each * inside;
        let ends = costs.ends
            + also(self.splits > 1, CLUSTER_CYCLES)
            + of_tile * if alternates { ONE_WARPGROUP } else { 1.0 };
        let written = match (sums, problem.has_residual) {
            (true, _) => 4.0 * splits,
            (false, true) => 2.0 * bytes,
            (false, false) => bytes,
        };
        let after = if sums { REDUCE[0] + moved(results * (8.0 * splits + bytes), REDUCE[1]) } else { 0.0 };

        let turns = (blocks / resident).ceil();
        let computed = if alternates {
            // The ends of a tile overlap with the steps of the next.
            (turns * steps * alone + ends).max((turns / 2.0).ceil() * (steps * alone + ends))
        } else {
            steps * (blocks.ceil() * step).max(turns * alone) + turns * ends
        };
        let rate = FROM_MEMORY.min(costs.requested * blocks.min(resident));
        let moved = moved(read + written * results, rate);
        before + costs.launch + ends + (computed - ends).hypot(moved) + after
    }
}
