//! The bugs that the executor finds on its own, with either scheduler.

use cuda_std::launch::LaunchError;
use cuda_std::simt::{Executor, FaultKind, Scheduler};
use planted_bugs::{BUGS, SOUND};

fn fault(name: &str, scheduler: Scheduler) -> FaultKind {
    let bug = BUGS.iter().find(|bug| bug.name == name).expect("a bug of this name");
    match (bug.run)(&Executor::new().without_seed().with_scheduler(scheduler)) {
        Err(LaunchError::Fault(fault)) => fault.kind,
        other => panic!("{name}: expected a fault, got {other:?}"),
    }
}

#[test]
fn rules_of_the_cuda_model_are_faults_under_both_schedulers() {
    for scheduler in [Scheduler::Coroutines, Scheduler::Threads] {
        let kind = fault("divergent-barrier", scheduler);
        assert!(matches!(kind, FaultKind::BarrierNotReached { .. }), "{kind}");
        let kind = fault("shuffle-with-the-exited", scheduler);
        assert!(matches!(kind, FaultKind::LaneNotTakingPart { lane: 31, .. }), "{kind}");
        let kind = fault("wrong-scope", scheduler);
        assert!(matches!(kind, FaultKind::ScopeOfBlock { .. }), "{kind}");
        let kind = fault("behind-a-shared-array", scheduler);
        assert!(matches!(kind, FaultKind::BeyondShared { byte: 256, bytes: 256, .. }), "{kind}");
        let kind = fault("bulk-copy-not-expected", scheduler);
        assert!(matches!(kind, FaultKind::CopyNotWaitedFor { bytes: 256, .. }), "{kind}");
        for bug in ["cluster-store-not-expected", "cluster-store-not-waited-for"] {
            let kind = fault(bug, scheduler);
            assert!(matches!(kind, FaultKind::CopyNotWaitedFor { bytes: 4, .. }), "{kind}");
        }
        // The other block sees that it has ended, or the stores are left.
        let kind = fault("cluster-block-ends-too-early", scheduler);
        assert!(matches!(kind, FaultKind::CopyNotWaitedFor { .. } | FaultKind::Panic { .. }), "{kind}");
        let kind = fault("bulk-store-not-waited-for", scheduler);
        assert!(matches!(kind, FaultKind::StoreNotWaitedFor { bytes: 256, .. }), "{kind}");
        let FaultKind::Panic { message } = fault("bulk-store-not-fenced", scheduler) else {
            panic!("expected a panic")
        };
        assert!(message.contains("of what no thread has fenced"), "{message}");
        for (bug, expected) in [
            ("stage-released-early", "still reads; wait for its group"),
            ("operands-not-fenced", "reads operands of what no thread has fenced"),
        ] {
            let kind = fault(bug, scheduler).to_string();
            assert!(kind.contains(expected), "{kind}");
        }
        let kind = fault("tile-not-expected", scheduler);
        assert!(matches!(kind, FaultKind::PhaseNotCompleted { bytes: i32::MIN..0, .. }), "{kind}");
        // Copies are watched if the threads are fibers; else the sums are wrong.
        let kind = fault("wrong-swizzle", scheduler).to_string();
        let is_watched = scheduler == Scheduler::Coroutines;
        let expected = if is_watched { "copied with Swizzle::None; make the tensor map" } else { "at row " };
        assert!(kind.contains(expected), "{kind}");
    }
}

#[test]
fn what_is_right_is_no_fault() {
    for scheduler in [Scheduler::Coroutines, Scheduler::Threads] {
        (SOUND.run)(&Executor::new().with_scheduler(scheduler)).expect("no fault");
    }
}
