//! A histogram: how many elements have each of 256 values.
//!
//! Additions to one address are executed one after the other. How many meet there depends on the data, and on where the
//! counters are.
//!
//! * `global`: one counter per value, in global memory.
//! * `shared`: a copy of the counters per block, in shared memory, added to the global ones at the end.
//! * `warp`: a copy per warp.
//! * `match`: as `shared`, but the lanes of a warp with the same value elect one of them, which adds their number.
//!
//! Requires: blocks of 256 threads.
//@ ptx(histogram_global): atom >= 4, bar.sync == 0, .local == 0
//@ ptx(histogram_shared, histogram_warp): bar.sync == 2, .local == 0
//@ ptx(histogram_match): match.any.sync >= 4, bar.sync == 2, .local == 0

use core::sync::atomic::Ordering;

use cuda_std::atomic::{AtomicU32, BlockAtomicU32};
use cuda_std::warp::{lane_id, warp_match_any};
use cuda_std::{kernel, shared_array, thread};

lesson! {
    buffers(out: u32, inp: u32)
    values(len: u32)
    facts(())
    "global" = histogram_global[0]: "counters in global memory";
    "shared" = histogram_shared[0]: "a copy of the counters per block, in shared memory";
    "warp" = histogram_warp[0]: "a copy per warp";
    "match" = histogram_match[0]: "a copy per block, and one addition for the lanes with the same value";
}

/// Values, and so counters.
pub const BINS: usize = 256;
const BLOCK: usize = 256;
const WARPS: usize = BLOCK / 32;

/// `out[i] = 0`.
///
/// Launched with one block of 256 threads.
///
/// # Safety
/// The launch is as described; `out` holds 256 elements, which no other code uses.
#[kernel(max_threads = 256)]
pub unsafe fn histogram_clear(out: *mut u32) {
    // SAFETY: each thread has its own counter.
    unsafe { *out.add(thread::thread_idx_x() as usize) = 0 };
}

/// Calls `count` with each byte of the thread's words, which are a whole grid apart. If `ALL`, all lanes of a warp call it
/// together, with `None` after the end.
///
/// # Safety
/// `inp` holds `len` words.
#[inline(always)]
unsafe fn for_each<const ALL: bool>(inp: *const u32, len: u32, mut count: impl FnMut(Option<u32>)) {
    let step = thread::grid_dim_x() as usize * BLOCK;
    let mut i = thread::index_1d() as usize;
    // The words of a warp's first lane, if all lanes take part.
    while i - if ALL { lane_id() as usize } else { 0 } < len as usize {
        let is_inside = i < len as usize;
        // SAFETY: checked just before.
        let word = if is_inside { unsafe { *inp.add(i) } } else { 0 };
        // Written out, because an array of bytes would lie in local memory.
        let byte = |shift: u32| is_inside.then_some(word >> shift & 0xff);
        count(byte(0));
        count(byte(8));
        count(byte(16));
        count(byte(24));
        i += step;
    }
}

/// Adds to `out[v]` the number of bytes of `inp` with value `v`.
///
/// Launched with blocks of 256 threads along x.
///
/// # Safety
/// The launch is as described; `inp` holds `len` words, and other code accesses the 256 elements of `out` only atomically.
#[kernel(max_threads = 256, args = Arguments)]
pub unsafe fn histogram_global(out: *mut u32, inp: *const u32, len: u32) {
    // SAFETY: there is a counter for each byte, and all accesses are atomic.
    unsafe {
        for_each::<false>(inp, len, |value| {
            if let Some(value) = value {
                AtomicU32::from_ptr(out.add(value as usize)).fetch_add(1, Ordering::Relaxed);
            }
        });
    }
}

