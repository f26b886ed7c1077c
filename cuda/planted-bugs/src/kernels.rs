//! The kernels on rows of numbers, and the table of all bugs.

use core::sync::atomic::Ordering;

use cuda_std::atomic::{AtomicU32, BlockAtomicU32};
use cuda_std::barrier::Barrier;
use cuda_std::mem::f32x4;
use cuda_std::tensor::Swizzle;
use cuda_std::{bulk, cluster, grid, shared_array, thread, warp};

use crate::Kernel::{Cluster, Cooperative, Matrices, Rows, Unwritten, Warpgroup};
use crate::tensor::{self, multiply, multiply_written};
use crate::{Bug, Kernel, Memory, THREADS, at, block, tid};

/// Bytes of a row.
const BYTES: u32 = THREADS as u32 * 4;

/// A row for each bug: its name, what is wrong, what the executor must say about it, and the kernel.
macro_rules! bugs {
    ($($name:literal, $what:literal, [$($message:literal),*]: $kernel:expr;)*) => {
        /// All bugs.
        pub const BUGS: &[Bug] =
            &[$(Bug { name: $name, what: $what, messages: &[$($message),*], kernel: $kernel }),*];
    };
}

bugs! {
    "missing-barrier", "a thread reads what another one wrote, with no barrier between", []:
        Rows(|rows| reverse(rows, || ()));
    "barrier-too-early", "shared memory is written again before all have read it", []:
        Rows(|rows| unsafe {
            let row = shared_array![f32; THREADS];
            *row.add(tid()) = rows.inp();
            thread::sync_threads();
            let reversed = *row.add(THREADS - 1 - tid());
            *row.add(tid()) = reversed;
            thread::sync_threads();
            *rows.out() = *row.add(THREADS - 1 - tid());
        });
    "race-between-blocks", "a block reads what another one writes", []:
        Rows(|rows| unsafe {
            *rows.out() = rows.inp() + *rows.out.add((1 - block()) * THREADS + tid());
        });
    "uninitialised-shared", "shared memory is read that no thread wrote", []:
        Rows(|rows| unsafe {
            let row = shared_array![f32; THREADS];
            if tid() < THREADS / 2 {
                *row.add(tid()) = rows.inp();
            }
            thread::sync_threads();
            let read = *row.add(THREADS - 1 - tid());
            *rows.out() = if read > 1.0 { 1.0 } else { 0.0 };
        });
    "uninitialised-global", "a sum begins with what its output held", []:
        Unwritten(|rows| unsafe { *rows.out() += rows.inp() });
    "off-by-one-row", "the last block reads a row beyond the matrix", []:
        Rows(|rows| unsafe { *rows.out() = rows.inp() + *rows.inp.add(at() + THREADS) });
    "behind-a-shared-array", "the last thread writes beyond the shared array",
        ["wrote to byte 256 of this shared_array!, which has 256 bytes"]:
        Rows(|rows| unsafe {
            let row = shared_array![f32; THREADS];
            *row.add(tid() + 1) = rows.inp();
            thread::sync_threads();
            *rows.out() = *row.add(tid() + 1);
        });
    "misaligned-vector", "a 16-byte load from an address that is a multiple of only 4 bytes", []:
        Rows(|rows| unsafe {
            if tid().is_multiple_of(4) && at() + 4 < 2 * THREADS {
                *rows.out() = (*rows.inp.add(at() + 1).cast::<f32x4>()).x;
            }
        });
    "divergent-barrier", "a barrier in a branch that not all threads take",
        ["thread (32, 0, 0) has returned from the kernel; move the barrier out"]:
        Rows(|rows| unsafe {
            if tid() < THREADS / 2 {
                thread::sync_threads();
            }
            *rows.out() = rows.inp();
        });
    "shuffle-with-the-exited", "a shuffle's mask names a lane that has returned",
        ["but lane 31 has returned from the kernel"]:
        Rows(|rows| unsafe {
            if warp::lane_id() != 31 {
                *rows.out() = warp::warp_shuffle_down(u32::MAX, rows.inp(), 1, 32).0;
            }
        });
    "shuffle-as-a-barrier", "a shuffle is taken to order shared memory", []:
        Rows(|rows| unsafe {
            let row = shared_array![f32; THREADS];
            *row.add(tid()) = rows.inp();
            let sum = warp::warp_shuffle_xor(u32::MAX, rows.inp(), 1, 32).0;
            *rows.out() = sum + *row.add(tid() ^ 1);
        });
    "lost-update", "threads add to one number without an atomic", []:
        Rows(|rows| unsafe { *rows.out += rows.inp() });
    "flag-without-release", "a block stores a flag that does not order the row before it", []:
        Cooperative(|rows| exchange(rows, grid::store_relaxed, Ordering::Acquire));
    "flag-without-acquire", "a block waits for a flag that does not order the row after it", []:
        Cooperative(|rows| exchange(rows, grid::store_release, Ordering::Relaxed));
    "bulk-read-without-wait", "a thread reads what a bulk copy brings, and another one has waited for it", []:
        Rows(|rows| bulk_reverse(rows, true, |_| tid() == 0));
    "bulk-copy-not-expected", "a barrier does not expect the bytes of a bulk copy, and its phase ends without them",
        ["bulk::global_to_shared of 256 bytes was on its way when a block ended"]:
        Rows(|rows| bulk_reverse(rows, false, |_| true));
    "bulk-store-not-fenced", "a bulk copy reads what threads have written and not fenced",
        ["of what no thread has fenced"]:
        Rows(|rows| bulk_store(rows, || (), bulk::wait_read::<0>));
    "bulk-store-not-waited-for", "a block ends while a bulk copy may read its shared memory",
        ["of 256 bytes was reading shared memory when its thread returned"]:
        Rows(|rows| bulk_store(rows, bulk::fence_shared, || ()));
    "cluster-store-not-expected", "a barrier does not expect the bytes of stores of another block, and its phase ends without them",
        ["cluster::store_async of 4 bytes was on its way when a block ended"]:
        Cluster(|rows| swap(rows, false, true, true));
    "cluster-store-not-waited-for", "a block reads what another one stores, and does not wait for it",
        ["cluster::store_async of 4 bytes was on its way when a block ended"]:
        Cluster(|rows| swap(rows, true, false, true));
    // The stores are left, or the other block sees that it has ended.
    "cluster-block-ends-too-early", "a block ends while another one stores to its shared memory",
        ["cluster::store_async of 4 bytes was on its way when a block ended", "which has ended"]:
        Cluster(|rows| swap(rows, true, false, false));
    "stage-released-early", "a stage is filled again while a multiplication of a warpgroup reads it",
        ["still reads; wait for its group"]:
        Matrices(Swizzle::Bytes128, |a, b| multiply(a, b, tensor::BYTES, true));
    "tile-not-expected", "a barrier expects the bytes of one tile, and two are copied",
        ["waits for a phase that does not end: the barrier lacks 0 arrivals and -"]:
        Matrices(Swizzle::Bytes128, |a, b| multiply(a, b, 64 * 128, false));
    "operands-not-fenced", "a multiplication of a warpgroup reads what threads have written and not fenced",
        ["reads operands of what no thread has fenced"]:
        Warpgroup(|| multiply_written(|| ()));
    // Copies are watched if the threads are fibers; else the sums are wrong.
    "wrong-swizzle", "a tile is copied with another swizzle than the multiplication reads",
        ["copied with Swizzle::None; make the tensor map", "at row "]:
        Matrices(Swizzle::None, |a, b| multiply(a, b, tensor::BYTES, false));
    "wrong-scope", "blocks count together in the scope of a block",
        ["an atomic with the scope of its block changed a number"]:
        Rows(|rows| _ = unsafe { BlockAtomicU32::from_ptr(rows.flags).fetch_add(1, Ordering::Relaxed) });
}

