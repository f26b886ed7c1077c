//! The sums of a tile by `mma.sync`, for [`super::tensor_tiles`].

use cuda_std::mma::FragmentC;
use cuda_std::shared::{SharedPtr, dynamic_shared_mem};
use cuda_std::{pipeline, thread};

use super::super::args::{A_ALIGNED, B_ALIGNED, MatmulArgs};
use super::super::copies::{Gathered, TileCopy, TileLayout};
use super::super::operand::Operand;

/// Computes a warp's sums over a split's terms of k, for the tile that begins at a row and a column of the result. The warp's
/// part begins at the row and column `warp` of the tile. No copies are in flight afterwards, but other warps may still read
/// the shared memory.
///
/// The constants are those of [`matmul_tiles`](fn@super::tensor_tiles::matmul_tiles).
///
/// # Safety
/// All `THREADS` threads of the block call this, and it has the dynamic shared memory of `STAGES` stages. The matrices match
/// their shapes, pitches and batches, and the flags match the addresses and pitches.
#[inline(always)]
pub unsafe fn tile_sums<
    T: Operand,
    const A_K: usize,
    const B_K: usize,
    const BM: usize,
    const BN: usize,
    const BK: usize,
    const STAGES: usize,
    const THREE: bool,
    const GATHERS: bool,
    const THREADS: usize,
    const MF: usize,
    const NF: usize,
