//! Numbered barriers of a part of the block on the executor: who goes on, and what is wrong with their use.

use crate::common::tiles::{all, fault_of};
use cuda_std::launch::LaunchConfig;
use cuda_std::simt::FaultKind;
use cuda_std::{cluster, shared_array, thread};

/// Warp 0 fills a ring of two for warp 1, and each announces by arrivals what the other one waits for.
#[test]
fn a_ring_is_filled_and_emptied() {
    let (blocks, steps) = if cfg!(miri) { (1, 3) } else { (3, 6) };
    for executor in all() {
        let kernel = || {
            let ring = shared_array![u32; 64];
            let i = thread::thread_idx_x();
            let half = |step: u32| (ring.wrapping_add(32 * (step as usize % 2)), step % 2);
            // SAFETY: both warps come to each barrier in turns, 64 threads together.
            unsafe {
                for step in 0..steps {
                    let (place, number) = half(step);
                    let (full, empty) = (1 + number, 3 + number);
                    if i < 32 {
                        if step >= 2 {
                            thread::sync_named(empty, 64);
                        }
                        *place.add(i as usize) = step * i;
                        thread::arrive_named(full, 64);
                    } else if i < 64 {
                        thread::sync_named_aligned(full, 64);
                        assert_eq!(*place.add(63 - i as usize), step * (63 - i));
                        if step + 2 < steps {
                            thread::arrive_named_aligned(empty, 64);
                        }
                    }
                }
            }
        };
        executor.run("ring", LaunchConfig::new(blocks, 96), kernel).unwrap();
    }
}

/// A warp waits once, while others go through the barrier two more times before it has its turn.
#[test]
fn a_round_that_is_over_stays_over() {
    for executor in all() {
        let kernel = || {
            let (sum, i) = (shared_array![u32; 3], thread::thread_idx_x());
            // SAFETY: two warps come to each round of the barrier.
            unsafe {
                if i < 64 {
                    for round in 0..3 {
                        if i == 0 {
                            *sum.add(round) = round as u32;
                        }
                        thread::sync_named(7, if round == 0 { 96 } else { 64 });
                        assert_eq!(*sum.add(round), round as u32);
                    }
                } else {
                    thread::sync_named(7, 96);
                    assert_eq!(*sum, 0);
                }
            }
        };
        executor.run("rounds", LaunchConfig::new(1, 96), kernel).unwrap();
    }
}

#[test]
fn blocks_have_barriers_of_their_own() {
    for executor in all() {
        let kernel = || {
            // SAFETY: all threads of each block come to its barrier, and to the cluster's.
            unsafe {
                if cluster::block_rank() == 0 {
                    thread::sync_named(1, 32);
                }
                cluster::sync();
            }
        };
        executor.run("own", LaunchConfig::new(4, 32).with_cluster(2), kernel).unwrap();
        // What is left of a block is not there for the next.
        // SAFETY: more threads are asked for than come, and nobody waits.
        let leaves = || unsafe { thread::arrive_named(1, 64) };
        executor.run("left", LaunchConfig::new(5, 32), leaves).unwrap();
        // SAFETY: all threads come.
        executor.run("left", LaunchConfig::new(5, 32), || unsafe { thread::sync_named(1, 32) }).unwrap();
    }
}

#[test]
fn threads_that_do_not_come_are_told() {
    for executor in all() {
        let fault = fault_of(&executor, LaunchConfig::new(1, 64), || {
            // SAFETY: on the executor it is a fault that one warp does not come.
            unsafe {
                if thread::thread_idx_x() < 32 {
                    thread::sync_named(2, 64);
                }
            }
        });
        let expected =
            FaultKind::NamedBarrierNotReached { operation: "thread::sync_named", count: 64, here: 32 };
        assert_eq!(fault.kind, expected, "{fault}");
        let told = "waits for 64 threads, but only 32 have arrived and no other can";
        assert!(fault.to_string().contains(told), "{fault}");
        assert!(fault.location.is_some_and(|at| at.file.ends_with("named.rs")));
    }
}

#[test]
fn misuse_is_reported() {
    let cases: [(&str, fn()); 4] = [
        // SAFETY: on the executor these are faults.
        ("thread::sync_named() of barrier 0; a block has 1 to 15", || unsafe { thread::sync_named(0, 32) }),
        // SAFETY: as above.
        ("thread::arrive_named() of barrier 16", || unsafe { thread::arrive_named(16, 32) }),
        // SAFETY: as above.
        ("thread::sync_named_aligned() of 40 threads; they are whole warps", || unsafe {
            thread::sync_named_aligned(1, 40);
        }),
        // SAFETY: as above.
        ("thread::sync_named() of 32 threads, but others wait for 64", || unsafe {
            thread::arrive_named(1, 64);
            thread::sync_named(1, 32);
        }),
    ];
    for executor in all() {
        for (expected, kernel) in cases {
            let fault = fault_of(&executor, LaunchConfig::new(1, 32), kernel);
            let FaultKind::Panic { message } = &fault.kind else { panic!("{fault}") };
            assert!(message.contains(expected), "{message}");
            assert!(fault.location.is_some_and(|at| at.file.ends_with("named.rs")));
        }
    }
}
