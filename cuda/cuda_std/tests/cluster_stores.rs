//! Barriers, stores and copies from one block to another of its cluster on the executor: which threads are woken, and
//! wrong uses. For values, see `cluster_kernels.rs` of `ptx_emulator`.

use cuda_std::barrier::Barrier;
use cuda_std::mem::f32x4;
#[cfg(not(miri))]
use cuda_std::simt::Executor;
use cuda_std::{bulk, cluster, shared_array};

use crate::common::{barrier_for, on, tid};

/// Two tiles and a barrier for one arrival, ready for the cluster.
fn tiles_and_barrier() -> (*mut f32x4, *mut Barrier) {
    let (tiles, ready) = (shared_array![f32x4; 8], barrier_for(1));
    // SAFETY: only the first thread writes the tiles, before the cluster's barrier.
    unsafe {
        if tid() == 0 {
            (0..8).for_each(|i| *tiles.add(i) = f32x4::splat(i as f32));
            bulk::fence_shared();
        }
        cluster::sync();
    }
    (tiles, ready)
}

/// Blocks pass on a number twice around, and each adds its rank. None waits at a barrier of the cluster meanwhile.
#[test]
fn a_thread_is_woken_by_another_block() {
    let sizes: &[u32] = if cfg!(miri) { &[3] } else { &[2, 5, 16] };
    for &size in sizes {
        on(2 * size, 2).cluster(size).check(|| {
            let (value, ready) = (shared_array![u32; 1], barrier_for(1));
            let rank = cluster::block_rank();
            // SAFETY: one block at a time has the number, and all stay until it is back.
            unsafe {
                if tid() == 0 {
                    *value = 0;
                }
                cluster::sync();
                if tid() == 1 {
                    for round in 0..2 {
                        if rank > 0 || round > 0 {
                            Barrier::wait_parity_cluster(ready, if rank > 0 { round } else { round - 1 });
                        }
                        let next = (rank + 1) % size;
                        *cluster::map_shared(value, next) = *value + rank;
                        Barrier::arrive_remote(ready, next);
                    }
                }
                cluster::sync();
                assert!(rank > 0 || *value == size * (size - 1));
            }
        });
    }
}

#[test]
fn a_phase_that_no_block_ends_is_a_fault() {
    let expected = "barrier::Barrier::wait_parity_cluster waits .. lacks 0 arrivals and 16 bytes";
    on(2, 2).cluster(2).fails(expected, || {
        let (tiles, ready) = tiles_and_barrier();
        if tid() == 1 {
            // SAFETY: on the executor it is a fault that fewer bytes come than are expected.
            unsafe {
                Barrier::arrive_expect_tx(ready, 32);
                cluster::store_async(tiles, f32x4::splat(1.0), ready, 1 - cluster::block_rank());
                Barrier::wait_parity_cluster(ready, 0);
            }
        }
    });
}

/// Checks the fault of the first block of a cluster of two that does this with two tiles and a barrier.
#[track_caller]
fn check_left(operation: &str, bytes: u32, first: impl Fn(*mut f32x4, *mut Barrier) + Sync) {
    let expected =
        format!("block (0, 0, 0) .. {operation} of {bytes} bytes was on its way when a block ended");
    on(2, 1).cluster(2).fails(&expected, || {
        let (tiles, ready) = tiles_and_barrier();
        if cluster::block_rank() == 0 {
            first(tiles, ready);
        }
    });
}

#[test]
fn a_block_that_ends_while_others_write_to_it_is_a_fault() {
    // SAFETY: on the executor these are faults. The first block does not end before the store has been started.
    unsafe {
        check_left("cluster::store_async", 4, |tiles, ready| {
            cluster::store_async(tiles.cast::<f32>(), 1.0, ready, 0);
        });
        check_left("bulk::shared_to_shared", 64, |tiles, ready| {
            bulk::shared_to_shared(tiles, tiles.add(4), 4, ready, 0);
        });
    }
}

