//! Blocks that wait for each other, on the executor: with both schedulers, and under many seeds.

use core::sync::atomic::{AtomicU32, Ordering};

use cuda_std::launch::{Dim3, LaunchConfig, LaunchError, Limits};
use cuda_std::mem::u32x4;
use cuda_std::simt::{Executor, FaultKind, Scheduler};
use cuda_std::{cluster, grid, kernel, shared_array, thread};

use crate::common::{Launch, block, executors, on, tid};

/// A cooperative launch: in the fixed order, on threads, and under some seeds.
fn together(grid: impl Into<Dim3>, block: impl Into<Dim3>) -> Launch {
    on(grid, block).cooperative().by(executors(20))
}

fn words(len: usize) -> Vec<AtomicU32> {
    (0..len).map(|_| AtomicU32::new(0)).collect()
}

/// In each round a thread adds the numbers that all threads of another block wrote in the previous round.
///
/// # Safety
/// Two rows with one number per thread of the grid; `counter` as `grid::sync` requires.
#[kernel(cooperative)]
pub unsafe fn rounds(rows: *mut u32, counter: *mut u32, rounds: u32) {
    let (blocks, threads) = (thread::grid_dim_x() as usize, thread::block_dim_x() as usize);
    let len = blocks * threads;
    // SAFETY: a thread writes its own numbers, in a different row from the one that others read in this round.
    unsafe {
        for round in 0..rounds as usize {
            let (from, to) = (rows.add(round % 2 * len), rows.add((round + 1) % 2 * len));
            let other = (block() + round + 1) % blocks;
            let sum: u32 = (0..threads).fold(0, |sum, i| sum.wrapping_add(*from.add(other * threads + i)));
            *to.add(block() * threads + tid()) = sum.wrapping_mul(3).wrapping_add(tid() as u32);
            grid::sync(counter);
        }
    }
}

fn expected_rounds(blocks: usize, threads: usize, rounds: usize) -> Vec<u32> {
    let mut rows = vec![0u32; blocks * threads];
    for round in 0..rounds {
        let sums: Vec<u32> =
            rows.chunks(threads).map(|row| row.iter().fold(0, |a: u32, &b| a.wrapping_add(b))).collect();
        for (i, number) in rows.iter_mut().enumerate() {
            let sum = sums[(i / threads + round + 1) % blocks];
            *number = sum.wrapping_mul(3).wrapping_add((i % threads) as u32);
        }
    }
    rows
}

#[test]
fn the_barrier_of_a_grid_orders_what_its_threads_write() {
    for executor in executors(20) {
        let mut counter = [0];
        for (blocks, threads, clusters, count) in [(1, 33, 1, 3), (5, 7, 1, 4), (6, 40, 3, 5), (2, 1, 2, 2)] {
            let mut rows = vec![0; 2 * blocks * threads];
            let config = LaunchConfig::new(blocks as u32, threads as u32).with_cluster(clusters);
            // SAFETY: there are two rows, and the counter is kept from grid to grid.
            unsafe { rounds::launch(&executor, config, &mut rows, &mut counter, count as u32) }.unwrap();
            let last = if count % 2 == 0 { &rows[..blocks * threads] } else { &rows[blocks * threads..] };
            assert_eq!(last, expected_rounds(blocks, threads, count), "{blocks} {threads} {executor:?}");
        }
    }
}

#[test]
fn the_barrier_counts_blocks_of_all_axes() {
    for executor in executors(0) {
        let (counter, here) = (words(1), AtomicU32::new(0));
        together((2, 3, 2), (3, 2, 2)).by([executor]).check(|| {
            for round in 1..=3 {
                here.fetch_add(1, Ordering::Relaxed);
                // SAFETY: all threads reach both.
                unsafe {
                    grid::sync(counter[0].as_ptr());
                    assert_eq!(here.load(Ordering::Relaxed), round * 144);
                    grid::sync(counter[0].as_ptr());
                }
            }
        });
    }
}

