//! The column of a row's first largest element. The row is correct if it is the target.

use cuda_std::thread;
use cuda_std::warp::reduce_min_width;

/// Returns the column of the first of `values` that equals `max`, or `u32::MAX` if none does. The values are in the columns
/// from `place` on.
#[inline(always)]
pub(super) fn first_of<const N: usize>(values: [f32; N], max: f32, place: usize) -> u32 {
    let mut first = u32::MAX;
    for j in (0..N).rev() {
        first = if values[j] == max { (place + j) as u32 } else { first };
    }
    first
}

/// Returns the smallest of the columns of a row that `THREADS` threads hold, `LANES` of each warp.
///
/// # Safety
/// All threads of the block call this, once; `shared` belongs to the block and has an element per warp.
#[inline(always)]
pub(super) unsafe fn first_of_row<const THREADS: usize, const LANES: u32>(
    shared: *mut u32,
    first: u32,
) -> u32 {
    let thread = thread::thread_idx_x() as usize;
    let (warps, lane) = (THREADS / 32, thread % 32);
    // SAFETY: all threads execute this. Each warp has its own element, and reads after the barrier.
    unsafe {
        let first = reduce_min_width::<u32, LANES>(u32::MAX, first);
        if THREADS <= 32 {
            return first;
        }
        if lane == 0 {
            *shared.add(thread / 32) = first;
        }
        thread::sync_threads_aligned();
        let of_warp = if lane < warps { *shared.add(thread / THREADS * warps + lane) } else { u32::MAX };
        reduce_min_width::<u32, 32>(u32::MAX, of_warp)
    }
}
