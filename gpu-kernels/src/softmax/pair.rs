//! The maximum of some elements with the sum of their exponentials against it, as threads exchange it.

use cuda_std::mem::f32x2;
use cuda_std::warp::{reduce_max_width, reduce_sum_width};
use cuda_std::{GpuFloat as _, thread};

/// The (max, sum) of the pairs in `LANES` neighbouring lanes.
///
/// # Safety
/// All lanes of the warp come here.
#[inline(always)]
pub(super) unsafe fn merge<const LANES: u32>(f32x2 { x: max_lane, y: sum_lane }: f32x2) -> f32x2 {
    // SAFETY: the caller brings all lanes.
    unsafe {
        let max = reduce_max_width::<f32, LANES>(u32::MAX, max_lane);
        f32x2::new(max, reduce_sum_width::<f32, LANES>(u32::MAX, sum_lane * (max_lane - max).exp()))
    }
}

/// The block's (max, sum) from those of its threads, for all of them.
///
/// # Safety
/// All threads of the block come here, once; `shared` has `WARPS` elements of the block's own.
#[inline(always)]
pub(super) unsafe fn exchange<const WARPS: u32>(shared: *mut f32x2, tid: usize, pair: f32x2) -> f32x2 {
    // SAFETY: the caller brings all threads; each warp has its own element, and reads after the barrier.
    unsafe {
        let pair = merge::<32>(pair);
        if tid.is_multiple_of(32) {
            *shared.add(tid / 32) = pair;
        }
        thread::sync_threads_aligned();
        merge::<WARPS>(*shared.add(tid % WARPS as usize))
    }
}
