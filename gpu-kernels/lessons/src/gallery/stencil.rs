//! A stencil: each pixel becomes a weighted sum of the 3 x 3 pixels around it.
//!
//! Nine numbers are read for each that is written, and eight of them are also read for other pixels. The rungs differ in where
//! the second read finds them.
//!
//! * `naive`: in L1. Each thread loads all nine.
//! * `tile`: in shared memory. A block loads its pixels and a halo, one pixel wide on each side, once.
//! * `registers`: in registers. A thread goes down a column of 8 pixels and keeps the last three rows of three pixels.
//! * `shuffle`: the same, but a lane loads one pixel per row, and gets its neighbours from the lanes next to it. The outer lanes
//!   only load.
//!
//! Pixels outside the image are 0. The weights are 1/4 for the pixel, 1/8 for those next to it and 1/16 for the corners, so
//! every sum of small integers is exact. Requires: blocks of 32 x 8 threads; any shape.
//@ ptx(stencil_naive): ld.global == 9, st.global == 1, .shared == 0, .local == 0
//@ ptx(stencil_tile): st.shared == 2, ld.shared == 9, bar.sync == 1, .local == 0
//@ ptx(stencil_registers): ld.global == 30, st.global == 8, .local == 0
//@ ptx(stencil_shuffle): ld.global == 10, shfl.sync == 20, st.global == 8, .local == 0

use cuda_std::warp::{warp_shuffle_down, warp_shuffle_up};
use cuda_std::{kernel, shared_array, thread};

lesson! {
    buffers(out: f32, inp: f32)
    values(rows: u32, cols: u32)
    facts(Tile)
    "naive" = stencil_naive[0]: "nine loads per pixel";
    "tile" = stencil_tile[0]: "a tile and its halo in shared memory";
    "registers" = stencil_registers[0]: "a thread goes down a column and keeps three rows";
    "shuffle" = stencil_shuffle[0]: "and gets its neighbours from other lanes";
}

/// The rows and columns of a block.
#[cfg(not(target_arch = "nvptx64"))]
#[derive(Clone, Copy, Debug)]
pub struct Tile(pub [u32; 2]);

#[cfg(not(target_arch = "nvptx64"))]
impl Tile {
    /// Returns the launch for an image.
    pub fn config(self, rows: usize, cols: usize) -> cuda_std::launch::LaunchConfig {
        let Self([of_rows, of_cols]) = self;
        let grid = ((cols as u32).div_ceil(of_cols), (rows as u32).div_ceil(of_rows));
        cuda_std::launch::LaunchConfig::new(grid, (32, 8))
    }
}

/// Rows and columns of the block of `tile`.
const ROWS: usize = 8;
const COLS: usize = 32;
/// Pixels of a thread in `registers` and `shuffle`.
const DOWN: usize = 8;
/// Columns of a warp in `shuffle`, all lanes except the first and the last.
const INNER: usize = 30;

/// An image.
#[derive(Clone, Copy)]
struct Image {
    pixels: *const f32,
    rows: usize,
    cols: usize,
}

impl Image {
    /// Returns the pixel above and to the left of `(row, col)`, or 0 outside.
    ///
    /// # Safety
    /// There are `rows * cols` pixels.
    #[inline(always)]
    unsafe fn before(self, row: usize, col: usize) -> f32 {
        let (row, col) = (row.wrapping_sub(1), col.wrapping_sub(1));
        if row < self.rows && col < self.cols {
            // SAFETY: checked just before.
            unsafe { *self.pixels.add(row * self.cols + col) }
        } else {
            0.0
        }
    }
}

/// The weighted sum of three rows.
#[inline(always)]
fn weighted([above, row, below]: [[f32; 3]; 3]) -> f32 {
    let side = |[left, middle, right]: [f32; 3]| (left + right) + 2.0 * middle;
    ((side(above) + side(below)) + 2.0 * side(row)) / 16.0
}

/// Computes `out[row][col]`, the weighted sum of the nine pixels around `inp[row][col]`; both are `[rows, cols]`.
///
/// Launched with blocks of 32 x 8 threads, one thread per pixel: columns along x, rows along y.
///
/// # Safety
/// The launch is as described; both hold `rows * cols` elements, and no other code uses the elements of `out`.
#[kernel(max_threads = 256, args = Arguments, facts: Tile = Tile([8, 32]))]
pub unsafe fn stencil_naive(out: *mut f32, inp: *const f32, rows: u32, cols: u32) {
    let image = Image { pixels: inp, rows: rows as usize, cols: cols as usize };
    let (row, col) = (thread::index_2d().y as usize, thread::index_2d().x as usize);
    if row < image.rows && col < image.cols {
        // SAFETY: the image has its pixels, and only this thread writes this one.
        unsafe {
            let around = core::array::from_fn(|r| core::array::from_fn(|c| image.before(row + r, col + c)));
            *out.add(row * image.cols + col) = weighted(around);
        }
    }
}

