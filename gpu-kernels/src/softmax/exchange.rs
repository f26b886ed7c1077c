//! How the threads of a row find its maximum and sum: within a warp, a block or a cluster, one after the other or as
//! pairs.

use super::stage::Stage;
use cuda_std::mem::f32x2;
use cuda_std::warp::{reduce_max, reduce_max_width, reduce_sum, reduce_sum_width};
use cuda_std::{GpuFloat as _, cluster, thread};

/// Lane `l` of every warp gets `of_warp` of warp `l % WARPS`.
///
/// # Safety
/// All threads of the block come here, once for each `shared`, which has `WARPS` elements of the block's own.
#[inline(always)]
unsafe fn between_warps<T: Copy, const WARPS: u32>(shared: *mut T, tid: usize, of_warp: T) -> T {
    // SAFETY: the caller promises that all threads execute this; each warp has its own element, and reads
    // after the barrier.
    unsafe {
        if tid.is_multiple_of(32) {
            *shared.add(tid / 32) = of_warp;
        }
        thread::sync_threads_aligned();
        *shared.add(tid % WARPS as usize)
    }
}

/// The largest of the numbers of a block's threads, for all of them.
///
/// # Safety
/// All threads of the block come here, once for each `shared`, which has `WARPS` elements of the block's own.
#[inline(always)]
pub(super) unsafe fn block_max<const WARPS: u32>(shared: *mut f32, tid: usize, max: f32) -> f32 {
    // SAFETY: as the caller says.
    unsafe {
        let of_warp = between_warps::<f32, WARPS>(shared, tid, reduce_max(max));
        reduce_max_width::<f32, WARPS>(u32::MAX, of_warp)
    }
}

/// The sum of the numbers of a block's threads, for all of them.
///
/// # Safety
/// All threads of the block come here, once for each `shared`, which has `WARPS` elements of the block's own.
#[inline(always)]
pub(super) unsafe fn block_sum<const WARPS: u32>(shared: *mut f32, tid: usize, sum: f32) -> f32 {
    // SAFETY: as the caller says.
    unsafe {
        let of_warp = between_warps::<f32, WARPS>(shared, tid, reduce_sum(sum));
        reduce_sum_width::<f32, WARPS>(u32::MAX, of_warp)
    }
}

/// The largest of the numbers of `LANES` neighbouring lanes, for all of them.
///
/// # Safety
/// All lanes of the warp come here.
#[inline(always)]
pub(super) unsafe fn lanes_max<const LANES: u32>(max: f32) -> f32 {
    // SAFETY: as the caller says.
    unsafe { reduce_max_width::<f32, LANES>(u32::MAX, max) }
}

/// The sum of the numbers of `LANES` neighbouring lanes, for all of them.
///
/// # Safety
/// All lanes of the warp come here.
#[inline(always)]
pub(super) unsafe fn lanes_sum<const LANES: u32>(sum: f32) -> f32 {
    // SAFETY: as the caller says.
    unsafe { reduce_sum_width::<f32, LANES>(u32::MAX, sum) }
}

/// The (max, sum) of the pairs in `LANES` neighbouring lanes: each sum counts by how far its maximum is below the
/// largest.
///
/// # Safety
/// All lanes of the warp come here.
#[inline(always)]
unsafe fn merge<const LANES: u32>((max_lane, sum_lane): (f32, f32)) -> (f32, f32) {
    // SAFETY: as the caller says.
    unsafe {
        let max = lanes_max::<LANES>(max_lane);
        (max, lanes_sum::<LANES>(sum_lane * (max_lane - max).exp()))
    }
}

/// The block's (max, sum) from those of its warps, for all threads. Of a single warp that is its own.
///
/// # Safety
/// All threads of the block come here, once; `shared` has `WARPS` elements of the block's own.
#[inline(always)]
pub(super) unsafe fn merge_warps<const WARPS: u32>(
    shared: *mut f32x2,
    tid: usize,
    (max, sum): (f32, f32),
) -> (f32, f32) {
    if WARPS == 1 {
        return (max, sum);
    }
    // SAFETY: as the caller says.
    let f32x2 { x, y } = unsafe { between_warps::<f32x2, WARPS>(shared, tid, f32x2::new(max, sum)) };
    // SAFETY: as above.
    unsafe { merge::<WARPS>((x, y)) }
}

/// The block's (max, sum) from those of its threads, for all of them.
///
/// # Safety
/// All threads of the block come here, once; `shared` has `WARPS` elements of the block's own.
#[inline(always)]
pub(super) unsafe fn merge_block<const WARPS: u32>(
    shared: *mut f32x2,
    tid: usize,
    pair: (f32, f32),
) -> (f32, f32) {
    // SAFETY: as the caller says.
    unsafe { merge_warps::<WARPS>(shared, tid, merge::<32>(pair)) }
}

/// The (max, sum) of a cluster of at most 16 blocks from those of its blocks, for all threads. Each block writes its
/// own into the shared memory of all the others.
///
/// # Safety
/// All threads of the cluster come here, once, and have called [`cluster::arrive_relaxed`]; `shared` has 16 elements
/// of the block's own.
#[inline(always)]
pub(super) unsafe fn merge_cluster(shared: *mut f32x2, tid: usize, (max, sum): (f32, f32)) -> (f32, f32) {
    let (rank, blocks) = (cluster::block_rank() as usize, cluster::num_blocks() as usize);
    // SAFETY: the other blocks have started when theirs are waited for; each writes an element of its own in every
    // block, and reads its block's after the barrier. Nobody goes before that.
    unsafe {
        cluster::wait();
        if tid < blocks {
            *cluster::map_shared(shared.add(rank), tid as u32) = f32x2::new(max, sum);
        }
        cluster::sync();
        let has_block = tid % 16 < blocks;
        let f32x2 { x, y } = if has_block { *shared.add(tid % 16) } else { f32x2::new(f32::MIN, 0.0) };
        merge::<16>((x, y))
    }
}

/// The (max, sum) of a row that a cluster of `blocks` blocks holds in shared memory, computed from those of the
/// blocks. All threads get it. For a single block it is the block's own.
///
/// # Safety
/// All threads of the cluster come here, once for each `stage`.
#[inline(always)]
pub(super) unsafe fn merge_staged(stage: &Stage<f32x2>, blocks: u32, (max, sum): (f32, f32)) -> (f32, f32) {
    if blocks == 1 {
        return (max, sum);
    }
    // SAFETY: as the caller says; the pair is the same in all threads of a block.
    unsafe {
        let f32x2 { x, y } = stage.others.swap(f32x2::new(max, sum), f32x2::new(f32::MIN, 0.0));
        merge::<16>((x, y))
    }
}
