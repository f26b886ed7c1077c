//! How the threads of a row find its maximum and sum, within a warp, a block or a cluster: one after the other, or as a
//! pair.

use cuda_std::mem::f32x2;
use cuda_std::warp::{reduce_max, reduce_max_width, reduce_sum, reduce_sum_width};
use cuda_std::{GpuFloat as _, cluster, thread};
use softmax_kernels::stage::Stage;

/// Returns `of_warp` of warp `l % WARPS` to lane `l` of every warp.
///
/// # Safety
/// All threads of the block call this, once for each `shared`, which belongs to the block and has `WARPS` elements.
#[inline(always)]
unsafe fn between_warps<T: Copy, const WARPS: u32>(shared: *mut T, tid: usize, of_warp: T) -> T {
    // SAFETY: all threads execute this. Each warp has its own element, and reads after the barrier.
    unsafe {
        if tid.is_multiple_of(32) {
            *shared.add(tid / 32) = of_warp;
        }
        thread::sync_threads_aligned();
        *shared.add(tid % WARPS as usize)
    }
}

/// Returns the largest number of a block's threads, to all of them.
///
/// # Safety
/// All threads of the block call this, once for each `shared`, which belongs to the block and has `WARPS` elements.
#[inline(always)]
pub(super) unsafe fn block_max<const WARPS: u32>(shared: *mut f32, tid: usize, max: f32) -> f32 {
    // SAFETY: all threads execute this.
    unsafe {
        let of_warp = between_warps::<f32, WARPS>(shared, tid, reduce_max(max));
        reduce_max_width::<f32, WARPS>(u32::MAX, of_warp)
    }
}

/// Returns the sum of the numbers of a block's threads, to all of them.
///
/// # Safety
/// All threads of the block call this, once for each `shared`, which belongs to the block and has `WARPS` elements.
#[inline(always)]
pub(super) unsafe fn block_sum<const WARPS: u32>(shared: *mut f32, tid: usize, sum: f32) -> f32 {
    // SAFETY: all threads execute this.
    unsafe {
        let of_warp = between_warps::<f32, WARPS>(shared, tid, reduce_sum(sum));
        reduce_sum_width::<f32, WARPS>(u32::MAX, of_warp)
    }
}

/// Returns the largest number of `LANES` neighbouring lanes, to all of them.
///
/// # Safety
/// All lanes of the warp call this.
#[inline(always)]
pub(super) unsafe fn lanes_max<const LANES: u32>(max: f32) -> f32 {
    // SAFETY: all lanes execute this.
    unsafe { reduce_max_width::<f32, LANES>(u32::MAX, max) }
}

/// Returns the sum of the numbers of `LANES` neighbouring lanes, to all of them.
///
/// # Safety
/// All lanes of the warp call this.
#[inline(always)]
pub(super) unsafe fn lanes_sum<const LANES: u32>(sum: f32) -> f32 {
    // SAFETY: all lanes execute this.
    unsafe { reduce_sum_width::<f32, LANES>(u32::MAX, sum) }
}

/// Merges the (max, sum) of `LANES` neighbouring lanes. Each sum is first scaled from its own maximum to the largest.
///
/// # Safety
/// All lanes of the warp call this.
#[inline(always)]
unsafe fn merge<const LANES: u32>((max_lane, sum_lane): (f32, f32)) -> (f32, f32) {
    // SAFETY: the caller's contract.
    unsafe {
        let max = lanes_max::<LANES>(max_lane);
        (max, lanes_sum::<LANES>(sum_lane * (max_lane - max).exp()))
    }
}

/// Merges the (max, sum) of the block's warps, for all threads. A single warp keeps its own.
///
/// # Safety
/// All threads of the block call this, once; `shared` belongs to the block and has `WARPS` elements.
#[inline(always)]
pub(super) unsafe fn merge_warps<const WARPS: u32>(
    shared: *mut f32x2,
    tid: usize,
    (max, sum): (f32, f32),
) -> (f32, f32) {
    if WARPS == 1 {
        return (max, sum);
    }
    // SAFETY: all threads execute this.
    let f32x2 { x, y } = unsafe { between_warps::<f32x2, WARPS>(shared, tid, f32x2::new(max, sum)) };
    // SAFETY: all threads execute this.
    unsafe { merge::<WARPS>((x, y)) }
}

/// Merges the (max, sum) of the block's threads, for all of them.
///
/// # Safety
/// All threads of the block call this, once; `shared` belongs to the block and has `WARPS` elements.
#[inline(always)]
pub(super) unsafe fn merge_block<const WARPS: u32>(
    shared: *mut f32x2,
    tid: usize,
    pair: (f32, f32),
) -> (f32, f32) {
    // SAFETY: all threads execute this.
    unsafe { merge_warps::<WARPS>(shared, tid, merge::<32>(pair)) }
}

/// Merges the (max, sum) of the blocks of a cluster, at most 16, for all threads. Each block writes its pair into the shared
/// memory of every block.
///
/// # Safety
/// All threads of the cluster call this, once, after [`cluster::arrive_relaxed`]; `shared` belongs to the block and has 16
/// elements.
#[inline(always)]
pub(super) unsafe fn merge_cluster(shared: *mut f32x2, tid: usize, (max, sum): (f32, f32)) -> (f32, f32) {
    let (rank, blocks) = (cluster::block_rank() as usize, cluster::num_blocks() as usize);
    // SAFETY: the wait ensures that the other blocks have started. Each block writes its own element in every block, and
    // reads its block's elements after the barrier. No block exits before that.
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

/// Merges the (max, sum) of the blocks of a cluster that holds a row in shared memory, for all threads. A single block keeps
/// its own.
///
/// # Safety
/// All threads of the cluster call this, once for each `stage`.
#[inline(always)]
pub(super) unsafe fn merge_staged(stage: &Stage<f32x2>, blocks: u32, (max, sum): (f32, f32)) -> (f32, f32) {
    if blocks == 1 {
        return (max, sum);
    }
    // SAFETY: the caller's contract; the pair is the same in all threads of a block.
    unsafe {
        let f32x2 { x, y } = stage.others.swap(f32x2::new(max, sum), f32x2::new(f32::MIN, 0.0));
        merge::<16>((x, y))
    }
}
