//! Trees in shared memory: each block computes one sum of its elements, and another launch sums those.
//!
//! * `global`: the tree without shared memory. Each launch is a round, which adds pairs of neighbours.
//!
//! The threads of a block write their elements to shared memory. Eight rounds halve their number, with a barrier before
//! each. The rungs differ in which threads add which pair; choosing them costs as much as the additions themselves:
//!
//! * `modulo`: if `t` is a multiple of `2 * stride`, thread `t` adds the element `stride` above to element `t`. The
//!   remainder takes a division of some twenty instructions. In the rounds up to a stride of 16 every warp has lanes that
//!   add and lanes that do not: it executes each round with ever fewer active lanes.
//! * `mask`: `2 * stride` is a power of two, so the lowest bits of `t` are the remainder.
//! * `strided`: thread `t` adds pair number `t`. So the first threads do the additions, and most warps skip a round
//!   entirely. But now neighbouring lanes are `2 * stride` words apart, which causes bank conflicts.
//! * `sequential`: the upper half is added to the lower, element by element. Neighbouring lanes have neighbouring words.
//! * `first_add`: half of the threads only loaded. With two elements per thread all of them add, and there are half as many
//!   blocks.
//!
//! Requires: blocks of 256 threads. The order of the additions is fixed.
//@ ptx(reduce_global): ld.global.b32 == 2, st.global == 1, bar.sync == 0, .shared == 0, .local == 0
//@ ptx(reduce_modulo): rem.u32 == 1, bar.sync == 1, ld.shared == 3, shfl == 0, .local == 0
//@ ptx(reduce_mask): rem == 0, bar.sync == 1, ld.shared == 3, shfl == 0, .local == 0
//@ ptx(reduce_strided): rem == 0, bar.sync == 1, ld.shared == 3, shfl == 0, .local == 0
//@ ptx(reduce_sequential): rem == 0, bar.sync == 1, ld.shared == 3, shfl == 0, .local == 0
//@ ptx(reduce_first_add): ld.global.b32 == 2, bar.sync == 1, ld.shared == 3, shfl == 0, .local == 0

use cuda_std::hint::opaque;
use cuda_std::{kernel, shared_array, thread};

const BLOCK: usize = 256;

/// `inp[i]`, or 0 past its end.
///
/// # Safety
/// `inp` holds `len` elements.
#[inline(always)]
unsafe fn element(inp: *const f32, i: usize, len: u32) -> f32 {
    // SAFETY: checked just before.
    if i < len as usize { unsafe { *inp.add(i) } } else { 0.0 }
}

/// Computes `out[i]`, the sum of the elements `2 * i` and `2 * i + 1` of `inp`.
///
/// Launched with at least `len / 2`, rounded up, threads along x, in blocks of 256.
///
/// # Safety
/// The launch is as described; `inp` holds `len` elements and `out` half as many, rounded up, which no other code uses.
#[kernel(max_threads = 256, args = super::Arguments, facts: super::Reduction = super::Reduction::Rounds)]
pub unsafe fn reduce_global(out: *mut f32, inp: *const f32, len: u32) {
    let i = thread::index_1d() as usize;
    if 2 * i < len as usize {
        // SAFETY: checked just before, and only this thread writes the sum.
        unsafe { *out.add(i) = element(inp, 2 * i, len) + element(inp, 2 * i + 1, len) };
    }
}

/// Computes `out[b]`, the sum of the 256 elements of `inp` from `256 * b` on. A remainder selects the threads that add.
///
/// Launched with one block of 256 threads along x for each element of `out`.
///
/// # Safety
/// The launch is as described; `inp` holds `len` elements, and no other code uses the elements of `out`.
#[kernel(max_threads = 256, args = super::Arguments, facts: super::Reduction = super::Reduction::Passes(256))]
pub unsafe fn reduce_modulo(out: *mut f32, inp: *const f32, len: u32) {
    let x_shared = shared_array![f32; BLOCK];
    let (block, tid) = (thread::block_idx_x() as usize, thread::thread_idx_x() as usize);
    // SAFETY: indices are below 256. In each round one thread uses an element, and a barrier lies between rounds.
    unsafe {
        *x_shared.add(tid) = element(inp, block * BLOCK + tid, len);
        let mut stride = opaque(1);
        while stride < BLOCK {
            thread::sync_threads_aligned();
            if (tid as u32).is_multiple_of(2 * stride as u32) {
                *x_shared.add(tid) += *x_shared.add(tid + stride);
            }
            stride = opaque(2 * stride);
        }
        if tid == 0 {
            *out.add(block) = *x_shared;
        }
    }
}

