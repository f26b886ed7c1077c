//! Clusters on the executor: ranks, the barrier, distributed shared memory, and wrong uses.

use core::sync::atomic::{AtomicU32, Ordering};
use std::sync::Mutex;

use cuda_std::launch::{Dim3, LaunchConfig, LaunchError, Limits};
use cuda_std::simt::{Executor, Fault, FaultKind, Instead};
use cuda_std::{cluster, kernel, shared, shared_array, thread};

fn config(blocks: u32, threads: u32, cluster: u32) -> LaunchConfig {
    LaunchConfig::new(blocks, threads).with_cluster(cluster)
}

fn fault_of(config: LaunchConfig, kernel: impl Fn() + Sync) -> Fault {
    match Executor::new().run("broken", config, kernel) {
        Err(LaunchError::Fault(fault)) => *fault,
        other => panic!("expected a fault, got {other:?}"),
    }
}

/// Writes to `out[i]` the sum of `inp` over the cluster of block `i`, through every block's shared memory.
///
/// # Safety
/// Launched with blocks of 33 threads; one element per block.
#[kernel(min_arch = 90)]
pub unsafe fn sums(out: *mut u32, inp: &[u32]) {
    let (rank, blocks) = (cluster::block_rank(), cluster::num_blocks());
    let (block, tid) = (thread::block_idx_x() as usize, thread::thread_idx_x());
    // Every other block creates the arrays in a different order, so they lie elsewhere.
    let pair =
        |odd| if odd { shared_array![u32; 3].cast::<u8>() } else { shared_array![u32; 16].cast::<u8>() };
    let (_, _) = (pair(rank % 2 == 1), pair(rank % 2 == 0));
    let values = pair(false).cast::<u32>();
    let dynamic = shared::dynamic_shared_mem::<u32>();
    // SAFETY: all threads reach the barriers; thread `t` writes to block `t` between two of them.
    unsafe {
        cluster::arrive_relaxed();
        let own = inp[block];
        cluster::wait();
        if tid < blocks {
            *cluster::map_shared(values, tid).add(rank as usize) = own;
            *cluster::map_shared(dynamic.add(rank as usize), tid) = own;
        }
        cluster::sync();
        if tid == 0 {
            let sum = |from: *mut u32| (0..blocks as usize).map(|i| *from.add(i)).sum::<u32>();
            assert_eq!(sum(values), sum(dynamic), "static and dynamic memory");
            *out.add(block) = sum(values);
        }
    }
}

#[test]
fn blocks_of_a_cluster_add_up_through_shared_memory() {
    for size in 1..=16 {
        for clusters in [1, 5] {
            let blocks = size * clusters;
            let inp: Vec<u32> = (0..blocks).map(|i| i * i + 1).collect();
            let mut out = vec![0; blocks as usize];
            let config = config(blocks, 33, size).with_shared_bytes(64);
            // SAFETY: one element per block.
            unsafe { sums::launch(&Executor::new(), config, &mut out, &inp) }.unwrap();
            for (cluster, out) in inp.chunks(size as usize).zip(out.chunks(size as usize)) {
                assert_eq!(out, vec![cluster.iter().sum::<u32>(); size as usize], "{size}");
            }
        }
    }
}

#[test]
fn ranks_follow_x_in_every_row_of_the_grid() {
    let seen = Mutex::new(Vec::new());
    let launch = LaunchConfig::new((6, 2, 2), 1).with_cluster(3);
    let kernel = || {
        let (block, rank) = (thread::block_idx(), cluster::block_rank());
        assert_eq!((rank, cluster::num_blocks()), (block.x % 3, 3));
        // SAFETY: all threads reach this.
        unsafe { cluster::sync() };
        seen.lock().unwrap().push((block.x, block.y, block.z));
    };
    Executor::new().run("ranks", launch, kernel).unwrap();
    let mut seen = seen.into_inner().unwrap();
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len(), 24);
}

