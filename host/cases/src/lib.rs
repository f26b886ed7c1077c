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
mod scopes;
mod share;
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
pub use share::Share;

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
/// Only the tests' [`Share`] of the cases runs.
///
/// # Panics
/// A case is wrong, there is no case, or `FERROWARP_CASES` is invalid.
#[track_caller]
pub fn assert_right<T>(cases: &[Case], device: &Device, assess: impl Fn(&Case, &Device) -> Result<T> + Sync) {
    static CLUSTERS: Mutex<()> = Mutex::new(());
    assert!(!cases.is_empty(), "no case was chosen");
    let chosen = Share::of_tests().of(cases.iter());
    let (next, wrong) = (AtomicUsize::new(0), Mutex::new(None));
    // Not rayon: a thread that waits while holding the lock would begin another case, and request the lock again.
    let work = || {
        while let Some(&i) = chosen.get(next.fetch_add(1, Ordering::Relaxed)) {
            let case = &cases[i];
            let is_cluster = case.cluster_threads() > 0;
            let _lock = is_cluster.then(|| CLUSTERS.lock().unwrap_or_else(PoisonError::into_inner));
            if let Err(error) = assess(case, device) {
                next.store(chosen.len(), Ordering::Relaxed);
                wrong.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
            }
        }
    };
    let workers = thread::available_parallelism().map_or(1, NonZero::get).min(chosen.len());
    thread::scope(|scope| {
        (1..workers).for_each(|_| _ = scope.spawn(work));
        work();
    });
    let wrong = wrong.into_inner().unwrap_or_else(PoisonError::into_inner);
    if let Some(error) = wrong {
        panic!("{error:#}");
    }
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