>(
    args: &MatmulArgs<T>,
    [row, col]: [u32; 2],
    warp: [u32; 2],
    [split, batch]: [u32; 2],
) -> [[FragmentC; NF]; MF] {
    let tid = thread::thread_idx_x();
    // The terms of this split: whole buffers, except at the end of k.
    // SAFETY: there is at least one split. It keeps a panic out of the kernel.
    unsafe { core::hint::assert_unchecked(args.splits != 0) };
    let steps_each = args.k.div_ceil(BK as u32).div_ceil(args.splits);
    let first_k = (split * steps_each * BK as u32).min(args.k);
    // Terms that are not copied yet.
    let mut left = (args.k - first_k).min(steps_each * BK as u32);
    let steps = left.div_ceil(BK as u32);

    let [a_tile, b_tile] = const {
        [TileLayout::new(A_K == 1, BM, BK, size_of::<T>()), TileLayout::new(B_K == 1, BN, BK, size_of::<T>())]
    };
    let stage_bytes = a_tile.bytes() + b_tile.bytes();
    let ring = STAGES as u32 * stage_bytes;
    let a = args.a.wrapping_add((u64::from(batch) * args.a_batch) as usize);
    let b = args.b.wrapping_add((u64::from(batch) * args.b_batch) as usize);
    let mut copy_a =
        TileCopy::<T, A_K, THREADS>::new(a_tile, BK, (a, args.a_pitch), [row, args.m], first_k, tid);
    let mut copy_b =
        TileCopy::<T, B_K, THREADS>::new(b_tile, BK, (b, args.b_pitch), [col, args.n], first_k, tid);
    let shared = SharedPtr::from(dynamic_shared_mem::<u8>());
    // Their places are the same in all stages.
    let (places_a, places_b) = (copy_a, copy_b);
    let mut copy = |stage: u32| {
        let mut gathered = [Gathered::default(); 2];
        // SAFETY: the stage lies in the shared memory, and the terms that are left in the matrices. The loop below waits for
        // the copies and reaches a barrier before it reads a stage and before a stage is overwritten.
        unsafe {
            let to = shared.wrapping_byte_add(stage);
            let to_b = to.wrapping_byte_add(a_tile.bytes());
            if GATHERS {
                gathered[0] = copy_a.gather(to, left, args.has(A_ALIGNED));
                gathered[1] = copy_b.gather(to_b, left, args.has(B_ALIGNED));
            } else {
                copy_a.start(to, left);
                copy_b.start(to_b, left);
            }
        }
        left = left.saturating_sub(BK as u32);
        (left > 0, gathered)
    };
    let finish = |stage: u32, [a, b]: [Gathered; 2]| {
        if GATHERS {
            let to = shared.wrapping_byte_add(stage);
            // SAFETY: as for `copy`.
            unsafe {
                places_a.finish(to, a, args.has(A_ALIGNED));
                places_b.finish(to.wrapping_byte_add(a_tile.bytes()), b, args.has(B_ALIGNED));
            }
        }
    };

    let mut is_copying = steps > 0;
    for stage in 0..STAGES as u32 - 1 {
        if is_copying {
            let gathered;
            (is_copying, gathered) = copy(stage * stage_bytes);
            finish(stage * stage_bytes, gathered);
        }
        pipeline::commit();
    }
    let part_a = T::part_of_a::<A_K>(a_tile, warp[0]);
    let part_b = T::part_of_b::<B_K>(b_tile, warp[1]);
    let mut sums = [[FragmentC::ZERO; NF]; MF];
    if steps == 0 {
        return sums;
    }
    let load = |stage: u32, k: u32| {
        let stage = shared.wrapping_byte_add(stage);
        // SAFETY: the stage is complete, and the warp's rows and columns lie in it. All lanes execute this.
        unsafe {
            let a = T::load_a::<A_K, MF>(part_a, stage, k);
            (a, T::load_b::<B_K, NF>(part_b, stage.wrapping_byte_add(a_tile.bytes()), k))
        }
    };
    // SAFETY: all threads of the block execute this.
    unsafe { complete_stage::<STAGES>() };
    let mut fragments = load(0, 0);
    let (mut from, mut to) = (0, ring - stage_bytes);
    // Tensor cores truncate their sums. Three products must be as accurate as `f32`, so the sums of a stage are added to the
    // others by instructions that round.
    let mut part = [[FragmentC::ZERO; NF]; MF];
    for step in 0..steps {
        // What the threads gather for a later step is written after the products of this one.
        let (stage, gathers) = (to, is_copying);
        let mut gathered = [Gathered::default(); 2];
        let terms = const { BK / T::TERMS };
        // The loop is written out: a loop would keep the fragments in registers that it has to exchange.
        macro_rules! multiply {
            ($($k:literal)*) => {$(
                if $k < terms {
                    // The fragments of the next terms are loaded under the products of these.
                    let next = if $k + 1 < terms {
                        load(from, $k + 1)
                    } else {
                        // SAFETY: all threads of the block execute this.
                        unsafe { complete_stage::<STAGES>() };
                        // After the last step, what is loaded is not used.
                        let is_last = step + 1 == steps;
                        from = if is_last { from } else { after(from, stage_bytes, ring) };
                        load(from, 0)
                    };
                    if $k == 0 {
                        if is_copying {
                            (is_copying, gathered) = copy(to);
                        }
                        pipeline::commit();
                        to = after(to, stage_bytes, ring);
                    }
                    // SAFETY: all lanes execute this.
                    unsafe { T::multiply::<THREE, MF, NF>(&fragments.0, &fragments.1, &mut part) };
                    fragments = next;
                }
            )*};
        }
        multiply! { 0 1 2 3 4 5 6 7 }
        const { assert!(BK / T::TERMS <= 8, "the loop is written out") };
        if gathers {
            finish(stage, gathered);
        }
        if THREE {
            for i in 0..MF {
                for j in 0..NF {
                    for element in 0..FragmentC::ELEMENTS {
                        sums[i][j].0[element] += part[i][j].0[element];
                    }
                    part[i][j] = FragmentC::ZERO;
                }
            }
        }
    }
    pipeline::wait_all();
    if THREE { sums } else { part }
}

/// The stage after another one, in bytes.
#[inline(always)]
fn after(stage: u32, stage_bytes: u32, ring: u32) -> u32 {
    if stage + stage_bytes == ring { 0 } else { stage + stage_bytes }
}

/// Waits until the next of the `STAGES - 1` stages in flight is complete, and all threads have read the one before.
///
/// # Safety
/// All threads of the block call this.
#[inline(always)]
unsafe fn complete_stage<const STAGES: usize>() {
    match STAGES {
        4 => pipeline::wait_prior::<2>(),
        3 => pipeline::wait_prior::<1>(),
        _ => const { assert!(STAGES == 3 || STAGES == 4) },
    }
    // SAFETY: the caller's contract.
    unsafe { thread::sync_threads_aligned() };
}
