//! What the rungs of the ladder share: their arguments, their list, and a few helpers.
//!
//! Every rung computes `out = A B^T` of `bf16` with `f32` accumulators: A is `[m, k]`, B is `[n, k]`, `out` is `[m, n]`, all
//! row-major and dense. `n` and `k` are multiples of 8, because tensor copies need rows at multiples of 16 bytes.

use cuda_std::KernelArgs;
use cuda_std::barrier::Barrier;
use cuda_std::half::{bf16, f32_to_bf16x2};
#[cfg(not(target_arch = "nvptx64"))]
use cuda_std::launch::{KernelOf, KernelsOf, LaunchConfig, RawBuffer};
use cuda_std::mem::store_global;
use cuda_std::tensor::TensorMap;
use cuda_std::wgmma::Accumulator;
use cuda_std::{thread, warp};
pub use matmul_kernels::ring::{GROUP, Ring, WARPGROUP, arrive_warp, element, init_barriers};

#[cfg(not(target_arch = "nvptx64"))]
use super::{
    r01_mma_sync::matmul_01_mma_sync, r02_wgmma::matmul_02_wgmma, r03_tma::matmul_03_tma,
    r04_specialised::matmul_04_specialised, r05_two_consumers::matmul_05_two_consumers,
    r06_persistent::matmul_06_persistent, r07_tma_store::matmul_07_tma_store, r08_cluster::matmul_08_cluster,
};

/// Terms of a stage: the row length of a panel.
pub const TERMS: u32 = 64;

/// The arguments of a rung. The maps have boxes of 64 columns; [`RungShape`] has their rows.
#[derive(Clone, Copy, Debug, KernelArgs)]
#[repr(C)]
pub struct LadderArgs {
    /// A, for tensor copies.
    pub a_map: TensorMap,
    /// B, for tensor copies.
    pub b_map: TensorMap,
    /// The result, for tensor copies.
    pub out_map: TensorMap,
    /// `[m, n]`, written.
    pub out: *mut bf16,
    /// `[m, k]`.
    pub a: *const bf16,
    /// `[n, k]`.
    pub b: *const bf16,
    /// Rows of A and of the result.
    pub m: u32,
    /// Rows of B and columns of the result.
    pub n: u32,
    /// Terms of a sum.
    pub k: u32,
}

/// [`LadderArgs`] as the host passes it: with `RawBuffer`s instead of pointers.
#[cfg(not(target_arch = "nvptx64"))]
pub type LadderLaunch = LadderArgsHost<RawBuffer<bf16>, RawBuffer<bf16>, RawBuffer<bf16>>;

impl LadderArgs {
    /// Returns the number of steps of [`TERMS`] terms.
    #[inline(always)]
    pub fn steps(&self) -> u32 {
        self.k.div_ceil(TERMS)
    }

    /// Returns the rows and columns of tiles.
    #[inline(always)]
    pub fn tiles(&self, rows: u32, cols: u32) -> [u32; 2] {
        [self.m.div_ceil(rows), self.n.div_ceil(cols)]
    }
}

/// What host code needs to launch a rung.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RungShape {
    /// Rows of a block's tile, and of the boxes of A.
    pub rows: u32,
    /// Columns of a block's tile.
    pub cols: u32,
    /// Rows of the boxes of B.
    pub b_rows: u32,
    /// Threads of a block.
    pub threads: u32,
    /// Bytes of dynamic shared memory.
    pub shared_bytes: u32,
    /// Blocks of a cluster.
    pub cluster: u32,
    /// Whether the grid has at most one block per multiprocessor; each computes a share of the tiles.
    pub is_persistent: bool,
}

/// Rows of the boxes of the result: the rows of a warpgroup.
pub const OUT_ROWS: u32 = 64;

impl RungShape {
    pub(super) const fn new([rows, cols]: [u32; 2], threads: u32, shared_bytes: usize) -> Self {
        let shared_bytes = shared_bytes as u32;
        Self { rows, cols, b_rows: cols, threads, shared_bytes, cluster: 1, is_persistent: false }
    }

    pub(super) const fn persistent(self, cluster: u32) -> Self {
        Self { is_persistent: true, cluster, b_rows: self.cols / cluster, ..self }
    }
}

