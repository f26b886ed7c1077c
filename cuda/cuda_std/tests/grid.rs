//! Blocks that wait for each other, on the executor: with both schedulers, and under many seeds.

use core::sync::atomic::{AtomicU32, Ordering};

use cuda_std::launch::{Dim3, LaunchConfig, LaunchError, Limits};
use cuda_std::mem::u32x4;
use cuda_std::simt::{Executor, Fault, FaultKind, Scheduler};
use cuda_std::{cluster, grid, kernel, shared_array, thread};

/// All schedulers; under Miri, only that of threads.
const SCHEDULERS: [Scheduler; 2] =
    [if cfg!(miri) { Scheduler::Threads } else { Scheduler::Coroutines }, Scheduler::Threads];

/// In the fixed order, on threads, and under some seeds.
fn executors() -> Vec<Executor> {
    let new = || Executor::new().without_seed();
    let seeds = (0..if cfg!(miri) { 0 } else { 20 }).map(|seed| new().with_seed(seed));
    SCHEDULERS.map(|scheduler| new().with_scheduler(scheduler)).into_iter().chain(seeds).collect()
}

fn words(len: usize) -> Vec<AtomicU32> {
    (0..len).map(|_| AtomicU32::new(0)).collect()
}

fn fault_of(executor: &Executor, config: LaunchConfig, kernel: impl Fn() + Sync) -> Fault {
    match executor.run_cooperative("broken", config, kernel) {
        Err(LaunchError::Fault(fault)) => *fault,
        other => panic!("expected a fault, got {other:?}"),
    }
}

fn block() -> usize {
    thread::block_idx_x() as usize
}

