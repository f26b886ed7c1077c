//! Blocks of a cluster that send each other a row, a number a thread.

use cuda_std::barrier::Barrier;
use cuda_std::{cluster, kernel, shared_array};

use crate::{THREADS, block, tid};

/// Bytes of a row.
const BYTES: u32 = THREADS as u32 * 4;

/// What a block does about the row that it is sent.
#[derive(Clone, Copy)]
struct Receiver {
    expects: bool,
    waits: bool,
    stays: bool,
}

/// `out` is what the other block of the cluster has in `inp`.
///
/// # Safety
/// A row of [`THREADS`] numbers for each block in both, and clusters of two.
#[inline(always)]
unsafe fn swap((out, inp): (*mut f32, &[f32]), does: Receiver) {
    let (row, ready) = (shared_array![f32; THREADS], shared_array![Barrier; 1]);
    let (at, other) = (block() * THREADS + tid(), 1 - cluster::block_rank());
    unsafe {
        if tid() == 0 {
            Barrier::init(ready, 1);
            Barrier::fence_init();
            if does.expects {
                Barrier::arrive_expect_tx(ready, BYTES);
            } else {
                Barrier::arrive(ready);
            }
        }
        cluster::sync();
        cluster::store_async(row.add(tid()), inp[at], ready, other);
        if does.waits {
            Barrier::wait_parity_cluster(ready, 0);
        }
        if does.stays {
            *out.add(at) = *row.add(tid()) + 1.0;
            cluster::sync();
        }
    }
}

/// The phase does not expect the bytes, and so does not wait for them.
///
/// # Safety
/// Same as for `swap`; the body has a bug.
#[kernel(min_arch = 90)]
pub unsafe fn cluster_store_not_expected(out: *mut f32, inp: &[f32]) {
    unsafe { swap((out, inp), Receiver { expects: false, waits: true, stays: true }) };
}

/// Reads what the other block sends, and does not wait for it.
///
/// # Safety
/// Same as for `swap`.
#[kernel(min_arch = 90)]
pub unsafe fn cluster_store_not_waited_for(out: *mut f32, inp: &[f32]) {
    unsafe { swap((out, inp), Receiver { expects: true, waits: false, stays: true }) };
}

/// Ends while the other block writes to it.
///
/// # Safety
/// Same as for `swap`.
#[kernel(min_arch = 90)]
pub unsafe fn cluster_block_ends_too_early(out: *mut f32, inp: &[f32]) {
    unsafe { swap((out, inp), Receiver { expects: true, waits: false, stays: false }) };
}

/// Expects the bytes, waits, and stays.
///
/// # Safety
/// Same as for `swap`.
#[kernel(min_arch = 90)]
pub unsafe fn sound_cluster_store(out: *mut f32, inp: &[f32]) {
    unsafe { swap((out, inp), Receiver { expects: true, waits: true, stays: true }) };
}
