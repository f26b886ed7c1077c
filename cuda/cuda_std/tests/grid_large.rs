//! A cooperative grid with almost as many threads as the executor supports.
#![cfg(not(miri))]

use core::sync::atomic::{AtomicU32, Ordering};

use cuda_std::launch::LaunchConfig;
use cuda_std::simt::Executor;
use cuda_std::{grid, thread};

/// A grid like that of a resident kernel, in which every thread of every block waits.
#[test]
fn many_threads_wait_for_words() {
    let (blocks, threads) = (102, 256);
    let flags: Vec<_> = (0..blocks * threads).map(|_| AtomicU32::new(0)).collect();
    let executor = Executor::new().without_seed();
    executor
        .run_cooperative("ring", LaunchConfig::new(blocks as u32, threads as u32), || {
            let block = thread::block_idx_x() as usize;
            let at = |block: usize| flags[block * threads + thread::thread_idx_x() as usize].as_ptr();
            for round in 1..=10 {
                // SAFETY: the words are atomics.
                unsafe {
                    grid::store_release(at(block), round);
                    let other = (block + round as usize) % blocks;
                    grid::wait_until(at(other), Ordering::Acquire, |word| word >= round);
                }
            }
        })
        .unwrap();
    assert!(flags.iter().all(|flag| flag.load(Ordering::Relaxed) == 10));
}
