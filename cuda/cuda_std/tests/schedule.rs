//! Seeds of the executor's schedule: what they change, what they must not change, and the bugs that they find.

use core::sync::atomic::{AtomicU32, Ordering};
use std::process::Command;

use cuda_std::launch::{LaunchConfig, LaunchError};
use cuda_std::simt::{Executor, Fault};
use cuda_std::{cluster, shared_array, thread, warp};

use crate::common::Cells;

const SEEDS: u64 = 40;

/// Returns the position of each thread of the grid in the order of execution.
fn arrivals(executor: &Executor, config: LaunchConfig) -> Vec<u64> {
    let cells = Cells::new((config.grid.volume() * config.block.volume()) as usize);
    let next = AtomicU32::new(0);
    executor.run("arrivals", config, || cells.put(next.fetch_add(1, Ordering::Relaxed).into())).unwrap();
    cells.values()
}

#[test]
fn without_a_seed_everything_comes_in_order() {
    let executor = Executor::new().without_seed().with_workers(1);
    assert!(arrivals(&executor, LaunchConfig::new(5, 70)).into_iter().eq(0..350));
}

#[test]
fn a_seed_shuffles_blocks_warps_and_lanes_and_repeats() {
    let config = LaunchConfig::new((3, 2, 2), 70);
    let run = |seed, workers| arrivals(&Executor::new().with_workers(workers).with_seed(seed), config);
    let mut seen = Vec::new();
    for seed in 0..SEEDS {
        let order = run(seed, 2);
        assert_eq!(order, run(seed, 1), "seed {seed} is not the same on another number of workers");
        let mut places = order.clone();
        places.sort_unstable();
        assert!(places.into_iter().eq(0..840), "seed {seed}: not every thread ran once");
        assert!(!seen.contains(&order), "seed {seed} repeats another");
        seen.push(order);
    }
    let orders = |at: fn(&[u64]) -> Vec<u64>| {
        let mut parts: Vec<_> = seen.iter().map(|order| at(order)).collect();
        parts.sort_unstable();
        parts.dedup();
        parts.len() as u64
    };
    let blocks = |order: &[u64]| order.chunks(70).map(|block| block.iter().min().unwrap() / 70).collect();
    assert!(orders(blocks) > SEEDS / 2, "{}", orders(blocks));
    // The warp that starts first; the last one has only six lanes.
    let first_warp =
        |order: &[u64]| vec![order[..70].iter().position(|place| place % 70 == 0).unwrap() as u64 / 32];
    assert_eq!(orders(first_warp), 3);
    let lanes = |order: &[u64]| order[..32].iter().map(|place| place % 70).collect();
    assert!(orders(lanes) > SEEDS / 2, "{}", orders(lanes));
}

#[test]
fn lanes_and_threads_resume_in_another_order() {
    let orders = |wait: fn()| {
        let run = |seed| {
            let (cells, next) = (Cells::new(64), AtomicU32::new(0));
            let kernel = || {
                wait();
                cells.put(next.fetch_add(1, Ordering::Relaxed).into());
            };
            Executor::new().with_seed(seed).run("resume", LaunchConfig::new(1, 64), kernel).unwrap();
            cells.values()
        };
        let mut orders: Vec<_> = (0..SEEDS).map(run).collect();
        orders.sort_unstable();
        orders.dedup();
        orders.len() as u64
    };
    assert_eq!(orders(thread::sync_threads), SEEDS);
    // SAFETY: all threads reach this.
    assert_eq!(orders(|| unsafe { warp::sync_warp(u32::MAX) }), SEEDS);
}

/// Returns the seeds under which a kernel of 128 threads panics. Checks that each panics again with the same message,
/// and that the kernel works in the fixed order.
fn failing(kernel: impl Fn() + Sync) -> Vec<u64> {
    let config = LaunchConfig::new(1, 128);
    Executor::new().without_seed().run("racy", config, &kernel).unwrap();
    let fault = |seed| match Executor::new().with_seed(seed).run("racy", config, &kernel) {
        Ok(()) => None,
        Err(LaunchError::Fault(fault)) => Some(*fault),
        Err(other) => panic!("{other}"),
    };
    let mut seeds = Vec::new();
    for seed in 0..SEEDS {
        let first: Option<Fault> = fault(seed);
        assert_eq!(first, fault(seed), "seed {seed} does not replay");
        if let Some(fault) = first {
            assert_eq!(fault.seed, Some(seed));
            let words = format!("schedule seed {seed:#x}; replay with FERROWARP_SEED={seed:#x}");
            assert!(fault.to_string().contains(&words), "{fault}");
            seeds.push(seed);
        }
    }
    seeds
}

