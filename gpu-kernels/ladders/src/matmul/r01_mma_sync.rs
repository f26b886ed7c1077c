//! Rung 1: `mma.sync`, fed by `ldmatrix` and four stages of `cp.async`. This way works from compute capability 8.0 on.
//!
//! A block of 8 warps computes a tile of 128 x 128, each warp 64 x 32 of it. The threads copy 32 terms of A and B to shared
//! memory, three stages ahead of the multiplications. `ldmatrix` turns shared memory into fragments. The rows of a stage
//! have 16 bytes of padding, so that the rows of a fragment lie in different banks.
//@ ptx(matmul_01_mma_sync, compute_80+): mma.sync.aligned.m16n8k16 == 32, ldmatrix.sync.aligned.m8n8.x4 == 12, .local == 0
//@ ptx(matmul_01_mma_sync, compute_80+): cp.async.cg == 16, bar.sync == 1

use cuda_std::half::{bf16, f32_to_bf16x2};
use cuda_std::mem::{store_global, u32x4};
use cuda_std::mma::{FragmentA, FragmentB, FragmentC, ldmatrix, mma_sync_tiles};
use cuda_std::pipeline::memcpy_async_l2_zfill;
use cuda_std::shared::dynamic_shared_mem;
use cuda_std::{kernel, pipeline, thread};

use super::ladder::LadderArgs;
#[cfg(not(target_arch = "nvptx64"))]
use super::ladder::RungShape;

/// Rows and columns of the tile.
const SIDE: usize = 128;
/// Rows and columns of a warp.
const WARP: [usize; 2] = [64, 32];
/// Terms of a stage.
const DEPTH: usize = 32;
const STAGES: usize = 4;
const THREADS: usize = 256;
/// Elements from one row of a stage to the next.
const PITCH: usize = DEPTH + 8;
/// Elements of an operand in a stage.
const OPERAND: usize = SIDE * PITCH;
/// Fragments of a warp.
const FRAGMENTS: [usize; 2] = [WARP[0] / 16, WARP[1] / 8];

/// Computes `out = A B^T`. Launched with one block per tile, columns of tiles along x, with the shared memory of `facts`.
///
/// # Safety
/// The arguments are as [`ladder`](super::ladder) describes, and no other code uses `out`.
#[kernel(
    max_threads = 256,
    min_blocks = 2,
    min_arch = 80,
    args,
    facts: RungShape = RungShape::new([SIDE as u32; 2], THREADS as u32, STAGES * 2 * OPERAND * 2),
)]
pub unsafe fn matmul_01_mma_sync(args: LadderArgs) {
    let tid = thread::thread_idx_x() as usize;
    let [row, col] = [thread::block_idx_y() * SIDE as u32, thread::block_idx_x() * SIDE as u32];
    let steps = args.k.div_ceil(DEPTH as u32) as usize;
    let shared = dynamic_shared_mem::<bf16>();

    let copy = |step: usize| {
        let (r, k) = (tid / (DEPTH / 8), tid % (DEPTH / 8) * 8);
        let term = (step * DEPTH + k) as u32;
        // SAFETY: the stages fit the shared memory. Eight terms are copied if their row and they lie in the matrix.
        unsafe {
            let stage = shared.add(step % STAGES * 2 * OPERAND);
            for (to, from, row, rows) in
                [(stage, args.a, row, args.m), (stage.add(OPERAND), args.b, col, args.n)]
            {
                for r in (r..SIDE).step_by(THREADS / (DEPTH / 8)) {
                    let row = row + r as u32;
                    let bytes = if row < rows && term < args.k { 16 } else { 0 };
                    let from = from.wrapping_add(row as usize * args.k as usize + term as usize);
                    memcpy_async_l2_zfill::<u32x4>(to.add(r * PITCH + k).cast(), from.cast(), bytes);
                }
            }
        }
    };
    // SAFETY: a stage is read after all threads have waited for its copies and reached a barrier, and is overwritten after they
    // have reached the next one. All threads reach all barriers, and all lanes load the fragments.
    let sums = unsafe {
        for step in 0..STAGES - 1 {
            if step < steps {
                copy(step);
            }
            pipeline::commit();
        }
        let mut sums = [[FragmentC::ZERO; FRAGMENTS[1]]; FRAGMENTS[0]];
        for step in 0..steps {
            pipeline::wait_prior::<{ STAGES - 2 }>();
            thread::sync_threads_aligned();
            if step + STAGES - 1 < steps {
                copy(step + STAGES - 1);
            }
            pipeline::commit();
            let stage = shared.add(step % STAGES * 2 * OPERAND);
            let mut k = 0;
            while k < DEPTH {
                let [warp_row, warp_col] = warp_origin(tid);
                let lane = tid % 32;
                let a = core::array::from_fn::<_, { FRAGMENTS[0] }, _>(|i| {
                    let row = warp_row + 16 * i + lane % 16;
                    FragmentA::from_registers(ldmatrix(stage.add(row * PITCH + k + lane / 16 * 8)))
                });
                let mut b = [FragmentB::<bf16>::from_registers([0; 2]); FRAGMENTS[1]];
                for j in 0..FRAGMENTS[1] / 2 {
                    let row = warp_col + 16 * j + lane % 8 + lane / 16 * 8;
                    let [x, y, z, w] = ldmatrix(stage.add(OPERAND + row * PITCH + k + lane / 8 % 2 * 8));
                    [b[2 * j], b[2 * j + 1]] = [[x, y], [z, w]].map(FragmentB::from_registers);
                }
                mma_sync_tiles(&a, &b, &mut sums);
                k += 16;
            }
        }
        pipeline::wait_all();
        sums
    };

    let ([warp_row, warp_col], (lane_row, lane_col)) =
        (warp_origin(tid), FragmentC::position(tid as u32 % 32, 0));
    for i in 0..FRAGMENTS[0] {
        for j in 0..FRAGMENTS[1] {
            let FragmentC([x, y, z, w]) = sums[i][j];
            let r = row + (warp_row + 16 * i + lane_row) as u32;
            let c = col + (warp_col + 8 * j + lane_col) as u32;
            // SAFETY: the thread's own results.
            unsafe {
                store_pair(&args, r, c, [x, y]);
                store_pair(&args, r + 8, c, [z, w]);
            }
        }
    }
}

/// Rounds and writes two neighbours in a row, if they lie in the result.
///
/// # Safety
/// No other thread writes them.
#[inline(always)]
unsafe fn store_pair(args: &LadderArgs, row: u32, col: u32, pair: [f32; 2]) {
    if row < args.m && col < args.n {
        let at = row as usize * args.n as usize + col as usize;
        // SAFETY: two neighbours in the result; `n` and the column are even.
        unsafe { store_global(args.out.add(at).cast(), f32_to_bf16x2(pair)) };
    }
}

/// Returns the first row and column of the thread's warp in the tile.
#[inline(always)]
fn warp_origin(tid: usize) -> [usize; 2] {
    let (warp, across) = (tid / 32, SIDE / WARP[1]);
    [warp / across * WARP[0], warp % across * WARP[1]]
}
