// Puzzle 19, padding (06-banks): a transpose without bank conflicts.
//
// The task is that of puzzle 18, and the kernel below is a solution of it: its accesses of global memory are coalesced. But a
// warp reads a column of the tile, and the 32 elements of a column are 32 words apart: all lie in the same bank, and the
// bank gives one per cycle.
//
//     bank      0    1    2  ..  31
//     row 0    0,0  0,1  0,2 .. 0,31
//     row 1    1,0  1,1  1,2 .. 1,31      a column is in one bank
//
// Change where the elements lie in shared memory.
//
// Good: 4 sectors per request, and no bank conflicts.

use cuda_std::{kernel, shared_array, thread};

#[kernel]
pub unsafe fn padding(out: *mut f32, inp: *const f32, rows: u32, cols: u32) {
    let tile = shared_array![f32; 32 * 32];
    let (x, y) = (thread::thread_idx_x() as usize, thread::thread_idx_y() as usize);
    let (top, left) = (32 * thread::block_idx_y() as usize, 32 * thread::block_idx_x() as usize);
    let (rows, cols) = (rows as usize, cols as usize);
    for k in (0..32).step_by(8) {
        let (row, col) = (top + y + k, left + x);
        if row < rows && col < cols {
            *tile.add((y + k) * 32 + x) = *inp.add(row * cols + col);
        }
    }
    thread::sync_threads();
    for k in (0..32).step_by(8) {
        // A row of `out` is a column of `inp`.
        let (row, col) = (left + y + k, top + x);
        if row < cols && col < rows {
            *out.add(row * rows + col) = *tile.add(x * 32 + y + k);
        }
    }
}