#[test]
fn a_missing_barrier_is_found() {
    let seeds = failing(|| {
        let (values, tid) = (shared_array![u32; 128], thread::thread_idx_x() as usize);
        // SAFETY: inside the array. Nothing ensures that the neighbour's value is written before.
        unsafe {
            *values.add(tid) = tid as u32;
            assert_eq!(*values.add(tid.saturating_sub(1)), tid.saturating_sub(1) as u32);
        }
    });
    assert_eq!(seeds.len() as u64, SEEDS);
}

#[test]
fn a_write_before_all_have_read_is_found() {
    let seeds = failing(|| {
        let (values, tid) = (shared_array![u32; 128], thread::thread_idx_x() as usize);
        for round in 0..3 {
            // SAFETY: inside the array; a barrier is missing after the reads.
            unsafe {
                *values.add(tid) = round;
                thread::sync_threads_aligned();
                // In the fixed order, the threads with higher numbers have not gone on yet.
                assert_eq!(*values.add((tid + 32).min(127)), round);
            }
        }
    });
    assert!(seeds.len() as u64 > SEEDS / 2, "{seeds:?}");
}

#[test]
fn warps_drift_apart_behind_a_barrier() {
    let seeds = failing(|| {
        let (values, tid) = (shared_array![u32; 128], thread::thread_idx_x() as usize);
        // SAFETY: inside the array. In the fixed order every warp has read before one passes its own barrier.
        unsafe {
            *values.add(tid) = 1;
            thread::sync_threads_aligned();
            let read = *values.add((tid + 32) % 128);
            warp::sync_warp(u32::MAX);
            *values.add(tid) = 2;
            assert_eq!(read, 1);
        }
    });
    assert!(seeds.len() as u64 > SEEDS / 2, "{seeds:?}");
}

#[test]
fn a_tile_of_a_warp_gets_ahead_of_the_others() {
    let seeds = failing(|| {
        let (values, tid) = (shared_array![u32; 128], thread::thread_idx_x());
        let mask = 0xff << (tid % 32 / 8 * 8);
        // SAFETY: inside the array. The four tiles of a warp wait only for their own lanes.
        unsafe {
            *values.add(tid as usize) = 0;
            thread::sync_threads_aligned();
            for round in 1..4 {
                // In the fixed order all tiles are in the same round.
                assert!(*values.add((tid as usize ^ 8) % 128) >= round - 1);
                warp::sync_warp(mask);
                *values.add(tid as usize) = round;
                warp::sync_warp(mask);
            }
        }
    });
    assert!(!seeds.is_empty());
}

/// A sum over the block with shuffles, shared memory, a vote and barriers: right in every order.
fn block_sum(value: u32) -> u32 {
    let (partial, tid) = (shared_array![u32; 32], thread::thread_idx_x());
    let warps = thread::block_dim_x().div_ceil(32);
    // SAFETY: all threads of the block call this; 32 partial sums are enough for any block.
    unsafe {
        let mut sum = value;
        for offset in [16, 8, 4, 2, 1] {
            sum += warp::warp_shuffle_xor(u32::MAX, sum, offset, 32).0;
        }
        assert_eq!(warp::warp_vote_ballot(u32::MAX, tid % 32 == 3), 1 << 3);
        if tid % 32 == 0 {
            *partial.add((tid / 32) as usize) = sum;
        }
        thread::sync_threads_aligned();
        let total = (0..warps as usize).map(|warp| *partial.add(warp)).sum();
        assert_eq!(thread::sync_threads_count_aligned(u32::from(tid < 40)), 40);
        total
    }
}

