// Puzzle 05, grid_stride (02-grids): a grid of any size: a loop over the elements.
//
// Write `out[i] = 2 * inp[i] + 1` for each `i` below `n`.
//
// The grid always has 4 blocks of 64 threads, 256 threads in all, and `n` may be smaller or larger. So a thread takes several
// elements. Let all threads of the grid take neighbours, and then jump together:
//
//     element   0    1   ..  255  256  257  ..  511  512 ..
//     thread    0    1   ..  255    0    1  ..  255    0 ..
//
// Good: 4 sectors per request, and each element is read once.

use cuda_std::{kernel, thread};

#[kernel]
pub unsafe fn grid_stride(out: *mut f32, inp: *const f32, n: u32) {
    let i = thread::index_1d();
    // Your code here: a loop.
}
