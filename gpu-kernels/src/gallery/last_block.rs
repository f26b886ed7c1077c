//! Sums of a block, and of all blocks in one launch: the block that ends last adds up what the others have left.

use core::sync::atomic::Ordering;

use cuda_std::atomic::AtomicU32;
use cuda_std::thread;
use cuda_std::warp::{reduce_sum, reduce_sum_width};

/// Warps of a block.
pub(super) const WARPS: usize = 8;
/// Threads of a block.
pub(super) const BLOCK: usize = 32 * WARPS;

/// The sum of the numbers of a block's threads, for all of them: five shuffles in each warp, then three among the sums of the
/// warps.
///
/// # Safety
/// All 256 threads of the block come here, once for each `shared`, which has 8 elements of the block's own.
#[inline(always)]
pub(super) unsafe fn block_sum(shared: *mut f32, sum: f32) -> f32 {
    let tid = thread::thread_idx_x() as usize;
    // SAFETY: the caller promises that all threads execute this; each warp has its own element, and reads
    // after the barrier.
    unsafe {
        let of_warp = reduce_sum(sum);
        if tid.is_multiple_of(32) {
            *shared.add(tid / 32) = of_warp;
        }
        thread::sync_threads_aligned();
        reduce_sum_width::<f32, { WARPS as u32 }>(u32::MAX, *shared.add(tid % WARPS))
    }
}

/// Where blocks leave their sums, and how many have.
#[derive(Clone, Copy)]
pub(super) struct Partials {
    /// The sum of each block.
    pub sums: *mut f32,
    /// The blocks that have left theirs; 0 between launches.
    pub arrived: *mut u32,
}

/// Writes the sum of `of_block` over the blocks to `out`. The blocks arrive in any order, but the last one adds up what lies
/// in `partials` in one order, so that the sum of the same grid is the same in every bit.
///
/// # Safety
/// All 256 threads of every block of the grid come here, once, with the same arguments but for `of_block`, which the threads
/// of a block have in common. `shared` has 8 elements of the block's own and `is_last` one, `partials.sums` one for each
/// block; no other code uses them, `out` or `partials.arrived`, which holds 0.
#[inline(always)]
pub(super) unsafe fn sum_of_blocks(
    (shared, is_last): (*mut f32, *mut bool),
    out: *mut f32,
    partials: Partials,
    of_block: f32,
) {
    let (block, blocks) = (thread::block_idx_x(), thread::grid_dim_x());
    let tid = thread::thread_idx_x();
    // SAFETY: a block has its own element of the sums, and tells that it is written by an addition that releases it. The
    // block whose addition is the last has acquired all of them by it, and its threads read after the barrier.
    unsafe {
        if tid == 0 {
            *partials.sums.add(block as usize) = of_block;
            let before = AtomicU32::from_ptr(partials.arrived).fetch_add(1, Ordering::AcqRel);
            *is_last = before == blocks - 1;
        }
        thread::sync_threads_aligned();
        // All threads of the block have the same answer, so all of them come to the sum or none.
        if *is_last {
            let mut sum = 0.0;
            for i in (tid as usize..blocks as usize).step_by(BLOCK) {
                sum += *partials.sums.add(i);
            }
            let sum = block_sum(shared, sum);
            if tid == 0 {
                *out = sum;
                // Nobody else is left to count; the next launch starts from 0.
                *partials.arrived = 0;
            }
        }
    }
}