#[test]
fn right_kernels_are_right_under_every_seed() {
    for seed in 0..SEEDS {
        let executor = Executor::new().with_seed(seed);
        let kernel = || {
            for round in 0..3 {
                assert_eq!(block_sum(thread::thread_idx_x() + round), 256 * 255 / 2 + 256 * round);
            }
        };
        executor.run("block_sum", LaunchConfig::new(3, 256), kernel).unwrap();

        // Threads that return early, tiles with their own masks, and lanes in another branch.
        let kernel = || {
            let (tid, lane) = (thread::thread_idx_x(), thread::thread_idx_x() % 32);
            if tid >= 64 {
                return;
            }
            let tile = 0xf << (lane / 4 * 4);
            for round in 0..lane / 4 + 1 {
                // SAFETY: the four lanes of a tile reach this equally often.
                let got = unsafe { warp::warp_shuffle_idx(tile, tid + round, 1, 4).0 };
                assert_eq!(got, tid / 4 * 4 + 1 + round);
            }
            if lane < 16 {
                // SAFETY: the lower half reaches this.
                assert_eq!(unsafe { warp::warp_vote_ballot(0xffff, true) }, 0xffff);
            } else {
                // SAFETY: the upper half reaches this.
                assert_eq!(unsafe { warp::warp_vote_ballot(0xffff_0000, lane % 2 == 1) }, 0xaaaa_0000);
            }
        };
        executor.run("tiles", LaunchConfig::new(2, 70), kernel).unwrap();
    }
}

#[test]
fn clusters_are_right_under_every_seed_and_their_turns_change() {
    let mut firsts = Vec::new();
    for seed in 0..SEEDS {
        let first = AtomicU32::new(u32::MAX);
        let kernel = || {
            let (values, tid) = (shared_array![u32; 4], thread::thread_idx_x());
            let rank = cluster::block_rank();
            let _ = first.compare_exchange(u32::MAX, rank, Ordering::Relaxed, Ordering::Relaxed);
            for round in 0..3 {
                // SAFETY: all threads of the cluster reach the barriers, and thread `t` writes to block `t`.
                unsafe {
                    cluster::sync();
                    if tid < 4 {
                        *cluster::map_shared(values, tid).add(rank as usize) = rank + round;
                    }
                    cluster::sync();
                    assert_eq!((0..4).map(|i| *values.add(i)).sum::<u32>(), 6 + 4 * round);
                }
            }
        };
        let config = LaunchConfig::new(8, 40).with_cluster(4);
        Executor::new().with_seed(seed).run("exchange", config, kernel).unwrap();
        firsts.push(first.into_inner());
    }
    firsts.sort_unstable();
    firsts.dedup();
    assert_eq!(firsts, [0, 1, 2, 3]);
}

#[test]
fn a_lacking_cluster_barrier_is_found() {
    let kernel = || {
        let values = shared_array![u32; 1];
        // SAFETY: all threads reach the barriers; one is missing between the write and the read.
        unsafe {
            cluster::sync();
            *values = 7;
            let other = *cluster::map_shared(values, 0);
            cluster::sync();
            assert_eq!(other, 7);
        }
    };
    let config = LaunchConfig::new(2, 1).with_cluster(2);
    Executor::new().without_seed().run("early", config, kernel).unwrap();
    let fails = |seed: &u64| Executor::new().with_seed(*seed).run("early", config, kernel).is_err();
    let failing = (0..SEEDS).filter(fails).count() as u64;
    assert!((SEEDS / 4..SEEDS * 3 / 4).contains(&failing), "{failing}");
}

#[test]
fn the_environment_seeds_every_executor() {
    const NAME: &str = "schedule::the_environment_seeds_every_executor";
    if std::env::var_os("FERROWARP_SEED").is_some() {
        // The process that the test starts below.
        let kernel = || assert!(thread::thread_idx_x() != 3, "planted");
        let error = Executor::new().run("seeded", LaunchConfig::new(1, 32), kernel).unwrap_err();
        println!("[{error}]");
        return;
    }
    let run = |seed: &str| {
        let mut command = Command::new(std::env::current_exe().unwrap());
        let output =
            command.args(["--exact", NAME, "--nocapture"]).env("FERROWARP_SEED", seed).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    for seed in ["0x2a", "42"] {
        assert!(
            run(seed).contains("(schedule seed 0x2a; replay with FERROWARP_SEED=0x2a)]"),
            "{}",
            run(seed)
        );
    }
    let unset = run("");
    assert!(unset.contains("planted") && !unset.contains("schedule seed"), "{unset}");
    let message = run("fourty");
    assert!(message.contains("FERROWARP_SEED is `fourty`, which is not a 64-bit number"), "{message}");
}