/// Passes a number from block to block, upwards, then downwards, with data and flags.
///
/// # Safety
/// One element of `data` and two of `flags` per block, all zero.
#[kernel(cooperative)]
pub unsafe fn there_and_back(data: *mut u32, flags: *mut u32) {
    let (blocks, block) = (thread::grid_dim_x() as usize, block());
    let shared = shared_array![u32; 1];
    // SAFETY: a block writes its own number, which another reads after its flag.
    unsafe {
        for down in [0, 1] {
            let order = if down == 1 { blocks - 1 - block } else { block };
            if tid() == 0 {
                *shared = 1;
                if order > 0 {
                    let other = if down == 1 { block + 1 } else { block - 1 };
                    grid::wait_until(flags.add(down * blocks + other), Ordering::Acquire, |flag| flag == 1);
                    *shared += *data.add(other);
                }
            }
            // The others wait here for the thread that waits for another block.
            thread::sync_threads();
            if tid() == thread::block_dim_x() as usize - 1 {
                *data.add(block) = if down == 1 { *shared + *data.add(block) } else { *shared };
                grid::store_release(flags.add(down * blocks + block), 1);
            }
            thread::sync_threads();
        }
    }
}

#[test]
fn words_pass_from_block_to_block_both_ways() {
    for executor in executors(20) {
        let blocks = 6;
        let (mut data, mut flags) = (vec![0; blocks], vec![0; 2 * blocks]);
        let config = LaunchConfig::new(blocks as u32, 40);
        // SAFETY: the buffers have the required elements.
        unsafe { there_and_back::launch(&executor, config, &mut data, &mut flags) }.unwrap();
        // Upwards, block b has b + 1; downwards, each block adds one and the number above it to its own.
        let mut expected: Vec<u32> = (1..=blocks as u32).collect();
        for b in (0..blocks).rev() {
            expected[b] += 1 + expected.get(b + 1).copied().unwrap_or(0);
        }
        assert_eq!(data, expected, "{executor:?}");
    }
}

/// In each round, every block sends its number to all others, in vectors with the round in each word.
///
/// # Safety
/// `mail` has a zeroed vector for each pair of blocks; `out` has an element for each block.
#[kernel(cooperative)]
pub unsafe fn all_to_all(out: *mut u32, mail: *mut [u32; 4], rounds: u32) {
    let (blocks, block) = (thread::grid_dim_x() as usize, block());
    let sums = shared_array![u32; 8];
    // SAFETY: thread `t` sends to block `t` and receives from it. Later rounds have the same number.
    unsafe {
        if tid() < blocks {
            let mut sum = 0u32;
            for round in 1..=rounds {
                let sent = core::array::from_fn(|i| round << 16 | (10 * block + i) as u32);
                grid::store_all(mail.add(tid() * blocks + block), sent);
                let is_new = |words: [u32; 4]| words.iter().all(|word| word >> 16 >= round);
                let words = grid::wait_until_all(mail.add(block * blocks + tid()), is_new);
                sum += words.iter().map(|word| word & 0xffff).sum::<u32>();
            }
            *sums.add(tid()) = sum;
        }
        thread::sync_threads();
        if tid() == 0 {
            *out.add(block) = (0..blocks).map(|i| *sums.add(i)).sum();
        }
    }
}

#[test]
fn vectors_of_words_that_carry_their_round() {
    for executor in executors(20) {
        let (blocks, rounds) = (5, 3);
        let (mut out, mut mail) = (vec![0; blocks], vec![u32x4::splat(0); blocks * blocks]);
        // SAFETY: a vector is four words, aligned to 16 bytes.
        let mail = unsafe { core::slice::from_raw_parts_mut(mail.as_mut_ptr().cast(), blocks * blocks) };
        // SAFETY: the buffers have the required elements.
        unsafe {
            all_to_all::launch(&executor, LaunchConfig::new(blocks as u32, 8), &mut out, mail, rounds as u32)
        }
        .unwrap();
        let each: usize = (0..blocks).map(|block| 4 * 10 * block + 6).sum();
        assert_eq!(out, vec![(each * rounds) as u32; blocks], "{executor:?}");
    }
}

