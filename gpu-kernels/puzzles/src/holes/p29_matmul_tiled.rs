// Puzzle 29, matmul_tiled (09-matmul): multiply two matrices, with tiles in shared memory.
//
// The task is that of puzzle 28: `c = a * b`, blocks of 16 x 16 threads, one thread per element of `c`. There each element of `a`
// is read `n` times, and each of `b` `m` times. A block needs only 16 rows of `a` and 16 columns of `b`. So it walks along `k` in
// steps of 16. In each step:
//
// 1. The block copies 16 x 16 elements of `a` and 16 x 16 of `b` to shared memory: each thread one of each, or 0 beyond the end.
//    Wait.
// 2. Each thread adds 16 products from the tiles to its sum. Wait: the next step overwrites the tiles.
//
// Good: for matrices of 64 x 64, each element is read 4 times from global memory, instead of 64 times.

use cuda_std::{kernel, shared_array, thread};

#[kernel]
pub unsafe fn matmul_tiled(c: *mut f32, a: *const f32, b: *const f32, m: u32, n: u32, k: u32) {
    let a_tile = shared_array![f32; 256];
    let b_tile = shared_array![f32; 256];
    let (x, y) = (thread::thread_idx_x(), thread::thread_idx_y());
    // Your code here.
}
