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
    /// More cycles of a tile with a bias.
    bias: f64,
    /// More cycles for each result if rows do not start at multiples of four elements.
    unaligned: f64,
    /// More cycles for each result with a residual.
    residual: f64,
    /// More cycles for each result with GeLU.
    gelu: f64,
    /// Bytes that a multiprocessor fetches per cycle, from L2 or memory.
    fetched: f64,
    /// Bytes that one block requests from memory per cycle.
    requested: f64,
}

/// Of the kernels with `mma.sync`.
const TILES: Costs = Costs {
    launch: 946.0,
    ends: 3360.0,
    result: [0.563, 0.221],
    bias: 382.0,
    unaligned: 0.311,
    residual: 0.991,
    gelu: 0.223,
    fetched: 48.1,
    requested: 31.5,
};
/// Of the kernels for few rows.
const FEW_ROWS: Costs = Costs {
    launch: 1610.0,
    ends: 2360.0,
    result: [0.344; 2],
    bias: 443.0,
    residual: 0.793,
    gelu: 0.353,
    fetched: 40.7,
    requested: 76.5,
    ..TILES
};
/// Of the kernels with `wgmma` for any shape.
const WARPGROUPS: Costs = Costs {
    launch: 3530.0,
    ends: 1400.0,
    result: [0.05, 0.231],
    bias: 588.0,
    unaligned: 0.519,
    residual: 1.17,
    gelu: 0.087,
    fetched: 50.4,
    requested: 93.6,
};

/// Multiply-adds of 16-bit numbers per multiprocessor and cycle with `mma.sync`; half of it for TF32.
const MULTIPLY_ADDS: f64 = 1250.0;
/// Bytes per cycle that a multiprocessor reads from or writes to its shared memory.
const SHARED: f64 = 165.0;
/// Cycles to split a register of each lane into two TF32 numbers, for all warps of a multiprocessor.
const CONVERTED: f64 = 3.63;
/// A step of `mma.sync` with TF32 takes this many times as long.
const TF32: f64 = 1.63;
/// Cycles that a block of four warps alone on its multiprocessor takes longer for a step of `mma.sync`, and the factor on it.
const ALONE: [f64; 2] = [213.0, 1.41];
/// Bytes per cycle of operands that threads gather, in elements of 2 and of 4 bytes, and the cycles that a step waits for them.
const GATHERED: [f64; 2] = [14.0, 38.8];
const GATHERED_STEP: f64 = 525.0;
/// A step of a kernel that can gather takes this many times as long, even if it does not.
const GATHERS: f64 = 1.19;
/// Multiply-adds of 16-bit numbers per multiprocessor and cycle with `wgmma`; half of it for TF32.
const WARPGROUP_MULTIPLY_ADDS: f64 = 1970.0;
/// Cycles that a step takes longer if threads load an operand to registers.
const FROM_REGISTERS: f64 = 233.0;
/// The least cycles of such a step, if the multiprocessor has no other block.
const WARPGROUP_STEP: f64 = 170.0;
/// Multiplications for each product of `f32`, of TF32.
const THREE: f64 = 3.33;
/// Factor on the fetches of tensor copies if the rows are not multiples of 128 bytes apart.
const ACROSS_LINES: f64 = 0.716;
/// The most of the factor on them if other multiprocessors have no block.
const FETCHED_ALONE: f64 = 1.63;
/// Cycles of a step without tensor cores, and of one block alone.
const WITHOUT_TENSOR_CORES: [f64; 2] = [1320.0, 1370.0];
/// Blocks per multiprocessor if clusters split k: for tiles of up to 32 rows, and of more. Two would fit, but the last clusters
/// find no room.
const IN_CLUSTERS: [f64; 2] = [1.75, 1.5];
/// One warpgroup takes this many times as long for the results of a tile as two.
const ONE_WARPGROUP: f64 = 2.14;
/// Results whose rows do not start at multiples of 32 bytes (the sectors of L2) take this many times their bytes.
const ACROSS_SECTORS: f64 = 1.54;
/// Cycles that the blocks of a cluster take longer.
const CLUSTER_CYCLES: f64 = 2150.0;
/// A multiprocessor's share of the memory bandwidth, in bytes per cycle.
const FROM_MEMORY: f64 = 16.8;
/// Cycles of a launch that copies an operand.
const COPY_CYCLES: f64 = 3030.0;
/// Cycles of a launch that transposes or splits an operand, and the bytes that it moves per cycle.
const TRANSPOSE: [f64; 2] = [5120.0, 11.6];
/// Cycles of the launch that adds up splits, and the bytes of sums that it moves per cycle.
const REDUCE: [f64; 2] = [2810.0, 27.1];
/// Bytes of a copy that is still in L2 when it is read, in half of the cases.
const CACHED: f64 = 30e6;

