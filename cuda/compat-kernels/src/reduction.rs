//! Reductions with warp shuffles, votes and atomics.

use core::mem::MaybeUninit;
use core::sync::atomic::Ordering;
use cuda_std::atomic::{mid, AtomicF32};
use cuda_std::prelude::*;
use cuda_std::GpuFloat;
use cuda_std::{shared, warp};

/// Folds a value over the warp; every lane gets the result.
unsafe fn warp_fold(mut value: f32, f: impl Fn(f32, f32) -> f32) -> f32 {
    for lane_mask in [16, 8, 4, 2, 1] {
        let (other, _) = warp::warp_shuffle_xor(u32::MAX, value, lane_mask, 32);
        value = f(value, other);
    }
    value
}

/// `out[rows, cols]` = softmax of each row of inp, one warp per row.
#[kernel]
#[allow(improper_ctypes_definitions, clippy::missing_safety_doc)]
pub unsafe fn softmax_rows(inp: &[f32], cols: usize, out: *mut f32) {
    let row = thread::block_idx_x() as usize;
    let lane = warp::lane_id() as usize;
    let row = &inp[row * cols..(row + 1) * cols];
    let out = out.add(thread::block_idx_x() as usize * cols);

    let max =
        warp_fold(row.iter().skip(lane).step_by(32).fold(f32::NEG_INFINITY, |a, &b| a.max(b)), f32::max);
    let mut sum = 0.0;
    for i in (lane..cols).step_by(32) {
        sum += (row[i] - max).exp();
    }
    let sum = warp_fold(sum, |a, b| a + b);
    for i in (lane..cols).step_by(32) {
        *out.add(i) = (row[i] - max).exp() / sum;
    }
}

/// Adds the sum of inp to *total, block by block.
#[kernel]
#[allow(improper_ctypes_definitions, clippy::missing_safety_doc)]
pub unsafe fn sum(inp: &[f32], total: *mut f32) {
    #[address_space(shared)]
    static mut PARTIAL: [MaybeUninit<f32>; 32] = [const { MaybeUninit::uninit() }; 32];

    let tid = thread::thread_idx_x();
    let i = thread::index_1d() as usize;
    let value = if i < inp.len() { inp[i] } else { 0.0 };
    let value = warp_fold(value, |a, b| a + b);
    if warp::lane_id() == 0 {
        PARTIAL[tid as usize / 32].write(value);
    }
    thread::sync_threads();
    if tid < 32 {
        let warps = thread::block_dim_x().div_ceil(32);
        let value = if tid < warps { PARTIAL[tid as usize].assume_init() } else { 0.0 };
        let value = warp_fold(value, |a, b| a + b);
        if tid == 0 {
            (*(total as *const AtomicF32)).fetch_add(value, Ordering::Relaxed);
        }
    }
}

/// Adds the frequency of each byte in `text` to `counts`, 256 bins, through dynamic shared memory.
#[kernel]
#[allow(improper_ctypes_definitions, clippy::missing_safety_doc)]
pub unsafe fn histogram(text: &[u8], counts: *mut u32) {
    let bins = shared::dynamic_shared_mem::<u32>();
    let tid = thread::thread_idx_x() as usize;
    let threads = thread::block_dim_x() as usize;
    for bin in (tid..256).step_by(threads) {
        *bins.add(bin) = 0;
    }
    thread::sync_threads();
    let stride = threads * thread::grid_dim_x() as usize;
    let mut i = thread::index() as usize;
    while i < text.len() {
        mid::atomic_fetch_add_u32_block(bins.add(text[i] as usize), Ordering::Relaxed, 1);
        i += stride;
    }
    thread::sync_threads();
    for bin in (tid..256).step_by(threads) {
        mid::atomic_fetch_add_u32_device(counts.add(bin), Ordering::Relaxed, *bins.add(bin));
    }
}
