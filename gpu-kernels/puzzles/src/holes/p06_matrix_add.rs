// Puzzle 06, matrix_add (02-grids): add two matrices, with a grid in two dimensions.
//
// Write `out[row][col] = a[row][col] + b[row][col]`. All three are `[rows, cols]`, row after row: element `(row, col)` has
// index `row * cols + col`.
//
// Blocks have 16 x 16 threads, and the grid covers the columns along x and the rows along y. `thread::index_2d()` is the
// position of the thread in the launch, with fields `x` and `y`.
//
// Good: 4 sectors per request.

use cuda_std::{kernel, thread};

#[kernel]
pub unsafe fn matrix_add(out: *mut f32, a: *const f32, b: *const f32, rows: u32, cols: u32) {
    let at = thread::index_2d();
    // Your code here.
}
