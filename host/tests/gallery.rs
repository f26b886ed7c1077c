//! Every rung of the gallery against its oracle: on the CPU executor, and as PTX on the emulator.

use std::collections::BTreeSet;

use cuda_std::testing::{Counter, Counts};
use ferrowarp::device::Device;
use ferrowarp_cases::gallery::{self, Foretold, LESSONS, Scale};
use ferrowarp_cases::{Case, Scope, assert_right, emulated};

#[test]
fn on_the_executor() {
    let device = Device::cpu();
    assert_right(&gallery::cases(Scope::Executor, device.limits()), &device, Case::assess_twice);
}

#[test]
fn as_ptx() {
    for device in emulated::by_each() {
        assert_right(&gallery::cases(Scope::OldEmulator, device.limits()), &device, Case::assess);
    }
}

#[test]
fn as_ptx_for_a_newer_architecture() {
    for device in emulated::newer_by_each() {
        assert_right(&gallery::cases(Scope::NewEmulator, device.limits()), &device, Case::assess);
    }
}

/// What benches and counts run is what the table says, and sessions check what they compute.
#[test]
fn every_rung_is_tried_at_every_scale() {
    for lesson in LESSONS {
        let rungs: BTreeSet<&str> = (lesson.rungs)().iter().map(|&(name, _)| name).collect();
        for scale in [Scale::Tiny, Scale::Edges, Scale::Count, Scale::Laptop, Scale::Gpu] {
            let trials = (lesson.trials)(scale);
            let tried: BTreeSet<&str> = trials.iter().map(|trial| trial.rung).collect();
            assert_eq!(tried, rungs, "{} at {scale:?}", lesson.name);
        }
    }
}

/// What theory says of a rung's memory, before anything ran, is what its PTX does.
#[test]
fn what_is_foretold_is_counted() {
    let counter = Counter::new();
    let device = emulated::counting(&counter);
    for lesson in LESSONS {
        for trial in (lesson.trials)(Scale::Count) {
            let Some(problem) = trial.problem() else { continue };
            problem.run(&device).unwrap();
            let counts = counter.take().into_iter().map(|launch| launch.total).sum::<Counts>();
            let Foretold { sectors_loaded, sectors_stored, bank_conflicts, divergent_branches } =
                trial.work.foretold;
            let pairs = [
                ("sectors loaded", sectors_loaded, counts.global.loads.sectors),
                ("sectors stored", sectors_stored, counts.global.stores.sectors),
                ("bank conflicts", bank_conflicts, counts.bank_conflicts()),
                ("divergent branches", divergent_branches, counts.branches.divergent),
            ];
            for (what, foretold, counted) in pairs {
                let Some(foretold) = foretold else { continue };
                let is_near = (counted as f64 - foretold).abs() <= 0.01 * foretold;
                let whose = format!("{} {} {}", lesson.name, trial.rung, trial.words);
                assert!(is_near, "{whose}: {counted} {what}, foretold {foretold}");
            }
        }
    }
}

#[test]
fn a_session_is_checked() {
    let device = Device::cpu();
    for lesson in LESSONS {
        for trial in (lesson.trials)(Scale::Edges) {
            let Some(problem) = trial.problem() else { continue };
            let mut session = problem.place(&device).unwrap();
            problem.check(&mut session).unwrap();
        }
    }
}
