//! Barriers in shared memory on the executor: wrong uses, and threads that wait forever.

use cuda_std::barrier::Barrier;
use cuda_std::launch::{LaunchConfig, LaunchError};
use cuda_std::simt::{Executor, Fault, FaultKind, Instead, Scheduler};
use cuda_std::{cluster, shared_array, thread, warp};

fn all() -> [Executor; 3] {
    let new = Executor::new;
    [new(), new().with_scheduler(Scheduler::Threads), new().with_seed(5)]
}

fn fault_of(executor: &Executor, config: LaunchConfig, kernel: impl Fn() + Sync) -> Fault {
    match executor.run("broken", config, kernel) {
        Err(LaunchError::Fault(fault)) => *fault,
        other => panic!("expected a fault, got {other:?}"),
    }
}

/// Checks the panic of a thread that does this with a barrier for two arrivals.
#[track_caller]
fn check_panic(expected: &str, kernel: impl Fn(*mut Barrier) + Sync) {
    for executor in all() {
        let fault = fault_of(&executor, LaunchConfig::new(1, 1), || {
            let barrier = shared_array![Barrier; 1];
            // SAFETY: no other code uses it.
            unsafe { Barrier::init(barrier, 2) };
            kernel(barrier);
        });
        let FaultKind::Panic { message } = &fault.kind else { panic!("{fault}") };
        assert!(message.contains(expected), "{message}");
    }
}

#[test]
fn misuse_is_reported() {
    // SAFETY: a fault on the executor.
    check_panic("Barrier::init() of 0 arrivals", |barrier| unsafe { Barrier::init(barrier, 0) });
    // SAFETY: a fault on the executor.
    check_panic("takes 1 to 1048575", |barrier| unsafe { Barrier::init(barrier, 1 << 20) });
    // SAFETY: a fault on the executor.
    check_panic(
        "Barrier::arrive() of memory that does not hold a barrier; call Barrier::init()",
        |barrier| unsafe {
            Barrier::inval(barrier);
            Barrier::arrive(barrier);
        },
    );
    // SAFETY: a fault on the executor.
    check_panic("Barrier::wait_parity() of parity 2", |barrier| unsafe { Barrier::wait_parity(barrier, 2) });
    // SAFETY: a fault on the executor.
    check_panic("Barrier::arrive() is one more than the 2 arrivals", |barrier| unsafe {
        // The phase does not end, since it lacks bytes.
        Barrier::arrive_expect_tx(barrier, 8);
        Barrier::arrive(barrier);
        Barrier::arrive(barrier);
    });
    // SAFETY: a fault on the executor.
    check_panic("Barrier::expect_tx() makes 1048576 expected bytes", |barrier| unsafe {
        Barrier::expect_tx(barrier, Barrier::MAX_COUNT);
        Barrier::expect_tx(barrier, 1);
    });
    // SAFETY: a fault on the executor.
    check_panic("Barrier::complete_tx() makes -1048576 expected bytes", |barrier| unsafe {
        Barrier::complete_tx(barrier, 1 << 20);
    });
}

#[cfg(not(miri))]
#[test]
fn memory_that_nobody_wrote_is_no_barrier() {
    for executor in all() {
        let fault = fault_of(&executor, LaunchConfig::new(1, 1), || {
            // SAFETY: as above.
            unsafe { Barrier::wait_parity(shared_array![Barrier; 1], 0) };
        });
        assert!(
            fault.to_string().contains("Barrier::wait_parity() of memory that does not hold a barrier"),
            "{fault}"
        );
    }
}

#[test]
fn a_phase_that_never_ends_is_a_fault() {
    for (executor, cluster) in all().into_iter().flat_map(|executor| [(executor.clone(), 1), (executor, 2)]) {
        let config = LaunchConfig::new(2, 40).with_cluster(cluster);
        let fault = fault_of(&executor, config, || {
            let barrier = shared_array![Barrier; 1];
            // SAFETY: on the executor it is a fault that one arrival is missing.
            unsafe {
                if thread::thread_idx_x() == 0 {
                    Barrier::init(barrier, 40);
                    Barrier::expect_tx(barrier, 12);
                }
                thread::sync_threads();
                if thread::thread_idx_x() != 7 {
                    let token = Barrier::arrive(barrier);
                    Barrier::wait(barrier, token);
                }
            }
        });
        let FaultKind::PhaseNotCompleted { operation, arrivals, bytes } = fault.kind else {
            panic!("{fault}")
        };
        assert_eq!((operation, arrivals, bytes), ("barrier::Barrier::wait", 1, 12));
        assert!(fault.location.is_some_and(|line| line.file.ends_with("barrier.rs")));
    }
}

#[test]
fn those_that_wait_elsewhere_say_for_whom() {
    for executor in all() {
        let wait_in_vain = || {
            let barrier = shared_array![Barrier; 1];
            // SAFETY: as above.
            unsafe {
                if thread::thread_idx_x() == 0 {
                    Barrier::init(barrier, 33);
                }
                thread::sync_threads();
                if thread::thread_idx_x() == 5 {
                    Barrier::wait_parity(barrier, 0);
                }
            }
        };
        let fault = fault_of(&executor, LaunchConfig::new(1, 32), || {
            wait_in_vain();
            thread::sync_threads();
        });
        let FaultKind::BarrierNotReached { instead: Instead::WaitsIn { operation, .. }, .. } = &fault.kind
        else {
            panic!("{fault}")
        };
        assert_eq!(*operation, "barrier::Barrier::wait_parity");
        let fault = fault_of(&executor, LaunchConfig::new(1, 32), || {
            wait_in_vain();
            // SAFETY: as above.
            unsafe { warp::sync_warp(u32::MAX) };
        });
        assert!(matches!(fault.kind, FaultKind::LaneNotTakingPart { lane: 5, .. }), "{fault}");
    }
}

/// Each of two blocks of a cluster must go on before the other can.
#[test]
fn phases_end_while_other_blocks_wait() {
    for executor in all() {
        let kernel = || {
            let (barrier, value) = (shared_array![Barrier; 1], shared_array![u32; 1]);
            let (i, rank) = (thread::thread_idx_x(), cluster::block_rank());
            // SAFETY: all threads reach the barriers; thread 1 arrives, and thread 0 waits.
            unsafe {
                if i == 0 {
                    Barrier::init(barrier, 1);
                }
                thread::sync_threads_aligned();
                for round in 0..4 {
                    if i == 1 && rank == round % 2 {
                        *value = round;
                        Barrier::arrive(barrier);
                    } else if i == 0 && rank == round % 2 {
                        Barrier::wait_parity(barrier, round / 2);
                        assert_eq!(*value, round);
                    }
                    cluster::sync();
                }
            }
        };
        executor.run("rounds", LaunchConfig::new(4, 40).with_cluster(2), kernel).unwrap();
    }
}
