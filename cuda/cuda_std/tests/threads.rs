//! The scheduler of OS threads gives the same results as that of coroutines, and finds the same faults.

use std::sync::Mutex;

use cuda_std::launch::{Dim3, LaunchConfig, LaunchError};
use cuda_std::simt::{Executor, Fault, FaultKind, Instead, Scheduler};
use cuda_std::{cluster, shared, shared_array, thread, warp};

fn executor() -> Executor {
    Executor::new().with_scheduler(Scheduler::Threads)
}

fn fault_of(config: LaunchConfig, kernel: impl Fn() + Sync) -> Fault {
    match executor().run("broken", config, kernel) {
        Err(LaunchError::Fault(fault)) => *fault,
        other => panic!("expected a fault, got {other:?}"),
    }
}

/// Returns the result of every thread of the grid, by block and thread, with either scheduler.
fn both(config: LaunchConfig, kernel: impl Fn() -> u64 + Sync) -> Vec<u64> {
    let [by_coroutines, by_threads] = [Scheduler::Coroutines, Scheduler::Threads].map(|scheduler| {
        let threads = config.block.volume() as usize;
        let given = Mutex::new(vec![u64::MAX; config.grid.volume() as usize * threads]);
        let body = || {
            let value = kernel();
            let at = thread::block_idx_x() as usize * threads + thread::thread_idx_x() as usize;
            given.lock().unwrap()[at] = value;
        };
        Executor::new().without_seed().with_scheduler(scheduler).run("both", config, body).unwrap();
        given.into_inner().unwrap()
    });
    assert_eq!(by_threads, by_coroutines);
    by_threads
}

#[test]
fn barriers_and_their_predicates() {
    let sums = both(LaunchConfig::new(3, 100).with_shared_bytes(800), || {
        let tid = thread::thread_idx_x();
        let (row, dynamic) = (shared_array![u64; 100], shared::dynamic_shared_mem::<u64>());
        // SAFETY: each of the 100 threads has an element, and all reach the barriers between the accesses.
        unsafe {
            *row.add(tid as usize) = u64::from(tid * 3 + thread::block_idx_x());
            *dynamic.add(tid as usize) = 7;
            thread::sync_threads_aligned();
            let sum: u64 = (0..100).map(|i| *row.add(i) + *dynamic.add(i)).sum();
            let count = thread::sync_threads_count_aligned(u32::from(tid.is_multiple_of(3)));
            let all = thread::sync_threads_and_aligned(u32::from(tid < 100));
            let any = thread::sync_threads_or_aligned(u32::from(tid == 77));
            sum * 1000 + u64::from(count) * 10 + u64::from(all != 0) + u64::from(any != 0)
        }
    });
    // 3 * (0 + .. + 99) + 100 * block + 700, and 34 multiples of 3.
    assert_eq!([sums[0], sums[150], sums[299]], [15550, 15650, 15750].map(|sum| sum * 1000 + 342));
}

#[test]
fn operations_of_warps_and_of_parts_of_them() {
    let values = both(LaunchConfig::new(2, 70), || {
        let lane = warp::lane_id();
        let mask = if thread::thread_idx_x() < 64 { u32::MAX } else { 0x3f };
        let half = if lane.is_multiple_of(2) { mask & 0x5555_5555 } else { mask & 0xaaaa_aaaa };
        // SAFETY: all 6 lanes of the last warp reach this, and all lanes of each half.
        unsafe {
            let neighbour = warp::warp_shuffle_xor(mask, u64::from(lane) << 40 | 5, 1, 32).0;
            let wide = warp::warp_shuffle_idx(mask, u64::from(lane) + 1, 3, 8).0;
            let ballot = warp::warp_vote_ballot(half, lane.is_multiple_of(3));
            let any = warp::warp_vote_any(mask, lane == 5);
            warp::sync_warp(half);
            neighbour ^ wide << 20 ^ u64::from(ballot) ^ u64::from(any) << 63
        }
    });
    assert_eq!(values[0], (1 << 40 | 5) ^ 4 << 20 ^ 0x4104_1041 ^ 1 << 63, "thread 0");
}

#[test]
fn clusters_reach_each_other() {
    let sums = both(LaunchConfig::new(6, 40).with_cluster(3), || {
        let (rank, blocks, tid) = (cluster::block_rank(), cluster::num_blocks(), thread::thread_idx_x());
        let values = shared_array![u64; 8];
        // SAFETY: thread `t` writes to block `t`, between two barriers of the cluster that all threads reach.
        unsafe {
            cluster::arrive_relaxed();
            cluster::wait();
            if tid < blocks {
                *cluster::map_shared(values, tid).add(rank as usize) = u64::from(thread::block_idx_x()) + 1;
            }
            cluster::sync();
            (0..blocks as usize).map(|i| *values.add(i)).sum()
        }
    });
    assert_eq!([sums[0], sums[119], sums[120], sums[239]], [6, 6, 15, 15]);
}

#[test]
fn faults_name_their_thread() {
    let line = line!() + 3;
    let fault = fault_of(LaunchConfig::new(2, 64), || {
        if thread::block_idx_x() == 1 && thread::thread_idx_x() == 37 {
            panic!("the sum is {}", 5);
        }
        // SAFETY: all threads reach this, except the one that fails before it.
        unsafe { thread::sync_threads_aligned() };
    });
    let at = |x| Dim3::new(x, 0, 0);
    // Not the fault that the others wait for it.
    assert_eq!((fault.place.block, fault.place.thread), (at(1), Some(at(37))), "{fault}");
    assert_eq!(fault.kind, FaultKind::Panic { message: "the sum is 5".into() });
    assert_eq!(fault.location.map(|location| location.line), Some(line));
}

#[test]
fn threads_that_wait_for_ever_are_a_fault() {
    let fault = fault_of(LaunchConfig::new(1, 64), || {
        if thread::thread_idx_x() < 40 {
            // SAFETY: none; the executor must find this.
            unsafe { thread::sync_threads_aligned() };
        }
    });
    let FaultKind::BarrierNotReached { missing, instead, .. } = &fault.kind else { panic!("{fault}") };
    assert_eq!((missing.x, instead), (40, &Instead::Returned));

    let fault = fault_of(LaunchConfig::new(2, 32).with_cluster(2), || {
        if cluster::block_rank() == 1 {
            // SAFETY: as above.
            unsafe { cluster::sync() };
        }
    });
    assert!(matches!(fault.kind, FaultKind::ClusterBarrierNotReached { .. }), "{fault}");
}

#[test]
fn too_much_shared_memory_is_a_fault() {
    let fault = fault_of(LaunchConfig::new(1, 33), || {
        let (a, b) = (shared_array![u8; 40 * 1024], shared_array![u8; 10 * 1024]);
        std::hint::black_box((a, b));
    });
    assert_eq!(fault.kind, FaultKind::SharedOverLimit { got: 50 * 1024, max: 48 * 1024 });
}
