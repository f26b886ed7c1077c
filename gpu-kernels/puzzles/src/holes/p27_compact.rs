// Puzzle 27, compact (08-scans): keep the positive elements, in order.
//
// Write the elements of `inp` that are above 0 to `out`, one after the other in the same order, and their number to `*len`.
// Leave the rest of `out` as it is.
//
//     inp    3  -1   4   0   1  -5   9
//     out    3   4   1   9
//     len    4
//
// The launch is one block of 128 threads, and `inp` has at most 128 elements. An element's place in `out` is the number of
// elements before it that are kept: a scan of zeros and ones. Within a warp a ballot has them all: `kept & ((1 << lane) - 1)`
// are the lanes below. The warps exchange their numbers through shared memory.
//
// Good: it is enough to be right. In the same order is the difficulty: a counter with `fetch_add` gives places in the order
// in which threads happen to come.

use core::sync::atomic::Ordering;

use cuda_std::atomic::BlockAtomicU32;
use cuda_std::{kernel, shared_array, thread, warp};

#[kernel]
pub unsafe fn compact(out: *mut f32, len: *mut u32, inp: &[f32]) {
    let counts = shared_array![u32; 4];
    let tid = thread::thread_idx_x() as usize;
    // Your code here.
}
