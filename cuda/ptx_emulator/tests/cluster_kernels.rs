//! Blocks of a cluster that send each other what they have: on the executor and as PTX of both back ends, what comes and when.

use crate::common::kernels::emulators;
use cuda_std::launch::{LaunchConfig, Launcher};
use cuda_std::mem::{f32x2, f32x4};
use cuda_std::simt::{Executor, Scheduler};
use ptx_emulator_kernels::clusters::*;

/// Makes a test of each check, on the executor and as PTX.
macro_rules! on_all {
    ($($check:ident)*) => {
        mod on_the_executor {
            $(#[test] fn $check() {
                super::executors().iter().for_each(|on| super::$check(on));
            })*
        }
        mod as_ptx {
            $(#[test] fn $check() {
                super::emulators().iter().for_each(|on| super::$check(on));
            })*
        }
    };
}

on_all! {
    a_sum_goes_from_block_to_block
    all_blocks_know_maximum_and_sum
    tiles_go_around
    values_come_whole_and_late
}

fn executors() -> Vec<Executor> {
    let seeds = (0..8).map(|seed| Executor::new().with_seed(seed));
    [Executor::new(), Executor::new().with_scheduler(Scheduler::Threads)].into_iter().chain(seeds).collect()
}

/// Numbers between -1 and 1 that look random.
fn numbers(len: usize) -> Vec<f32> {
    (0..len as u32).map(|i| (i.wrapping_mul(0x9e37_79b9) >> 8) as f32 / (1 << 23) as f32 - 1.0).collect()
}

fn config(blocks: u32, threads: u32, cluster: u32) -> LaunchConfig {
    LaunchConfig::new(blocks, threads).with_cluster(cluster)
}

fn a_sum_goes_from_block_to_block(on: &dyn Launcher) {
    for (blocks, cluster, rounds) in [(3, 1, 2), (4, 4, 5), (16, 8, 3)] {
        let inp: Vec<u32> = (0..blocks * rounds).map(|i| i * i).collect();
        let mut out = vec![0; inp.len()];
        // SAFETY: a number for each block and round.
        unsafe { sums_along_a_cluster::launch(on, config(blocks, 33, cluster), &inp, &mut out, rounds) }
            .unwrap();
        for (clusters, sums) in inp.chunks(cluster as usize).zip(out.chunks(cluster as usize)) {
            for (i, sum) in sums.iter().enumerate() {
                assert_eq!(*sum, clusters[..=i].iter().sum::<u32>(), "{blocks} {cluster}");
            }
        }
    }
}

fn all_blocks_know_maximum_and_sum(on: &dyn Launcher) {
    for (cluster, rows) in [(2, 3), (4, 2), (16, 5)] {
        let blocks = 2 * cluster;
        let inp: Vec<f32x2> = numbers((2 * blocks * rows) as usize)
            .chunks(2)
            .map(|pair| f32x2 { x: 8.0 * pair[0], y: 1.0 + pair[1].abs() })
            .collect();
        let mut out = vec![f32x2::default(); inp.len()];
        // SAFETY: a pair for each block and row.
        unsafe { maxima_and_sums::launch(on, config(blocks, 32, cluster), &inp, &mut out, rows) }.unwrap();
        for (sent, seen) in inp.chunks(cluster as usize).zip(out.chunks(cluster as usize)) {
            let largest = sent.iter().fold(f32::MIN, |largest, pair| largest.max(pair.x));
            let sum: f64 =
                sent.iter().map(|pair| f64::from(pair.y) * f64::from(pair.x - largest).exp2()).sum();
            for pair in seen {
                assert_eq!(pair.x, largest);
                assert!((f64::from(pair.y) - sum).abs() < 1e-5 * sum, "{} instead of {sum}", pair.y);
            }
        }
    }
}

fn tiles_go_around(on: &dyn Launcher) {
    for cluster in [2, 4, 8] {
        let inp = numbers(64 * 2 * cluster);
        let mut out = vec![f32::NAN; inp.len()];
        let (blocks, size) = (2 * cluster as u32, cluster as u32);
        // SAFETY: 64 numbers for each block.
        unsafe { tiles_around_a_cluster::launch(on, config(blocks, 64, size), &inp, &mut out) }.unwrap();
        let mut expected = inp;
        expected.chunks_mut(64 * cluster).for_each(|tiles| tiles.rotate_right(64));
        assert_eq!(out, expected);
    }
}

fn values_come_whole_and_late(on: &dyn Launcher) {
    let mut out = [f32x4::default(); 8];
    // SAFETY: four places for each block.
    unsafe { values_of_all_sizes::launch(on, config(2, 1, 2), &mut out) }.unwrap();
    for (rank, seen) in out.chunks(4).enumerate() {
        let x = 1.0 - rank as f32;
        let seen = [1, 2, 3].map(|i: usize| [seen[i].x, seen[i].y, seen[i].z, seen[i].w]);
        assert!(out[4 * rank].x.is_nan(), "{:?}", out[4 * rank].x);
        let expected = [
            [x + 1.0, -1.0, -1.0, -1.0],
            [x + 2.0, x + 3.0, -1.0, -1.0],
            [x + 4.0, x + 5.0, x + 6.0, x + 7.0],
        ];
        assert_eq!(seen, expected);
    }
}
