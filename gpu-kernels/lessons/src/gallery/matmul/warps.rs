//! The sums of a warp form a rectangle.
//!
//! Since `vec4` the sums of a warp are 32 x 64, four threads down and eight across, instead of 16 x 128. Per term a warp
//! reads 32 elements of A and 64 of B instead of 16 and 128: less from shared memory for the same multiply-adds. Threads
//! that differ in the lowest bit of their number read the same quad of B, and those that differ in the next one the same
//! quad of A. Costs and requires nothing more.
//@ ptx(matmul_warp): bar.sync == 2, ld.global.v4 == 2, ld.shared.v4 == 32, st.global.v4 == 16, fma.rn.f32 == 512, .local == 0

#[cfg(not(target_arch = "nvptx64"))]
use super::Arguments;
#[cfg(not(target_arch = "nvptx64"))]
use super::choice::{Order, Tiles};
use super::edges::{Matrix, Output};
use super::fragments::{add, for_each_term, lane_place, pitch, quads, store};
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
    args = Arguments,
    facts: Tiles = Tiles::new([128, 128], (256, 1), Order::ColumnsFirst),
)]
pub unsafe fn matmul_warp(out: *mut f32, a: *const f32, b: *const f32, m: u32, n: u32, k: u32) {
    let a = Matrix { elements: a, rows: m, cols: k };
    let b = Matrix { elements: b, rows: k, cols: n };
    let a_shared = cuda_std::shared_array![f32x4; DEPTH * PITCH / 4].cast::<f32>();
    let b_shared = cuda_std::shared_array![f32x4; DEPTH * SIDE / 4].cast::<f32>();
    let tid = thread::thread_idx_x() as usize;
    let (row0, col0) = tile_origin::<SIDE, SIDE>();
    let (warp, (down, across)) = (tid / 32, lane_place(tid % 32));
    let (row, col) = (warp / 2 * 32 + down * 4, warp % 2 * 64 + across * 4);
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
                let a_reg = quads(a_shared.add(kk * PITCH + row), 16);
                let b_reg = quads(b_shared.add(kk * SIDE + col), 32);
                add(&mut sums_reg, a_reg, b_reg);
            });
            thread::sync_threads_aligned();
        }
        k0 += DEPTH;
    }
    let out = Output { elements: out, rows: m, cols: n };
    // SAFETY: only this thread writes these sums.
    unsafe { store(out, (row0 + row, col0 + col), [16, 32], &sums_reg) };
}
