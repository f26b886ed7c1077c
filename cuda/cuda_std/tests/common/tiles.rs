//! What the tests of bulk copies share.

use cuda_std::barrier::Barrier;
use cuda_std::launch::{LaunchConfig, LaunchError};
use cuda_std::mem::f32x4;
use cuda_std::simt::{Executor, Fault, FaultKind, Scheduler};
use cuda_std::{shared_array, thread};

pub fn all() -> Vec<Executor> {
    let new = || Executor::new().without_seed();
    let seeds = (0..if cfg!(miri) { 0 } else { 8 }).map(|seed| new().with_seed(seed));
    [new(), new().with_scheduler(Scheduler::Threads)].into_iter().chain(seeds).collect()
}

/// The executors with threads that are fibers, for reports that only they give.
pub fn fibers() -> Vec<Executor> {
    all().into_iter().filter(|executor| !format!("{executor:?}").contains("scheduler: Threads")).collect()
}

pub fn fault_of(executor: &Executor, config: LaunchConfig, kernel: impl Fn() + Sync) -> Fault {
    match executor.run("broken", config, kernel) {
        Err(LaunchError::Fault(fault)) => *fault,
        other => panic!("expected a fault, got {other:?}"),
    }
}

/// Numbers aligned to 16 bytes.
pub fn numbers(len: usize) -> Vec<f32x4> {
    (0..len).map(|i| f32x4::splat(i as f32)).collect()
}

/// A tile and a barrier for one arrival, which one thread has initialised.
pub fn tile_and_barrier() -> (*mut f32x4, *mut Barrier) {
    let (tile, ready) = (shared_array![f32x4; 64], shared_array![Barrier; 1]);
    if thread::thread_idx_x() == 0 {
        // SAFETY: no other thread uses it before the barrier.
        unsafe { Barrier::init(ready, 1) };
        Barrier::fence_init();
    }
    thread::sync_threads();
    (tile, ready)
}

/// Checks the panic of a thread that does this with a tile and a barrier.
#[track_caller]
pub fn check_panic(expected: &str, kernel: impl Fn(*mut f32x4, *mut Barrier) + Sync) {
    for executor in all() {
        let fault = fault_of(&executor, LaunchConfig::new(1, 1), || {
            let (tile, ready) = tile_and_barrier();
            kernel(tile, ready);
        });
        let FaultKind::Panic { message } = &fault.kind else { panic!("{fault}") };
        assert!(message.contains(expected), "{message}");
        assert!(fault.location.is_some_and(|at| at.file.contains("tests/bulk")));
    }
}
