// Puzzle 26, histogram (08-scans): a histogram: count in shared memory first.
//
// Add to `counts[b]` how often `b` is in `inp`. All elements are below 64. `counts` has 64 elements, all 0 before the launch.
// The grid has blocks of 256 threads, enough for a thread per element.
//
// With an atomic operation on global memory per element, the whole grid queues at 64 words. So a block counts in shared memory:
//
// 1. Set its 64 counts to 0, and wait.
// 2. Add 1 for each element: `BlockAtomicU32::from_ptr(of_block.add(b)).fetch_add(1, Ordering::Relaxed)`. Wait.
// 3. Add the 64 counts to `counts`: `AtomicU32::from_ptr(counts.add(b)).fetch_add(.., Ordering::Relaxed)`.
//
// Good: 64 atomic operations on global memory per block.

use core::sync::atomic::Ordering;

use cuda_std::atomic::{AtomicU32, BlockAtomicU32};
use cuda_std::{kernel, shared_array, thread};

#[kernel]
pub unsafe fn histogram(counts: *mut u32, inp: &[u32]) {
    let of_block = shared_array![u32; 64];
    let tid = thread::thread_idx_x() as usize;
    // Your code here.
}