#[test]
fn without_a_cluster_a_block_is_alone_in_one() {
    let kernel = || {
        let value = shared_array![u32; 1];
        assert_eq!((cluster::block_rank(), cluster::num_blocks()), (0, 1));
        assert_eq!(cluster::map_shared(value, 0), value);
        // SAFETY: all threads reach this, and one thread writes.
        unsafe {
            if thread::thread_idx_x() == 40 {
                *value = thread::block_idx_x();
            }
            cluster::sync();
            assert_eq!(*value, thread::block_idx_x());
        }
    };
    Executor::new().run("alone", LaunchConfig::new(3, 64), kernel).unwrap();
}

#[test]
fn all_are_there_before_anybody_goes_on() {
    let here = [const { AtomicU32::new(0) }; 3];
    let kernel = || {
        for here in &here {
            // Block barriers between the cluster's, and warps that are partly filled.
            // SAFETY: all threads reach this.
            unsafe { thread::sync_threads_aligned() };
            here.fetch_add(1, Ordering::Relaxed);
            // SAFETY: as above.
            unsafe { cluster::sync() };
            assert_eq!(here.load(Ordering::Relaxed), 4 * 70);
        }
    };
    Executor::new().run("rounds", config(4, 70, 4), kernel).unwrap();
}

#[test]
fn a_thread_that_returned_misses_the_barrier() {
    for last_waits in [false, true] {
        let line = line!() + 5;
        let fault = fault_of(config(4, 40, 2), || {
            let is_missing = thread::block_idx_x() % 2 == 1 && (!last_waits || thread::thread_idx_x() != 39);
            if !is_missing {
                // SAFETY: none; the test is about the threads that do not reach this.
                unsafe { cluster::sync() };
            }
        });
        let FaultKind::ClusterBarrierNotReached { barrier, block, missing, instead } = &fault.kind else {
            panic!("{fault}")
        };
        assert_eq!((*barrier, instead), ("cluster::sync", &Instead::Returned));
        assert_eq!((block.x % 2, *missing), (1, Dim3::new(0, 0, 0)));
        assert_eq!((fault.place.block.x % 2, fault.location.as_ref().unwrap().line), (0, line));
        assert!(fault.to_string().contains("not reached by all threads of the cluster"), "{fault}");
    }
}

#[test]
#[expect(clippy::if_same_then_else, reason = "the two barriers are what is tested")]
fn barriers_in_two_branches_are_not_one_barrier() {
    let fault = fault_of(config(2, 32, 2), || {
        if thread::block_idx_x() == 0 {
            // SAFETY: none, as above.
            unsafe { cluster::sync() };
        } else {
            // SAFETY: none, as above.
            unsafe { cluster::sync() };
        }
    });
    let FaultKind::ClusterBarrierNotReached { block, instead: Instead::WaitsIn { operation, at }, .. } =
        &fault.kind
    else {
        panic!("{fault}")
    };
    assert_eq!((block.x, *operation), (1, "cluster::sync"));
    assert_eq!(at.line, fault.location.as_ref().unwrap().line + 3);
}

#[test]
fn a_block_barrier_is_no_cluster_barrier() {
    // In another block, then in the same one, where the block barrier is reported.
    let fault = fault_of(config(2, 32, 2), || {
        // SAFETY: none, as above.
        unsafe {
            if thread::block_idx_x() == 0 {
                thread::sync_threads_aligned();
            }
            if thread::block_idx_x() == 1 || thread::thread_idx_x() > 3 {
                cluster::sync();
            } else {
                thread::sync_threads_aligned();
            }
        }
    });
    let FaultKind::BarrierNotReached { barrier, missing, instead: Instead::WaitsIn { operation, .. } } =
        &fault.kind
    else {
        panic!("{fault}")
    };
    assert_eq!((*barrier, missing.x, *operation), ("thread::sync_threads_aligned", 4, "cluster::sync"));
}

