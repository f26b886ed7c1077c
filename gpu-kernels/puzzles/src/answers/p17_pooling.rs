// Hint: Each thread copies four elements: those of the rows `top + y` and `top + y + 4`, and of the columns `left + x` and `left + x + 32`.
// Hint: What does not exist must not be the largest: `f32::NEG_INFINITY`, not 0.
// Hint: After the barrier the window of a thread begins at row `2 * y` and column `2 * x` of the tile.

use cuda_std::{kernel, shared_array, thread};

#[kernel]
pub unsafe fn pooling_solution(out: *mut f32, inp: *const f32, rows: u32, cols: u32) {
    let tile = shared_array![f32; 64 * 8];
    let (x, y) = (thread::thread_idx_x() as usize, thread::thread_idx_y() as usize);
    let (rows, cols) = (rows as usize, cols as usize);
    let (top, left) = (8 * thread::block_idx_y() as usize, 64 * thread::block_idx_x() as usize);
    for (dy, dx) in [(0, 0), (0, 32), (4, 0), (4, 32)] {
        let (row, col) = (top + y + dy, left + x + dx);
        let value = if row < rows && col < cols { *inp.add(row * cols + col) } else { f32::NEG_INFINITY };
        *tile.add((y + dy) * 64 + x + dx) = value;
    }
    thread::sync_threads();
    let (row, col) = (top / 2 + y, left / 2 + x);
    if row < rows.div_ceil(2) && col < cols.div_ceil(2) {
        let at = tile.add(2 * y * 64 + 2 * x);
        let largest = (*at).max(*at.add(1)).max(*at.add(64)).max(*at.add(65));
        *out.add(row * cols.div_ceil(2) + col) = largest;
    }
}

// Wrong: 0 for what does not exist.
// Says: is 0, expected -; start of a maximum
#[kernel]
pub unsafe fn pooling_zero(out: *mut f32, inp: *const f32, rows: u32, cols: u32) {
    let tile = shared_array![f32; 64 * 8];
    let (x, y) = (thread::thread_idx_x() as usize, thread::thread_idx_y() as usize);
    let (rows, cols) = (rows as usize, cols as usize);
    let (top, left) = (8 * thread::block_idx_y() as usize, 64 * thread::block_idx_x() as usize);
    for (dy, dx) in [(0, 0), (0, 32), (4, 0), (4, 32)] {
        let (row, col) = (top + y + dy, left + x + dx);
        let value = if row < rows && col < cols { *inp.add(row * cols + col) } else { 0.0 };
        *tile.add((y + dy) * 64 + x + dx) = value;
    }
    thread::sync_threads();
    let (row, col) = (top / 2 + y, left / 2 + x);
    if row < rows.div_ceil(2) && col < cols.div_ceil(2) {
        let at = tile.add(2 * y * 64 + 2 * x);
        let largest = (*at).max(*at.add(1)).max(*at.add(64)).max(*at.add(65));
        *out.add(row * cols.div_ceil(2) + col) = largest;
    }
}

// Wrong: no barrier.
// Says: depends on luck; shared memory; barrier
#[kernel]
pub unsafe fn pooling_no_barrier(out: *mut f32, inp: *const f32, rows: u32, cols: u32) {
    let tile = shared_array![f32; 64 * 8];
    let (x, y) = (thread::thread_idx_x() as usize, thread::thread_idx_y() as usize);
    let (rows, cols) = (rows as usize, cols as usize);
    let (top, left) = (8 * thread::block_idx_y() as usize, 64 * thread::block_idx_x() as usize);
    for (dy, dx) in [(0, 0), (0, 32), (4, 0), (4, 32)] {
        let (row, col) = (top + y + dy, left + x + dx);
        let value = if row < rows && col < cols { *inp.add(row * cols + col) } else { f32::NEG_INFINITY };
        *tile.add((y + dy) * 64 + x + dx) = value;
    }
    let (row, col) = (top / 2 + y, left / 2 + x);
    if row < rows.div_ceil(2) && col < cols.div_ceil(2) {
        let at = tile.add(2 * y * 64 + 2 * x);
        let largest = (*at).max(*at.add(1)).max(*at.add(64)).max(*at.add(65));
        *out.add(row * cols.div_ceil(2) + col) = largest;
    }
}

// Wrong: without shared memory.
// Says: not good yet; sectors per load
#[kernel]
pub unsafe fn pooling_direct(out: *mut f32, inp: *const f32, rows: u32, cols: u32) {
    let at = thread::index_2d();
    let (row, col) = (at.y as usize, at.x as usize);
    let (rows, cols) = (rows as usize, cols as usize);
    if row < rows.div_ceil(2) && col < cols.div_ceil(2) {
        let mut largest = f32::NEG_INFINITY;
        for (r, c) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
            if 2 * row + r < rows && 2 * col + c < cols {
                largest = largest.max(*inp.add((2 * row + r) * cols + 2 * col + c));
            }
        }
        *out.add(row * cols.div_ceil(2) + col) = largest;
    }
}

// Wrong: odd extents are rounded down.
// Says: likely cause
#[kernel]
pub unsafe fn pooling_floor(out: *mut f32, inp: *const f32, rows: u32, cols: u32) {
    let tile = shared_array![f32; 64 * 8];
    let (x, y) = (thread::thread_idx_x() as usize, thread::thread_idx_y() as usize);
    let (rows, cols) = (rows as usize, cols as usize);
    let (top, left) = (8 * thread::block_idx_y() as usize, 64 * thread::block_idx_x() as usize);
    for (dy, dx) in [(0, 0), (0, 32), (4, 0), (4, 32)] {
        let (row, col) = (top + y + dy, left + x + dx);
        let value = if row < rows && col < cols { *inp.add(row * cols + col) } else { f32::NEG_INFINITY };
        *tile.add((y + dy) * 64 + x + dx) = value;
    }
    thread::sync_threads();
    let (row, col) = (top / 2 + y, left / 2 + x);
    if row < rows / 2 && col < cols / 2 {
        let at = tile.add(2 * y * 64 + 2 * x);
        let largest = (*at).max(*at.add(1)).max(*at.add(64)).max(*at.add(65));
        *out.add(row * cols / 2 + col) = largest;
    }
}
