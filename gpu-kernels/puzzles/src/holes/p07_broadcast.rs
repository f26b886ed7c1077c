// Puzzle 07, broadcast (02-grids): add a row vector and a column vector to get a matrix.
//
// Write `out[row][col] = left[row] + top[col]`: `left` has `rows` elements, `top` has `cols`.
//
//     left\top    10   20   30
//         1       11   21   31
//         2       12   22   32
//
// Blocks have 32 x 4 threads, and the grid covers the columns along x and the rows along y.
//
// Good: 4 sectors per request, at most.

use cuda_std::{kernel, thread};

#[kernel]
pub unsafe fn broadcast(out: *mut f32, left: *const f32, top: *const f32, rows: u32, cols: u32) {
    let at = thread::index_2d();
    // Your code here.
}
