//! The sums of a tile by `mma.sync`, for [`super::tensor_tiles`].

use cuda_std::mem::{f32x2, store_shared};
use cuda_std::mma::FragmentC;
use cuda_std::shared::dynamic_shared_mem;
use cuda_std::{pipeline, thread};

use super::super::args::{A_ALIGNED, B_ALIGNED, MatmulArgs};
use super::super::copies::{Part, copy_tile};
use super::super::operand::Operand;

/// Returns the floats from one row of the sums in shared memory to the next.
pub const fn sums_pitch(cols: usize) -> usize {
    cols + 8
}

/// Computes the sums over a split's terms of k, for the tile that begins at a row and a column of the result. The sums are
/// in the block's shared memory, visible to all its threads: `BM` rows of `BN` with [`sums_pitch`].
///
/// The constants are those of [`matmul_tiles`](fn@super::tensor_tiles::matmul_tiles).
///
/// # Safety
/// All `THREADS` threads of the block call this, and it has `STAGES` times `STAGE` elements of dynamic shared memory. The
/// matrices match their shapes, pitches and batches, and the flags match the addresses and pitches.
#[inline(always)]
#[allow(clippy::too_many_lines, reason = "one loop, which its stages share")]
pub unsafe fn tile_sums<
    T: Operand,
    const A_K: usize,
    const B_K: usize,
    const BM: usize,
    const BN: usize,
    const WM: usize,
    const WN: usize,
    const BK: usize,
    const STAGES: usize,
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
    args: &MatmulArgs<T>,
    [row, col]: [u32; 2],
    split: u32,
    batch: u32,
) -> *mut f32 {
    let tid = thread::thread_idx_x() as usize;
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
        // SAFETY: the buffer lies in the shared memory, and the parts lie in the matrices: row, column and term are inside.
        // The loop below waits for the copies and reaches a barrier before it reads a buffer and before a buffer is
        // overwritten.
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
        // SAFETY: all threads of the block execute this.
        unsafe { thread::sync_threads_aligned() };
        if step + STAGES - 1 < steps {
            copy(step + STAGES - 1);
        }
        pipeline::commit();
        // Tensor cores truncate their sums. Three products must be as accurate as `f32`, so the sums of a buffer are added
        // to the others by instructions that round.
        let mut part = if THREE { [[FragmentC::ZERO; NF]; MF] } else { sums };
        for k in 0..BK / T::TERMS {
            let k = k * T::TERMS;
            // SAFETY: the buffer is complete, and the warp's rows and columns lie in it. All lanes execute this.
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

    // SAFETY: all threads reach both barriers. After the first no thread reads the buffers, whose memory then holds the
    // sums; one thread writes each element. Only this block writes its results.
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
        to
    }
}

/// Waits until the oldest of the `STAGES - 1` buffers in flight is complete.
#[inline(always)]
fn wait_for_stage<const STAGES: usize>() {
    match STAGES {
        4 => pipeline::wait_prior::<2>(),
        3 => pipeline::wait_prior::<1>(),
        _ => const { assert!(STAGES == 3 || STAGES == 4) },
    }
}
