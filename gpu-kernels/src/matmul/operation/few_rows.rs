//! Products of few rows: the blocks of a cluster share the terms of a tile, and add up their sums within the launch
//! (compute capability 9.0 and later).
//!
//! With few rows there are fewer tiles than multiprocessors, and the time is that of reading B. So the terms are split. A second
//! launch that adds up the parts, as [`super::reduce`] does, takes a third of the time of a small product. Here the blocks of a
//! cluster read each other's sums from shared memory instead: each adds up its share of the tile, in the order of the parts.
//!
//! The instances are the tuning table, as in [`super::tensor_tiles`].
//@ ptx(matmul_bf16_kk_16x64c, compute_90+): mma.sync.aligned.m16n8k16 == 16, barrier.cluster.arrive == 2, .local == 0
//@ ptx(matmul_f32x3_kk_16x64c, compute_90+): barrier.cluster.arrive == 2, .local == 0

use cuda_std::half::{bf16, f16};
use cuda_std::mem::f32x4;
use cuda_std::{cluster, kernel, thread};

use super::super::args::MatmulArgs;
use super::super::epilogue::store_results;
use super::super::operand::Operand;
use super::super::tile_order::grouped;
#[cfg(not(target_arch = "nvptx64"))]
use super::TileShape;
use super::tensor_tiles::GROUP;
use super::tile_sums::{sums_pitch, tile_sums};
use crate::element::Output;

/// Matrix multiplication of the arguments.
///
/// Launched on a cluster of `args.splits` blocks, at most 8, for each tile along x, and each matrix of the batch along z. For the
/// rest it is as [`matmul_tiles`](fn@super::tensor_tiles::matmul_tiles), but the results are complete.
///
/// # Safety
/// The launch is as said. The matrices hold what their shapes, pitches and batches say, and no other code uses `out`. The flags
/// are true of the addresses and pitches.
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
    min_arch = 90,
    args,
    facts: TileShape = TileShape::new([BM, BN, BK], [A_K, B_K], STAGES * STAGE * BYTES, THREADS, THREE, true),
    instances(
        for T in [bf16, f16], BYTES = 2, THREE = false {
            matmul_{T}_kk_64x64c = <1, 1, 64, 64, 32, 32, 64, 3>, min_blocks = 4;
            matmul_{T}_kn_64x64c = <1, 0, 64, 64, 32, 32, 64, 3>, min_blocks = 4;
            matmul_{T}_kk_32x64c = <1, 1, 32, 64, 32, 16, 128, 3>, min_blocks = 2;
            matmul_{T}_kn_32x64c = <1, 0, 32, 64, 32, 16, 128, 3>, min_blocks = 2;
            matmul_{T}_kk_16x64c = <1, 1, 16, 64, 16, 16, 128, 3>, min_blocks = 3;
            matmul_{T}_kn_16x64c = <1, 0, 16, 64, 16, 16, 128, 3>, min_blocks = 3;
        }
        T = f32, BYTES = 4, THREE = false {
            matmul_f32_kk_64x64c = <1, 1, 64, 64, 32, 32, 32, 3>, min_blocks = 3;
            matmul_f32_kn_64x64c = <1, 0, 64, 64, 32, 32, 32, 3>, min_blocks = 3;
            matmul_f32_kk_16x64c = <1, 1, 16, 64, 16, 16, 64, 3>, min_blocks = 3;
            matmul_f32_kn_16x64c = <1, 0, 16, 64, 16, 16, 64, 3>, min_blocks = 3;
        }
        T = f32, BYTES = 4, THREE = true {
            matmul_f32x3_kk_64x64c = <1, 1, 64, 64, 32, 32, 32, 3>, min_blocks = 3;
            matmul_f32x3_kn_64x64c = <1, 0, 64, 64, 32, 32, 32, 3>, min_blocks = 3;
            matmul_f32x3_kk_16x64c = <1, 1, 16, 64, 16, 16, 64, 3>, min_blocks = 3;
            matmul_f32x3_kn_16x64c = <1, 0, 16, 64, 16, 16, 64, 3>, min_blocks = 3;
        }
    ),
)]
pub unsafe fn matmul_few_rows<
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
    let (rank, blocks) = (cluster::block_rank(), cluster::num_blocks());
    let tiles = [args.m.div_ceil(BM as u32), args.n.div_ceil(BN as u32)];
    let [row, col] = grouped::<GROUP>(thread::block_idx_x() / blocks, tiles);
    let [row, col] = [row * BM as u32, col * BN as u32];
    let batch = thread::block_idx_z();
    // SAFETY: all threads of the cluster come to both barriers. Between them each block's sums are complete and stay, and after
    // the second no thread reads another block's. Each result is stored by one thread.
    unsafe {
        let sums = tile_sums::<
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
        >(&args, [row, col], rank, batch);
        cluster::sync();
        let each = (BM * BN / 4).div_ceil(blocks as usize);
        let first = each * rank as usize;
        let mut i = first + tid;
        while i < (first + each).min(BM * BN / 4) {
            let (r, c) = (i / (BN / 4), i % (BN / 4) * 4);
            let mut total = [0.0f32; 4];
            for block in 0..blocks {
                let four: f32x4 = *cluster::map_shared(sums.add(r * sums_pitch(BN) + c).cast(), block);
                let four = four.to_array();
                for j in 0..4 {
                    total[j] += four[j];
                }
            }
            store_results(&args, batch, [row + r as u32, col + c as u32], total);
            i += THREADS;
        }
        cluster::sync();
    }
}
