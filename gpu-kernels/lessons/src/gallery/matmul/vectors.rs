//! 16 bytes per access.
//!
//! Since `square` a thread's rows and columns come by fours, and one instruction loads four numbers: four loads from shared
//! memory for 64 multiply-adds instead of sixteen. For this A lies transposed in shared memory, with rows of 132 elements,
//! so that a warp's stores down a column have no bank conflicts. One access per thread fetches each operand for eight terms,
//! and the sums are also written by 16 bytes. Costs the transposition: four stores per quad of A. Requires pointers at
//! multiples of 16 bytes. If the rows of an operand do not begin at such multiples, it is fetched element by element.
//@ ptx(matmul_vec4): bar.sync == 2, ld.global.v4 == 2, ld.shared.v4 == 32, st.global.v4 == 16, fma.rn.f32 == 512, .local == 0

use super::edges::{Matrix, Output};
use super::fragments::{add, for_each_term, pitch, quads, store};
use super::tile_origin;
use cuda_std::mem::f32x4;
use cuda_std::{kernel, thread};

/// Rows and columns of a tile.
const SIDE: usize = 128;
/// Terms in shared memory at a time.
const DEPTH: usize = 8;
/// Elements of A's tile for a term.
const PITCH: usize = pitch(SIDE);

/// `out = a b`, one block per tile of 128 x 128 sums.
///
/// Launched with blocks of 256 threads, columns of tiles along x and rows along y.
///
/// # Safety
/// The launch is as described; `a` holds `m * k` elements, `b` `k * n`, and `out` `m * n`, which no other code uses;
/// all three begin at a multiple of 16 bytes.
#[kernel(
    max_threads = 256,
    min_blocks = 2,
    args = super::Arguments,
    facts: super::Tiles = super::Tiles::new(super::Order::ColumnsFirst, [128, 128], (256, 1)),
)]
pub unsafe fn matmul_vec4(out: *mut f32, a: *const f32, b: *const f32, m: u32, n: u32, k: u32) {
    let a = Matrix { elements: a, rows: m, cols: k };
    let b = Matrix { elements: b, rows: k, cols: n };
    let a_shared = cuda_std::shared_array![f32x4; DEPTH * PITCH / 4].cast::<f32>();
    let b_shared = cuda_std::shared_array![f32x4; DEPTH * SIDE / 4].cast::<f32>();
    let tid = thread::thread_idx_x() as usize;
    let (row0, col0) = tile_origin::<SIDE, SIDE>();
    let (row, col) = (tid / 16 * 4, tid % 16 * 4);
    let mut sums_reg = [[0.0f32; 8]; 8];
    let mut k0 = 0;
    while k0 < k as usize {
        // SAFETY: each thread writes its elements of both tiles, and no thread writes between the barriers; all threads
        // reach them. The quads lie at multiples of 16 bytes.
        unsafe {
            let quad = a.quad(row0 + tid / 2, k0 + tid % 2 * 4).to_array();
            for i in 0..4 {
                *a_shared.add((tid % 2 * 4 + i) * PITCH + tid / 2) = quad[i];
            }
            *b_shared.add(tid * 4).cast() = b.quad(k0 + tid / 32, col0 + tid % 32 * 4);
            thread::sync_threads_aligned();
            for_each_term!(kk, {
                let a_reg = quads(a_shared.add(kk * PITCH + row), 64);
                let b_reg = quads(b_shared.add(kk * SIDE + col), 64);
                add(&mut sums_reg, a_reg, b_reg);
            });
            thread::sync_threads_aligned();
        }
        k0 += DEPTH;
    }
    let out = Output { elements: out, rows: m, cols: n };
    // SAFETY: only this thread writes these sums.
    unsafe { store(out, (row0 + row, col0 + col), [64, 64], &sums_reg) };
}
