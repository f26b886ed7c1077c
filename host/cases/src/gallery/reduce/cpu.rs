//! The sum on a CPU: by one core, and by a tree of its threads with a barrier before each round.

use std::sync::Barrier;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::{available_parallelism, scope};
use std::time::Instant;

use super::super::prelude::*;
use super::Summands;
use crate::compare::compare;

/// Runs with the same threads.
const RUNS: usize = 20;

pub(super) fn trials(lens: &[usize]) -> Vec<Trial> {
    let cores = available_parallelism().map_or(1, usize::from);
    // Miri runs the threads one after the other.
    let threads = if cfg!(miri) { 2 } else { cores.next_power_of_two() };
    let rungs =
        [("core_loop", "one core of the CPU", 1), ("cores_tree", "a tree of the CPU's threads", threads)];
    rungs.iter().flat_map(|&rung| lens.iter().map(move |&len| trial(rung, len))).collect()
}

fn trial((name, idea, threads): (&'static str, &'static str, usize), len: usize) -> Trial {
    let words = format!("{len} elements, {:?}", Summands::Whole);
    let work = Work::of_bytes(4 * len).with_flop(len);
    Trial::of_host((name, idea), len, words, work, move |_, samples| {
        let numbers = Summands::Whole.numbers(len);
        let runs = if cfg!(miri) { 1 } else { RUNS };
        let (time, sum) = timed(&numbers, threads, runs);
        compare("sum", &[sum.into()], &[Summands::Whole.sum(&numbers)])?;
        let again = (1..samples).map(|_| timed(&numbers, threads, runs).0);
        Ok(Timed::Samples(std::iter::once(time).chain(again).collect()))
    })
}

/// The time of one of some runs, and the sum. The threads are there already.
fn timed(numbers: &[f32], threads: usize, runs: usize) -> (Duration, f32) {
    let sums: Vec<AtomicU32> = (0..threads).map(|_| AtomicU32::new(0)).collect();
    let meet = Barrier::new(threads);
    let get = |i: usize| f32::from_bits(sums[i].load(Ordering::Relaxed));
    let put = |i: usize, sum: f32| sums[i].store(sum.to_bits(), Ordering::Relaxed);
    let run = |thread: usize| {
        // The barriers order the accesses.
        meet.wait();
        let begin = Instant::now();
        for _ in 0..runs {
            let part = numbers.len().div_ceil(threads);
            let first = numbers.len().min(thread * part);
            put(thread, add(&numbers[first..numbers.len().min(first + part)]));
            let mut stride = threads / 2;
            while stride > 0 {
                meet.wait();
                if thread < stride {
                    put(thread, get(thread) + get(thread + stride));
                }
                stride /= 2;
            }
            if threads > 1 {
                meet.wait();
            }
        }
        begin.elapsed() / runs as u32
    };
    let time = scope(|scope| {
        let others: Vec<_> = (1..threads).map(|thread| scope.spawn(move || run(thread))).collect();
        let time = run(0);
        drop(others);
        time
    });
    (time, get(0))
}

/// The sum of a slice, in 16 parts that vectors can hold.
fn add(numbers: &[f32]) -> f32 {
    let mut sums = [0.0f32; 16];
    let (chunks, rest) = numbers.as_chunks::<16>();
    chunks.iter().for_each(|chunk| sums.iter_mut().zip(chunk).for_each(|(sum, x)| *sum += x));
    sums.iter().sum::<f32>() + rest.iter().sum::<f32>()
}
