// Puzzle 21, dot (07-reductions): a dot product: one atomic addition per block.
//
// Add to `*out` the sum of `a[i] * b[i]` for all `i` below `n`. `*out` is 0 before the launch.
//
// The grid always has 4 blocks of 256 threads, so a thread takes several elements (puzzle 5) and keeps their sum in a
// register. Then the block adds the sums of its threads (puzzle 20), and one thread adds the result to `*out`. Blocks
// cannot wait for each other, so that must be an atomic operation:
//
//     AtomicF32::from_ptr(out).fetch_add(sum, Ordering::Relaxed);
//
// `warp::reduce_sum(x)` returns the sum of the 32 lanes to all of them.
//
// Good: 4 sectors per load, and 4 atomic operations: one per block.

use core::sync::atomic::Ordering;

use cuda_std::atomic::AtomicF32;
use cuda_std::{kernel, shared_array, thread, warp};

#[kernel]
pub unsafe fn dot(out: *mut f32, a: *const f32, b: *const f32, n: u32) {
    let partial = shared_array![f32; 8];
    // Your code here.
}
