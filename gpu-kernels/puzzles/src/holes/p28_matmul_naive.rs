// Puzzle 28, matmul_naive (09-matmul): multiply two matrices, a thread per element.
//
// Write `c[row][col]`, the sum of `a[row][i] * b[i][col]` for all `i` below `k`. `a` is `[m, k]`, `b` is `[k, n]` and `c` is
// `[m, n]`.
//
//                b
//                |  column col
//     a ---- x   |
//     row row    v
//
// Blocks have 16 x 16 threads, and the grid covers the columns of `c` along x and its rows along y.
//
// Good: 4 sectors per request, at most.

use cuda_std::{kernel, thread};

#[kernel]
pub unsafe fn matmul_naive(c: *mut f32, a: *const f32, b: *const f32, m: u32, n: u32, k: u32) {
    let at = thread::index_2d();
    // Your code here.
}
