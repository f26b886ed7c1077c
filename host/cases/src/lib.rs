//! The expected results of the kernels: the cases, and oracles in f64.
//!
//! A [`Case`] is one kernel, or a pair of them, on one problem. All code that runs kernels iterates over the cases of its
//! [`Scope`]: `cargo test` on the executor and on the PTX emulator, the self-check on a GPU, the runs with many seeds,
//! Miri and the sanitizers.

pub mod attention;
pub mod axis;
mod case;
pub mod compare;
#[cfg(feature = "emulator")]
pub mod emulated;
pub mod gallery;
mod later;
pub mod layer;
pub mod matmul;
pub mod norm;
pub mod queued;
pub mod random;
pub mod reference;
pub mod small;
pub mod softmax;
pub mod soundness;

use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use anyhow::Result;
use cuda_std::simt::Executor;
use ferrowarp::device::Device;

pub use case::Case;

/// Checks the small cases twice each, under four seeds that shuffle the schedule.
///
/// # Panics
/// Same as for [`assert_right`].
#[track_caller]
pub fn assert_right_under_shuffled_schedules(cases: impl Fn(&softmax::Setting) -> Vec<Case>) {
    for seed in 0..4 {
        let device = Device::cpu_with(Executor::new().with_seed(seed));
        assert_right(&cases(&softmax::Setting::new(Scope::Small)), &device, Case::assess_twice);
    }
}

/// Asserts that there are cases and that `assess` finds all right on the device, several at a time. Only one cluster runs at
/// a time, also across parallel tests: together they would have more stacks than a process has mappings.
///
/// With `FERROWARP_CASES=K/N` in the environment, only part K of N runs, counted from 0, or all if there are at most N.
///
/// # Panics
/// A case is wrong, there is no case, or `FERROWARP_CASES` is invalid.
#[track_caller]
pub fn assert_right<T>(cases: &[Case], device: &Device, assess: impl Fn(&Case, &Device) -> Result<T> + Sync) {
    static CLUSTERS: Mutex<()> = Mutex::new(());
    assert!(!cases.is_empty(), "no case was chosen");
    let (part, parts) = chosen_part();
    let cases: Vec<&Case> = match cases.len() {
        few if few <= parts => cases.iter().collect(),
        _ => (cases.iter().zip(0..))
            .filter(|&(_, i)| of_part(i, parts) == part)
            .map(|(case, _)| case)
            .collect(),
    };
    let (next, wrong) = (AtomicUsize::new(0), Mutex::new(None));
    // Not rayon: a thread that waits while holding the lock would begin another case, and request the lock again.
    let work = || {
        while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
            let is_cluster = case.cluster_threads() > 0;
            let _lock = is_cluster.then(|| CLUSTERS.lock().unwrap_or_else(PoisonError::into_inner));
            if let Err(error) = assess(case, device) {
                next.store(cases.len(), Ordering::Relaxed);
                wrong.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
            }
        }
    };
    let workers = thread::available_parallelism().map_or(1, NonZero::get).min(cases.len());
    thread::scope(|scope| {
        (1..workers).for_each(|_| _ = scope.spawn(work));
        work();
    });
    let wrong = wrong.into_inner().unwrap_or_else(PoisonError::into_inner);
    if let Some(error) = wrong {
        panic!("{error:#}");
    }
}

/// The part of the cases to run, and the number of parts.
///
/// # Panics
/// `FERROWARP_CASES` is not K/N.
#[track_caller]
pub fn chosen_part() -> (usize, usize) {
    match std::env::var("FERROWARP_CASES") {
        Ok(text) => part(&text).unwrap_or_else(|| panic!("FERROWARP_CASES={text}: expected K/N, like 0/4")),
        Err(_) => (0, 1),
    }
}

/// Parses K and N of `K/N`; K must be below N.
fn part(text: &str) -> Option<(usize, usize)> {
    let (part, parts) = text.split_once('/')?;
    Some((part.parse().ok()?, parts.parse().ok()?)).filter(|(part, parts)| part < parts)
}

/// The part of a list's case. It is hashed, because kernels alternate: every `parts`th case could be of the same one.
pub fn of_part(case: u32, parts: usize) -> usize {
    (case.wrapping_mul(0x9e37_79b9) >> 16) as usize % parts
}

/// The kind of run, which determines the size of the cases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Tools that run kernels thousands of times slower, such as Miri: the smallest cases that exercise all of every kernel.
    Tiny,
    /// Small enough for thousands of runs: the schedules of many seeds, and the sanitizers.
    Small,
    /// An emulator of the oldest GPU.
    OldEmulator,
    /// An emulator of a newer GPU, which has clusters.
    NewEmulator,
    /// The CPU executor, in `cargo test`.
    Executor,
    /// The self-check of a device.
    Device,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_case_is_of_one_part() {
        for parts in 1..9 {
            let of = |case: u32| (0..parts).filter(|&part| of_part(case, parts) == part).count();
            assert!((0..1000).all(|case| of(case) == 1));
            let len = |part: usize| (0..1000).filter(|&case| of_part(case, parts) == part).count();
            assert!(
                (0..parts).all(|part| len(part).abs_diff(1000 / parts) < 40),
                "{parts} parts differ in length"
            );
        }
        assert_eq!(part("3/4"), Some((3, 4)));
        assert!(["4/4", "4", "a/4", "-1/4", "1/"].iter().all(|text| part(text).is_none()));
    }
}
