//! Matrix multiplication by `mma.sync`, for every shape, layout and alignment (compute capability 8.0 and later).
//!
//! A block computes a tile of `BM` x `BN` results, and its warps share it, `WM` x `WN` each. Copies of the next terms run
//! ahead of the multiplications, through `STAGES` buffers of `BK` terms. The accumulators go through shared memory to the
//! results, so that each access to global memory is of 16 bytes or four elements, and the epilogue's code exists once.
//!
//! With more than one split, the blocks along y compute the sums over parts of k, and [`super::reduce`] adds them up in the
//! order of the parts. Every sum has one order, so two runs give the same bits.
//!
//! The instances are the tuning table: the tile, the warp's part of it, the terms of a buffer, the buffers.
//@ ptx(matmul_bf16_kk_128x128, compute_80+): ldmatrix.sync.aligned.m8n8.x4.shared == 12, cp.async.cg >= 8, .local == 0
//@ ptx(matmul_bf16_kk_128x128, compute_80+): mma.sync.aligned.m16n8k16 == 32, bar.sync == 3
//@ ptx(matmul_f16_mn_128x128, compute_80+): ldmatrix.sync.aligned.m8n8.x4.trans == 12, .local == 0
//@ ptx(matmul_f32_kk_128x128, compute_80+): mma.sync.aligned.m16n8k8 >= 16, .local == 0
//@ ptx(matmul_f32x3_kk_128x128, compute_80+): mma.sync.aligned.m16n8k8 >= 48, .local == 0
//@ allow-local(matmul_bf16_mk_128x128): two registers of 128 too few for compute capability 8.0
//@ allow-local(matmul_f16_mk_128x128): two registers of 128 too few for compute capability 8.0

use cuda_std::half::{bf16, f16};
use cuda_std::mem::{f32x2, f32x4, load_shared, store_shared};
use cuda_std::mma::FragmentC;
use cuda_std::shared::dynamic_shared_mem;
use cuda_std::{kernel, pipeline, thread};

use super::super::args::{A_ALIGNED, B_ALIGNED, MatmulArgs};
use super::super::copies::{Part, copy_tile};
use super::super::epilogue::store_results;
use super::super::operand::Operand;
use super::super::tile_order::grouped;
#[cfg(not(target_arch = "nvptx64"))]
use super::TileShape;
use crate::element::Output;

/// Rows of tiles that are computed together.
pub const GROUP: u32 = 8;

/// Floats from a row of the accumulators in shared memory to the next.
pub const fn sums_pitch(cols: usize) -> usize {
    cols + 8
}