fn tid() -> usize {
    thread::thread_idx_x() as usize
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
    for executor in executors() {
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
    let (counter, here) = (words(1), AtomicU32::new(0));
    let config = LaunchConfig::new((2, 3, 2), (3, 2, 2));
    let kernel = || {
        for round in 1..=3 {
            here.fetch_add(1, Ordering::Relaxed);
            // SAFETY: all threads reach this.
            unsafe { grid::sync(counter[0].as_ptr()) };
            assert_eq!(here.load(Ordering::Relaxed), round * 144);
            // SAFETY: as above.
            unsafe { grid::sync(counter[0].as_ptr()) };
        }
    };
    for scheduler in SCHEDULERS {
        here.store(0, Ordering::Relaxed);
        let executor = Executor::new().with_scheduler(scheduler);
        executor.run_cooperative("axes", config, kernel).unwrap();
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
    for executor in executors() {
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
    for executor in executors() {
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
    for executor in executors() {
        let (flags, seen) = (words(3), words(6));
        let config = LaunchConfig::new(6, 33).with_cluster(2);
        executor
            .run_cooperative("clusters", config, || {
                let (group, rank) = (block() / 2, cluster::block_rank());
                let mail = shared_array![u32; 1];
                // SAFETY: all threads of a cluster reach its barriers.
                unsafe {
                    cluster::sync();
                    if rank == 0 && tid() == 0 {
                        let before = if group == 2 {
                            0
                        } else {
                            grid::wait_until(flags[group + 1].as_ptr(), Ordering::Acquire, |word| word != 0)
                        };
                        *cluster::map_shared(mail, 1) = before + 1;
                    }
                    cluster::sync();
                    if rank == 1 && tid() == 32 {
                        grid::store_release(flags[group].as_ptr(), *mail);
                    }
                    cluster::sync();
                    if tid() == 0 {
                        let last = flags[group].load(Ordering::Relaxed);
                        seen[block()].store(last, Ordering::Relaxed);
                    }
                }
            })
            .unwrap();
        assert_eq!(seen.into_iter().map(AtomicU32::into_inner).collect::<Vec<_>>(), [3, 3, 2, 2, 1, 1]);
    }
}

#[test]
fn a_wait_in_vain_is_a_fault_that_names_all_waits() {
    for executor in executors() {
        let (flags, line) = (words(2), line!() + 5);
        let fault = fault_of(&executor, LaunchConfig::new(3, 40), || {
            // SAFETY: the words are atomics. Not all threads reach the barrier, which the test is about.
            unsafe {
                if tid() == 0 && block() > 0 {
                    grid::wait_until(flags[block() - 1].as_ptr(), Ordering::Acquire, |word| word == 7);
                }
                thread::sync_threads();
                if block() == 0 && tid() == 0 {
                    grid::store_release(flags[0].as_ptr(), 6);
                }
            }
        });
        let FaultKind::Stuck { waits } = &fault.kind else { panic!("{fault}") };
        let first = |i: usize| (waits[i].operation, waits[i].at.line, waits[i].threads, waits[i].first);
        let (operation, at, threads, place) = first(0);
        assert_eq!((operation, at, threads), ("grid::wait_until", line, 2), "{fault}");
        assert_eq!((place.block, place.thread), (Dim3::new(1, 0, 0), Some(Dim3::new(0, 0, 0))));
        let (operation, at, threads, place) = first(1);
        assert_eq!((operation, at, threads), ("thread::sync_threads", line + 2, 78), "{fault}");
        assert_eq!((waits.len(), place.thread), (2, Some(Dim3::new(1, 0, 0))));
        assert_eq!(fault.place, first(0).3);
        let text = fault.to_string();
        assert!(text.contains("no thread can continue") && text.contains("let a thread"), "{text}");
    }
}

#[test]
fn a_block_that_leaves_before_the_barrier_of_the_grid() {
    for executor in executors() {
        let counter = words(1);
        let fault = fault_of(&executor, LaunchConfig::new(4, 33), || {
            if block() != 2 {
                // SAFETY: none; the test is about the block that does not arrive.
                unsafe { grid::sync(counter[0].as_ptr()) };
            }
        });
        let FaultKind::Stuck { waits } = &fault.kind else { panic!("{fault}") };
        assert!(waits.iter().all(|wait| wait.operation == "grid::sync"), "{fault}");
        assert_eq!(waits.iter().map(|wait| wait.threads).sum::<u64>(), 3 * 33, "{fault}");
    }
}

#[test]
fn a_wait_in_a_launch_that_is_not_cooperative_is_a_fault() {
    for scheduler in SCHEDULERS {
        let word = AtomicU32::new(1);
        let executor = Executor::new().without_seed().with_scheduler(scheduler);
        let result = executor.run("alone", LaunchConfig::new(2, 1), || {
            // SAFETY: the word is an atomic.
            unsafe { grid::wait_until(word.as_ptr(), Ordering::Relaxed, |word| word == 1) };
        });
        let fault = result.unwrap_err().to_string();
        assert!(fault.contains("grid::wait_until() in a launch that is not cooperative"), "{fault}");
        assert!(fault.contains("#[kernel(cooperative)]") && fault.contains("tests/grid.rs"), "{fault}");
    }
}

#[test]
fn a_condition_that_panics_is_its_threads_fault() {
    for executor in executors() {
        let word = AtomicU32::new(0);
        let fault = fault_of(&executor, LaunchConfig::new(2, 2), || {
            let word = word.as_ptr();
            // SAFETY: the word is an atomic.
            unsafe {
                if block() == 1 {
                    grid::store_relaxed(word, 5);
                } else if tid() == 1 {
                    grid::wait_until(word, Ordering::Relaxed, |word| {
                        assert_eq!(
                            thread::thread_idx_x(),
                            1,
                            "the condition is asked as the thread that waits"
                        );
                        assert!(word < 5, "too large");
                        false
                    });
                }
            }
        });
        assert_eq!((fault.place.block.x, fault.place.thread), (0, Some(Dim3::new(1, 0, 0))), "{fault}");
        assert_eq!(fault.kind, FaultKind::Panic { message: "too large".to_owned() });
    }
}

#[test]
fn a_condition_that_waits_is_asked_by_its_thread() {
    for executor in executors().into_iter().filter(|executor| executor.seed().is_some()) {
        let (word, asked) = (AtomicU32::new(0), AtomicU32::new(0));
        executor
            .run_cooperative("waits", LaunchConfig::new(2, 1), || {
                if block() == 1 {
                    // SAFETY: the word is an atomic.
                    return unsafe { grid::store_relaxed(word.as_ptr(), 1) };
                }
                // SAFETY: as above.
                unsafe {
                    grid::wait_until(word.as_ptr(), Ordering::Relaxed, |word| {
                        thread::sync_threads();
                        asked.fetch_add(1, Ordering::Relaxed);
                        word == 1
                    })
                };
            })
            .unwrap();
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
    let fault = fault_of(&Executor::new(), LaunchConfig::new(1, 1), || {
        // SAFETY: none; the test is about the address.
        unsafe { grid::store_all(memory[at].as_ptr().cast(), [1; 4]) };
    });
    assert!(fault.to_string().contains("grid::store_all: the address"), "{fault}");
}