/// The same kernels without a bug.
pub const SOUND: &[Kernel] = &[
    Rows(|rows| reverse(rows, thread::sync_threads)),
    Rows(|rows| _ = unsafe { AtomicU32::from_ptr(rows.flags) }.fetch_add(1, Ordering::Relaxed)),
    Cooperative(|rows| exchange(rows, grid::store_release, Ordering::Acquire)),
    Rows(|rows| bulk_reverse(rows, true, |_| true)),
    Rows(|rows| bulk_store(rows, bulk::fence_shared, bulk::wait_read::<0>)),
    Cluster(|rows| swap(rows, true, true, true)),
    Matrices(Swizzle::Bytes128, |a, b| multiply(a, b, tensor::BYTES, false)),
    Warpgroup(|| multiply_written(bulk::fence_shared)),
];

/// Reverses the block's row through shared memory.
fn reverse(rows: &Memory, barrier: fn()) {
    let row = shared_array![f32; THREADS];
    unsafe {
        *row.add(tid()) = rows.inp();
        barrier();
        *rows.out() = *row.add(THREADS - 1 - tid());
    }
}

/// Sends the block's row to the other block, and adds the one that comes from there, after its flag.
fn exchange(rows: &Memory, store: unsafe fn(*mut u32, u32), ordering: Ordering) {
    let other = 1 - block();
    unsafe {
        *rows.sent.add(at()) = rows.inp();
        thread::sync_threads();
        if tid() == 0 {
            store(rows.flags.add(block()), 1);
            grid::wait_until(rows.flags.add(other), ordering, |flag| flag == 1);
        }
        thread::sync_threads();
        *rows.out() = rows.inp() + *rows.sent.add(other * THREADS + tid());
    }
}

