//! The rungs of the gallery: what is run, what is predicted, and timelines.

use std::collections::BTreeSet;

use cuda_std::simt::Executor;
use cuda_std::testing::{Counter, Counts};
use ferrowarp::device::Device;
use ferrowarp_cases::emulated;
use ferrowarp_cases::gallery::{LESSONS, Scale, Timed, Timeline};

/// What benches and counts run has the same rungs.
#[test]
fn every_rung_is_tried_at_every_scale() {
    for lesson in LESSONS {
        let tried = |scale| (lesson.trials)(scale).iter().map(|trial| trial.rung).collect::<BTreeSet<_>>();
        for scale in [Scale::Tiny, Scale::Edges, Scale::Count, Scale::Laptop] {
            assert_eq!(tried(scale), tried(Scale::Gpu), "{} at {scale:?}", lesson.name);
        }
    }
}

/// The predicted memory accesses of a rung, from before anything ran, are those of its PTX.
#[test]
fn what_is_predicted_is_counted() {
    let counter = Counter::new();
    let device = emulated::counting(&counter).unwrap();
    for trial in LESSONS.iter().flat_map(|lesson| (lesson.trials)(Scale::Count)) {
        let Some(problem) = trial.problem() else { continue };
        problem.run(&device).unwrap();
        let counts = counter.take().into_iter().map(|launch| launch.total).sum::<Counts>();
        let predicted = trial.predicted();
        let loaded = counts.global.loads.sectors + counts.global.copies.sectors;
        let pairs = [
            ("sectors loaded", predicted.sectors_loaded, loaded),
            ("sectors stored", predicted.sectors_stored, counts.global.stores.sectors),
            ("bank conflicts", predicted.bank_conflicts, counts.bank_conflicts()),
            ("divergent branches", predicted.divergent_branches, counts.branches.divergent),
        ];
        for (what, predicted, counted) in pairs {
            let Some(predicted) = predicted else { continue };
            let is_near = (counted as f64 - predicted).abs() <= 0.01 * predicted;
            assert!(is_near, "{} {}: {counted} {what}, predicted {predicted}", trial.rung, trial.words);
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
