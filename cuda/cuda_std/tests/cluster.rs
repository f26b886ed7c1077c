//! Clusters on the executor: ranks, the barrier, distributed shared memory, and wrong uses.

use core::sync::atomic::{AtomicU32, Ordering};
use std::sync::Mutex;

use cuda_std::launch::{LaunchConfig, Limits};
use cuda_std::simt::Executor;
use cuda_std::{cluster, kernel, shared, shared_array, thread};

use crate::common::{all, block, has, on, tid};

/// Writes to `out[i]` the sum of `inp` over the cluster of block `i`, through every block's shared memory.
///
/// # Safety
/// Launched with blocks of 33 threads; one element per block.
#[kernel(min_arch = 90)]
pub unsafe fn sums(out: *mut u32, inp: &[u32]) {
    let (rank, blocks) = (cluster::block_rank(), cluster::num_blocks());
    let tid = thread::thread_idx_x();
    // Every other block creates the arrays in a different order, so they lie elsewhere.
    let pair =
        |odd| if odd { shared_array![u32; 3].cast::<u8>() } else { shared_array![u32; 16].cast::<u8>() };
    let (_, _) = (pair(rank % 2 == 1), pair(rank % 2 == 0));
    let values = pair(false).cast::<u32>();
    let dynamic = shared::dynamic_shared_mem::<u32>();
    // SAFETY: all threads reach the barriers; thread `t` writes to block `t` between two of them.
    unsafe {
        cluster::arrive_relaxed();
        let own = inp[block()];
        cluster::wait();
        if tid < blocks {
            *cluster::map_shared(values, tid).add(rank as usize) = own;
            *cluster::map_shared(dynamic.add(rank as usize), tid) = own;
        }
        cluster::sync();
        if tid == 0 {
            let sum = |from: *mut u32| (0..blocks as usize).map(|i| *from.add(i)).sum::<u32>();
            assert_eq!(sum(values), sum(dynamic), "static and dynamic memory");
            *out.add(block()) = sum(values);
        }
    }
}

#[test]
fn blocks_of_a_cluster_add_up_through_shared_memory() {
    let executors = all();
    for size in 1..=16 {
        for clusters in [1, 5] {
            let blocks = size * clusters;
            let inp: Vec<u32> = (0..blocks).map(|i| i * i + 1).collect();
            let mut out = vec![0; blocks as usize];
            let config = LaunchConfig::new(blocks, 33).with_cluster(size).with_shared_bytes(64);
            let executor = &executors[(size + clusters) as usize % executors.len()];
            // SAFETY: one element per block.
            unsafe { sums::launch(executor, config, &mut out, &inp) }.unwrap();
            for (cluster, out) in inp.chunks(size as usize).zip(out.chunks(size as usize)) {
                assert_eq!(out, vec![cluster.iter().sum::<u32>(); size as usize], "{size}");
            }
        }
    }
}

#[test]
fn ranks_follow_x_in_every_row_of_the_grid() {
    let seen = Mutex::new(Vec::new());
    on((6, 2, 2), 1).cluster(3).by([Executor::new()]).check(|| {
        let (block, rank) = (thread::block_idx(), cluster::block_rank());
        assert_eq!((rank, cluster::num_blocks()), (block.x % 3, 3));
        // SAFETY: all threads reach this.
        unsafe { cluster::sync() };
        seen.lock().unwrap().push((block.x, block.y, block.z));
    });
    let mut seen = seen.into_inner().unwrap();
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len(), 24);
}

#[test]
fn without_a_cluster_a_block_is_alone_in_one() {
    on(3, 64).check(|| {
        let value = shared_array![u32; 1];
        assert_eq!((cluster::block_rank(), cluster::num_blocks()), (0, 1));
        assert_eq!(cluster::map_shared(value, 0), value);
        // SAFETY: all threads reach this, and one thread writes.
        unsafe {
            if tid() == 40 {
                *value = thread::block_idx_x();
            }
            cluster::sync();
            assert_eq!(*value, thread::block_idx_x());
        }
    });
}

#[test]
fn all_are_there_before_a_thread_goes_on() {
    for executor in all() {
        let here = [const { AtomicU32::new(0) }; 3];
        on(4, 70).cluster(4).by([executor]).check(|| {
            for here in &here {
                // Block barriers between the cluster's, and warps that are partly filled.
                // SAFETY: all threads reach both barriers.
                unsafe {
                    thread::sync_threads_aligned();
                    here.fetch_add(1, Ordering::Relaxed);
                    cluster::sync();
                }
                assert_eq!(here.load(Ordering::Relaxed), 4 * 70);
            }
        });
    }
}

#[test]
fn a_thread_that_returned_misses_the_barrier() {
    for last_waits in [false, true] {
        let expected = format!(
            "cluster.rs:{}: cluster::sync is not reached by all threads of the cluster: thread (0, 0, 0) of block .. \
             has returned",
            line!() + 6
        );
        on(4, 40).cluster(2).fails(&expected, || {
            let is_missing = block() % 2 == 1 && (!last_waits || tid() != 39);
            if !is_missing {
                // SAFETY: none; the test is about the threads that do not reach this.
                unsafe { cluster::sync() };
            }
        });
    }
}

