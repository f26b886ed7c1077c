//! Panels of rows in shared memory: how `wgmma` reads them, and how tensor copies fill and empty them.
//!
//! A tile of rows with `SIZE` elements is `SIZE / 64` panels of 64 columns, rounded up, one after the other. It is an operand
//! in two ways: by its rows, for dot products of rows, and by its columns, for weighted sums of rows. Tensor copies fill the
//! columns after the end of a row with zeros, and do not write them.

use cuda_std::barrier::Barrier;
use cuda_std::mma::stmatrix;
use cuda_std::tensor::TensorMap;
use cuda_std::wgmma::{self, Accumulator, Element16, FragmentA, Panel, Pending, Registers};
use cuda_std::{bulk, tensor, thread};

use common_kernels::ring::WARPGROUP;

/// Columns of a panel.
pub const COLS: usize = 64;
/// Rows of A in a multiplication.
pub const ROWS: usize = 64;
/// Bytes of a panel's row.
pub const ROW: usize = 2 * COLS;

/// Returns the bytes of a tile.
pub const fn bytes(rows: usize, size: usize) -> usize {
    size.div_ceil(COLS) * rows * ROW
}

/// Starts the copies of `COUNT` positions of one head, `BOX` at a time. `at` is head, first position and batch entry.
///
/// # Safety
/// Same as for [`tensor::global_to_shared`].
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn copy<const SIZE: usize, const COUNT: usize, const BOX: usize>(
    to: *mut u8,
    map: &TensorMap,
    at: [u32; 3],
    barrier: *mut Barrier,
) {
    let [head, position, batch] = at;
    let mut row = 0;
    while row < COUNT {
        // SAFETY: the caller guarantees it.
        unsafe { copy_box::<SIZE, COUNT>(to, row, map, [head, position + row as u32, batch], barrier) };
        row += BOX;
    }
}

/// Starts the copies of the positions of one box to row `row` of a tile of `COUNT` rows. `at` is head, first position, and batch
/// entry or page.
///
/// # Safety
/// Same as for [`tensor::global_to_shared`].
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn copy_box<const SIZE: usize, const COUNT: usize>(
    to: *mut u8,
    row: usize,
    map: &TensorMap,
    at: [u32; 3],
    barrier: *mut Barrier,
) {
    let [head, position, batch] = at.map(|at| at as i32);
    let mut panel = 0;
    while panel < SIZE.div_ceil(COLS) {
        // SAFETY: the tile has room for the box, whose bytes the barrier expects.
        unsafe {
            let to = to.add((panel * COUNT + row) * ROW);
            tensor::global_to_shared(to, map, [(panel * COLS) as i32, head, position, batch], barrier);
        }
        panel += 1;
    }
}

/// Starts the dot products of 64 rows with each of `COUNT` rows, in the registers of `products`, whose values are ignored.
///
/// # Safety
/// All threads of the warpgroup call this. The rows are complete, and no code writes them until the products are finished.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn multiply_rows<T: Element16, const SIZE: usize, const COUNT: usize, const S: usize>(
    products: Accumulator<S>,
    a: *const u8,
    b: *const u8,
) -> Pending<S>
where
    [f32; S]: Registers,
{
    let mut products = products.start();
    let mut i = 0;
    // SAFETY: all threads execute this, with rows that stay as they are.
    unsafe {
        wgmma::fence();
        while i < SIZE / 16 {
            let (panel, step) = (i / 4, (i % 4) as u32);
            let a = Panel::<T, ROWS>::k_major::<ROWS>(a.wrapping_add(panel * ROWS * ROW).cast(), 0);
            let b = Panel::<T, COUNT>::k_major::<COUNT>(b.wrapping_add(panel * COUNT * ROW).cast(), 0);
            products.multiply_keeping(i > 0, a.step(step), b.step(step));
            i += 1;
        }
        wgmma::commit();
    }
    products
}

/// Starts to add `COUNT` rows, times the weights, to 64 sums.
///
/// # Safety
/// All threads of the warpgroup call this. The rows are complete, and no code writes them until the sums are finished.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn multiply_columns<
    T: Element16,
    const SIZE: usize,
    const COUNT: usize,
    const O: usize,
    const FRAGMENTS: usize,
>(
    sums: Accumulator<O>,
    weights: &[FragmentA<T>; FRAGMENTS],
    rows: *const u8,
) -> Pending<O>
where
    [f32; O]: Registers,
{
    let mut sums = sums.start();
    let rows = Panel::<T, COUNT>::mn_major::<SIZE>(rows.cast());
    let mut i = 0;
    // SAFETY: all threads execute this, with rows that stay as they are.
    unsafe {
        wgmma::fence();
        while i < FRAGMENTS {
            sums.multiply(weights[i], rows.step(i as u32));
            i += 1;
        }
        wgmma::commit();
    }
    sums
}

/// Returns the numbers of a tile, rounded, as an operand.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn fragments<T: Element16, const S: usize, const FRAGMENTS: usize>(
    tile: &Accumulator<S>,
) -> [FragmentA<T>; FRAGMENTS] {
    core::array::from_fn(|i| tile.fragment::<T>(i))
}

/// Writes the 64 rows of a warpgroup through its panels. `at` is head, first position and batch entry.
///
/// # Safety
/// All threads of the warpgroup call this, and only it uses its panels and named barrier. Thread 0 waits for the copies.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn store<T: Element16, const SIZE: usize, const O: usize>(
    map: &TensorMap,
    at: [u32; 3],
    panels: *mut u8,
    rows: &Accumulator<O>,
    barrier: u32,
) {
    let thread = thread::thread_idx_x() % WARPGROUP;
    let (warp, lane) = (thread / 32, thread % 32);
    let x = &rows.0;
    let mut i = 0;
    // SAFETY: only these threads use the panels. The copies read what all of them have written.
    unsafe {
        if thread == 0 {
            bulk::wait_read::<0>();
        }
        thread::sync_named_aligned(barrier, WARPGROUP);
        while i < O / 8 {
            let pair = |at: usize| T::pack([x[8 * i + at], x[8 * i + at + 1]]);
            let panel = panels.add(i / 4 * ROWS * ROW).cast::<Panel<T, ROWS>>();
            let at = Panel::chunk(panel, 16 * warp + lane % 16, (i % 4 * 2) as u32 + lane / 16);
            stmatrix(at, [pair(0), pair(2), pair(4), pair(6)]);
            i += 1;
        }
        bulk::fence_shared();
        thread::sync_named_aligned(barrier, WARPGROUP);
        if thread == 0 {
            let [head, row, batch] = at.map(|at| at as i32);
            let mut panel = 0;
            while panel < SIZE.div_ceil(COLS) {
                let from = panels.add(panel * ROWS * ROW).cast::<Panel<T, ROWS>>();
                tensor::shared_to_global(map, [(panel * COLS) as i32, head, row, batch], from);
                panel += 1;
            }
            bulk::commit();
        }
    }
}
