//! Eight sums per thread, in one column.
//!
//! Since `shared` a thread reads an element of B once for eight multiply-adds, and keeps eight sums in registers: nine loads
//! for eight multiply-adds instead of sixteen. A tile of 64 x 64 sums has 512 threads, and walks along k eight terms at a
//! time, so each thread still fetches one element of each operand. Global memory delivers a 64th of the bytes of the first
//! rungs. Requires nothing.
//@ ptx(matmul_column): bar.sync == 2, ld.global.b32 == 2, st.shared == 2, fma.rn.f32 == 64, st.global == 8, .local == 0

use super::edges::{Matrix, Output};
use super::tile_origin;
use cuda_std::{GpuFloat as _, kernel, thread};

/// Rows and columns of a tile.
const SIDE: usize = 64;
/// Terms in shared memory at a time.
const DEPTH: usize = 8;
/// Sums of a thread.
const SUMS: usize = 8;

/// `out = a b`, one block per tile of 64 x 64 sums.
///
/// Launched with blocks of 512 threads, columns of tiles along x and rows along y.
///
/// # Safety
/// The launch is as described; `a` holds `m * k` elements, `b` `k * n`, and `out` `m * n`, which no other code uses.
#[kernel(
    max_threads = 512,
    args = super::Arguments,
    facts: super::Tiles = super::Tiles::new(super::Order::ColumnsFirst, [64, 64], (512, 1)),
)]
pub unsafe fn matmul_column(out: *mut f32, a: *const f32, b: *const f32, m: u32, n: u32, k: u32) {
    let a = Matrix { elements: a, rows: m, cols: k };
    let b = Matrix { elements: b, rows: k, cols: n };
    let (a_shared, b_shared) =
        (cuda_std::shared_array![f32; SIDE * DEPTH], cuda_std::shared_array![f32; DEPTH * SIDE]);
    let tid = thread::thread_idx_x() as usize;
    let (row0, col0) = tile_origin::<SIDE, SIDE>();
    let (first, col) = (tid / SIDE * SUMS, tid % SIDE);
    let mut sums_reg = [0.0f32; SUMS];
    let mut k0 = 0;
    while k0 < k as usize {
        // SAFETY: each thread writes an element of both tiles; none writes between the barriers, which all threads reach.
        unsafe {
            *a_shared.add(tid) = a.at(row0 + tid / DEPTH, k0 + tid % DEPTH);
            *b_shared.add(tid) = b.at(k0 + tid / SIDE, col0 + col);
            thread::sync_threads_aligned();
            for kk in 0..DEPTH {
                let b_reg = *b_shared.add(kk * SIDE + col);
                for i in 0..SUMS {
                    sums_reg[i] = (*a_shared.add((first + i) * DEPTH + kk)).mul_add(b_reg, sums_reg[i]);
                }
            }
            thread::sync_threads_aligned();
        }
        k0 += DEPTH;
    }
    let out = Output { elements: out, rows: m, cols: n };
    for i in 0..SUMS {
        // SAFETY: only this thread writes the sum.
        unsafe { out.set(row0 + first + i, col0 + col, sums_reg[i]) };
    }
}
