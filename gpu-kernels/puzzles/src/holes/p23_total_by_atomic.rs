// Puzzle 23, total_by_atomic (07-reductions): one total: an atomic operation per warp.
//
// Add all elements of `inp` to `*total`, which is 0 before the launch. The grid has blocks of 128 threads, enough for a thread
// per element.
//
//     AtomicU32::from_ptr(total).fetch_add(x, Ordering::Relaxed);
//
// All threads of the grid would queue at one word. So let a warp add its 32 elements first: `warp::reduce_sum(x)` returns the
// sum to all lanes, and all must call it.
//
// Good: 16 atomic operations for 512 elements.

use core::sync::atomic::Ordering;

use cuda_std::atomic::AtomicU32;
use cuda_std::{kernel, thread, warp};

#[kernel]
pub unsafe fn total_by_atomic(total: *mut u32, inp: &[u32]) {
    let i = thread::index_1d() as usize;
    // Your code here.
}
