//! Matrix multiplication by tiles in shared memory.

use core::mem::MaybeUninit;
use cuda_std::address_space;
use cuda_std::prelude::*;

/// Side of the square tiles of `gemm_tiled` and `transpose`, and of their blocks.
pub const TILE: usize = 16;

#[address_space(shared)]
static mut TILE_A: [MaybeUninit<f32>; TILE * TILE] = [const { MaybeUninit::uninit() }; TILE * TILE];
#[address_space(shared)]
static mut TILE_B: [MaybeUninit<f32>; TILE * TILE] = [const { MaybeUninit::uninit() }; TILE * TILE];

/// `c[m, n]` = alpha * `a[m, k]` * `b[k, n]` + beta * c, row-major, with blocks of TILE x TILE threads.
#[kernel]
#[allow(improper_ctypes_definitions, clippy::missing_safety_doc, clippy::too_many_arguments)]
pub unsafe fn gemm_tiled(
    a: &[f32],
    b: &[f32],
    c: *mut f32,
    m: usize,
    n: usize,
    k: usize,
    alpha: f32,
    beta: f32,
) {
    let tx = thread::thread_idx_x() as usize;
    let ty = thread::thread_idx_y() as usize;
    let row = thread::block_idx_y() as usize * TILE + ty;
    let col = thread::block_idx_x() as usize * TILE + tx;

    let mut sum = 0.0f32;
    for kk in (0..k).step_by(TILE) {
        let a_elem = if row < m && kk + tx < k { a[row * k + kk + tx] } else { 0.0 };
        let b_elem = if col < n && kk + ty < k { b[(kk + ty) * n + col] } else { 0.0 };
        TILE_A[ty * TILE + tx].write(a_elem);
        TILE_B[ty * TILE + tx].write(b_elem);
        thread::sync_threads();

        for i in 0..TILE {
            sum += TILE_A[ty * TILE + i].assume_init() * TILE_B[i * TILE + tx].assume_init();
        }
        thread::sync_threads();
    }

    if row < m && col < n {
        let c_elem = &mut *c.add(row * n + col);
        *c_elem = alpha * sum + beta * *c_elem;
    }
}
