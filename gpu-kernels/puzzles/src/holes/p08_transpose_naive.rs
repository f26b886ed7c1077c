// Puzzle 08, transpose_naive (02-grids): transpose a matrix, the simple way.
//
// Write `out[col][row] = inp[row][col]`. `inp` is `[rows, cols]` and `out` is `[cols, rows]`.
//
//     inp   a b c      out   a d
//           d e f            b e
//                            c f
//
// Blocks have 16 x 16 threads, and the grid covers the columns of `inp` along x and its rows along y.
//
// Good: it is enough to be right. Puzzle 18 makes it fast.

use cuda_std::{kernel, thread};

#[kernel]
pub unsafe fn transpose_naive(out: *mut f32, inp: *const f32, rows: u32, cols: u32) {
    let at = thread::index_2d();
    // Your code here.
}
