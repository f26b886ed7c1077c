//! Threads that wait for a phase of a barrier in shared memory while other blocks wait for words, in one cooperative grid.

use core::sync::atomic::{AtomicU32, Ordering};

use cuda_std::barrier::Barrier;
use cuda_std::simt::FaultKind;
use cuda_std::{grid, thread};

use crate::common::{barrier_for, block, executors, on, tid};

/// The first thread of each block waits for the previous block's word of the round, then arrives at a barrier. The
/// second thread waits at this barrier and passes the word on.
fn relay(words: &[AtomicU32], rounds: u32) {
    let barrier = barrier_for(1);
    for round in 0..rounds {
        // SAFETY: all threads reach the block's barrier, one arrival ends a phase, and the words outlive the launch.
        unsafe {
            if tid() == 0 {
                // The first block is a round ahead of the last one.
                let (before, want) =
                    if block() == 0 { (words.len() - 1, round) } else { (block() - 1, round + 1) };
                grid::wait_until(words[before].as_ptr(), Ordering::Acquire, |word| word >= want);
                Barrier::arrive(barrier);
            } else {
                Barrier::wait_parity(barrier, round % 2);
                grid::store_release(words[block()].as_ptr(), round + 1);
            }
            thread::sync_threads();
        }
    }
}

#[test]
fn phases_and_words_end_each_other() {
    for executor in executors(20) {
        for (blocks, cluster) in [(1, 1), (3, 1), (4, 2)] {
            let words: Vec<AtomicU32> = (0..blocks).map(|_| AtomicU32::new(0)).collect();
            on(blocks, 2).cluster(cluster).cooperative().by([executor.clone()]).check(|| relay(&words, 5));
            assert!(words.iter().all(|word| word.load(Ordering::Relaxed) == 5), "{blocks} {executor:?}");
        }
    }
}

/// No thread stores the word that one thread waits for, so none arrives at the barrier of the other one.
#[test]
fn a_wait_in_vain_for_both_is_reported() {
    let word = AtomicU32::new(0);
    let faults = on(2, 2).cooperative().by(executors(20)).faults(|| {
        let barrier = barrier_for(1);
        // SAFETY: the word outlives the launch.
        unsafe {
            if block() == 0 {
                Barrier::wait_parity(barrier, 0);
            } else {
                grid::wait_until(word.as_ptr(), Ordering::Relaxed, |word| word == 1);
            }
        }
    });
    for fault in faults {
        let is_known = matches!(fault.kind, FaultKind::Stuck { .. } | FaultKind::PhaseNotCompleted { .. });
        assert!(is_known && fault.to_string().contains("mixed_waits.rs"), "{fault}");
    }
}
