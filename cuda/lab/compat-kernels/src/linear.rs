//! Vectors and matrices.

use crate::gemm::TILE;
use core::mem::MaybeUninit;
use cuda_std::address_space;
use cuda_std::prelude::*;

/// c = a + b, elements of `a.len()`.
#[kernel]
#[allow(improper_ctypes_definitions, clippy::missing_safety_doc)]
pub unsafe fn vecadd(a: &[f32], b: &[f32], c: *mut f32) {
    let idx = thread::index_1d() as usize;
    if idx < a.len() {
        let elem = &mut *c.add(idx);
        *elem = a[idx] + b[idx];
    }
}

/// `out[cols, rows]` = transpose of `inp[rows, cols]`, blocks of TILE x TILE threads.
#[kernel]
#[allow(improper_ctypes_definitions, clippy::missing_safety_doc)]
pub unsafe fn transpose(inp: &[u32], out: *mut u32, rows: u32, cols: u32) {
    // One column more than needed, so that a column's elements lie in different banks.
    const STRIDE: usize = TILE + 1;
    #[address_space(shared)]
    static mut BUFFER: [MaybeUninit<u32>; TILE * STRIDE] = [MaybeUninit::uninit(); TILE * STRIDE];

    let tx = thread::thread_idx_x() as usize;
    let ty = thread::thread_idx_y() as usize;
    let index = thread::index_2d();
    if index.x < cols && index.y < rows {
        BUFFER[ty * STRIDE + tx].write(inp[(index.y * cols + index.x) as usize]);
    }
    thread::sync_threads();

    let out_col = thread::block_idx_y() as usize * TILE + tx;
    let out_row = thread::block_idx_x() as usize * TILE + ty;
    if out_col < rows as usize && out_row < cols as usize {
        *out.add(out_row * rows as usize + out_col) = BUFFER[tx * STRIDE + ty].assume_init();
    }
}