/// Like [`reduce_modulo`](fn@reduce_modulo), but the lowest bits of the thread's number select the threads that add.
///
/// # Safety
/// Same as for [`reduce_modulo`](fn@reduce_modulo).
#[kernel(max_threads = 256, args = super::Arguments, facts: super::Reduction = super::Reduction::Passes(256))]
pub unsafe fn reduce_mask(out: *mut f32, inp: *const f32, len: u32) {
    let x_shared = shared_array![f32; BLOCK];
    let (block, tid) = (thread::block_idx_x() as usize, thread::thread_idx_x() as usize);
    // SAFETY: as in `reduce_modulo`.
    unsafe {
        *x_shared.add(tid) = element(inp, block * BLOCK + tid, len);
        let mut stride = opaque(1);
        while stride < BLOCK {
            thread::sync_threads_aligned();
            if tid & (2 * stride - 1) == 0 {
                *x_shared.add(tid) += *x_shared.add(tid + stride);
            }
            stride = opaque(2 * stride);
        }
        if tid == 0 {
            *out.add(block) = *x_shared;
        }
    }
}

/// Like [`reduce_mask`](fn@reduce_mask), with the same additions, by the first threads.
///
/// # Safety
/// Same as for [`reduce_modulo`](fn@reduce_modulo).
#[kernel(max_threads = 256, args = super::Arguments, facts: super::Reduction = super::Reduction::Passes(256))]
pub unsafe fn reduce_strided(out: *mut f32, inp: *const f32, len: u32) {
    let x_shared = shared_array![f32; BLOCK];
    let (block, tid) = (thread::block_idx_x() as usize, thread::thread_idx_x() as usize);
    // SAFETY: as in `reduce_modulo`.
    unsafe {
        *x_shared.add(tid) = element(inp, block * BLOCK + tid, len);
        let mut stride = opaque(1);
        while stride < BLOCK {
            thread::sync_threads_aligned();
            let i = 2 * stride * tid;
            if i < BLOCK {
                *x_shared.add(i) += *x_shared.add(i + stride);
            }
            stride = opaque(2 * stride);
        }
        if tid == 0 {
            *out.add(block) = *x_shared;
        }
    }
}

/// Like [`reduce_strided`](fn@reduce_strided), but the upper half is added to the lower.
///
/// # Safety
/// Same as for [`reduce_modulo`](fn@reduce_modulo).
#[kernel(max_threads = 256, args = super::Arguments, facts: super::Reduction = super::Reduction::Passes(256))]
pub unsafe fn reduce_sequential(out: *mut f32, inp: *const f32, len: u32) {
    let x_shared = shared_array![f32; BLOCK];
    let (block, tid) = (thread::block_idx_x() as usize, thread::thread_idx_x() as usize);
    // SAFETY: as in `reduce_modulo`.
    unsafe {
        *x_shared.add(tid) = element(inp, block * BLOCK + tid, len);
        let mut stride = opaque(BLOCK / 2);
        while stride > 0 {
            thread::sync_threads_aligned();
            if tid < stride {
                *x_shared.add(tid) += *x_shared.add(tid + stride);
            }
            stride = opaque(stride / 2);
        }
        if tid == 0 {
            *out.add(block) = *x_shared;
        }
    }
}

/// Computes `out[b]`, the sum of the 512 elements of `inp` from `512 * b` on. Each thread adds two when it loads them.
///
/// # Safety
/// Same as for [`reduce_modulo`](fn@reduce_modulo).
#[kernel(max_threads = 256, args = super::Arguments, facts: super::Reduction = super::Reduction::Passes(512))]
pub unsafe fn reduce_first_add(out: *mut f32, inp: *const f32, len: u32) {
    let x_shared = shared_array![f32; BLOCK];
    let (block, tid) = (thread::block_idx_x() as usize, thread::thread_idx_x() as usize);
    let first = 2 * block * BLOCK + tid;
    // SAFETY: as in `reduce_modulo`.
    unsafe {
        *x_shared.add(tid) = element(inp, first, len) + element(inp, first + BLOCK, len);
        let mut stride = opaque(BLOCK / 2);
        while stride > 0 {
            thread::sync_threads_aligned();
            if tid < stride {
                *x_shared.add(tid) += *x_shared.add(tid + stride);
            }
            stride = opaque(stride / 2);
        }
        if tid == 0 {
            *out.add(block) = *x_shared;
        }
    }
}
