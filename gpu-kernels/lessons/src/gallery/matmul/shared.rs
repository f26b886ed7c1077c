//! A block's operands in shared memory.
//!
//! Since the first rungs the 32 x 32 threads of a block together read 32 x 32 elements of each operand once from global
//! memory, and then 32 times from shared memory. Global memory delivers a 32nd of the bytes. But a multiply-add still needs
//! two loads, and a load from shared memory takes as much of the multiprocessor's time as an L1 hit: only the misses are
//! saved. Costs two barriers per 32 terms. Requires nothing.
//@ ptx(matmul_shared): bar.sync == 2, ld.global.b32 == 2, ld.shared >= 2, st.shared == 2, st.global == 1, .local == 0

use super::edges::{Matrix, Output};
use super::tile_origin;
use cuda_std::{GpuFloat as _, kernel, thread};

/// Rows and columns of a tile, and terms in shared memory at a time.
const SIDE: usize = 32;

/// `out = a b`, one block per tile of 32 x 32 sums.
///
/// Launched with blocks of 32 x 32 threads, columns along x and rows along y.
///
/// # Safety
/// The launch is as described; `a` holds `m * k` elements, `b` `k * n`, and `out` `m * n`, which no other code uses.
#[kernel(
    max_threads = 1024,
    args = super::Arguments,
    facts: super::Tiles = super::Tiles::new(super::Order::ColumnsFirst, [32, 32], (32, 32)),
)]
pub unsafe fn matmul_shared(out: *mut f32, a: *const f32, b: *const f32, m: u32, n: u32, k: u32) {
    let a = Matrix { elements: a, rows: m, cols: k };
    let b = Matrix { elements: b, rows: k, cols: n };
    let (a_shared, b_shared) =
        (cuda_std::shared_array![f32; SIDE * SIDE], cuda_std::shared_array![f32; SIDE * SIDE]);
    let (tx, ty) = (thread::thread_idx_x() as usize, thread::thread_idx_y() as usize);
    let (row0, col0) = tile_origin::<SIDE, SIDE>();
    let (row, col) = (row0 + ty, col0 + tx);
    let mut sum = 0.0;
    let mut k0 = 0;
    while k0 < k as usize {
        // SAFETY: each thread writes an element of both tiles; none writes between the barriers, which all threads reach.
        unsafe {
            *a_shared.add(ty * SIDE + tx) = a.at(row, k0 + tx);
            *b_shared.add(ty * SIDE + tx) = b.at(k0 + ty, col);
            thread::sync_threads_aligned();
            for kk in 0..SIDE {
                sum = (*a_shared.add(ty * SIDE + kk)).mul_add(*b_shared.add(kk * SIDE + tx), sum);
            }
            thread::sync_threads_aligned();
        }
        k0 += SIDE;
    }
    // SAFETY: only this thread writes the sum.
    unsafe { Output { elements: out, rows: m, cols: n }.set(row, col, sum) };
}
