// Hint: If a row of the tile had 33 words, where would the elements of a column lie?
// Hint: Change the size of the array and both places where it is indexed.

use cuda_std::{kernel, shared_array, thread};

#[kernel]
pub unsafe fn padding_solution(out: *mut f32, inp: *const f32, rows: u32, cols: u32) {
    let tile = shared_array![f32; 32 * 33];
    let (x, y) = (thread::thread_idx_x() as usize, thread::thread_idx_y() as usize);
    let (top, left) = (32 * thread::block_idx_y() as usize, 32 * thread::block_idx_x() as usize);
    let (rows, cols) = (rows as usize, cols as usize);
    for k in (0..32).step_by(8) {
        let (row, col) = (top + y + k, left + x);
        if row < rows && col < cols {
            *tile.add((y + k) * 33 + x) = *inp.add(row * cols + col);
        }
    }
    thread::sync_threads();
    for k in (0..32).step_by(8) {
        // A row of `out` is a column of `inp`.
        let (row, col) = (left + y + k, top + x);
        if row < cols && col < rows {
            *out.add(row * rows + col) = *tile.add(x * 33 + y + k);
        }
    }
}

// Wrong: rows of 32 words.
// Says: not good yet; bank conflicts; 0 are enough
#[kernel]
pub unsafe fn padding_conflicts(out: *mut f32, inp: *const f32, rows: u32, cols: u32) {
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

// Wrong: rows of 34 words.
// Says: not good yet; bank conflicts
#[kernel]
pub unsafe fn padding_two(out: *mut f32, inp: *const f32, rows: u32, cols: u32) {
    let tile = shared_array![f32; 32 * 34];
    let (x, y) = (thread::thread_idx_x() as usize, thread::thread_idx_y() as usize);
    let (top, left) = (32 * thread::block_idx_y() as usize, 32 * thread::block_idx_x() as usize);
    let (rows, cols) = (rows as usize, cols as usize);
    for k in (0..32).step_by(8) {
        let (row, col) = (top + y + k, left + x);
        if row < rows && col < cols {
            *tile.add((y + k) * 34 + x) = *inp.add(row * cols + col);
        }
    }
    thread::sync_threads();
    for k in (0..32).step_by(8) {
        // A row of `out` is a column of `inp`.
        let (row, col) = (left + y + k, top + x);
        if row < cols && col < rows {
            *out.add(row * rows + col) = *tile.add(x * 34 + y + k);
        }
    }
}

// Wrong: only one index is changed.
// Says: likely cause
#[kernel]
pub unsafe fn padding_half(out: *mut f32, inp: *const f32, rows: u32, cols: u32) {
    let tile = shared_array![f32; 32 * 33];
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
            *out.add(row * rows + col) = *tile.add(x * 33 + y + k);
        }
    }
}

// Wrong: the array is too small.
// Says: beyond the end of an array in shared memory
#[kernel]
pub unsafe fn padding_small(out: *mut f32, inp: *const f32, rows: u32, cols: u32) {
    let tile = shared_array![f32; 32 * 32];
    let (x, y) = (thread::thread_idx_x() as usize, thread::thread_idx_y() as usize);
    let (top, left) = (32 * thread::block_idx_y() as usize, 32 * thread::block_idx_x() as usize);
    let (rows, cols) = (rows as usize, cols as usize);
    for k in (0..32).step_by(8) {
        let (row, col) = (top + y + k, left + x);
        if row < rows && col < cols {
            *tile.add((y + k) * 33 + x) = *inp.add(row * cols + col);
        }
    }
    thread::sync_threads();
    for k in (0..32).step_by(8) {
        // A row of `out` is a column of `inp`.
        let (row, col) = (left + y + k, top + x);
        if row < cols && col < rows {
            *out.add(row * rows + col) = *tile.add(x * 33 + y + k);
        }
    }
}
