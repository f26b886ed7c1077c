//! Peak rates of a CPU's cores: chains of fused multiplications and additions, scalar, in vectors, and on all cores.

use std::hint::black_box;
use std::sync::Barrier;
use std::thread::{self, available_parallelism};
use std::time::{Duration, Instant};

use anyhow::Result;

use super::{NEARS, start};
use crate::compare::{Bound, compare};
use crate::gallery::trial::{Timed, Trial, Work};

mod chains;

use chains::{CHAINS, Chains, Vectors};

/// A trial of each rung; its chains have `times` operations.
pub(super) fn trials(times: usize) -> Vec<Trial> {
    let cores = available_parallelism().map_or(1, usize::from);
    let [scalar, vectors] = [chains::scalar(), Vectors::widest().chains()];
    vec![
        trial(("core_scalar", "one core of the CPU, a number an instruction"), scalar, 1, times),
        trial(("core_simd", "one core of the CPU, its widest vectors"), vectors, 1, times),
        trial(("cores_simd", "all cores of the CPU, their widest vectors"), vectors, cores, times),
    ]
}

fn trial(name: (&'static str, &'static str), chains: Chains, cores: usize, times: usize) -> Trial {
    let work = Work::default().with_flop(2 * CHAINS * chains.lanes * times * cores);
    let words = format!("{cores} cores, {CHAINS} chains of {} numbers, {times} times", chains.lanes);
    let run = move |_: &_, samples| {
        (0..samples).map(|_| timed(chains, cores, times)).collect::<Result<_>>().map(Timed::Samples)
    };
    let trial = Trial::of_host(name, cores, words, work, run);
    trial.with_peak(move |_| Some(hertz()? * (2 * UNITS * chains.lanes * cores) as f64))
}

/// Fused operations that a core begins per cycle. AMD's cores have begun this many since Zen, Intel's server cores since
/// Haswell, whatever the vector width.
const UNITS: usize = 2;

/// The highest clock of the first core in Hz, if the system reports it: most virtual machines do not.
fn hertz() -> Option<f64> {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq").ok()?;
    Some(text.trim().parse::<f64>().ok()? * 1e3)
}

/// The time of `cores` cores working concurrently, from a common start to the end of the last. Checks the result of each.
fn timed(chains: Chains, cores: usize, times: usize) -> Result<Duration> {
    let meet = Barrier::new(cores);
    let one = || {
        // Raises the clock and powers up the vector units.
        (chains.run)(NEARS, black_box(times / 8 + 1));
        meet.wait();
        let begin = Instant::now();
        let sums = (chains.run)(NEARS, black_box(times));
        (begin, Instant::now(), sums)
    };
    let done: Vec<_> = thread::scope(|scope| {
        let others: Vec<_> = (1..cores).map(|_| scope.spawn(one)).collect();
        let mine = one();
        let others = others.into_iter().map(|other| other.join().expect("it only computes"));
        [mine].into_iter().chain(others).collect()
    });
    let want: Vec<Bound> = (0..chains.lanes)
        .map(|lane| NEARS.after(times, (0..CHAINS).map(|k| f64::from(start(lane, k)))))
        .collect();
    for (_, _, sums) in &done {
        let got: Vec<f64> = sums.iter().take(chains.lanes).map(|&sum| f64::from(sum)).collect();
        compare("sums", &got, &want)?;
    }
    let first = done.iter().map(|&(begin, ..)| begin).min();
    let last = done.iter().map(|&(_, end, _)| end).max();
    Ok(first.zip(last).map_or(Duration::ZERO, |(first, last)| last - first))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Vectors of every width on this machine, and a single number.
    #[test]
    fn chains_end_where_they_must() {
        let all = Vectors::all().into_iter().map(Vectors::chains).chain([chains::scalar()]);
        for chains in all {
            for times in [1, 7, 1000] {
                assert!(timed(chains, 2, times).is_ok(), "{} lanes, {times} times", chains.lanes);
            }
        }
    }

    #[test]
    fn a_chain_that_is_a_step_short_is_found() {
        let mut wrong = chains::scalar();
        wrong.run = |map, times| (chains::scalar().run)(map, times - 1);
        assert!(timed(wrong, 1, 9).is_err());
    }
}
