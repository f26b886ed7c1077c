//! Rung 2: `wgmma` reads both operands from shared memory.
//!
//! One warpgroup computes a tile of 64 x 128. One instruction multiplies 16 terms for 64 x 128 results, and no thread loads
//! a fragment. The operands lie in panels: rows of 128 bytes whose 16-byte chunks are swizzled, so that 8 rows at the same
//! column lie in different banks. The threads fill the panels, then fence, because `wgmma` reads through another proxy than
//! ordinary stores. Nothing overlaps yet: the copies wait for the multiplications, and the multiplications for the copies.
//@ ptx(matmul_02_wgmma, compute_90a): wgmma.mma_async.sync.aligned.m64n128k16 == 4, fence.proxy.async >= 1, .local == 0

use cuda_std::half::bf16;
use cuda_std::mem::{load_global, store_shared, u32x4};
use cuda_std::shared::dynamic_shared_mem_aligned;
use cuda_std::wgmma::{self, Accumulator, Panel};
use cuda_std::{bulk, kernel, thread};

#[cfg(not(target_arch = "nvptx64"))]
use super::ladder::RungShape;
use super::ladder::{LadderArgs, TERMS, store_registers};
use common_kernels::ring::WARPGROUP;

const ROWS: usize = 64;
const COLS: usize = 128;

/// The operands of one step.
#[repr(C)]
struct Stage {
    a: Panel<bf16, ROWS>,
    b: Panel<bf16, COLS>,
}

/// Computes `out = A B^T`. Launched with one block per tile, columns of tiles along x, with the shared memory of `facts`.
///
/// # Safety
/// The arguments are as [`ladder`](super::ladder) describes, and no other code uses `out`.
#[kernel(
    max_threads = 128,
    arch = "90a",
    args,
    facts: RungShape = RungShape::new([ROWS as u32, COLS as u32], WARPGROUP, size_of::<Stage>() + 1024),
)]
pub unsafe fn matmul_02_wgmma(args: LadderArgs) {
    let [row, col] = [thread::block_idx_y() * ROWS as u32, thread::block_idx_x() * COLS as u32];
    let stage = dynamic_shared_mem_aligned::<Stage>();
    let mut sums = Accumulator::<{ COLS / 2 }>::ZERO;
    for step in 0..args.steps() {
        let k = step * TERMS;
        // SAFETY: the panels are the block's. Their elements are written before the fence and the barrier, and multiplied
        // after it. The next elements are written after these multiplications and a barrier. All threads execute this.
        unsafe {
            let (a, b) = (&raw mut (*stage).a, &raw mut (*stage).b);
            fill(a, args.a, [row, args.m], [k, args.k]);
            fill(b, args.b, [col, args.n], [k, args.k]);
            bulk::fence_shared();
            thread::sync_threads_aligned();
            let mut pending = sums.start();
            wgmma::fence();
            for i in 0..4 {
                pending.multiply(Panel::k_major::<ROWS>(a, 0).step(i), Panel::k_major::<COLS>(b, 0).step(i));
            }
            wgmma::commit();
            sums = pending.finish::<0>();
            thread::sync_threads_aligned();
        }
    }
    // SAFETY: the block's own results.
    unsafe { store_registers(&args, &sums, row, col) };
}

/// Copies `COUNT` rows of a matrix from `row` on, and 64 columns from `k` on, to a panel. Elements outside become zero.
///
/// # Safety
/// The matrix has `rows` rows and `cols` columns, and only this block uses the panel.
#[inline(always)]
unsafe fn fill<const COUNT: usize>(
    panel: *mut Panel<bf16, COUNT>,
    matrix: *const bf16,
    [row, rows]: [u32; 2],
    [k, cols]: [u32; 2],
) {
    let mut i = thread::thread_idx_x();
    while i < COUNT as u32 * 8 {
        let (r, chunk) = (i / 8, i % 8);
        let (from_row, from_col) = (row + r, k + 8 * chunk);
        // SAFETY: a chunk lies in the matrix as a whole: the columns are a multiple of 8.
        unsafe {
            let value = if from_row < rows && from_col < cols {
                load_global(matrix.add(from_row as usize * cols as usize + from_col as usize).cast())
            } else {
                u32x4::splat(0)
            };
            store_shared(Panel::chunk(panel, r, chunk).cast(), value);
        }
        i += WARPGROUP;
    }
}
