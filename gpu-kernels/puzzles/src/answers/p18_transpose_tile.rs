// Hint: The block at `(left, top)` of `inp` writes the tile at `(top, left)` of `out`.
// Hint: In the second half, thread `(x, y)` writes to the row `left + y + k` and the column `top + x` of `out`.
// Hint: It reads row `x` and column `y + k` of the tile.

use cuda_std::{kernel, shared_array, thread};

#[kernel]
pub unsafe fn transpose_tile_solution(out: *mut f32, inp: *const f32, rows: u32, cols: u32) {
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

// Wrong: stores a column apart.
// Says: not good yet; sectors per store; 4 are enough
#[kernel]
pub unsafe fn transpose_tile_direct(out: *mut f32, inp: *const f32, rows: u32, cols: u32) {
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

// Wrong: no barrier.
// Says: depends on luck; shared memory; barrier
#[kernel]
pub unsafe fn transpose_tile_no_barrier(out: *mut f32, inp: *const f32, rows: u32, cols: u32) {
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
    for k in (0..32).step_by(8) {
        // A row of `out` is a column of `inp`.
        let (row, col) = (left + y + k, top + x);
        if row < cols && col < rows {
            *out.add(row * rows + col) = *tile.add(x * 32 + y + k);
        }
    }
}

// Wrong: the tile is read by rows.
// Says: likely cause
#[kernel]
pub unsafe fn transpose_tile_row(out: *mut f32, inp: *const f32, rows: u32, cols: u32) {
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
            *out.add(row * rows + col) = *tile.add((y + k) * 32 + x);
        }
    }
}

// Wrong: the tile is written to where it came from.
// Says: likely cause
#[kernel]
pub unsafe fn transpose_tile_block(out: *mut f32, inp: *const f32, rows: u32, cols: u32) {
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
        let (row, col) = (top + y + k, left + x);
        if row < cols && col < rows {
            *out.add(row * rows + col) = *tile.add(x * 32 + y + k);
        }
    }
}