#[test]
fn a_panic_in_one_block_unwinds_the_others() {
    struct CountDrops<'a>(&'a AtomicU32);
    impl Drop for CountDrops<'_> {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    let drops = AtomicU32::new(0);
    let fault = fault_of(config(3, 16, 3), || {
        let _count = CountDrops(&drops);
        // SAFETY: all threads reach this.
        unsafe { cluster::sync() };
        assert!(thread::block_idx_x() != 1 || thread::thread_idx_x() != 5, "planted");
        // SAFETY: all threads except one reach this.
        unsafe { cluster::sync() };
    });
    assert_eq!(fault.kind, FaultKind::Panic { message: "planted".into() });
    assert_eq!((fault.place.block.x, fault.place.thread.unwrap().x), (1, 5));
    assert_eq!(drops.into_inner(), 48);
    // The fibers can be used for the next launch.
    blocks_of_a_cluster_add_up_through_shared_memory();
}

#[test]
fn arrivals_and_waits_alternate() {
    // SAFETY: none; the barrier is used wrongly.
    let wait = fault_of(config(2, 2, 2), || unsafe { cluster::wait() });
    assert!(wait.to_string().contains("cluster::wait() without an arrival"), "{wait}");
    // SAFETY: as above.
    let twice = fault_of(config(2, 2, 2), || unsafe {
        cluster::arrive();
        cluster::sync();
    });
    assert!(
        twice.to_string().contains("cluster::sync() after an arrival that was not waited for"),
        "{twice}"
    );
}

#[test]
fn pointers_to_nowhere_are_refused() {
    let line = line!() + 2;
    let beyond = fault_of(config(2, 1, 2), || {
        cluster::map_shared(shared_array![u32; 4], 2);
    });
    assert!(beyond.to_string().contains("block 2 of a cluster of 2"), "{beyond}");
    let at = beyond.location.clone().unwrap();
    assert!(at.file.ends_with("tests/cluster.rs") && at.line == line, "{at}");
    let global = fault_of(config(2, 1, 2), || {
        cluster::map_shared(&raw mut *Box::new(5), 1);
    });
    assert!(global.to_string().contains("not to the block's own shared memory"), "{global}");
}

#[test]
fn a_block_that_left_takes_its_memory_with_it() {
    let mapped_late = fault_of(config(2, 1, 2), || {
        // SAFETY: all threads reach this.
        unsafe { cluster::sync() };
        if thread::block_idx_x() == 1 {
            cluster::map_shared(shared_array![u32; 1], 0);
        }
    });
    assert!(mapped_late.to_string().contains("block 0, which has ended"), "{mapped_late}");

    // A valid pointer reads unwritten memory before the other block starts and after it has ended.
    let seen = Mutex::new(Vec::new());
    let kernel = || {
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
    };
    // In a different order of the blocks, other accesses are too early.
    Executor::new().without_seed().run("early_and_late", config(2, 1, 2), kernel).unwrap();
    assert!(seen.into_inner().unwrap().iter().all(|x| x.is_nan()));
}

#[test]
fn wrong_clusters_are_refused() {
    let text = |executor: &Executor, config| executor.run("k", config, || ()).unwrap_err().to_string();
    let cpu = Executor::new();
    assert_eq!(
        text(&cpu, config(6, 1, 4)),
        "launch of k failed: the grid (6, 1, 1) is not a whole number of clusters of 4 blocks along x; round its blocks \
         up to a multiple of 4"
    );
    for size in [0, 17] {
        let error = text(&cpu, config(34, 1, size));
        assert!(error.contains(&format!("a cluster of {size} blocks, from 1 to 16 are allowed")), "{error}");
    }
    let old = cpu.clone().with_limits(Limits { max_cluster: 1, capability: 86, ..Limits::default() });
    assert!(text(&old, config(2, 1, 2)).contains("clusters need compute capability 9.0"));
    let (mut out, inp) = (vec![0; 2], vec![1; 2]);
    // SAFETY: one element per block.
    let error = unsafe { sums::launch(&old, config(2, 33, 1), &mut out, &inp) }.unwrap_err().to_string();
    assert_eq!(
        error,
        "launch of sums failed: it needs compute capability 9.0, the device has 8.6; choose a kernel for older devices"
    );
    assert_eq!(sums::META.min_arch, 90);
}
