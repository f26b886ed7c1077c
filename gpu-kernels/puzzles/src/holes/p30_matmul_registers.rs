// Puzzle 30, matmul_registers (09-matmul): multiply two matrices, four elements per thread.
//
// The task is that of puzzle 28, `c = a * b`, with blocks of 16 x 16 threads that compute 32 x 32 elements of `c`: each thread
// has four, at the rows `y` and `y + 16` and the columns `x` and `x + 16` of the block. The grid has a block per 32 x 32 elements.
//
// In puzzle 29 a thread loads two numbers from shared memory for each multiplication. Here it loads two of `a` and two of
// `b`, and multiplies each with each: four multiplications for four loads, from registers.
//
//                  b0    b1
//         a0      c00   c01
//         a1      c10   c11
//
// Good: for matrices of 64 x 64, each element is read twice from global memory.

use cuda_std::{kernel, shared_array, thread};

#[kernel]
pub unsafe fn matmul_registers(c: *mut f32, a: *const f32, b: *const f32, m: u32, n: u32, k: u32) {
    let a_tile = shared_array![f32; 32 * 16];
    let b_tile = shared_array![f32; 16 * 32];
    let (x, y) = (thread::thread_idx_x(), thread::thread_idx_y());
    let (top, left) = (32 * thread::block_idx_y(), 32 * thread::block_idx_x());
    let mut sums = [[0.0f32; 2]; 2];
    // Your code here.
}
