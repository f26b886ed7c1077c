//! Launches over their time limit, where the executor can stop them.

#![cfg(not(miri))]

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use cuda_std::atomic::AtomicU32;
use cuda_std::launch::{Dim3, LaunchConfig, LaunchError};
use cuda_std::simt::{Executor, Fault, FaultKind, Scheduler};
use cuda_std::testing::{KernelTest, TestError};
use cuda_std::{cluster, kernel, thread, warp};

const LIMIT: Duration = Duration::from_millis(100);

/// Returns the fault of a kernel that loops forever.
fn fault_of(executor: &Executor, config: LaunchConfig, round: impl Fn() + Sync) -> Fault {
    let start = Instant::now();
    let result = executor.clone().with_time_limit(LIMIT).run("endless", config, || {
        loop {
            round();
        }
    });
    assert!(start.elapsed() >= LIMIT);
    match result {
        Err(LaunchError::Fault(fault)) => *fault,
        other => panic!("expected a fault, got {other:?}"),
    }
}

#[test]
fn whatever_a_kernel_waits_with_it_ends() {
    let config = LaunchConfig::new(4, 64);
    let flag = AtomicU32::new(0);
    let executors = [
        Executor::new().without_seed(),
        Executor::new().with_seed(3),
        Executor::new().with_scheduler(Scheduler::Threads),
    ];
    let rounds: [&(dyn Fn() + Sync); 4] = [
        &thread::sync_threads,
        // SAFETY: all lanes reach this.
        &|| unsafe { warp::sync_warp(u32::MAX) },
        &|| {
            let _ = flag.load(Ordering::Relaxed);
        },
        &|| thread::nanosleep(100),
    ];
    for (executor, scheduler) in executors.iter().zip(0..) {
        for (round, number) in rounds.iter().zip(0..) {
            let fault = fault_of(executor, config, round);
            assert_eq!(fault.kind, FaultKind::TimedOut { limit: LIMIT }, "{scheduler} {number}");
            assert!(fault.place.thread.is_some(), "{scheduler} {number}");
        }
        // SAFETY: all threads of the cluster reach this.
        let fault = fault_of(executor, config.with_cluster(2), || unsafe { cluster::sync() });
        assert_eq!(fault.kind, FaultKind::TimedOut { limit: LIMIT }, "{scheduler}");
    }
}

#[test]
fn the_fault_says_where() {
    let line = line!() + 2;
    let executor = Executor::new().without_seed();
    let fault = fault_of(&executor, LaunchConfig::new(1, 32), || thread::sync_threads());
    assert_eq!(fault.location.as_ref().unwrap().line, line);
    assert_eq!((fault.place.block, fault.place.thread), (Dim3::new(0, 0, 0), Some(Dim3::new(0, 0, 0))));
    let said = fault.to_string();
    assert!(
        said.contains("the launch did not end within 100ms") && said.contains("FERROWARP_KERNEL_SECONDS"),
        "{said}"
    );
}

#[test]
fn launches_after_one_that_was_late_have_their_own_time() {
    let executor = Executor::new();
    let late = || fault_of(&executor, LaunchConfig::new(1, 32), thread::sync_threads);
    late();
    let executor = executor.clone().with_time_limit(Duration::from_secs(60));
    let counter = AtomicU32::new(0);
    let count = || {
        counter.fetch_add(1, Ordering::Relaxed);
        thread::sync_threads();
    };
    std::thread::scope(|scope| {
        scope.spawn(late);
        for _ in 0..100 {
            executor.run("short", LaunchConfig::new(2, 32), count).unwrap();
            std::thread::sleep(Duration::from_millis(2));
        }
    });
    assert_eq!(counter.into_inner(), 6400);
}

/// Waits for a word that no thread writes.
///
/// # Safety
/// `flag` is 0 and valid.
#[kernel]
pub unsafe fn waits(flag: *mut u32) {
    // SAFETY: the kernel's contract.
    while unsafe { AtomicU32::from_ptr(flag) }.load(Ordering::Relaxed) == 0 {}
}

#[test]
fn a_test_of_a_kernel_that_never_ends_fails() {
    let mut test = KernelTest::new();
    let flag = test.output("flag", &[0u32]);
    test.executor(Executor::new().with_time_limit(LIMIT));
    // SAFETY: `flag` is one number.
    let error =
        test.run(|on, memory| unsafe { waits::launch(on, LaunchConfig::new(1, 1), memory.output(flag)) });
    let error = error.unwrap_err();
    assert!(matches!(&error, TestError::Launch { .. }), "{error}");
    let needle = "the launch on the CPU failed: kernel waits failed in block (0, 0, 0), thread (0, 0, 0): the launch did";
    assert!(format!("{error:?}").starts_with(needle), "{error:?}");
}
