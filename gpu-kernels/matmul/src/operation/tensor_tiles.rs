//! Matrix multiplication by `mma.sync`, for every shape, layout and alignment (compute capability 8.0 and later).
//!
//! A block computes a tile of `BM` x `BN` results, and its warps share it, `WM` x `WN` each. Copies of the next terms run
//! ahead of the multiplications, through `STAGES` buffers of `BK` terms. The accumulators reach the results through shared
//! memory, so that each access to global memory has 16 bytes or four elements, and the epilogue's code exists once.
//!
//! With more than one split, the blocks along y compute the sums over parts of k, and [`super::reduce`] adds them up in the
//! order of the parts. Every sum has a fixed order, so two runs give the same bits.
//!
//! The instances are the tuning table: the tile, the warp's part of it, the terms of a buffer, the buffers.
//@ ptx(matmul_bf16_kk_128x128, compute_80+): ldmatrix.sync.aligned.m8n8.x4.shared == 12, cp.async.cg >= 8, .local == 0
//@ ptx(matmul_bf16_kk_128x128, compute_80+): mma.sync.aligned.m16n8k16 == 32, bar.sync == 3
//@ ptx(matmul_f16_mn_128x128, compute_80+): ldmatrix.sync.aligned.m8n8.x4.trans == 12, .local == 0
//@ ptx(matmul_f32_kk_128x128, compute_80+): mma.sync.aligned.m16n8k8 >= 16, .local == 0
//@ ptx(matmul_f32x3_kk_128x128, compute_80+): mma.sync.aligned.m16n8k8 >= 48, .local == 0
//@ allow-local(matmul_bf16_mk_128x128, matmul_f16_mk_128x128, compute_80): two registers of 128 too few

use cuda_std::half::{bf16, f16};
use cuda_std::mem::{f32x4, load_shared};
use cuda_std::{kernel, thread};

use super::super::args::MatmulArgs;
use super::super::epilogue::store_results;
use super::super::operand::Operand;
use super::super::tile_order::grouped;
#[cfg(not(target_arch = "nvptx64"))]
use super::TileShape;
use super::tile_sums::{sums_pitch, tile_sums};
use common_kernels::element::Output;

