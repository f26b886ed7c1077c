//! Checks cases in tests.

use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use anyhow::Result;
use cuda_std::simt::Executor;
use ferrowarp::device::Device;

use crate::case::Case;
use crate::scopes::{Scope, Setting};
use crate::share::Share;

/// Checks the small cases twice each, under seeds that shuffle the schedule: two for the smallest [`Share`], else four.
///
/// # Panics
/// Same as for [`assert_right`].
#[track_caller]
pub fn assert_right_under_shuffled_schedules(cases: impl Fn(&Setting) -> Vec<Case>) {
    let seeds = if Share::of_tests() == Share::Small { 2 } else { 4 };
    for seed in 0..seeds {
        let device = Device::cpu_with(Executor::new().with_seed(seed));
        assert_right(&cases(&Setting::new(Scope::Small)), &device, Case::assess_twice);
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