#[test]
fn a_cluster_meets_while_other_clusters_wait_for_words() {
    for executor in executors(20) {
        let (flags, seen) = (words(3), words(6));
        together(6, 33).cluster(2).by([executor]).check(|| {
            let (group, rank) = (block() / 2, cluster::block_rank());
            let mail = shared_array![u32; 1];
            // SAFETY: all threads of a cluster reach its barriers.
            unsafe {
                cluster::sync();
                if rank == 0 && tid() == 0 {
                    let next = flags.get(group + 1).filter(|_| group < 2);
                    let wait = |flag: &AtomicU32| {
                        grid::wait_until(flag.as_ptr(), Ordering::Acquire, |word| word != 0)
                    };
                    *cluster::map_shared(mail, 1) = next.map_or(0, wait) + 1;
                }
                cluster::sync();
                if rank == 1 && tid() == 32 {
                    grid::store_release(flags[group].as_ptr(), *mail);
                }
                cluster::sync();
                if tid() == 0 {
                    seen[block()].store(flags[group].load(Ordering::Relaxed), Ordering::Relaxed);
                }
            }
        });
        assert_eq!(seen.into_iter().map(AtomicU32::into_inner).collect::<Vec<_>>(), [3, 3, 2, 2, 1, 1]);
    }
}

#[test]
fn a_wait_in_vain_is_a_fault_that_names_all_waits() {
    for executor in executors(20) {
        let (flags, line) = (words(2), line!() + 10);
        let expected = format!(
            "block (1, 0, 0), thread (0, 0, 0), at .. no thread can continue; all .. grid::wait_until at .. grid.rs:{line} (2 \
             of them, first block (1, 0, 0), thread (0, 0, 0)), thread::sync_threads at .. grid.rs:{} (78 of them, first \
             block (1, 0, 0), thread (1, 0, 0)); let a thread",
            line + 2
        );
        // SAFETY: the words are atomics. Not all threads reach the barrier, which the test is about.
        together(3, 40).by([executor]).fails(&expected, || unsafe {
            if tid() == 0 && block() > 0 {
                grid::wait_until(flags[block() - 1].as_ptr(), Ordering::Acquire, |word| word == 7);
            }
            thread::sync_threads();
            if block() == 0 && tid() == 0 {
                grid::store_release(flags[0].as_ptr(), 6);
            }
        });
    }
}

#[test]
fn a_block_that_leaves_before_the_barrier_of_the_grid() {
    for executor in executors(20) {
        let counter = words(1);
        let faults = together(4, 33).by([executor]).faults(|| {
            if block() != 2 {
                // SAFETY: none; the test is about the block that does not arrive.
                unsafe { grid::sync(counter[0].as_ptr()) };
            }
        });
        let FaultKind::Stuck { waits } = &faults[0].kind else { panic!("{}", faults[0]) };
        assert!(waits.iter().all(|wait| wait.operation == "grid::sync"), "{waits:?}");
        assert_eq!(waits.iter().map(|wait| wait.threads).sum::<u64>(), 3 * 33, "{waits:?}");
    }
}

#[test]
fn a_wait_in_a_launch_that_is_not_cooperative_is_a_fault() {
    let word = AtomicU32::new(1);
    let expected = "grid::wait_until() in a launch that is not cooperative .. #[kernel(cooperative)]";
    on(2, 1).fails(expected, || {
        // SAFETY: the word is an atomic.
        unsafe { grid::wait_until(word.as_ptr(), Ordering::Relaxed, |word| word == 1) };
    });
}

