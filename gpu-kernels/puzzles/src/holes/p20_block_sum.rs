// Puzzle 20, block_sum (07-reductions): the sum of each block: first the warps, then the block.
//
// Write to `out[b]` the sum of the elements of block `b`. The grid has blocks of 256 threads, enough for a thread per
// element; the last block may have fewer elements.
//
// First each warp adds its 32 elements by shuffles (puzzle 13). Then the lanes 0 write the eight sums to shared memory, all
// wait, and the first warp adds those.
//
// Good: at most 16 accesses of shared memory per block, by warps. A tree in shared memory has about 60.

use cuda_std::{kernel, shared_array, thread, warp};

#[kernel]
pub unsafe fn block_sum(out: *mut f32, inp: &[f32]) {
    let partial = shared_array![f32; 8];
    let (tid, i) = (thread::thread_idx_x() as usize, thread::index_1d() as usize);
    // Your code here.
}
