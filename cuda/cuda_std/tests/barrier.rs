//! Barriers in shared memory on the executor: wrong uses, and threads that wait forever.

use cuda_std::barrier::Barrier;
use cuda_std::{cluster, shared_array, thread, warp};

use crate::common::{barrier_for, on, tid};

/// Checks the panic of a thread that does this with a barrier for two arrivals.
#[track_caller]
fn check_panic(expected: &str, kernel: impl Fn(*mut Barrier) + Sync) {
    on(1, 1).fails(&format!("panicked: .. {expected}"), || kernel(barrier_for(2)));
}

#[test]
fn misuse_is_reported() {
    // SAFETY: on the executor all of these are faults.
    unsafe {
        check_panic("Barrier::init() of 0 arrivals", |barrier| Barrier::init(barrier, 0));
        check_panic("takes 1 to 1048575", |barrier| Barrier::init(barrier, 1 << 20));
        check_panic(
            "Barrier::arrive() of memory that does not hold a barrier; call Barrier::init()",
            |barrier| {
                Barrier::inval(barrier);
                Barrier::arrive(barrier);
            },
        );
        check_panic("Barrier::wait_parity() of parity 2", |barrier| Barrier::wait_parity(barrier, 2));
        check_panic("Barrier::arrive() is one more than the 2 arrivals", |barrier| {
            // The phase does not end, since it lacks bytes.
            Barrier::arrive_expect_tx(barrier, 8);
            Barrier::arrive(barrier);
            Barrier::arrive(barrier);
        });
        check_panic("Barrier::expect_tx() makes 1048576 expected bytes", |barrier| {
            Barrier::expect_tx(barrier, Barrier::MAX_COUNT);
            Barrier::expect_tx(barrier, 1);
        });
        check_panic("Barrier::complete_tx() makes -1048576 expected bytes", |barrier| {
            Barrier::complete_tx(barrier, 1 << 20);
        });
    }
}

#[cfg(not(miri))]
#[test]
fn unwritten_memory_is_no_barrier() {
    on(1, 1).fails("Barrier::wait_parity() of memory that does not hold a barrier", || {
        // SAFETY: on the executor a fault.
        unsafe { Barrier::wait_parity(shared_array![Barrier; 1], 0) };
    });
}

#[test]
fn a_phase_that_never_ends_is_a_fault() {
    let expected = "barrier::Barrier::wait waits for a phase .. lacks 1 arrivals and 12 bytes";
    for cluster in [1, 2] {
        on(2, 40).cluster(cluster).fails(expected, || {
            let barrier = barrier_for(40);
            // SAFETY: on the executor it is a fault that one arrival is missing.
            unsafe {
                if tid() == 0 {
                    Barrier::expect_tx(barrier, 12);
                }
                thread::sync_threads();
                if tid() != 7 {
                    let token = Barrier::arrive(barrier);
                    Barrier::wait(barrier, token);
                }
            }
        });
    }
}

#[test]
fn those_that_wait_elsewhere_say_for_whom() {
    let wait_in_vain = || {
        let barrier = barrier_for(33);
        if tid() == 5 {
            // SAFETY: on the executor it is a fault that one arrival is missing.
            unsafe { Barrier::wait_parity(barrier, 0) };
        }
    };
    on(1, 32).fails("thread::sync_threads is not .. waits in barrier::Barrier::wait_parity", || {
        wait_in_vain();
        thread::sync_threads();
    });
    on(1, 32).fails("but lane 5 waits in", || {
        wait_in_vain();
        // SAFETY: on the executor it is a fault that lane 5 is missing.
        unsafe { warp::sync_warp(u32::MAX) };
    });
}

/// Each of two blocks of a cluster must go on before the other can.
#[test]
fn phases_end_while_other_blocks_wait() {
    on(4, 40).cluster(2).check(|| {
        let (barrier, value) = (barrier_for(1), shared_array![u32; 1]);
        let (i, rank) = (tid(), cluster::block_rank());
        for round in 0..4 {
            // SAFETY: all threads reach the cluster's barrier; thread 1 arrives, and thread 0 waits.
            unsafe {
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
    });
}
