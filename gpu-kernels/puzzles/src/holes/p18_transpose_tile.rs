// Puzzle 18, transpose_tile (06-banks): a transpose that reads and writes neighbours.
//
// Write `out[col][row] = inp[row][col]`. `inp` is `[rows, cols]` and `out` is `[cols, rows]`.
//
// What is a row for the loads is a column for the stores, so one of the two is not coalesced. The way out is a tile in shared
// memory: a block copies 32 x 32 elements to it row by row, waits, and writes them to `out` row by row, reading the tile by
// columns.
//
// Blocks have 32 x 8 threads: each thread copies 4 elements, 8 rows apart. The grid has a block per tile of `inp`, columns
// along x. The kernel below is right, and its stores go to 32 sectors each.
//
// Good: 4 sectors per load and per store.

use cuda_std::{kernel, shared_array, thread};

#[kernel]
pub unsafe fn transpose_tile(out: *mut f32, inp: *const f32, rows: u32, cols: u32) {
    let (x, y) = (thread::thread_idx_x() as usize, thread::thread_idx_y() as usize);
    let (top, left) = (32 * thread::block_idx_y() as usize, 32 * thread::block_idx_x() as usize);
    let (rows, cols) = (rows as usize, cols as usize);
    for k in (0..32).step_by(8) {
        let (row, col) = (top + y + k, left + x);
        if row < rows && col < cols {
            *out.add(col * rows + row) = *inp.add(row * cols + col);
        }
    }
}