// The scheduler of threads keeps the memory, and performs the copy.
#[cfg(not(miri))]
#[test]
fn a_block_that_ends_while_its_tile_is_read_is_a_fault() {
    let fibers = [Executor::new().without_seed(), Executor::new().with_seed(3)];
    on(2, 2).cluster(2).by(fibers).fails("bulk::shared_to_shared of 64 bytes was on its way", || {
        let (tiles, ready) = tiles_and_barrier();
        // SAFETY: a fault on the executor: the first block ends while the second one waits for an arrival.
        unsafe {
            if cluster::block_rank() == 1 {
                Barrier::wait_parity_cluster(ready, 0);
            } else if tid() == 0 {
                bulk::shared_to_shared(tiles, tiles.add(4), 4, ready, 1);
            }
        }
    });
}

/// Checks the panic of a thread of a cluster of two that does this with two tiles and a barrier.
#[track_caller]
fn check_panic(expected: &str, kernel: impl Fn(*mut f32x4, *mut Barrier) + Sync) {
    on(2, 1).cluster(2).fails(&format!("panicked: .. {expected}"), || {
        let (tiles, ready) = tiles_and_barrier();
        kernel(tiles, ready);
    });
}

#[test]
fn misuse_is_reported() {
    // SAFETY: on the executor all of these are faults.
    unsafe {
        check_panic("Barrier::arrive_remote() was asked for block 2 of a cluster of 2", |_, ready| {
            Barrier::arrive_remote(ready, 2);
        });
        check_panic("Barrier::arrive_remote() of memory that does not hold a barrier", |_, ready| {
            Barrier::inval(ready);
            Barrier::arrive_remote(ready, cluster::block_rank());
        });
        check_panic("cluster::store_async() was asked for block 2 of a cluster of 2", |tiles, ready| {
            cluster::store_async(tiles, f32x4::splat(1.0), ready, 2);
        });
        check_panic("cluster::store_async() of 16 bytes at 0x", |_, ready| {
            cluster::store_async(&raw mut *Box::new(f32x4::splat(1.0)), f32x4::splat(1.0), ready, 1);
        });
        check_panic("align it to the store's 16 bytes", |tiles, ready| {
            cluster::store_async(tiles.cast::<f32>().add(1).cast(), f32x4::splat(1.0), ready, 1);
        });
        check_panic(
            "cluster::store_async() counts at a barrier of memory that does not hold",
            |tiles, ready| {
                Barrier::inval(ready);
                cluster::store_async(tiles, f32x4::splat(1.0), ready, cluster::block_rank());
            },
        );
        check_panic("bulk::shared_to_shared() got the target's address 0x", |tiles, ready| {
            bulk::shared_to_shared(tiles.cast::<f32>().add(1), tiles.cast(), 4, ready, 1);
        });
        check_panic("bulk::shared_to_shared() of 24 bytes; copy a multiple of 16", |tiles, ready| {
            bulk::shared_to_shared(tiles.cast::<f32>(), tiles.cast(), 6, ready, 1);
        });
        check_panic("bulk::shared_to_shared() was asked for block 7 of a cluster of 2", |tiles, ready| {
            bulk::shared_to_shared(tiles, tiles.add(4), 4, ready, 7);
        });
    }
}

/// A GPU traps at a store in a launch without clusters, to the block itself too. What else reaches the block itself works.
#[test]
fn a_store_without_a_cluster_is_reported() {
    let expected = "kernel test failed in block .. cluster::store_async() in a launch without clusters, at which GPUs trap; \
                    launch clusters of at least 2 blocks, or write to the block's own memory";
    for blocks in [1, 3] {
        on(blocks, 1).fails(expected, || {
            let (tiles, ready) = tiles_and_barrier();
            // SAFETY: on the executor the store is a fault; the block is alone in its cluster.
            unsafe {
                *cluster::map_shared(tiles, 0) = f32x4::splat(5.0);
                Barrier::arrive_remote(ready, 0);
                Barrier::wait_parity_cluster(ready, 0);
                cluster::store_async(tiles, f32x4::splat(1.0), ready, 0);
            }
        });
    }
}
