//! What the rungs of the ladder share: their arguments, and a few helpers.
//!
//! Every rung computes `out = A B^T` of `bf16` with `f32` accumulators: A is `[m, k]`, B is `[n, k]`, `out` is `[m, n]`, all
//! row-major and dense. `n` and `k` are multiples of 8, because tensor copies need rows at multiples of 16 bytes.

use cuda_std::KernelArgs;
use cuda_std::half::{bf16, f32_to_bf16x2};
#[cfg(not(target_arch = "nvptx64"))]
use cuda_std::launch::LaunchConfig;
use cuda_std::mem::store_global;
use cuda_std::tensor::TensorMap;
use cuda_std::thread;
use cuda_std::wgmma::{self, Accumulator, KMajor, Pending, Registers};

use common_kernels::ring::WARPGROUP;

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

/// Multiplies the terms of a stage, and waits for the multiplications of the step before. Without `keep` the accumulators'
/// old values are ignored.
///
/// # Safety
/// All threads of the warpgroup call this. The operands are complete, and stay until a later wait.
#[inline(always)]
pub unsafe fn multiply_step<const COLS: usize, const REGISTERS: usize>(
    pending: &mut Pending<REGISTERS>,
    keep: bool,
    a: KMajor<bf16, 64>,
    b: KMajor<bf16, COLS>,
) where
    [f32; REGISTERS]: Registers,
{
    // SAFETY: all threads of the warpgroup execute this, with complete operands.
    unsafe {
        wgmma::fence();
        pending.multiply_keeping(keep, a, b);
        for i in 1..4 {
            pending.multiply(a.step(i), b.step(i));
        }
        wgmma::commit();
        wgmma::wait::<1>();
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
