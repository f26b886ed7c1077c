//! The timed trials of the gallery.

use std::time::{Duration, Instant};

use cuda_std::testing::{Counter, Counts, LaunchCounts};
use ferrowarp::device::Device;
use ferrowarp_cases::compare::compare_all;
use ferrowarp_cases::gallery::{self, Lesson, Scale, Session, Timed, Trial};
use ferrowarp_report::WarpCounts;
use ferrowarp_report::gallery::{self as report, Entry};

use crate::results::median;
use crate::rotation::Rotation;
use crate::timed;

/// Batches per median, if they do not take too long.
const SAMPLES: usize = 10;

/// Maximum time of a trial's samples together; there are at least two.
const BUDGET: Duration = Duration::from_millis(500);

/// The maximum latency of a load from a GPU's memory in seconds, without other traffic.
const WAIT: f64 = 1e-6;

/// The timeline with columns as lines of numbers.
fn columns(timeline: gallery::Timeline) -> report::Timeline {
    fn column<T: ToString>(numbers: &[T]) -> String {
        numbers.iter().map(T::to_string).collect::<Vec<_>>().join(" ")
    }
    report::Timeline {
        unit: timeline.unit.to_owned(),
        of_block: timeline.of_block,
        multiprocessors: column(&timeline.multiprocessors),
        tickets: column(&timeline.tickets),
        starts: column(&timeline.starts),
        ends: column(&timeline.ends),
    }
}

/// The total counts of some launches.
fn counted(launches: &[LaunchCounts]) -> WarpCounts {
    let counts = launches.iter().map(|launch| launch.total).sum::<Counts>();
    WarpCounts {
        launches: launches.len(),
        requests: counts.global.total().requests,
        sectors_loaded: counts.global.loads.sectors + counts.global.copies.sectors,
        sectors_stored: counts.global.stores.sectors,
        atomics: counts.global.atomics.requests,
        wavefronts: counts.shared.total().wavefronts,
        bank_conflicts: counts.bank_conflicts(),
        local: counts.local.loads.requests + counts.local.stores.requests,
        constant: counts.constant.passes,
        divergent_branches: counts.branches.divergent,
        efficiency: counts.efficiency(),
        instructions: counts.instructions.warps,
    }
}

/// The trial's entry, without a time.
pub fn planned(lesson: &Lesson, trial: &Trial) -> Entry {
    let gallery::Counts { sectors_loaded, sectors_stored, bank_conflicts, divergent_branches } =
        trial.predicted();
    Entry {
        name: trial.rung.to_owned(),
        lesson: lesson.name.to_owned(),
        idea: trial.idea.to_owned(),
        at: trial.at,
        problem: trial.words.clone(),
        kernels: trial.kernels.iter().map(|&kernel| kernel.to_owned()).collect(),
        bytes: trial.work.bytes,
        memory_bytes: trial.work.memory_bytes,
        flop: trial.work.flop,
        predicted: report::Counts { sectors_loaded, sectors_stored, bank_conflicts, divergent_branches },
        ..Entry::default()
    }
}

/// The trial's entry, timed on the device. If the device lacks something, it has neither a time nor an error.
pub fn measured(lesson: &Lesson, trial: &Trial, device: &Device) -> Entry {
    let mut entry = Entry { peak: trial.peak(device), ..planned(lesson, trial) };
    match samples(device, trial) {
        Ok(Timed::Samples(samples)) => {
            let seconds: Vec<f64> = samples.iter().map(Duration::as_secs_f64).collect();
            entry.microseconds = Some(median(&seconds) * 1e6);
            entry.samples = seconds.len();
            match trial.timeline().map(|take| take(device)) {
                Some(Ok(timeline)) => entry.timeline = Some(columns(timeline)),
                Some(Err(error)) => entry.error = Some(format!("{error:#}")),
                None => {}
            }
        }
        Ok(Timed::Lacking(what)) => entry.lacking = Some(what),
        Err(error) => entry.error = Some(format!("{error:#}")),
    }
    entry
}

/// Runs a trial on a device that adds what its warps do to `counter`, and compares it with its oracle. `None` for a trial
/// without launches.
///
/// # Errors
/// A result is wrong, or a launch failed.
pub fn count_of(trial: &Trial, device: &Device, counter: &Counter) -> anyhow::Result<Option<WarpCounts>> {
    let Some(problem) = trial.problem() else { return Ok(None) };
    compare_all(&problem.run(device)?, &problem.expected())?;
    Ok(Some(counted(&counter.take())))
}

/// The scale for a device.
pub fn scale(device: &Device) -> Scale {
    if device.is_cuda() { Scale::Gpu } else { Scale::Laptop }
}

/// The time of one run in each of some batches.
fn samples(device: &Device, trial: &Trial) -> anyhow::Result<Timed> {
    if let Some(procedure) = trial.procedure() {
        return procedure(device, SAMPLES);
    }
    let lacks = |name: &&&str| {
        gpu_kernels::KERNELS.iter().any(|kernel| kernel.name == **name && !device.limits().runs(kernel))
    };
    if let Some(kernel) = trial.kernels.iter().find(lacks) {
        return Ok(Timed::Lacking(format!("what {kernel} is compiled for")));
    }
    let mut rotation = prepared(device, trial)?;
    let begin = Instant::now();
    for sample in 0..SAMPLES {
        if sample >= 2 && begin.elapsed() > BUDGET {
            break;
        }
        rotation.time(device, 1)?;
    }
    let seconds = rotation.last_samples(SAMPLES);
    Ok(Timed::Samples(seconds.iter().map(|&seconds| Duration::from_secs_f64(seconds)).collect()))
}

/// Prepares and checks the trial's launches.
///
/// # Errors
/// A result is wrong, there is not enough memory for the problem, or a launch failed.
pub fn prepared(device: &Device, trial: &Trial) -> anyhow::Result<Rotation<Vec<Session>>> {
    let problem = trial.problem().ok_or_else(|| anyhow::anyhow!("{} launches nothing", trial.rung))?;
    let count = timed::count_of_sets(device, problem.bytes())?;
    let mut sessions = vec![problem.place(device)?];
    problem.check(&mut sessions[0])?;
    let (_, once) = device.time(|| sessions[0].launch())?;
    if !is_cold_anyway(device, problem.bytes(), once)? {
        sessions.extend((1..count).map(|_| problem.place(device)).collect::<Result<Vec<_>, _>>()?);
    }
    Ok(Rotation::new(device, sessions, Session::launch)?)
}

/// Whether a warm cache could make a launch at most 1 % faster, from its time and the bytes of its arrays. Then one set of
/// arrays is enough.
fn is_cold_anyway(device: &Device, bytes: usize, once: Duration) -> anyhow::Result<bool> {
    let (Some(l2), Some(peaks)) = (device.l2_bytes()?, device.peaks()?) else { return Ok(true) };
    Ok(100.0 * (bytes.min(l2) as f64 / peaks.bytes_per_second + WAIT) < once.as_secs_f64())
}