/// Multiplies the arguments' matrices.
///
/// Launched with blocks of `THREADS` threads: one block per tile along x, per split of k along y, and per matrix of the
/// batch along z, with the dynamic shared memory of `facts`. `A_K` and `B_K` state whether the terms of a sum are neighbours
/// in the stored operand: A by rows, B as its transpose. With `THREE`, `f32` is multiplied as three products of TF32.
///
/// # Safety
/// The launch is as described. The matrices match their shapes, pitches and batches, and no other code uses `out`, which
/// with several splits holds their sums. The flags match the addresses and pitches.
#[kernel(
    with(
        THREADS = BM / WM * (BN / WN) * 32,
        AR = A_K * BM + (1 - A_K) * BK, AC = A_K * BK + (1 - A_K) * BM,
        BR = B_K * BN + (1 - B_K) * BK, BC = B_K * BK + (1 - B_K) * BN,
        AP = AC + 16 / BYTES + (1 - A_K) * (BYTES / 4) * 4,
        BP = BC + 16 / BYTES + (1 - B_K) * (BYTES / 4) * 4,
        MF = WM / 16,
        NF = WN / 8,
        STAGE_A = AR * AP,
        STAGE = AR * AP + BR * BP,
    ),
    max_threads = THREADS,
    min_arch = 80,
    args,
    facts: TileShape = TileShape::new([BM, BN, BK], [A_K, B_K], STAGES * STAGE * BYTES, THREADS, THREE),
    instances(
        for T in [bf16, f16], BYTES = 2, THREE = false {
            matmul_{T}_kk_128x128 = <1, 1, 128, 128, 64, 32, 32, 4>, min_blocks = 2;
            matmul_{T}_kn_128x128 = <1, 0, 128, 128, 64, 32, 32, 4>, min_blocks = 2;
            matmul_{T}_mk_128x128 = <0, 1, 128, 128, 64, 32, 32, 4>, min_blocks = 2;
            matmul_{T}_mn_128x128 = <0, 0, 128, 128, 64, 32, 32, 4>, min_blocks = 2;
            matmul_{T}_kk_64x64 = <1, 1, 64, 64, 32, 32, 64, 3>, min_blocks = 4;
            matmul_{T}_kn_64x64 = <1, 0, 64, 64, 32, 32, 64, 3>, min_blocks = 4;
            matmul_{T}_mk_64x64 = <0, 1, 64, 64, 32, 32, 64, 3>, min_blocks = 4;
            matmul_{T}_mn_64x64 = <0, 0, 64, 64, 32, 32, 64, 3>, min_blocks = 4;
            matmul_{T}_kk_32x64 = <1, 1, 32, 64, 32, 16, 128, 3>, min_blocks = 2;
            matmul_{T}_kn_32x64 = <1, 0, 32, 64, 32, 16, 128, 3>, min_blocks = 2;
            matmul_{T}_kk_16x64 = <1, 1, 16, 64, 16, 16, 128, 3>, min_blocks = 3;
            matmul_{T}_kn_16x64 = <1, 0, 16, 64, 16, 16, 128, 3>, min_blocks = 3;
        }
        T = f32, BYTES = 4, THREE = false {
            matmul_f32_kk_128x128 = <1, 1, 128, 128, 64, 32, 32, 3>, min_blocks = 1;
            matmul_f32_kn_128x128 = <1, 0, 128, 128, 64, 32, 32, 3>, min_blocks = 1;
            matmul_f32_mk_128x128 = <0, 1, 128, 128, 64, 32, 32, 3>, min_blocks = 1;
            matmul_f32_mn_128x128 = <0, 0, 128, 128, 64, 32, 32, 3>, min_blocks = 1;
            matmul_f32_kk_64x64 = <1, 1, 64, 64, 32, 32, 32, 3>, min_blocks = 3;
            matmul_f32_kn_64x64 = <1, 0, 64, 64, 32, 32, 32, 3>, min_blocks = 3;
            matmul_f32_mk_64x64 = <0, 1, 64, 64, 32, 32, 32, 3>, min_blocks = 3;
            matmul_f32_mn_64x64 = <0, 0, 64, 64, 32, 32, 32, 3>, min_blocks = 3;
        }
        T = f32, BYTES = 4, THREE = true {
            matmul_f32x3_kk_128x128 = <1, 1, 128, 128, 64, 32, 32, 3>, min_blocks = 1;
            matmul_f32x3_kn_128x128 = <1, 0, 128, 128, 64, 32, 32, 3>, min_blocks = 1;
            matmul_f32x3_mk_128x128 = <0, 1, 128, 128, 64, 32, 32, 3>, min_blocks = 1;
            matmul_f32x3_mn_128x128 = <0, 0, 128, 128, 64, 32, 32, 3>, min_blocks = 1;
            matmul_f32x3_kk_64x64 = <1, 1, 64, 64, 32, 32, 32, 3>, min_blocks = 3;
            matmul_f32x3_kn_64x64 = <1, 0, 64, 64, 32, 32, 32, 3>, min_blocks = 3;
            matmul_f32x3_mk_64x64 = <0, 1, 64, 64, 32, 32, 32, 3>, min_blocks = 3;
            matmul_f32x3_mn_64x64 = <0, 0, 64, 64, 32, 32, 32, 3>, min_blocks = 3;
        }
    ),
)]
pub unsafe fn matmul_tiles<
    T: Operand + Output<4>,
    const A_K: usize,
    const B_K: usize,
    const BM: usize,
    const BN: usize,
    const WM: usize,
    const WN: usize,
    const BK: usize,
    const STAGES: usize,
    const BYTES: usize,
    const THREE: bool,
    const THREADS: usize,
    const AR: usize,
    const AC: usize,
    const BR: usize,
    const BC: usize,
    const AP: usize,
    const BP: usize,
    const MF: usize,
    const NF: usize,
    const STAGE_A: usize,
    const STAGE: usize,
>(
    args: MatmulArgs<T>,
) {
    let tid = thread::thread_idx_x() as usize;
    let tiles = [args.m.div_ceil(BM as u32), args.n.div_ceil(BN as u32)];
    let [row, col] = grouped(thread::block_idx_x(), tiles);
    let [row, col] = [row * BM as u32, col * BN as u32];
    let (split, batch) = (thread::block_idx_y(), thread::block_idx_z());
    // SAFETY: all threads of the block execute this, and its dynamic shared memory is as `facts` states. Only this block
    // writes its results.
    unsafe {
        let to = tile_sums::<
            T,
            A_K,
            B_K,
            BM,
            BN,
            WM,
            WN,
            BK,
            STAGES,
            THREE,
            THREADS,
            AR,
            AC,
            BR,
            BC,
            AP,
            BP,
            MF,
            NF,
            STAGE_A,
            STAGE,
        >(&args, [row, col], split, batch);
        let args = MatmulArgs {
            out: args.out.wrapping_add(4 * (u64::from(split) * args.split_pitch) as usize),
            ..args
        };
        let mut i = tid;
        while i < BM * BN / 4 {
            let (r, c) = (i / (BN / 4), i % (BN / 4) * 4);
            let four: f32x4 = load_shared(to.add(r * sums_pitch(BN) + c).cast());
            store_results(&args, batch, [row + r as u32, col + c as u32], four.to_array());
            i += THREADS;
        }
    }
}
