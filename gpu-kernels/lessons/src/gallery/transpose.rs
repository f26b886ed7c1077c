//! The transpose of a matrix: a row for the loads is a column for the stores.
//!
//! * `direct`: neighbouring threads load neighbouring elements and store them a column apart, each in its own sector.
//! * `tile`: a block loads a tile of 32 x 32 by rows, and stores it by rows of the transpose: both are coalesced. In
//!   between, the tile is in shared memory, where it is written by rows and read by columns. The 32 elements of a column lie
//!   in one bank, so each load takes 32 passes.
//! * `padded`: a row of the tile has 33 words, so a column has an element in each bank.
//! * `swizzled`: element `(r, c)` lies at column `c ^ r` of its row, with the same effect and no padding.
//!
//! Requires: blocks of 32 x 8 threads; any shape.
//@ ptx(transpose_direct): bar.sync == 0, .shared == 0, .local == 0
//@ ptx(transpose_tile): bar.sync == 1, st.shared == 4, ld.shared == 4, .local == 0
//@ ptx(transpose_padded): bar.sync == 1, st.shared == 4, ld.shared == 4, .local == 0
//@ ptx(transpose_swizzled): bar.sync == 1, st.shared == 4, ld.shared == 4, .local == 0

use cuda_std::{kernel, shared_array, thread};

lesson! {
    buffers(out: u32, inp: u32)
    values(rows: u32, cols: u32)
    facts(())
    "direct" = transpose_direct[0]: "stores a column apart";
    "tile" = transpose_tile[0]: "a tile in shared memory, read by columns";
    "padded" = transpose_padded[0]: "with rows of 33 words";
    "swizzled" = transpose_swizzled[0]: "with each row in another order";
}

/// Extent of a tile.
const TILE: usize = 32;
/// Rows of a tile that a block loads or stores at once.
const ROWS: usize = 8;

/// `out[col][row] = inp[row][col]`; `inp` is `[rows, cols]`, `out` `[cols, rows]`.
///
/// Launched with blocks of 32 x 8 threads, one per tile of 32 x 32 elements: columns of tiles along x, rows of tiles along
/// y.
///
/// # Safety
/// The launch is as described; both hold `rows * cols` elements, and no other code uses the elements of `out`.
#[kernel(max_threads = 256, args = Arguments)]
pub unsafe fn transpose_direct(out: *mut u32, inp: *const u32, rows: u32, cols: u32) {
    let (rows, cols) = (rows as usize, cols as usize);
    let (x, y) = (thread::thread_idx_x() as usize, thread::thread_idx_y() as usize);
    let (first_row, first_col) = first();
    for i in (0..TILE).step_by(ROWS) {
        let (row, col) = (first_row + y + i, first_col + x);
        if row < rows && col < cols {
            // SAFETY: row and column lie in the matrix, and only this thread writes the element.
            unsafe { *out.add(col * rows + row) = *inp.add(row * cols + col) };
        }
    }
}

/// Like [`transpose_direct`](fn@transpose_direct), through a tile in shared memory.
///
/// Launched with blocks of 32 x 8 threads, one per tile.
///
/// # Safety
/// Same as for [`transpose_direct`](fn@transpose_direct).
#[kernel(max_threads = 256, args = Arguments)]
pub unsafe fn transpose_tile(out: *mut u32, inp: *const u32, rows: u32, cols: u32) {
    let x_shared = shared_array![u32; TILE * TILE];
    // SAFETY: the tile's elements lie in the array; the rest is the caller's.
    unsafe { by_tile(x_shared, |r, c| r * TILE + c, out, inp, [rows as usize, cols as usize]) };
}

/// Like [`transpose_tile`](fn@transpose_tile), with rows of 33 words.
///
/// Launched with blocks of 32 x 8 threads, one per tile.
///
/// # Safety
/// Same as for [`transpose_direct`](fn@transpose_direct).
#[kernel(max_threads = 256, args = Arguments)]
pub unsafe fn transpose_padded(out: *mut u32, inp: *const u32, rows: u32, cols: u32) {
    let x_shared = shared_array![u32; TILE * (TILE + 1)];
    // SAFETY: the rows of 33 lie in the array; the rest is the caller's.
    unsafe { by_tile(x_shared, |r, c| r * (TILE + 1) + c, out, inp, [rows as usize, cols as usize]) };
}

/// Like [`transpose_tile`](fn@transpose_tile), with a different order in each row.
///
/// Launched with blocks of 32 x 8 threads, one per tile.
///
/// # Safety
/// Same as for [`transpose_direct`](fn@transpose_direct).
#[kernel(max_threads = 256, args = Arguments)]
pub unsafe fn transpose_swizzled(out: *mut u32, inp: *const u32, rows: u32, cols: u32) {
    let x_shared = shared_array![u32; TILE * TILE];
    // SAFETY: the elements are permuted within each row; the rest is the caller's.
    unsafe { by_tile(x_shared, |r, c| r * TILE + (c ^ r), out, inp, [rows as usize, cols as usize]) };
}

/// Returns the row and the column of the block's first element.
#[inline(always)]
fn first() -> (usize, usize) {
    (thread::block_idx_y() as usize * TILE, thread::block_idx_x() as usize * TILE)
}

/// Transposes the block's tile, whose element `(row, col)` is kept in `shared` at `place(row, col)`.
///
/// # Safety
/// All threads of the block call this, once, in the launch of [`transpose_direct`](fn@transpose_direct), with its `out`,
/// `inp` and shape. `shared` belongs to the block, and `place` gives each element of the tile a different element of it.
#[inline(always)]
unsafe fn by_tile(
    shared: *mut u32,
    place: impl Fn(usize, usize) -> usize,
    out: *mut u32,
    inp: *const u32,
    [rows, cols]: [usize; 2],
) {
    let (x, y) = (thread::thread_idx_x() as usize, thread::thread_idx_y() as usize);
    let (first_row, first_col) = first();
    // SAFETY: every access lies in the matrices. A thread writes its own elements of the tile and of `out`, and reads the
    // others' after the barrier.
    unsafe {
        for i in (0..TILE).step_by(ROWS) {
            let (row, col) = (first_row + y + i, first_col + x);
            if row < rows && col < cols {
                *shared.add(place(y + i, x)) = *inp.add(row * cols + col);
            }
        }
        thread::sync_threads_aligned();
        for i in (0..TILE).step_by(ROWS) {
            let (row, col) = (first_col + y + i, first_row + x);
            if row < cols && col < rows {
                *out.add(row * rows + col) = *shared.add(place(x, y + i));
            }
        }
    }
}