#[cfg(not(target_arch = "nvptx64"))]
impl RungShape {
    /// Returns the launch for a result of `m` x `n` on a GPU with `multiprocessors` multiprocessors.
    pub fn config(&self, m: u32, n: u32, multiprocessors: u32) -> LaunchConfig {
        let (down, across) = (m.div_ceil(self.rows), n.div_ceil(self.cols));
        let config = if self.is_persistent {
            let tiles = down.div_ceil(self.cluster) * across;
            let clusters = (multiprocessors / self.cluster).max(1).min(tiles);
            LaunchConfig::new(clusters * self.cluster, self.threads)
        } else {
            LaunchConfig::new((across, down), self.threads)
        };
        config.with_shared_bytes(self.shared_bytes).with_cluster(self.cluster)
    }
}

/// A rung of the ladder.
#[cfg(not(target_arch = "nvptx64"))]
#[derive(Debug)]
pub struct Rung {
    /// Its name, which is its file's.
    pub name: &'static str,
    /// Its idea, in one line.
    pub idea: &'static str,
    /// Its kernel.
    pub kernel: &'static KernelOf<LadderArgs, RungShape>,
}

#[cfg(not(target_arch = "nvptx64"))]
macro_rules! rungs {
    ($($name:literal, $kernel:ident, $idea:literal;)*) => {
        /// The rungs, in order.
        pub const RUNGS: &[Rung] = &[$(Rung {
            name: $name,
            idea: $idea,
            kernel: &<$kernel as KernelsOf<LadderArgs>>::INSTANCES[0],
        }),*];
    };
}

#[cfg(not(target_arch = "nvptx64"))]
rungs! {
    "r01_mma_sync", matmul_01_mma_sync, "mma.sync, fed by ldmatrix and four stages of cp.async";
    "r02_wgmma", matmul_02_wgmma, "wgmma reads both operands from swizzled shared memory";
    "r03_tma", matmul_03_tma, "tensor copies fill four stages, and mbarriers count their bytes";
    "r04_specialised", matmul_04_specialised, "one warpgroup copies, another multiplies";
    "r05_two_consumers", matmul_05_two_consumers, "tiles of 128 x 256, shared by two multiplying warpgroups";
    "r06_persistent", matmul_06_persistent, "a block per multiprocessor computes tiles in an order that L2 likes";
    "r07_tma_store", matmul_07_tma_store, "stmatrix and tensor copies store a tile under the next one";
    "r08_cluster", matmul_08_cluster, "two blocks share B by multicast";
}

/// Counts one arrival of the calling warp at this barrier of each block of the cluster, for memory that only `wgmma` read.
///
/// # Safety
/// Same as for [`Barrier::arrive_remote_relaxed`]; all lanes of the warp call this.
#[inline(always)]
pub unsafe fn arrive_in_all(barrier: *mut Barrier, blocks: u32) {
    let lane = warp::lane_id();
    if lane < blocks {
        // SAFETY: the caller's barrier, at the same address in each block.
        unsafe { Barrier::arrive_remote_relaxed(barrier, lane) };
    }
}

/// Writes a warpgroup's accumulators from registers. `row` and `col` are the position of its first result.
///
/// # Safety
/// The arguments are a rung's, and no other thread writes these results.
#[inline(always)]
pub unsafe fn store_registers<const REGISTERS: usize>(
    args: &LadderArgs,
    sums: &Accumulator<REGISTERS>,
    row: u32,
    col: u32,
) {
    let tid = thread::thread_idx_x() % WARPGROUP;
    let mut i = 0;
    while i < REGISTERS {
        let (r, c) = Accumulator::<REGISTERS>::position(tid, i);
        let (r, c) = (row + r as u32, col + c as u32);
        if r < args.m && c < args.n {
            let pair = f32_to_bf16x2([sums.0[i], sums.0[i + 1]]);
            // SAFETY: two neighbours in the result; `n` and the column are even.
            unsafe { store_global(args.out.add(r as usize * args.n as usize + c as usize).cast(), pair) };
        }
        i += 2;
    }
}
