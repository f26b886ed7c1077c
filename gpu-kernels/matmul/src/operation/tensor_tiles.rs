//! Matrix multiplication by `mma.sync`, for every shape and layout (compute capability 8.0 and later).
//!
//! A block computes a tile of `BM` x `BN` results, and its warps share it, `WM` x `WN` each. Copies of the next terms run
//! ahead of the multiplications, through `STAGES` buffers of `BK` terms, and the fragments of the next terms are loaded under
//! the multiplications. A warp's part has 64 x 64 results where there are enough, because the loads of smaller parts take
//! longer than their multiplications.
//!
//! The accumulators reach the results through shared memory, 32 rows of a warp at a time, so that each access to global
//! memory has 16 bytes or four elements.
//!
//! With more than one split, the blocks along y compute the sums over parts of k, and [`super::reduce`] adds them up in the
//! order of the parts. Every sum has a fixed order, so two runs give the same bits.
//!
//! The instances are the tuning table: the tile, the warp's part of it, the terms of a buffer, the buffers.
//@ ptx(matmul_bf16_kk_256x128, compute_80+): ldmatrix.sync.aligned.m8n8.x4.shared == 24, cp.async.cg >= 6, .local == 0
//@ ptx(matmul_bf16_kk_256x128, compute_80+): mma.sync.aligned.m16n8k16 == 64, bar.sync == 3
//@ ptx(matmul_f16_mn_128x128, compute_80+): ldmatrix.sync.aligned.m8n8.x4.trans == 40, .local == 0
//@ ptx(matmul_f32_kk_128x128, compute_80+): mma.sync.aligned.m16n8k8 == 128, cvt.rna.tf32.f32 == 128, .local == 0
//@ ptx(matmul_f32_kn_128x128, compute_80+): ld.shared.b32 == 136, .local == 0
//@ ptx(matmul_f32x3_kk_128x64, compute_80+): mma.sync.aligned.m16n8k8 == 192, .local == 0

use core::ptr::null;
use cuda_std::half::{bf16, f16};
use cuda_std::mem::{f32x4, load_shared, store_shared};
use cuda_std::mma::FragmentC;
use cuda_std::shared::dynamic_shared_mem;
use cuda_std::{kernel, thread, warp};

use super::super::args::{MatmulArgs, OUT_ALIGNED, begin};
use super::super::epilogue::{Columns, offset, store_one, unrolled};
use super::super::operand::Operand;
use super::super::tile_order::grouped;
#[cfg(not(target_arch = "nvptx64"))]
use super::TileShape;
use super::tile_sums::tile_sums;
use common_kernels::element::Output;

/// Rows of a warp's sums that are in shared memory at a time.
const ROWS: usize = 32;

/// Residuals of a lane that are loaded at once, four neighbours each.
const AT_ONCE: usize = 8;

/// The bytes of a warp's sums in shared memory, for its part of `wm` x `wn`.
#[cfg(not(target_arch = "nvptx64"))]
pub(super) const fn sums_bytes(wm: usize, wn: usize) -> usize {
    4 * pitch(wn) * if wm < ROWS { wm } else { ROWS }
}

/// Floats from one row of a warp's sums to the next: rows that are written at a time begin in different banks.
const fn pitch(wn: usize) -> usize {
    wn + 8
}

