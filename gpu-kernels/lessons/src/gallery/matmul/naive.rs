//! One thread per sum, in a grid with an axis for rows and one for columns.
//!
//! The threads of a warp are consecutive along x. With x along the columns of the result, 32 threads read the same element
//! of A, one sector of 32 bytes, and 32 neighbours in B, four sectors. With x along the rows, they read 32 rows of A, each
//! from another sector, and one element of B: 33 sectors for the same 32 multiply-adds, and 32 for the store instead of
//! four.
//!
//! `in_memory` adds each term to the result where it lies, as `out[i] += ..` in a loop says. Requires nothing.
//@ ptx(matmul_in_memory): ld.volatile.global >= 1, st.volatile.global >= 2, .shared == 0, .local == 0
//@ ptx(matmul_naive, matmul_uncoalesced): ld.global >= 2, st.global == 1, fma.rn.f32 >= 1, .shared == 0, .local == 0

use cuda_std::{GpuFloat as _, kernel, thread};

/// `out = a b`, the threads of a warp in a column of the product.
///
/// Launched with blocks of 32 x 32 threads, rows along x and columns along y.
///
/// # Safety
/// The launch is as described; `a` holds `m * k` elements, `b` `k * n`, and `out` `m * n`, which no other code uses.
#[kernel(
    max_threads = 1024,
    args = super::Arguments,
    facts: super::Tiles = super::Tiles::new(super::Order::RowsFirst, [32, 32], (32, 32)),
)]
pub unsafe fn matmul_uncoalesced(out: *mut f32, a: *const f32, b: *const f32, m: u32, n: u32, k: u32) {
    let (row, col) = (thread::index_2d().x, thread::index_2d().y);
    if row < m && col < n {
        // SAFETY: row and column lie in the product, and only this thread writes the sum.
        unsafe { *out.add(row as usize * n as usize + col as usize) = dot(a, b, row, col, n, k) };
    }
}

/// `out = a b`, the threads of a warp in a row of the product.
///
/// Launched with blocks of 32 x 32 threads, columns along x and rows along y.
///
/// # Safety
/// Same as for [`matmul_uncoalesced`](fn@matmul_uncoalesced).
#[kernel(
    max_threads = 1024,
    args = super::Arguments,
    facts: super::Tiles = super::Tiles::new(super::Order::ColumnsFirst, [32, 32], (32, 32)),
)]
pub unsafe fn matmul_naive(out: *mut f32, a: *const f32, b: *const f32, m: u32, n: u32, k: u32) {
    let (col, row) = (thread::index_2d().x, thread::index_2d().y);
    if row < m && col < n {
        // SAFETY: row and column lie in the result, and only this thread writes the element.
        unsafe { *out.add(row as usize * n as usize + col as usize) = dot(a, b, row, col, n, k) };
    }
}

/// `out = a b` as [`matmul_naive`](fn@matmul_naive), with every sum so far in `out`.
///
/// Launched with blocks of 32 x 32 threads, columns along x and rows along y.
///
/// # Safety
/// Same as for [`matmul_uncoalesced`](fn@matmul_uncoalesced).
#[kernel(
    max_threads = 1024,
    args = super::Arguments,
    facts: super::Tiles = super::Tiles::new(super::Order::ColumnsFirst, [32, 32], (32, 32)),
)]
pub unsafe fn matmul_in_memory(out: *mut f32, a: *const f32, b: *const f32, m: u32, n: u32, k: u32) {
    let (col, row) = (thread::index_2d().x, thread::index_2d().y);
    if row < m && col < n {
        let (row, col, n, k) = (row as usize, col as usize, n as usize, k as usize);
        // SAFETY: row, column and terms lie in the matrices, and only this thread uses the element of the result. The accesses
        // are volatile because the compiler would keep the sum in a register.
        unsafe {
            let out = out.add(row * n + col);
            out.write_volatile(0.0);
            for i in 0..k {
                out.write_volatile((*a.add(row * k + i)).mul_add(*b.add(i * n + col), out.read_volatile()));
            }
        }
    }
}

/// Returns the dot product of a row of `a` and a column of `b`.
///
/// # Safety
/// The matrices have the row and the column.
#[inline(always)]
pub(super) unsafe fn dot(a: *const f32, b: *const f32, row: u32, col: u32, n: u32, k: u32) -> f32 {
    let (row, col, n, k) = (row as usize, col as usize, n as usize, k as usize);
    let mut sum = 0.0;
    for i in 0..k {
        // SAFETY: row, column and term lie in the matrices.
        sum = unsafe { (*a.add(row * k + i)).mul_add(*b.add(i * n + col), sum) };
    }
    sum
}
