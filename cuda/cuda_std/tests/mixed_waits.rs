//! Threads that wait for a phase of a barrier in shared memory while other blocks wait for words, in one cooperative grid.

use core::sync::atomic::{AtomicU32, Ordering};

use cuda_std::barrier::Barrier;
use cuda_std::launch::{LaunchConfig, LaunchError};
use cuda_std::simt::{Executor, FaultKind, Scheduler};
use cuda_std::{grid, shared_array, thread};

fn executors() -> Vec<Executor> {
    let new = || Executor::new().without_seed();
    let seeds = (0..if cfg!(miri) { 0 } else { 20 }).map(|seed| new().with_seed(seed));
    // Miri supports only threads, which are its default.
    [new(), new().with_scheduler(Scheduler::Threads)].into_iter().chain(seeds).collect()
}

/// The first thread of each block waits for the previous block's word of the round, then arrives at a barrier. The
/// second thread waits at this barrier and passes the word on.
fn relay(words: &[AtomicU32], blocks: u32, rounds: u32) {
    let barrier = shared_array![Barrier; 1];
    let (block, tid) = (thread::block_idx_x(), thread::thread_idx_x());
    let word = |block: u32| words[block as usize].as_ptr();
    // SAFETY: all threads reach the block's barrier, one arrival ends a phase, and the words outlive the launch.
    unsafe {
        if tid == 0 {
            Barrier::init(barrier, 1);
        }
        thread::sync_threads();
        for round in 0..rounds {
            if tid == 0 {
                // The first block is a round ahead of the last one.
                let (before, want) = if block == 0 { (blocks - 1, round) } else { (block - 1, round + 1) };
                grid::wait_until(word(before), Ordering::Acquire, |word| word >= want);
                Barrier::arrive(barrier);
            } else {
                Barrier::wait_parity(barrier, round % 2);
                grid::store_release(word(block), round + 1);
            }
            thread::sync_threads();
        }
    }
}

#[test]
fn phases_and_words_end_each_other() {
    for executor in executors() {
        for (blocks, cluster) in [(1, 1), (3, 1), (4, 2)] {
            let words: Vec<AtomicU32> = (0..blocks).map(|_| AtomicU32::new(0)).collect();
            let config = LaunchConfig::new(blocks, 2).with_cluster(cluster);
            executor.run_cooperative("relay", config, || relay(&words, blocks, 5)).unwrap();
            assert!(words.iter().all(|word| word.load(Ordering::Relaxed) == 5), "{blocks} {executor:?}");
        }
    }
}

/// No thread stores the word that one thread waits for, so none arrives at the barrier of the other one.
#[test]
fn who_waits_in_vain_for_both_is_told() {
    for executor in executors() {
        let word = AtomicU32::new(0);
        let result = executor.run_cooperative("in_vain", LaunchConfig::new(2, 2), || {
            let barrier = shared_array![Barrier; 1];
            // SAFETY: all threads of the block reach its barrier, and the word outlives the launch.
            unsafe {
                if thread::thread_idx_x() == 0 {
                    Barrier::init(barrier, 1);
                }
                thread::sync_threads();
                if thread::block_idx_x() == 0 {
                    Barrier::wait_parity(barrier, 0);
                } else {
                    grid::wait_until(word.as_ptr(), Ordering::Relaxed, |word| word == 1);
                }
            }
        });
        let Err(LaunchError::Fault(fault)) = result else { panic!("expected a fault, got {result:?}") };
        let told = fault.to_string();
        let is_known = matches!(fault.kind, FaultKind::Stuck { .. } | FaultKind::PhaseNotCompleted { .. });
        assert!(is_known && told.contains("mixed_waits.rs"), "{told}");
    }
}
