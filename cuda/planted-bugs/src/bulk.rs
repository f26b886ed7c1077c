//! Rows that a bulk copy brings to shared memory.

use cuda_std::barrier::Barrier;
use cuda_std::{bulk, kernel, shared_array, thread};

use crate::{THREADS, block, tid};

/// Bytes of a row.
const BYTES: u32 = THREADS as u32 * 4;

/// `out` is `inp` with the rows reversed, by way of a copy that `start` starts and `wait` waits for.
///
/// # Safety
/// A row of [`THREADS`] numbers for each block in both, which begins at a multiple of 16 bytes.
#[inline(always)]
unsafe fn reverse(
    (out, inp): (*mut f32, &[f32]),
    start: unsafe fn(*mut f32, *const f32, *mut Barrier),
    wait: unsafe fn(*mut Barrier),
) {
    let (row, at) = (shared_array![f32; THREADS], block() * THREADS);
    let ready = shared_array![Barrier; 1];
    unsafe {
        if tid() == 0 {
            Barrier::init(ready, 1);
            Barrier::fence_init();
            start(row, inp.as_ptr().add(at), ready);
        }
        thread::sync_threads();
        wait(ready);
        *out.add(at + tid()) = *row.add(THREADS - 1 - tid()) + 1.0;
    }
}

/// # Safety
/// Same as for `reverse`.
unsafe fn start(row: *mut f32, inp: *const f32, ready: *mut Barrier) {
    unsafe {
        Barrier::arrive_expect_tx(ready, BYTES);
        bulk::global_to_shared(row, inp, THREADS as u32, ready);
    }
}

/// # Safety
/// Same as for `reverse`.
unsafe fn wait(ready: *mut Barrier) {
    unsafe { Barrier::wait_parity(ready, 0) };
}

/// One thread waits, and then nobody for that one.
///
/// # Safety
/// Same as for `reverse`; the body has a bug.
#[kernel(min_arch = 90)]
pub unsafe fn bulk_read_without_wait(out: *mut f32, inp: &[f32]) {
    let wait_alone = |ready| unsafe {
        if tid() == 0 {
            wait(ready);
        }
    };
    unsafe { reverse((out, inp), start, wait_alone) };
}

/// The phase does not expect the bytes, and so does not wait for them.
///
/// # Safety
/// Same as for `reverse`.
#[kernel(min_arch = 90)]
pub unsafe fn bulk_copy_not_expected(out: *mut f32, inp: &[f32]) {
    let start = |row: *mut f32, inp: *const f32, ready: *mut Barrier| unsafe {
        bulk::global_to_shared(row, inp, THREADS as u32, ready);
        Barrier::arrive(ready);
    };
    unsafe { reverse((out, inp), start, wait) };
}

/// Expects the bytes, and waits for them.
///
/// # Safety
/// Same as for `reverse`.
#[kernel(min_arch = 90)]
pub unsafe fn sound_bulk_copy(out: *mut f32, inp: &[f32]) {
    unsafe { reverse((out, inp), start, wait) };
}

/// `out` = `inp` + 1, by way of a copy that one thread starts and waits for, after each thread has written a number and then
/// done as `fence` does.
///
/// # Safety
/// Same as for `reverse`; `out` begins at a multiple of 16 bytes too.
#[inline(always)]
unsafe fn store((out, inp): (*mut f32, &[f32]), fence: fn(), wait: fn()) {
    let (row, at) = (shared_array![f32; THREADS], block() * THREADS);
    unsafe {
        *row.add(tid()) = inp[at + tid()] + 1.0;
        fence();
        thread::sync_threads();
        if tid() == 0 {
            bulk::shared_to_global(out.add(at), row, THREADS as u32);
            bulk::commit();
            wait();
        }
    }
}

/// Nobody fences what is copied.
///
/// # Safety
/// Same as for `store`; the body has a bug.
#[kernel(min_arch = 90)]
pub unsafe fn bulk_store_not_fenced(out: *mut f32, inp: &[f32]) {
    unsafe { store((out, inp), || (), bulk::wait_read::<0>) };
}

/// The block may end before its shared memory is read.
///
/// # Safety
/// Same as for `store`.
#[kernel(min_arch = 90)]
pub unsafe fn bulk_store_not_waited_for(out: *mut f32, inp: &[f32]) {
    unsafe { store((out, inp), bulk::fence_shared, || ()) };
}

/// Fences, and waits.
///
/// # Safety
/// Same as for `store`.
#[kernel(min_arch = 90)]
pub unsafe fn sound_bulk_store(out: *mut f32, inp: &[f32]) {
    unsafe { store((out, inp), bulk::fence_shared, bulk::wait_read::<0>) };
}
