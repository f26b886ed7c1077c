//! Two ordinary kernels. `cargo test` runs them on the CPU, including their warps and barriers; `tests/` shows how.

#![no_std]

use core::sync::atomic::Ordering;

use cuda_std::atomic::{AtomicU32, BlockAtomicU32};
use cuda_std::{kernel, shared_array, thread, warp};

/// Threads per block of [`block_sums`](fn@block_sums).
pub const THREADS: usize = 256;

/// Bins of [`histogram`](fn@histogram).
pub const BINS: usize = 64;

/// Writes to `sums[b]` the sum of block `b`'s elements of `inp`. Each thread reads one element.
///
/// # Safety
/// Launched with blocks of [`THREADS`] threads; `sums` has one element per block.
#[kernel]
pub unsafe fn block_sums(sums: *mut f32, inp: &[f32]) {
    let partial = shared_array![f32; THREADS / 32];
    let tid = thread::thread_idx_x() as usize;
    let value = inp.get(thread::index_1d() as usize).copied().unwrap_or(0.0);
    // SAFETY: no thread has returned. Each warp writes its own element, and the first warp reads after the barrier.
    unsafe {
        let of_warp = warp::reduce_sum(value);
        if tid.is_multiple_of(32) {
            *partial.add(tid / 32) = of_warp;
        }
        thread::sync_threads_aligned();
        if tid < 32 {
            let value = if tid < THREADS / 32 { *partial.add(tid) } else { 0.0 };
            let sum = warp::reduce_sum(value);
            if tid == 0 {
                *sums.add(thread::block_idx_x() as usize) = sum;
            }
        }
    }
}

/// Adds to `counts[i]` the number of values in `inp` with remainder `i` modulo [`BINS`].
///
/// Each block counts in shared memory, and adds to `counts` once per bin.
///
/// # Safety
/// `counts` has [`BINS`] elements.
#[kernel]
pub unsafe fn histogram(counts: *mut u32, inp: &[u32]) {
    let of_block = shared_array![u32; BINS];
    let (tid, threads) = (thread::thread_idx_x() as usize, thread::block_dim_x() as usize);
    // SAFETY: no thread has returned. All bins lie in their arrays, and barriers separate setting, counting and
    // reading them.
    unsafe {
        for bin in (tid..BINS).step_by(threads) {
            *of_block.add(bin) = 0;
        }
        thread::sync_threads_aligned();
        if let Some(&value) = inp.get(thread::index_1d() as usize) {
            BlockAtomicU32::from_ptr(of_block.add(value as usize % BINS)).fetch_add(1, Ordering::Relaxed);
        }
        thread::sync_threads_aligned();
        for bin in (tid..BINS).step_by(threads) {
            AtomicU32::from_ptr(counts.add(bin)).fetch_add(*of_block.add(bin), Ordering::Relaxed);
        }
    }
}