/// Matrix multiplication of the arguments.
///
/// Launched on a block of `THREADS` threads for each tile along x, for each split of k along y and each matrix of the batch
/// along z, with the dynamic shared memory that the facts say. `A_K` and `B_K` say whether the terms of a sum are neighbours
/// in the stored operand: A by rows, B as its transpose. With `THREE`, `f32` is multiplied as three products of TF32.
///
/// # Safety
/// The launch is as said. The matrices hold what their shapes, pitches and batches say, and no other code uses `out`, which
/// with several splits holds their sums. The flags are true of the addresses and pitches.
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
    let [row, col] = grouped::<GROUP>(thread::block_idx_x(), tiles);
    let [row, col] = [row * BM as u32, col * BN as u32];
    let (split, batch) = (thread::block_idx_y(), thread::block_idx_z());

    // The terms of this split: whole buffers, except at the end of k.
    // SAFETY: there is at least one split. It keeps a panic out of the kernel.
    unsafe { core::hint::assert_unchecked(args.splits != 0) };
    let steps_each = args.k.div_ceil(BK as u32).div_ceil(args.splits);
    let first_k = (split * steps_each * BK as u32).min(args.k);
    let end_k = args.k.min(first_k + steps_each * BK as u32);
    let steps = (end_k - first_k).div_ceil(BK as u32) as usize;

    let a = args.a.wrapping_add((u64::from(batch) * args.a_batch) as usize);
    let b = args.b.wrapping_add((u64::from(batch) * args.b_batch) as usize);
    let [a_aligned, b_aligned] = [args.has(A_ALIGNED), args.has(B_ALIGNED)];
    let shared = dynamic_shared_mem::<T>();
    let part = |first: *const T, pitch: u64, along_k: bool, side: u32, sides: u32, k: u32| {
        let ([r, c], [rows, cols]) = match along_k {
            true => ([side, k], [sides - side, end_k - k]),
            false => ([k, side], [end_k - k, sides - side]),
        };
        let first = first.wrapping_add((u64::from(r) * pitch) as usize + c as usize);
        Part { first, pitch, rows, cols }
    };
    let copy = |step: usize| {
        let k = first_k + (step * BK) as u32;
        let a = part(a, args.a_pitch, A_K == 1, row, args.m, k);
        let b = part(b, args.b_pitch, B_K == 1, col, args.n, k);
        // SAFETY: the buffer is one of the shared memory's, and the parts lie in the matrices; row, column and term are
        // inside. The loop below waits for the copies, and meets at a barrier, before it reads a buffer and before it
        // lets one be overwritten.
        unsafe {
            let stage = shared.add(step % STAGES * STAGE);
            copy_tile::<T, AR, AC, AP, THREADS>(stage, a, a_aligned, tid);
            copy_tile::<T, BR, BC, BP, THREADS>(stage.add(STAGE_A), b, b_aligned, tid);
        }
    };

    for step in 0..STAGES - 1 {
        if step < steps {
            copy(step);
        }
        pipeline::commit();
    }
    let warp = tid / 32;
    let (warp_row, warp_col) = (warp / (BN / WN) * WM, warp % (BN / WN) * WN);
    let mut sums = [[FragmentC::ZERO; NF]; MF];
    for step in 0..steps {
        wait_for_stage::<STAGES>();
        // SAFETY: all threads of the block come here.
        unsafe { thread::sync_threads_aligned() };
        if step + STAGES - 1 < steps {
            copy(step + STAGES - 1);
        }
        pipeline::commit();
        // Tensor cores cut what they add. Three products are to be as exact as `f32`, so the sums of a buffer are added to the
        // others by instructions that round.
        let mut part = if THREE { [[FragmentC::ZERO; NF]; MF] } else { sums };
        for k in 0..BK / T::TERMS {
            let k = k * T::TERMS;
            // SAFETY: the buffer is complete, and the warp's rows and columns lie in it. All lanes come here.
            unsafe {
                let stage = shared.add(step % STAGES * STAGE);
                let a = core::array::from_fn(|i| match A_K {
                    1 => T::load_a::<true>(stage, AP, warp_row + 16 * i, k),
                    _ => T::load_a::<false>(stage, AP, warp_row + 16 * i, k),
                });
                let mut b = [[0; 2]; NF];
                for j in 0..NF / 2 {
                    [b[2 * j], b[2 * j + 1]] = match B_K {
                        1 => T::load_b::<true>(stage.add(STAGE_A), BP, warp_col + 16 * j, k),
                        _ => T::load_b::<false>(stage.add(STAGE_A), BP, warp_col + 16 * j, k),
                    };
                }
                T::multiply::<THREE, MF, NF>(&a, &b, &mut part);
            }
        }
        if THREE {
            for i in 0..MF {
                for j in 0..NF {
                    for element in 0..FragmentC::ELEMENTS {
                        sums[i][j].0[element] += part[i][j].0[element];
                    }
                }
            }
        } else {
            sums = part;
        }
    }
    pipeline::wait_all();

    // SAFETY: all threads come to both barriers. After the first no thread reads the buffers, whose memory then holds the
    // sums, each element written by one thread. The results are the block's alone.
    unsafe {
        thread::sync_threads_aligned();
        let to = shared.cast::<f32>();
        let (group_row, group_col) = FragmentC::position(tid as u32 % 32, 0);
        for i in 0..MF {
            for j in 0..NF {
                let FragmentC([x, y, z, w]) = sums[i][j];
                let (r, c) = (warp_row + 16 * i + group_row, warp_col + 8 * j + group_col);
                let to = to.add(r * sums_pitch(BN) + c);
                store_shared(to.cast(), f32x2::new(x, y));
                store_shared(to.add(8 * sums_pitch(BN)).cast(), f32x2::new(z, w));
            }
        }
        thread::sync_threads_aligned();
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

/// Waits until the oldest of the `STAGES - 1` buffers that are on their way is complete.
#[inline(always)]
fn wait_for_stage<const STAGES: usize>() {
    match STAGES {
        4 => pipeline::wait_prior::<2>(),
        3 => pipeline::wait_prior::<1>(),
        _ => const { assert!(STAGES == 3 || STAGES == 4) },
    }
}
