//! Blocks that send each other a row, and say by a flag that it is there.

use core::sync::atomic::Ordering;

use cuda_std::{grid, kernel, thread};

use crate::{THREADS, block, tid};

/// Sends the block's row to the other block, and adds the one that comes from there.
///
/// # Safety
/// Two blocks; a row of [`THREADS`] numbers for each in `out`, `inp` and `sent`, a flag for each in `flags`, zeros.
#[inline(always)]
unsafe fn exchange(
    (out, inp, sent, flags): (*mut f32, &[f32], *mut f32, *mut u32),
    store: unsafe fn(*mut u32, u32),
    ordering: Ordering,
) {
    let (at, other) = (block() * THREADS + tid(), (1 - block()) * THREADS + tid());
    unsafe {
        *sent.add(at) = inp[at];
        thread::sync_threads();
        if tid() == 0 {
            store(flags.add(block()), 1);
            grid::wait_until(flags.add(1 - block()), ordering, |flag| flag == 1);
        }
        thread::sync_threads();
        *out.add(at) = inp[at] + *sent.add(other);
    }
}

/// Stores the flag in relaxed order.
///
/// # Safety
/// Same as for `exchange`; the body has a bug.
#[kernel(cooperative)]
pub unsafe fn flag_stored_without_release(out: *mut f32, inp: &[f32], sent: *mut f32, flags: *mut u32) {
    unsafe { exchange((out, inp, sent, flags), grid::store_relaxed, Ordering::Acquire) };
}

/// Waits for the flag in relaxed order.
///
/// # Safety
/// Same as for `exchange`.
#[kernel(cooperative)]
pub unsafe fn flag_seen_without_acquire(out: *mut f32, inp: &[f32], sent: *mut f32, flags: *mut u32) {
    unsafe { exchange((out, inp, sent, flags), grid::store_release, Ordering::Relaxed) };
}

/// Stores the flag and waits for it with the order that they need.
///
/// # Safety
/// Same as for `exchange`.
#[kernel(cooperative)]
pub unsafe fn sound_exchange(out: *mut f32, inp: &[f32], sent: *mut f32, flags: *mut u32) {
    unsafe { exchange((out, inp, sent, flags), grid::store_release, Ordering::Acquire) };
}