/// Multiplies the arguments' matrices.
///
/// Launched with blocks of `THREADS` threads: one block per tile along x, per split of k along y, and per matrix of the
/// batch along z, with the dynamic shared memory of `facts`. `A_K` and `B_K` state whether the terms of a sum are neighbours
/// in the stored operand: A by rows, B as its transpose. With `THREE`, `f32` is multiplied as three products of TF32.
///
/// # Safety
/// The launch is as described. The matrices match their shapes, pitches and batches, and no other code uses `out`, which
/// with several splits holds their sums. The flags match the addresses and pitches; if `facts` does not say that the kernel
/// gathers, all rows of A and B start at multiples of 16 bytes and have a multiple of 16 bytes.
#[kernel(
    with(
        THREADS = BM / WM * (BN / WN) * 32,
        MF = WM / 16,
        NF = WN / 8,
    ),
    max_threads = THREADS,
    min_arch = 80,
    args,
    facts: TileShape = TileShape::new([BM, BN, BK], [WM, WN], [A_K, B_K], [STAGES, BYTES], [THREE, GATHERS]),
    instances(
        for T in [bf16, f16], BYTES = 2, THREE = false, GATHERS = false {
            matmul_{T}_kk_256x128 = <1, 1, 256, 128, 64, 64, 32, 4>, min_blocks = 1;
            matmul_{T}_kn_256x128 = <1, 0, 256, 128, 64, 64, 32, 4>, min_blocks = 1;
            matmul_{T}_mk_256x128 = <0, 1, 256, 128, 64, 64, 32, 4>, min_blocks = 1;
            matmul_{T}_mn_256x128 = <0, 0, 256, 128, 64, 64, 32, 4>, min_blocks = 1;
            matmul_{T}_kk_128x128 = <1, 1, 128, 128, 64, 64, 64, 3>, min_blocks = 2;
            matmul_{T}_kn_128x128 = <1, 0, 128, 128, 64, 64, 64, 3>, min_blocks = 2;
            matmul_{T}_mk_128x128 = <0, 1, 128, 128, 64, 64, 64, 3>, min_blocks = 2;
            matmul_{T}_mn_128x128 = <0, 0, 128, 128, 64, 64, 64, 3>, min_blocks = 2;
            matmul_{T}_kk_64x128 = <1, 1, 64, 128, 32, 64, 64, 3>, min_blocks = 2;
            matmul_{T}_kn_64x128 = <1, 0, 64, 128, 32, 64, 64, 3>, min_blocks = 2;
            matmul_{T}_mk_64x128 = <0, 1, 64, 128, 32, 64, 64, 3>, min_blocks = 2;
            matmul_{T}_mn_64x128 = <0, 0, 64, 128, 32, 64, 64, 3>, min_blocks = 2;
            matmul_{T}_kk_64x64 = <1, 1, 64, 64, 32, 32, 64, 4>, min_blocks = 3;
            matmul_{T}_kn_64x64 = <1, 0, 64, 64, 32, 32, 64, 4>, min_blocks = 3;
            matmul_{T}_mk_64x64 = <0, 1, 64, 64, 32, 32, 64, 4>, min_blocks = 3;
            matmul_{T}_mn_64x64 = <0, 0, 64, 64, 32, 32, 64, 4>, min_blocks = 3;
            matmul_{T}_kk_32x64 = <1, 1, 32, 64, 32, 16, 128, 3>, min_blocks = 3;
            matmul_{T}_kn_32x64 = <1, 0, 32, 64, 32, 16, 128, 3>, min_blocks = 3;
            matmul_{T}_kk_16x64 = <1, 1, 16, 64, 16, 16, 128, 3>, min_blocks = 3;
            matmul_{T}_kn_16x64 = <1, 0, 16, 64, 16, 16, 128, 3>, min_blocks = 3;
        }
        for T in [bf16, f16], BYTES = 2, THREE = false, GATHERS = true {
            matmul_{T}_kk_64x64u = <1, 1, 64, 64, 32, 32, 64, 3>, min_blocks = 3;
            matmul_{T}_kn_64x64u = <1, 0, 64, 64, 32, 32, 64, 3>, min_blocks = 3;
            matmul_{T}_mk_64x64u = <0, 1, 64, 64, 32, 32, 64, 3>, min_blocks = 3;
            matmul_{T}_mn_64x64u = <0, 0, 64, 64, 32, 32, 64, 3>, min_blocks = 3;
        }
        T = f32, BYTES = 4, THREE = false, GATHERS = false {
            matmul_f32_kk_128x256 = <1, 1, 128, 256, 64, 64, 32, 3>, min_blocks = 1;
            matmul_f32_kn_128x256 = <1, 0, 128, 256, 64, 64, 16, 4>, min_blocks = 1;
            matmul_f32_mk_128x256 = <0, 1, 128, 256, 64, 64, 16, 4>, min_blocks = 1;
            matmul_f32_mn_128x256 = <0, 0, 128, 256, 64, 64, 16, 4>, min_blocks = 1;
            matmul_f32_kk_128x128 = <1, 1, 128, 128, 64, 64, 32, 3>, min_blocks = 2;
            matmul_f32_kn_128x128 = <1, 0, 128, 128, 64, 64, 32, 3>, min_blocks = 2;
            matmul_f32_mk_128x128 = <0, 1, 128, 128, 64, 64, 16, 4>, min_blocks = 2;
            matmul_f32_mn_128x128 = <0, 0, 128, 128, 64, 64, 16, 4>, min_blocks = 2;
            matmul_f32_kk_64x128 = <1, 1, 64, 128, 32, 64, 32, 3>, min_blocks = 2;
            matmul_f32_kn_64x128 = <1, 0, 64, 128, 32, 64, 32, 3>, min_blocks = 2;
            matmul_f32_mk_64x128 = <0, 1, 64, 128, 32, 64, 32, 3>, min_blocks = 2;
            matmul_f32_mn_64x128 = <0, 0, 64, 128, 32, 64, 32, 3>, min_blocks = 2;
            matmul_f32_kk_64x64 = <1, 1, 64, 64, 32, 32, 32, 4>, min_blocks = 3;
            matmul_f32_kn_64x64 = <1, 0, 64, 64, 32, 32, 32, 4>, min_blocks = 3;
            matmul_f32_mk_64x64 = <0, 1, 64, 64, 32, 32, 32, 4>, min_blocks = 3;
            matmul_f32_mn_64x64 = <0, 0, 64, 64, 32, 32, 32, 4>, min_blocks = 3;
        }
        T = f32, BYTES = 4, THREE = false, GATHERS = true {
            matmul_f32_kk_64x64u = <1, 1, 64, 64, 32, 32, 32, 3>, min_blocks = 3;
            matmul_f32_kn_64x64u = <1, 0, 64, 64, 32, 32, 32, 3>, min_blocks = 3;
            matmul_f32_mk_64x64u = <0, 1, 64, 64, 32, 32, 32, 3>, min_blocks = 3;
            matmul_f32_mn_64x64u = <0, 0, 64, 64, 32, 32, 32, 3>, min_blocks = 3;
        }
        T = f32, BYTES = 4, THREE = true, GATHERS = false {
            matmul_f32x3_kk_128x64 = <1, 1, 128, 64, 64, 32, 32, 3>, min_blocks = 2;
            matmul_f32x3_kn_128x64 = <1, 0, 128, 64, 64, 32, 32, 3>, min_blocks = 2;
            matmul_f32x3_mk_128x64 = <0, 1, 128, 64, 64, 32, 32, 3>, min_blocks = 2;
            matmul_f32x3_mn_128x64 = <0, 0, 128, 64, 64, 32, 32, 3>, min_blocks = 2;
            matmul_f32x3_kk_64x64 = <1, 1, 64, 64, 32, 32, 32, 3>, min_blocks = 3;
            matmul_f32x3_kn_64x64 = <1, 0, 64, 64, 32, 32, 32, 3>, min_blocks = 3;
            matmul_f32x3_mk_64x64 = <0, 1, 64, 64, 32, 32, 32, 3>, min_blocks = 3;
            matmul_f32x3_mn_64x64 = <0, 0, 64, 64, 32, 32, 32, 3>, min_blocks = 3;
        }
        T = f32, BYTES = 4, THREE = true, GATHERS = true {
            matmul_f32x3_kk_64x64u = <1, 1, 64, 64, 32, 32, 32, 3>, min_blocks = 3;
            matmul_f32x3_kn_64x64u = <1, 0, 64, 64, 32, 32, 32, 3>, min_blocks = 3;
            matmul_f32x3_mk_64x64u = <0, 1, 64, 64, 32, 32, 32, 3>, min_blocks = 3;
            matmul_f32x3_mn_64x64u = <0, 0, 64, 64, 32, 32, 32, 3>, min_blocks = 3;
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
    const GATHERS: bool,
    const THREADS: usize,
    const MF: usize,
    const NF: usize,
>(
    args: MatmulArgs<T>,
) {
    begin();
    let tiles = [args.m.div_ceil(BM as u32), args.n.div_ceil(BN as u32)];
    let [row, col] = grouped(thread::block_idx_x(), tiles);
    let at = [row * BM as u32, col * BN as u32];
    let (split, batch) = (thread::block_idx_y(), thread::block_idx_z());
    let number = thread::thread_idx_x() as usize / 32;
    let part = [number / (BN / WN) * WM, number % (BN / WN) * WN];
    let [row, col] = [0, 1].map(|i| at[i] + part[i] as u32);
    let args =
        MatmulArgs { out: args.out.wrapping_add(4 * (u64::from(split) * args.split_pitch) as usize), ..args };
    // Residuals are added to the sums in shared memory, several at a time. The rest of the formula comes then.
    let rest =
        if args.residual.is_null() { args } else { MatmulArgs { residual: null(), alpha: 1.0, ..args } };
    let rows = if WM < ROWS { WM } else { ROWS };
    let lane = warp::lane_id();
    // A lane's columns are the same in all rows.
    let across = WN as u32 / 4;
    let (down, c) = (32 / across, lane % across * 4);
    // SAFETY: all threads of the block execute this, and its dynamic shared memory is as `facts` states. Only this block
    // writes its results. After the barrier no warp reads the stages; then each uses memory of its own.
    unsafe {
        let columns = Columns::new(&args, batch, col + c);
        let at_once = (rows * WN / 128).min(AT_ONCE);
        let load = |row: u32| {
            let mut residuals = [[0; 4]; AT_ONCE];
            unrolled!(i, at_once, residuals[i % AT_ONCE] = columns.residual(row + i as u32 * down));
            residuals
        };
        // Those of a small part arrive under the products.
        let is_early = const { WM * WN <= 128 * AT_ONCE && !THREE && !GATHERS };
        let mut residuals = if is_early { load(row + lane / across) } else { [[0; 4]; AT_ONCE] };
        let part = part.map(|place| place as u32);
        let sums = tile_sums::<T, A_K, B_K, BM, BN, BK, STAGES, THREE, GATHERS, THREADS, MF, NF>(
            &args,
            at,
            part,
            [split, batch],
        );
        thread::sync_threads_aligned();
        let shared = dynamic_shared_mem::<f32>().add(number * rows * pitch(WN));
        let (group_row, group_col) = FragmentC::position(lane, 0);
        let rest = columns.with(&rest);
        for first in (0..MF).step_by(rows / 16) {
            for i in 0..rows / 16 {
                for j in 0..NF {
                    for element in 0..FragmentC::ELEMENTS {
                        let r = 16 * i + group_row + element / 2 * 8;
                        let c = 8 * j + group_col + element % 2;
                        *shared.add(r * pitch(WN) + c) = sums[first + i][j].0[element];
                    }
                }
            }
            warp::sync_warp(u32::MAX);
            let row = row + 16 * first as u32;
            let four = |r: u32| shared.add(r as usize * pitch(WN) + c as usize).cast::<f32x4>();
            let mut r = if args.residual.is_null() { rows as u32 } else { lane / across };
            while r < rows as u32 {
                if !is_early {
                    residuals = load(row + r);
                }
                unrolled!(i, at_once, {
                    let four = four(r + i as u32 * down);
                    let x = load_shared::<f32x4>(four).to_array();
                    store_shared(four, f32x4::from(columns.with_residual(x, residuals[i % AT_ONCE])));
                });
                r += at_once as u32 * down;
            }
            let mut r = lane / across;
            while r < rows as u32 {
                let x = load_shared::<f32x4>(four(r)).to_array();
                if args.has(OUT_ALIGNED) {
                    rest.store(row + r, x);
                } else {
                    store_shared(four(r), f32x4::from(rest.results(x, [0; 4])));
                }
                r += down;
            }
            warp::sync_warp(u32::MAX);
            if !args.has(OUT_ALIGNED) {
                // A lane has the same column in all rows, so that a warp's accesses are neighbours.
                let wide = WN.min(32);
                for c in (lane as usize % wide..WN).step_by(wide) {
                    let mut r = lane as usize / wide;
                    let end = (args.m.saturating_sub(row) as usize).min(if col + (c as u32) < args.n {
                        rows
                    } else {
                        0
                    });
                    let to = offset(batch, args.out_batch, row, args.out_pitch, col + c as u32);
                    while r < end {
                        store_one(&args, to + r * args.out_pitch as usize, *shared.add(r * pitch(WN) + c));
                        r += 32 / wide;
                    }
                }
                warp::sync_warp(u32::MAX);
            }
        }
    }
}