#[test]
#[expect(clippy::if_same_then_else, reason = "the two barriers are what is tested")]
fn barriers_in_two_branches_are_not_one_barrier() {
    let line = line!() + 8;
    let expected = format!(
        "cluster.rs:{line}: cluster::sync is not .. of block (1, 0, 0) waits in cluster::sync at .. :{};",
        line + 3
    );
    on(2, 32).cluster(2).by([Executor::new().without_seed()]).fails(&expected, || {
        if block() == 0 {
            // SAFETY: none; the two barriers are not the same.
            unsafe { cluster::sync() };
        } else {
            // SAFETY: none; the two barriers are not the same.
            unsafe { cluster::sync() };
        }
    });
}

#[test]
fn a_block_barrier_is_no_cluster_barrier() {
    // In another block, then in the same one, where the block barrier is reported.
    let expected = "thread::sync_threads_aligned is not .. thread (4, 0, 0) waits in cluster::sync";
    on(2, 32).cluster(2).by([Executor::new()]).fails(expected, || {
        // SAFETY: none; not all threads reach either barrier.
        unsafe {
            if block() == 0 {
                thread::sync_threads_aligned();
            }
            if block() == 1 || tid() > 3 {
                cluster::sync();
            } else {
                thread::sync_threads_aligned();
            }
        }
    });
}

#[test]
fn a_panic_in_one_block_unwinds_the_others() {
    struct CountDrops<'a>(&'a AtomicU32);
    impl Drop for CountDrops<'_> {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    for executor in all() {
        let drops = AtomicU32::new(0);
        on(3, 16).cluster(3).by([executor]).fails(
            "block (1, 0, 0), thread (5, 0, 0) .. panicked: planted",
            || {
                let _count = CountDrops(&drops);
                // SAFETY: all threads reach the first barrier, and all except the one that panics the second one.
                unsafe {
                    cluster::sync();
                    assert!(block() != 1 || tid() != 5, "planted");
                    cluster::sync();
                }
            },
        );
        assert_eq!(drops.into_inner(), 48);
    }
    // The fibers can be used for the next launch.
    blocks_of_a_cluster_add_up_through_shared_memory();
}

#[test]
fn arrivals_and_waits_alternate() {
    // SAFETY: none; the barrier is used wrongly.
    on(2, 2).cluster(2).fails("cluster::wait() without an arrival", || unsafe { cluster::wait() });
    // SAFETY: none; the barrier is used wrongly.
    on(2, 2).cluster(2).fails("cluster::sync() after an arrival that was not waited for", || unsafe {
        cluster::arrive();
        cluster::sync();
    });
}

#[test]
fn pointers_to_nowhere_are_refused() {
    let expected = format!("cluster.rs:{}: .. block 2 of a cluster of 2", line!() + 2);
    on(2, 1).cluster(2).fails(&expected, || {
        cluster::map_shared(shared_array![u32; 4], 2);
    });
    on(2, 1).cluster(2).fails("not to the block's own shared memory", || {
        cluster::map_shared(&raw mut *Box::new(5), 1);
    });
}

#[test]
fn a_block_that_left_takes_its_memory_with_it() {
    on(2, 1).cluster(2).by([Executor::new()]).fails("block 0, which has ended", || {
        // SAFETY: all threads reach this.
        unsafe { cluster::sync() };
        if block() == 1 {
            cluster::map_shared(shared_array![u32; 1], 0);
        }
    });
    // A valid pointer reads unwritten memory before the other block starts and after it has ended. In a different order of
    // the blocks, other accesses are too early.
    let seen = Mutex::new(Vec::new());
    on(2, 1).cluster(2).by([Executor::new().without_seed()]).check(|| {
        let value = shared_array![f32; 1];
        let rank = cluster::block_rank();
        let other = cluster::map_shared(value, 1 - rank);
        // SAFETY: all threads reach this. The accesses are too early and too late on purpose, to memory that still exists.
        unsafe {
            if rank == 0 {
                *other = 3.0;
            } else {
                seen.lock().unwrap().push(*value);
            }
            *value = 5.0;
            cluster::sync();
            if rank == 1 {
                seen.lock().unwrap().push(*other);
            }
        }
    });
    assert!(seen.into_inner().unwrap().iter().all(|x| x.is_nan()));
}

#[test]
fn wrong_clusters_are_refused() {
    let cpu = Executor::new();
    let old = cpu.clone().with_limits(Limits { max_cluster: 1, capability: 86, ..Limits::default() });
    let check = |executor: &Executor, blocks: u32, cluster: u32, expected: &str| {
        let config = LaunchConfig::new(blocks, 1).with_cluster(cluster);
        has(&executor.run("k", config, || ()).unwrap_err().to_string(), expected);
    };
    let whole = "launch of k failed: the grid (6, 1, 1) is not a whole number of clusters of 4 blocks along x; round its \
                 blocks up to a multiple of 4";
    check(&cpu, 6, 4, whole);
    check(&cpu, 34, 0, "a cluster of 0 blocks, from 1 to 16 are allowed");
    check(&cpu, 34, 17, "a cluster of 17 blocks, from 1 to 16 are allowed");
    check(&old, 2, 2, "clusters need compute capability 9.0");
    // SAFETY: the launch is refused.
    let error = unsafe { sums::launch(&old, LaunchConfig::new(2, 33), &mut [0; 2], &[1; 2]) }.unwrap_err();
    let expected = "launch of sums failed: it needs compute capability 9.0, the device has 8.6; choose a kernel for older devices";
    assert_eq!(error.to_string(), expected);
    assert_eq!(sums::META.min_arch, 90);
}
