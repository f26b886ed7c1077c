//! The dot product of two arrays, as written for a CPU and as it suits a GPU.
//!
//! * `chunks`: each thread takes a run of neighbouring elements, as on a CPU, where each thread has its own cache. The lanes
//!   of a warp are then a run apart: one load of the warp touches 32 sectors of 32 bytes and uses 4 bytes of each. The next
//!   loads of the same thread use the other 28, if the cache still has them: the 2048 threads of a multiprocessor have 4096
//!   runs of sectors open, 128 KiB.
//! * `coalesced`: neighbouring threads take neighbouring elements, and advance by a whole grid: a load touches 4 sectors and
//!   uses all of each at once.
//! * `shuffle`: shuffles add up the sums of the threads, instead of a tree in shared memory with its nine barriers.
//!
//! Each is one launch: the last block to end adds up the sums of the blocks. The order is fixed.
//! Requires: blocks of 256 threads.
//! Requires: blocks of 256 threads.
//@ ptx(dot_chunks): bar.sync >= 10, .local == 0
//@ ptx(dot_coalesced): bar.sync >= 10, .local == 0
//@ ptx(dot_shuffle): bar.sync == 3, .local == 0

use crate::gallery::last_block::{BLOCK, Partials, WARPS, block_sum, sum_of_blocks};
use cuda_std::{kernel, shared_array, thread};

lesson! {
    buffers(out: f32, a: f32, b: f32, partials: f32, arrived: u32)
    values(len: u32)
    facts(Grid)
    "chunks" = dot_chunks[0]: "a run of neighbours for each thread";
    "coalesced" = dot_coalesced[0]: "neighbours for neighbouring threads";
    "shuffle" = dot_shuffle[0]: "the sums of threads meet in registers";
}

/// Computes `*out`, the sum of `a[i] * b[i]`; each thread takes a run of neighbours.
///
/// Launched with blocks of 256 threads along x, as many as fit the device at once.
///
/// # Safety
/// The launch is as described; `a` and `b` hold `len` elements and `partials` one for each block. No other code uses
/// `partials`, `out` or `arrived`, which holds 0 before and after.
#[kernel(max_threads = 256, min_blocks = 8, args = Arguments, facts: Grid = Grid::threads::<256, 1>())]
pub unsafe fn dot_chunks(
    out: *mut f32,
    a: *const f32,
    b: *const f32,
    partials: *mut f32,
    arrived: *mut u32,
    len: u32,
) {
    let (tree_shared, all_shared) = (shared_array![f32; BLOCK], shared_array![f32; WARPS]);
    let is_last = shared_array![bool; 1];
    let (thread, len) = (thread::index_1d() as usize, len as usize);
    let run = len.div_ceil(thread::grid_dim_x() as usize * BLOCK);
    let mut sum = 0.0;
    for i in (thread * run).min(len)..((thread + 1) * run).min(len) {
        // SAFETY: `i` is below `len`.
        sum += unsafe { *a.add(i) * *b.add(i) };
    }
    // SAFETY: all threads of all blocks execute this, and own what they use.
    unsafe {
        let of_block = tree(tree_shared, sum);
        sum_of_blocks((all_shared, is_last), out, Partials { sums: partials, arrived }, of_block);
    }
}

/// Like [`dot_chunks`](fn@dot_chunks), with neighbouring elements for neighbouring threads.
///
/// # Safety
/// Same as for [`dot_chunks`](fn@dot_chunks).
#[kernel(max_threads = 256, min_blocks = 8, args = Arguments, facts: Grid = Grid::threads::<256, 1>())]
pub unsafe fn dot_coalesced(
    out: *mut f32,
    a: *const f32,
    b: *const f32,
    partials: *mut f32,
    arrived: *mut u32,
    len: u32,
) {
    let (tree_shared, all_shared) = (shared_array![f32; BLOCK], shared_array![f32; WARPS]);
    let is_last = shared_array![bool; 1];
    let (thread, len) = (thread::index_1d() as usize, len as usize);
    let mut sum = 0.0;
    for i in (thread..len).step_by(thread::grid_dim_x() as usize * BLOCK) {
        // SAFETY: `i` is below `len`.
        sum += unsafe { *a.add(i) * *b.add(i) };
    }
    // SAFETY: all threads of all blocks execute this, and own what they use.
    unsafe {
        let of_block = tree(tree_shared, sum);
        sum_of_blocks((all_shared, is_last), out, Partials { sums: partials, arrived }, of_block);
    }
}

/// Like [`dot_coalesced`](fn@dot_coalesced), but the threads' sums are added up in registers.
///
/// # Safety
/// Same as for [`dot_chunks`](fn@dot_chunks).
#[kernel(max_threads = 256, min_blocks = 8, args = Arguments, facts: Grid = Grid::threads::<256, 1>())]
pub unsafe fn dot_shuffle(
    out: *mut f32,
    a: *const f32,
    b: *const f32,
    partials: *mut f32,
    arrived: *mut u32,
    len: u32,
) {
    let (sums_shared, all_shared) = (shared_array![f32; WARPS], shared_array![f32; WARPS]);
    let is_last = shared_array![bool; 1];
    let (thread, len) = (thread::index_1d() as usize, len as usize);
    let mut sum = 0.0;
    for i in (thread..len).step_by(thread::grid_dim_x() as usize * BLOCK) {
        // SAFETY: `i` is below `len`.
        sum += unsafe { *a.add(i) * *b.add(i) };
    }
    // SAFETY: all threads of all blocks execute this, and own what they use.
    unsafe {
        let of_block = block_sum(sums_shared, sum);
        sum_of_blocks((all_shared, is_last), out, Partials { sums: partials, arrived }, of_block);
    }
}

/// Returns the sum of the block's threads, to all of them: each round adds the upper half to the lower.
///
/// # Safety
/// All 256 threads of the block call this, once; `shared` has an element for each that no other code uses.
#[inline(always)]
unsafe fn tree(shared: *mut f32, value: f32) -> f32 {
    let tid = thread::thread_idx_x() as usize;
    // SAFETY: the indices are below 256, and a barrier lies between the accesses of different threads.
    unsafe {
        *shared.add(tid) = value;
        let mut half = BLOCK / 2;
        while half > 0 {
            thread::sync_threads_aligned();
            if tid < half {
                *shared.add(tid) += *shared.add(tid + half);
            }
            half /= 2;
        }
        thread::sync_threads_aligned();
        *shared
    }
}
