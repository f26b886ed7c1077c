//! What the kernels must compute: the cases, and the oracles in f64 that judge them.
//!
//! A [`Case`] is one kernel, or a pair of them, on one problem. Whoever runs kernels iterates the cases of its [`Scope`]:
//! `cargo test`, on the executor and on the emulator of PTX, the self-check on a GPU, the runs under many seeds, Miri and
//! the sanitizers.

pub mod attention;
mod case;
pub mod compare;
#[cfg(feature = "emulator")]
pub mod emulated;
pub mod gallery;
mod later;
pub mod layer;
pub mod matmul;
pub mod reference;
pub mod small;
pub mod softmax;

use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use anyhow::Result;
use ferrowarp::device::Device;

pub use case::Case;

/// Asserts for a test that there are cases and that all are right, assessed as said on this device, several at a time. One
/// cluster runs at a time, also of tests side by side: together they have more stacks than a process has mappings.
///
/// # Panics
/// A case is wrong, or there is none.
#[track_caller]
pub fn assert_right<T>(cases: &[Case], device: &Device, assess: impl Fn(&Case, &Device) -> Result<T> + Sync) {
    static CLUSTERS: Mutex<()> = Mutex::new(());
    assert!(!cases.is_empty(), "no case was chosen");
    let (next, wrong) = (AtomicUsize::new(0), Mutex::new(None));
    // Not rayon: a thread that holds the lock and waits would begin another case, and ask for the lock again.
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

/// Who runs the cases, which says how large they may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Tools that run a kernel thousands of times slower, such as Miri: the least that makes every kernel do all it does.
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
