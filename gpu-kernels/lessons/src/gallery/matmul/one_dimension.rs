//! One thread per sum, all threads in one line.
//!
//! Since the rung before, row and column come from one index by one division per thread. It costs as much as some
//! multiply-adds, and a thread has k of them. What matters more is which sums a block has: 1024 of one row instead of 32 by
//! 32. They read one row of A, but 1024 columns of B, and the block reads no element of B twice. Requires fewer than 2^32
//! sums.
//@ ptx(matmul_1d): ld.global >= 2, st.global == 1, fma.rn.f32 >= 1, .shared == 0, .local == 0

use super::naive::dot;
use cuda_std::{kernel, thread};

/// `out = a b`, sum by sum along the rows of the product.
///
/// Launched with at least `m * n` threads along x, in blocks of 1024.
///
/// # Safety
/// The launch is as described; `a` holds `m * k` elements, `b` `k * n`, and `out` `m * n`, fewer than 2^32, which no
/// other code uses.
#[kernel(
    max_threads = 1024,
    args = super::Arguments,
    facts: super::Tiles = super::Tiles::new(super::Order::Line, [1, 1024], (1024, 1)),
)]
pub unsafe fn matmul_1d(out: *mut f32, a: *const f32, b: *const f32, m: u32, n: u32, k: u32) {
    let i = thread::index_1d();
    let (row, col) = (i / n, i % n);
    if row < m {
        // SAFETY: row and column lie in the product, and only this thread writes the sum.
        unsafe { *out.add(i as usize) = dot(a, b, row, col, n, k) };
    }
}