/// The cycles of a step of a kernel with `mma.sync`. The multiplications, the accesses to shared memory and the conversions
/// overlap in part.
fn tile_step(tile: &TileShape, bytes: f64) -> f64 {
    let [rows, cols, terms] = [tile.rows, tile.cols, tile.terms].map(f64::from);
    let loaded = f64::from(tile.threads / 32 * (tile.warp[0] + tile.warp[1])) * terms;
    let products = if tile.is_three_products { 3.0 } else { 1.0 };
    let multiplied = rows * cols * terms * products * bytes / 2.0 / MULTIPLY_ADDS;
    let shared = (loaded + (rows + cols) * terms) * bytes / SHARED;
    let converted = if tile.is_three_products { loaded / 32.0 * CONVERTED } else { 0.0 };
    let is_tf32 = bytes == 4.0 && !tile.is_three_products;
    multiplied.hypot(shared).hypot(converted) * if is_tf32 { TF32 } else { 1.0 }
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
        let mut before = if folds { COPY_CYCLES } else { 0.0 };
        let mut read = 0.0;
        for (i, operand) in operands.into_iter().enumerate() {
            let written = operand * if is_split { 2.0 } else { 1.0 };
            if transposed[i] {
                before += TRANSPOSE[0] + moved(operand + written, TRANSPOSE[1]);
            } else if self.aligns[i] {
                before += COPY_CYCLES + moved(operand + written, FROM_MEMORY);
            }
            let is_copied = transposed[i] || self.aligns[i];
            read += written * if is_copied { 1.0 - 0.5 * (-operand / CACHED).exp() } else { 1.0 };
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
                let waits = gathers.map(|gathers| if gathers { GATHERED_STEP } else { 0.0 });
                let alone = if kernel.threads == 128 { ALONE[0] + ALONE[1] * step } else { step };
                (resident, step, waits[0] + waits[1] + alone)
            }
            Kernel::FewRows { kernel, .. } => {
                let resident = if self.splits > 1 { IN_CLUSTERS[usize::from(kernel.rows > 32)] } else { 2.0 };
                let slow = if kernel.has_tensor_cores { [0.0; 2] } else { WITHOUT_TENSOR_CORES };
                let step = fetched + slow[0] + from_registers(kernel.b_along_k || !kernel.has_tensor_cores);
                (resident, step, step.max(slow[1]))
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
                (1.0, step, step.max(WARPGROUP_STEP))
            }
        };

        // Results, or sums of splits, which another launch adds up.
        let sums = self.needs_sums();
        let also = |applies: bool, cycles: f64| if applies && !sums { cycles } else { 0.0 };
        let alternates = matches!(self.kernel, Kernel::Warpgroups { kernel, .. } if kernel.alternates);
        let of_each = also(!problem.out_is_aligned, costs.unaligned)
            + also(problem.has_residual, costs.residual)
            + also(problem.has_gelu, costs.gelu);
        let inside = results * splits / (blocks * multiprocessors);
        let of_tile = costs.result[usize::from(sums || bytes == 4.0)] * rows * cols + of_each * inside;
        let ends = costs.ends
            + also(problem.has_bias, costs.bias)
            + also(self.splits > 1, CLUSTER_CYCLES)
            + of_tile * if alternates { ONE_WARPGROUP } else { 1.0 };
        let across_sectors = if sums || problem.out_has_sectors { 1.0 } else { ACROSS_SECTORS };
        let written = across_sectors
            * match (sums, problem.has_residual) {
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