/// Like [`histogram_global`](fn@histogram_global), with counters of the block.
///
/// # Safety
/// Same as for [`histogram_global`](fn@histogram_global).
#[kernel(max_threads = 256, args = Arguments)]
pub unsafe fn histogram_shared(out: *mut u32, inp: *const u32, len: u32) {
    let counters = shared_array![u32; BINS];
    // SAFETY: all threads of the block execute this.
    unsafe { privately::<1>(counters, out, inp, len) };
}

/// Like [`histogram_global`](fn@histogram_global), with counters of each warp.
///
/// # Safety
/// Same as for [`histogram_global`](fn@histogram_global).
#[kernel(max_threads = 256, args = Arguments)]
pub unsafe fn histogram_warp(out: *mut u32, inp: *const u32, len: u32) {
    let counters = shared_array![u32; BINS * WARPS];
    // SAFETY: all threads of the block execute this.
    unsafe { privately::<WARPS>(counters, out, inp, len) };
}

/// Like [`histogram_shared`](fn@histogram_shared), with one addition for the lanes of a warp with the same value.
///
/// # Safety
/// Same as for [`histogram_global`](fn@histogram_global).
#[kernel(max_threads = 256, args = Arguments)]
pub unsafe fn histogram_match(out: *mut u32, inp: *const u32, len: u32) {
    let counters = shared_array![u32; BINS];
    // SAFETY: all threads of the block execute this, and all lanes of a warp the same iterations.
    unsafe {
        clear::<1>(counters);
        for_each::<true>(inp, len, |value| {
            // A lane without a value has one that no other lane can have.
            let same = warp_match_any(u32::MAX, value.unwrap_or(BINS as u32));
            if let Some(value) = value
                && same.trailing_zeros() == lane_id()
            {
                add(counters, value, same.count_ones());
            }
        });
        flush::<1>(counters, out);
    }
}

/// Counts in `COPIES` copies of the counters, one for the block or one for each warp.
///
/// # Safety
/// All threads of the block execute this. `counters` are the block's, and hold `COPIES` times 256 elements; the rest is the
/// kernel's contract.
#[inline(always)]
unsafe fn privately<const COPIES: usize>(counters: *mut u32, out: *mut u32, inp: *const u32, len: u32) {
    let own = thread::thread_idx_x() as usize / 32 % COPIES * BINS;
    // SAFETY: the caller's contract.
    unsafe {
        clear::<COPIES>(counters);
        for_each::<false>(inp, len, |value| {
            if let Some(value) = value {
                add(counters.add(own), value, 1);
            }
        });
        flush::<COPIES>(counters, out);
    }
}

/// # Safety
/// Only threads of the block access the counters, and only atomically.
#[inline(always)]
unsafe fn add(counters: *mut u32, value: u32, count: u32) {
    // SAFETY: there is a counter for each byte.
    unsafe { BlockAtomicU32::from_ptr(counters.add(value as usize)).fetch_add(count, Ordering::Relaxed) };
}

/// Sets the copies of the counters to 0.
///
/// # Safety
/// All threads of the block execute this; `counters` has the copies.
#[inline(always)]
unsafe fn clear<const COPIES: usize>(counters: *mut u32) {
    for copy in 0..COPIES {
        // SAFETY: each thread has its own counter of each copy.
        unsafe { *counters.add(copy * BINS + thread::thread_idx_x() as usize) = 0 };
    }
    // SAFETY: all threads execute this.
    unsafe { thread::sync_threads_aligned() };
}

/// Adds the copies of the counters to those of the grid.
///
/// # Safety
/// Same as for [`clear`]; other code accesses `out` only atomically.
#[inline(always)]
unsafe fn flush<const COPIES: usize>(counters: *mut u32, out: *mut u32) {
    let bin = thread::thread_idx_x() as usize;
    // SAFETY: all threads execute the barrier, after which no counter changes.
    unsafe {
        thread::sync_threads_aligned();
        let count = (0..COPIES).map(|copy| *counters.add(copy * BINS + bin)).sum::<u32>();
        AtomicU32::from_ptr(out.add(bin)).fetch_add(count, Ordering::Relaxed);
    }
}
