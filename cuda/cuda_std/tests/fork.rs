//! The executor in a process that was forked after a launch.

#![cfg(all(target_os = "linux", not(miri)))]

use std::time::Duration;

use cuda_std::launch::{LaunchConfig, LaunchError};
use cuda_std::simt::{Executor, FaultKind};
use cuda_std::thread;

#[test]
fn a_forked_process_has_a_watchdog_of_its_own() {
    let executor = Executor::new().without_seed().with_workers(2);
    // Blocks for several OS threads, and a kernel over its limit.
    let works = || {
        let all = executor.run("blocks", LaunchConfig::new(64, 32), thread::sync_threads);
        let limited = executor.clone().with_time_limit(Duration::from_millis(100));
        let late = limited.run("endless", LaunchConfig::new(1, 1), || {
            loop {
                thread::nanosleep(100);
            }
        });
        let is_late = |fault: &LaunchError| matches!(fault, LaunchError::Fault(fault) if matches!(fault.kind, FaultKind::TimedOut { .. }));
        all.is_ok() && late.is_err_and(|error| is_late(&error))
    };
    assert!(works());
    // SAFETY: the child needs no lock of another thread, and ends without exit handlers.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: neither has a precondition. A child that waits forever must end.
        unsafe {
            libc::alarm(60);
            libc::_exit(if works() { 0 } else { 3 });
        }
    }
    let mut status = 0;
    // SAFETY: the child is this test's, and the out parameter is valid.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert_eq!(status, 0, "the child's status");
    assert!(works());
}
