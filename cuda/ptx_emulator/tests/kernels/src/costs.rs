//! Kernels whose costs follow from their shapes.

use cuda_std::{kernel, shared_array, thread};

/// Rows and columns of a tile, and of a block's threads.
pub const TILE: usize = 32;

/// Writes the transpose of `inp`, `[size, size]`, into `out`, by columns.
///
/// # Safety
/// Both have `size * size` elements; blocks of [`TILE`] by [`TILE`] threads, `size / TILE` of them along x and y.
#[kernel]
pub unsafe fn transpose_by_columns(out: *mut f32, inp: *const f32, size: u32) {
    let (column, row) = (thread::index_2d().x as usize, thread::index_2d().y as usize);
    let size = size as usize;
    // SAFETY: the kernel's contract.
    unsafe {
        let value = *inp.add(row * size + column); // read a row
        *out.add(column * size + row) = value; // write a column
    }
}

/// As [`transpose_by_columns`](fn@transpose_by_columns), by way of a tile whose rows are `pitch` elements apart.
///
/// # Safety
/// Same as for [`transpose_by_columns`](fn@transpose_by_columns); `tile` is shared memory of the block for [`TILE`] such
/// rows.
#[inline(always)]
unsafe fn transpose_by(tile: *mut f32, pitch: usize, out: *mut f32, inp: *const f32, size: u32) {
    let (x, y) = (thread::thread_idx_x() as usize, thread::thread_idx_y() as usize);
    let (block_x, block_y) = (thread::block_idx_x() as usize * TILE, thread::block_idx_y() as usize * TILE);
    let size = size as usize;
    // SAFETY: the caller's contract; each thread writes its own element of the tile, and reads another's after the barrier.
    unsafe {
        *tile.add(y * pitch + x) = *inp.add((block_y + y) * size + block_x + x);
        thread::sync_threads_aligned();
        *out.add((block_x + y) * size + block_y + x) = *tile.add(x * pitch + y);
    }
}

/// As [`transpose_by_columns`](fn@transpose_by_columns), by way of a tile whose columns lie in one bank each.
///
/// # Safety
/// Same as for [`transpose_by_columns`](fn@transpose_by_columns).
#[kernel]
pub unsafe fn transpose_by_tile(out: *mut f32, inp: *const f32, size: u32) {
    let tile = shared_array![f32; TILE * TILE];
    // SAFETY: the caller's contract.
    unsafe { transpose_by(tile, TILE, out, inp, size) };
}

/// As [`transpose_by_columns`](fn@transpose_by_columns), by way of a tile with an unused element at the end of each row.
///
/// # Safety
/// Same as for [`transpose_by_columns`](fn@transpose_by_columns).
#[kernel]
pub unsafe fn transpose_by_padded_tile(out: *mut f32, inp: *const f32, size: u32) {
    let tile = shared_array![f32; TILE * (TILE + 1)];
    // SAFETY: the caller's contract.
    unsafe { transpose_by(tile, TILE + 1, out, inp, size) };
}
