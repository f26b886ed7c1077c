//! Every rung of the gallery against its oracle: on the CPU executor, and as PTX on the emulator.

use std::collections::BTreeSet;

use cuda_std::simt::Executor;
use cuda_std::testing::{Counter, Counts};
use ferrowarp::device::Device;
use ferrowarp_cases::gallery::{self, Foretold, LESSONS, Quantity, Scale, Timed, Timeline};
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

/// Pages compare each rung's prediction with its measurement.
#[test]
fn every_rung_has_a_prediction_of_a_problem_that_is_run() {
    for lesson in LESSONS {
        let (predictions, trials) = ((lesson.predictions)(), (lesson.trials)(Scale::Gpu));
        for (rung, _) in (lesson.rungs)() {
            assert!(predictions.iter().any(|one| one.rung == rung), "{} {rung}", lesson.name);
        }
        let is_run = |rung: &str, at: Option<f64>| {
            trials.iter().any(|trial| trial.rung == rung && at.is_none_or(|at| trial.at == at))
        };
        for one in &predictions {
            let what = format!("{} {} {:?}", lesson.name, one.rung, one.at);
            assert!(is_run(one.rung, one.at), "{what} is not run");
            match one.quantity {
                Quantity::TimeOver { rung, at } => assert!(is_run(rung, at), "{rung} of {what} is not run"),
                Quantity::RateOver { rung } => assert!(is_run(rung, None), "{rung} of {what} is not run"),
                _ => {}
            }
            assert!(one.value > 0.0 && !one.formula.is_empty() && !one.why.is_empty(), "{what}");
        }
    }
}

/// The predicted memory accesses of a rung, from before anything ran, are those of its PTX.
#[test]
fn what_is_foretold_is_counted() {
    let counter = Counter::new();
    let device = emulated::counting(&counter).unwrap();
    for lesson in LESSONS {
        for trial in (lesson.trials)(Scale::Count) {
            let Some(problem) = trial.problem() else { continue };
            problem.run(&device).unwrap();
            let counts = counter.take().into_iter().map(|launch| launch.total).sum::<Counts>();
            let Foretold { sectors_loaded, sectors_stored, bank_conflicts, divergent_branches } =
                trial.foretold();
            let pairs = [
                (
                    "sectors loaded",
                    sectors_loaded,
                    counts.global.loads.sectors + counts.global.copies.sectors,
                ),
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

/// What a host does with a device is checked where it is done, on streams that the executor knows as well.
#[test]
fn procedures_are_checked() {
    let device = Device::cpu();
    let mut procedures = 0;
    for lesson in LESSONS {
        for trial in (lesson.trials)(Scale::Edges) {
            let Some(procedure) = trial.procedure() else { continue };
            let timed = procedure(&device, 2)
                .unwrap_or_else(|error| panic!("{} {} {}: {error:#}", lesson.name, trial.rung, trial.words));
            match timed {
                Timed::Samples(samples) => assert_eq!(samples.len(), 2, "{} {}", lesson.name, trial.rung),
                // A CPU has no link to its memory, and no GPU beside it.
                Timed::Lacking(what) => {
                    assert!(trial.rung == "link" || trial.rung.contains("GPU"), "{}: {what}", trial.rung);
                }
            }
            procedures += 1;
        }
    }
    assert!(procedures > 0, "no lesson has any");
}

/// The timelines of what the lesson watches.
fn timelines(device: &Device, scale: Scale) -> Vec<Timeline> {
    let trials: Vec<_> = LESSONS.iter().flat_map(|lesson| (lesson.trials)(scale)).collect();
    let timelines: Vec<_> =
        trials.iter().filter_map(|trial| Some(trial.timeline()?(device).unwrap())).collect();
    assert!(!timelines.is_empty(), "no lesson watches its launches");
    timelines
}

/// A thread of the processor is a multiprocessor that has room for one block.
#[test]
fn a_worker_runs_one_block_after_the_other() {
    let workers = 3;
    let device = Device::cpu_with(Executor::new().without_seed().with_workers(workers));
    for timeline in timelines(&device, Scale::Laptop) {
        assert!(timeline.multiprocessors.iter().all(|&worker| (worker as usize) < workers), "{timeline:?}");
        for worker in 0..workers as u32 {
            let of_worker = |&i: &usize| timeline.multiprocessors[i] == worker;
            let mut units: Vec<usize> = (0..timeline.tickets.len()).filter(of_worker).collect();
            units.sort_by_key(|&i| timeline.tickets[i]);
            for pair in units.windows(2) {
                let [before, after] = [pair[0], pair[1]];
                let same_block = before / timeline.of_block == after / timeline.of_block;
                let begin = if same_block { timeline.starts[before] } else { timeline.ends[before] };
                assert!(begin <= timeline.starts[after], "{pair:?} on {worker} of {timeline:?}");
            }
        }
    }
}

/// A seed shuffles the order in which blocks get their tickets.
#[test]
fn a_seed_shuffles_the_tickets() {
    let tickets =
        |executor: Executor| timelines(&Device::cpu_with(executor), Scale::Laptop)[0].tickets.clone();
    let first = tickets(Executor::new().with_seed(1));
    assert_eq!(first, tickets(Executor::new().with_seed(1)), "a seed is one order");
    assert_ne!(first, tickets(Executor::new().with_seed(2)));
    assert_ne!(first, (0..first.len() as u32).collect::<Vec<_>>());
}

#[test]
fn tickets_are_taken_as_ptx() {
    for device in emulated::by_each() {
        for timeline in timelines(&device, Scale::Edges) {
            assert!(timeline.multiprocessors.iter().all(|&number| number == 0), "{timeline:?}");
            assert!(timeline.ends.iter().any(|&end| end > 0), "{timeline:?}");
        }
    }
}