/// Like [`stencil_naive`](fn@stencil_naive), through a tile in shared memory.
///
/// # Safety
/// Same as for [`stencil_naive`](fn@stencil_naive).
#[kernel(max_threads = 256, args = Arguments, facts: Tile = Tile([8, 32]))]
pub unsafe fn stencil_tile(out: *mut f32, inp: *const f32, rows: u32, cols: u32) {
    const PITCH: usize = COLS + 2;
    const PIXELS: usize = (ROWS + 2) * PITCH;
    let tile = shared_array![f32; PIXELS];
    let image = Image { pixels: inp, rows: rows as usize, cols: cols as usize };
    let (x, y) = (thread::thread_idx_x() as usize, thread::thread_idx_y() as usize);
    let (row0, col0) = (thread::block_idx_y() as usize * ROWS, thread::block_idx_x() as usize * COLS);
    // SAFETY: each thread writes its own pixels of the tile before the barrier, which all threads reach, and reads after it.
    unsafe {
        let load = |i: usize| *tile.add(i) = image.before(row0 + i / PITCH, col0 + i % PITCH);
        let i = y * COLS + x;
        load(i);
        if i + ROWS * COLS < PIXELS {
            load(i + ROWS * COLS);
        }
        thread::sync_threads_aligned();
        let (row, col) = (row0 + y, col0 + x);
        if row < image.rows && col < image.cols {
            let around =
                core::array::from_fn(|r| core::array::from_fn(|c| *tile.add((y + r) * PITCH + x + c)));
            *out.add(row * image.cols + col) = weighted(around);
        }
    }
}

/// Like [`stencil_naive`](fn@stencil_naive), with 8 pixels of a column per thread.
///
/// Launched with blocks of 32 x 8 threads, one for each 64 x 32 pixels: columns along x, rows along y.
///
/// # Safety
/// Same as for [`stencil_naive`](fn@stencil_naive).
#[kernel(max_threads = 256, args = Arguments, facts: Tile = Tile([64, 32]))]
pub unsafe fn stencil_registers(out: *mut f32, inp: *const f32, rows: u32, cols: u32) {
    let image = Image { pixels: inp, rows: rows as usize, cols: cols as usize };
    let col = thread::index_2d().x as usize;
    // SAFETY: the image has its pixels, and only this thread writes those of its column.
    unsafe {
        down(out, image, col, col < image.cols, |row| core::array::from_fn(|c| image.before(row, col + c)));
    }
}

/// Like [`stencil_registers`](fn@stencil_registers), with one load per row.
///
/// Launched with blocks of 32 x 8 threads, one for each 64 x 30 pixels: columns along x, rows along y.
///
/// # Safety
/// Same as for [`stencil_naive`](fn@stencil_naive).
#[kernel(max_threads = 256, args = Arguments, facts: Tile = Tile([64, 30]))]
pub unsafe fn stencil_shuffle(out: *mut f32, inp: *const f32, rows: u32, cols: u32) {
    let image = Image { pixels: inp, rows: rows as usize, cols: cols as usize };
    let lane = thread::thread_idx_x() as usize;
    // The column after the lane's, because `before` counts from one further.
    let after = thread::block_idx_x() as usize * INNER + lane;
    let is_inner = (1..=INNER).contains(&lane) && after <= image.cols;
    // SAFETY: the image has its pixels, and only this thread writes those of its column. All lanes of a warp have the same
    // rows, so all of them execute the shuffles.
    unsafe {
        let load = |row: usize| {
            let middle = image.before(row, after);
            let (left, _) = warp_shuffle_up(u32::MAX, middle, 1, 32);
            let (right, _) = warp_shuffle_down(u32::MAX, middle, 1, 32);
            [left, middle, right]
        };
        down(out, image, after.wrapping_sub(1), is_inner, load);
    }
}

/// Computes the pixels of the thread's 8 rows at `col`, if `is_inside`. `load` returns the three pixels above those at a row.
///
/// # Safety
/// `out` holds the image's pixels, of which no other thread writes these.
#[inline(always)]
unsafe fn down(out: *mut f32, image: Image, col: usize, is_inside: bool, load: impl Fn(usize) -> [f32; 3]) {
    let first = (thread::block_idx_y() as usize * 8 + thread::thread_idx_y() as usize) * DOWN;
    let mut around = [[0.0; 3], load(first), load(first + 1)];
    for i in 0..DOWN {
        around = [around[1], around[2], load(first + i + 2)];
        if is_inside && first + i < image.rows {
            // SAFETY: checked just before.
            unsafe { *out.add((first + i) * image.cols + col) = weighted(around) };
        }
    }
}
