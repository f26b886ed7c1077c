//! Sums of a block, and of all blocks in one launch: the last block to end adds up the others' sums.

use core::sync::atomic::Ordering;

use cuda_std::atomic::AtomicU32;
use cuda_std::thread;
use cuda_std::warp::{reduce_sum, reduce_sum_width};

/// Warps of a block.
pub(super) const WARPS: usize = 8;
/// Threads of a block.
pub(super) const BLOCK: usize = 32 * WARPS;

/// Returns the sum of the block's threads, to all of them: five shuffles in each warp, then three among the sums of the
/// warps.
///
/// # Safety
/// All 256 threads of the block call this, once for each `shared`, which belongs to the block and has 8 elements.
#[inline(always)]
pub(super) unsafe fn block_sum(shared: *mut f32, sum: f32) -> f32 {
    let tid = thread::thread_idx_x() as usize;
    // SAFETY: all threads execute this. Each warp has its own element, and reads after the barrier.
    unsafe {
        let of_warp = reduce_sum(sum);
        if tid.is_multiple_of(32) {
            *shared.add(tid / 32) = of_warp;
        }
        thread::sync_threads_aligned();
        reduce_sum_width::<f32, { WARPS as u32 }>(u32::MAX, *shared.add(tid % WARPS))
    }
}

/// The sums of the blocks, and how many blocks have written theirs.
#[derive(Clone, Copy)]
pub(super) struct Partials {
    /// The sum of each block.
    pub sums: *mut f32,
    /// The number of blocks that have written their sums; 0 between launches.
    pub arrived: *mut u32,
}

/// Writes the sum of `of_block` over the blocks to `out`. The blocks arrive in any order, but the last one adds up
/// `partials` in a fixed order, so the same grid always has the same sum, bit for bit.
///
/// # Safety
/// All 256 threads of every block of the grid call this, once, with the same arguments except `of_block`, which is the same
/// for the threads of a block. `shared` has 8 elements and `is_last` one, both the block's own; `partials.sums` has one for
/// each block. No other code uses them, `out` or `partials.arrived`, which holds 0.
#[inline(always)]
pub(super) unsafe fn sum_of_blocks(
    (shared, is_last): (*mut f32, *mut bool),
    out: *mut f32,
    partials: Partials,
    of_block: f32,
) {
    let (block, blocks) = (thread::block_idx_x(), thread::grid_dim_x());
    let tid = thread::thread_idx_x();
    // SAFETY: each block writes its own element of the sums, and its addition releases it. The last block's addition has
    // acquired all of them, and its threads read after the barrier.
    unsafe {
        if tid == 0 {
            *partials.sums.add(block as usize) = of_block;
            let before = AtomicU32::from_ptr(partials.arrived).fetch_add(1, Ordering::AcqRel);
            *is_last = before == blocks - 1;
        }
        thread::sync_threads_aligned();
        // The condition is the same for all threads of the block, so either all of them call the sum or none.
        if *is_last {
            let mut sum = 0.0;
            for i in (tid as usize..blocks as usize).step_by(BLOCK) {
                sum += *partials.sums.add(i);
            }
            let sum = block_sum(shared, sum);
            if tid == 0 {
                *out = sum;
                // No other block is left to count; the next launch starts from 0.
                *partials.arrived = 0;
            }
        }
    }
}
