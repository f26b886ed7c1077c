// Puzzle 25, block_scan (08-scans): running sums within each block.
//
// Write to `out[i]` the sum of the elements from the first of its block up to `i`, with `i` itself. Blocks have 256 threads,
// and there is a thread per element.
//
// Each warp scans its 32 elements (puzzle 24). The last lane of each warp has the sum of the warp and writes it to shared
// memory. All wait, and then each thread adds the sums of the warps before its own.
//
// Good: 4 sectors per request, and no bank conflicts.

use cuda_std::{kernel, shared_array, thread, warp};

#[kernel]
pub unsafe fn block_scan(out: *mut f32, inp: &[f32]) {
    let sums = shared_array![f32; 8];
    let (tid, i) = (thread::thread_idx_x() as usize, thread::index_1d() as usize);
    // Your code here.
}