#[test]
fn a_condition_that_panics_is_its_threads_fault() {
    for executor in executors(20) {
        let word = AtomicU32::new(0);
        let expected = "block (0, 0, 0), thread (1, 0, 0), at .. panicked: too large";
        // SAFETY: the word is an atomic.
        together(2, 2).by([executor]).fails(expected, || unsafe {
            if block() == 1 {
                grid::store_relaxed(word.as_ptr(), 5);
            } else if tid() == 1 {
                grid::wait_until(word.as_ptr(), Ordering::Relaxed, |word| {
                    assert_eq!(tid(), 1, "the condition is asked as the thread that waits");
                    assert!(word < 5, "too large");
                    false
                });
            }
        });
    }
}

#[test]
fn a_condition_that_waits_is_asked_by_its_thread() {
    for executor in executors(20).into_iter().filter(|executor| executor.seed().is_some()) {
        let (word, asked) = (AtomicU32::new(0), AtomicU32::new(0));
        // SAFETY: the word is an atomic.
        together(2, 1).by([executor]).check(|| unsafe {
            if block() == 1 {
                return grid::store_relaxed(word.as_ptr(), 1);
            }
            grid::wait_until(word.as_ptr(), Ordering::Relaxed, |word| {
                thread::sync_threads();
                asked.fetch_add(1, Ordering::Relaxed);
                word == 1
            });
        });
        assert!(asked.into_inner() > 0);
    }
}

#[test]
fn grids_that_cannot_be_resident_are_refused() {
    let limits = Limits { max_resident_threads: 1000, ..Limits::default() };
    let executor = Executor::new().with_limits(limits);
    let (mut rows, mut counter) = ([0; 4], [0]);
    let mut launch = |config| {
        // SAFETY: a launch of 0 rounds touches nothing.
        unsafe { rounds::launch(&executor, config, &mut rows, &mut counter, 0) }
    };
    launch(LaunchConfig::new(7, 128)).unwrap();
    let error = launch(LaunchConfig::new(8, 128)).unwrap_err();
    assert!(matches!(error, LaunchError::NotResident { kernel: "rounds", got: 8, fit: 7 }), "{error}");
    assert!(error.to_string().contains("only 7 of 8 blocks fit on the device at once"), "{error}");
    // Whole clusters of 2 blocks.
    let error = launch(LaunchConfig::new(8, 128).with_cluster(2)).unwrap_err();
    assert!(matches!(error, LaunchError::NotResident { got: 8, fit: 6, .. }), "{error}");
    assert!(rounds::META.cooperative);
    // With OS threads the limit is lower.
    let threads = Executor::new().with_scheduler(Scheduler::Threads);
    let error = threads.run_cooperative("many", LaunchConfig::new(5, 1024), || ()).unwrap_err();
    assert!(matches!(error, LaunchError::NotResident { got: 5, fit: 4, .. }), "{error}");
}

#[test]
fn words_of_a_vector_begin_at_a_multiple_of_16() {
    let memory = words(8);
    let at = memory.iter().position(|word| word.as_ptr().addr() % 16 == 4).unwrap();
    together(1, 1).fails("grid::store_all: the address", || {
        // SAFETY: none; the test is about the address.
        unsafe { grid::store_all(memory[at].as_ptr().cast(), [1; 4]) };
    });
}

/// A grid like that of a resident kernel, in which every thread of every block waits.
#[test]
#[cfg(not(miri))]
fn many_threads_wait_for_words() {
    let (blocks, threads) = (102, 256);
    let flags = words(blocks * threads);
    together(blocks as u32, threads as u32).by([Executor::new().without_seed()]).check(|| {
        let at = |block: usize| flags[block * threads + tid()].as_ptr();
        for round in 1..=10 {
            // SAFETY: the words are atomics.
            unsafe {
                grid::store_release(at(block()), round);
                let other = (block() + round as usize) % blocks;
                grid::wait_until(at(other), Ordering::Acquire, |word| word >= round);
            }
        }
    });
    assert!(flags.iter().all(|flag| flag.load(Ordering::Relaxed) == 10));
}
