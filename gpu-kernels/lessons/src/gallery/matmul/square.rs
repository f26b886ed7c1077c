//! Eight by eight sums per thread.
//!
//! Since `column` a thread reads eight elements of A and eight of B for 64 multiply-adds: a quarter of a load for each. 256
//! threads have a tile of 128 x 128 sums, and global memory delivers a 128th of the bytes of the first rungs. The rows of a
//! thread are 16 apart, and its columns too, so that the threads of a warp read neighbours, from different banks. Costs 64
//! registers for sums, and so two blocks per multiprocessor. Requires nothing.
//@ ptx(matmul_square): bar.sync == 2, ld.global.b32 == 8, st.shared == 8, ld.shared.b32 == 128, fma.rn.f32 == 512, .local == 0

use super::edges::{Matrix, Output};
use super::fragments::for_each_term;
use super::tile_origin;
use cuda_std::{GpuFloat as _, kernel, thread};

/// Rows and columns of a tile.
const SIDE: usize = 128;
/// Terms in shared memory at a time.
const DEPTH: usize = 8;
/// Rows, and columns, of a thread's sums.
const SUMS: usize = 8;
/// Distance from one of them to the next.
const STEP: usize = SIDE / SUMS;

/// `out = a b`, one block per tile of 128 x 128 sums.
///
/// Launched with blocks of 256 threads, columns of tiles along x and rows along y.
///
/// # Safety
/// The launch is as described; `a` holds `m * k` elements, `b` `k * n`, and `out` `m * n`, which no other code uses.
#[kernel(
    max_threads = 256,
    min_blocks = 2,
    args = super::Arguments,
    facts: super::Tiles = super::Tiles::new(super::Order::ColumnsFirst, [128, 128], (256, 1)),
)]
pub unsafe fn matmul_square(out: *mut f32, a: *const f32, b: *const f32, m: u32, n: u32, k: u32) {
    let a = Matrix { elements: a, rows: m, cols: k };
    let b = Matrix { elements: b, rows: k, cols: n };
    let (a_shared, b_shared) =
        (cuda_std::shared_array![f32; SIDE * DEPTH], cuda_std::shared_array![f32; DEPTH * SIDE]);
    let tid = thread::thread_idx_x() as usize;
    let (row0, col0) = tile_origin::<SIDE, SIDE>();
    let (ty, tx) = (tid / STEP, tid % STEP);
    let mut sums_reg = [[0.0f32; SUMS]; SUMS];
    let mut k0 = 0;
    while k0 < k as usize {
        // SAFETY: each thread writes its elements of both tiles; none writes between the barriers, which all threads reach.
        unsafe {
            for i in 0..SIDE * DEPTH / 256 {
                let at = tid + i * 256;
                *a_shared.add(at) = a.at(row0 + at / DEPTH, k0 + at % DEPTH);
                *b_shared.add(at) = b.at(k0 + at / SIDE, col0 + at % SIDE);
            }
            thread::sync_threads_aligned();
            for_each_term!(kk, {
                let a_reg: [f32; SUMS] =
                    core::array::from_fn(|i| *a_shared.add((ty + i * STEP) * DEPTH + kk));
                let b_reg: [f32; SUMS] = core::array::from_fn(|j| *b_shared.add(kk * SIDE + tx + j * STEP));
                for i in 0..SUMS {
                    for j in 0..SUMS {
                        sums_reg[i][j] = a_reg[i].mul_add(b_reg[j], sums_reg[i][j]);
                    }
                }
            });
            thread::sync_threads_aligned();
        }
        k0 += DEPTH;
    }
    let out = Output { elements: out, rows: m, cols: n };
    for i in 0..SUMS {
        for j in 0..SUMS {
            // SAFETY: only this thread writes the sum.
            unsafe { out.set(row0 + ty + i * STEP, col0 + tx + j * STEP, sums_reg[i][j]) };
        }
    }
}
