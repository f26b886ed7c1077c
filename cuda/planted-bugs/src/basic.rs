//! Barriers, shared memory, bounds, warps and atomics.

use core::sync::atomic::Ordering;

use cuda_std::atomic::{AtomicU32, BlockAtomicU32};
use cuda_std::mem::f32x4;
use cuda_std::{kernel, shared_array, thread, warp};

use crate::{THREADS, block, tid};

/// `out` is `inp` with the rows reversed.
///
/// # Safety
/// A row of [`THREADS`] numbers for each block in both; the body has a bug.
#[kernel]
pub unsafe fn missing_barrier(out: *mut f32, inp: &[f32]) {
    let (row, at) = (shared_array![f32; THREADS], block() * THREADS);
    unsafe {
        *row.add(tid()) = inp[at + tid()];
        *out.add(at + tid()) = *row.add(THREADS - 1 - tid());
    }
}

/// As [`missing_barrier`](fn@missing_barrier), twice, with a barrier too few after the first.
///
/// # Safety
/// Same as for `missing_barrier`.
#[kernel]
pub unsafe fn barrier_too_early(out: *mut f32, inp: &[f32]) {
    let (row, at) = (shared_array![f32; THREADS], block() * THREADS);
    unsafe {
        *row.add(tid()) = inp[at + tid()];
        thread::sync_threads();
        let reversed = *row.add(THREADS - 1 - tid());
        *row.add(tid()) = reversed;
        thread::sync_threads();
        *out.add(at + tid()) = *row.add(THREADS - 1 - tid());
    }
}

/// Every block adds what it takes for the result of the other.
///
/// # Safety
/// Same as for `missing_barrier`.
#[kernel]
pub unsafe fn race_between_blocks(out: *mut f32, inp: &[f32]) {
    let at = block() * THREADS + tid();
    let other = (1 - block()) * THREADS + tid();
    unsafe { *out.add(at) = inp[at] + *out.add(other) };
}

/// Writes half of a row, and reads it whole.
///
/// # Safety
/// Same as for `missing_barrier`.
#[kernel]
pub unsafe fn uninitialised_shared(out: *mut f32, inp: &[f32]) {
    let (row, at) = (shared_array![f32; THREADS], block() * THREADS);
    unsafe {
        if tid() < THREADS / 2 {
            *row.add(tid()) = inp[at + tid()];
        }
        thread::sync_threads();
        let read = *row.add(THREADS - 1 - tid());
        *out.add(at + tid()) = if read > 1.0 { 1.0 } else { 0.0 };
    }
}

/// Adds to what nobody wrote.
///
/// # Safety
/// Same as for `missing_barrier`.
#[kernel]
pub unsafe fn uninitialised_global(out: *mut f32, inp: &[f32]) {
    let at = block() * THREADS + tid();
    unsafe { *out.add(at) += inp[at] };
}

/// `out` is the sum of each row and the next.
///
/// # Safety
/// Same as for `missing_barrier`.
#[kernel]
pub unsafe fn off_by_one_row(out: *mut f32, inp: &[f32]) {
    let at = block() * THREADS + tid();
    unsafe { *out.add(at) = inp[at] + *inp.as_ptr().add(at + THREADS) };
}

/// Keeps a place more than the array has.
///
/// # Safety
/// Same as for `missing_barrier`.
#[kernel]
pub unsafe fn behind_a_shared_array(out: *mut f32, inp: &[f32]) {
    let (row, at) = (shared_array![f32; THREADS], block() * THREADS);
    unsafe {
        *row.add(tid() + 1) = inp[at + tid()];
        thread::sync_threads();
        *out.add(at + tid()) = *row.add(tid() + 1);
    }
}

/// Loads four numbers from the second on.
///
/// # Safety
/// Same as for `missing_barrier`.
#[kernel]
pub unsafe fn misaligned_vector(out: *mut f32, inp: &[f32]) {
    let at = block() * THREADS + tid();
    if tid().is_multiple_of(4) && at + 4 < inp.len() {
        unsafe { *out.add(at) = (*inp.as_ptr().add(at + 1).cast::<f32x4>()).x };
    }
}

/// Half of the threads come to the barrier.
///
/// # Safety
/// Same as for `missing_barrier`.
#[kernel]
pub unsafe fn divergent_barrier(out: *mut f32, inp: &[f32]) {
    let at = block() * THREADS + tid();
    unsafe {
        if tid() < THREADS / 2 {
            thread::sync_threads();
        }
        *out.add(at) = inp[at];
    }
}

/// Lane 31 has returned when the others shuffle with it.
///
/// # Safety
/// Same as for `missing_barrier`.
#[kernel]
pub unsafe fn shuffle_with_the_exited(out: *mut f32, inp: &[f32]) {
    let at = block() * THREADS + tid();
    if warp::lane_id() == 31 {
        return;
    }
    unsafe { *out.add(at) = warp::warp_shuffle_down(u32::MAX, inp[at], 1, 32).0 };
}

/// Reads its neighbour's place in shared memory after a shuffle.
///
/// # Safety
/// Same as for `missing_barrier`.
#[kernel]
pub unsafe fn shuffle_as_a_barrier(out: *mut f32, inp: &[f32]) {
    let (row, at) = (shared_array![f32; THREADS], block() * THREADS);
    unsafe {
        *row.add(tid()) = inp[at + tid()];
        let sum = warp::warp_shuffle_xor(u32::MAX, inp[at + tid()], 1, 32).0;
        *out.add(at + tid()) = sum + *row.add(tid() ^ 1);
    }
}

/// Adds up in the first number.
///
/// # Safety
/// Same as for `missing_barrier`.
#[kernel]
pub unsafe fn lost_update(out: *mut f32, inp: &[f32]) {
    unsafe { *out += inp[block() * THREADS + tid()] };
}

/// Counts the threads of the grid, as far as the scope goes.
///
/// # Safety
/// One number.
#[kernel]
pub unsafe fn wrong_scope(counter: *mut u32) {
    unsafe { BlockAtomicU32::from_ptr(counter).fetch_add(1, Ordering::Relaxed) };
}

/// As [`missing_barrier`](fn@missing_barrier), with the barrier.
///
/// # Safety
/// Same as for `missing_barrier`.
#[kernel]
pub unsafe fn sound(out: *mut f32, inp: &[f32]) {
    let (row, at) = (shared_array![f32; THREADS], block() * THREADS);
    unsafe {
        *row.add(tid()) = inp[at + tid()];
        thread::sync_threads();
        *out.add(at + tid()) = *row.add(THREADS - 1 - tid());
    }
}

/// Counts the threads of the grid.
///
/// # Safety
/// One number.
#[kernel]
pub unsafe fn sound_count(counter: *mut u32) {
    unsafe { AtomicU32::from_ptr(counter) }.fetch_add(1, Ordering::Relaxed);
}