/// Reverses the block's row, which a bulk copy brings to shared memory. The threads for which `waits` is true wait for it.
fn bulk_reverse(rows: &Memory, expects: bool, waits: fn(usize) -> bool) {
    let (row, ready) = (shared_array![f32x4; THREADS / 4].cast::<f32>(), shared_array![Barrier; 1]);
    unsafe {
        if tid() == 0 {
            Barrier::init(ready, 1);
            Barrier::fence_init();
            if expects {
                Barrier::arrive_expect_tx(ready, BYTES);
            }
            bulk::global_to_shared(row, rows.inp.add(at()), THREADS as u32, ready);
            if !expects {
                Barrier::arrive(ready);
            }
        }
        thread::sync_threads();
        if waits(tid()) {
            Barrier::wait_parity(ready, 0);
        }
        *rows.out() = *row.add(THREADS - 1 - tid()) + 1.0;
    }
}

/// Writes a row that one thread copies out in bulk.
fn bulk_store(rows: &Memory, fence: fn(), wait: fn()) {
    let row = shared_array![f32x4; THREADS / 4].cast::<f32>();
    unsafe {
        *row.add(tid()) = rows.inp() + 1.0;
        fence();
        thread::sync_threads();
        if tid() == 0 {
            bulk::shared_to_global(rows.out(), row, THREADS as u32);
            bulk::commit();
            wait();
        }
    }
}

/// Blocks of a cluster send each other a row, a number per thread.
fn swap(rows: &Memory, expects: bool, waits: bool, stays: bool) {
    let (row, ready) = (shared_array![f32; THREADS], shared_array![Barrier; 1]);
    unsafe {
        if tid() == 0 {
            Barrier::init(ready, 1);
            Barrier::fence_init();
            if expects {
                Barrier::arrive_expect_tx(ready, BYTES);
            } else {
                Barrier::arrive(ready);
            }
        }
        cluster::sync();
        cluster::store_async(row.add(tid()), rows.inp(), ready, 1 - cluster::block_rank());
        if waits {
            Barrier::wait_parity_cluster(ready, 0);
        }
        if stays {
            *rows.out() = *row.add(tid()) + 1.0;
            cluster::sync();
        }
    }
}
