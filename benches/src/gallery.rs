//! The timed trials of the gallery.

use std::time::{Duration, Instant};

use cuda_std::testing::{Counter, Counts, LaunchCounts};
use ferrowarp::device::Device;
use ferrowarp_cases::compare::compare_all;
use ferrowarp_cases::gallery::{Foretold, Lesson, Measure, Scale, Session, Timed, Timeline, Trial};
use ferrowarp_report::WarpCounts;
use serde::Serialize;

use crate::matrices;
use crate::results::median;
use crate::rotation::Rotation;

/// Batches per median, if they do not take too long.
const SAMPLES: usize = 10;

/// Maximum time of a trial's samples together; there are at least two.
const BUDGET: Duration = Duration::from_millis(500);

/// The maximum latency of a load from a GPU's memory in seconds, without other traffic.
const WAIT: f64 = 1e-6;

/// One rung on one problem: a time, or why there is none.
#[derive(Debug, Serialize)]
pub struct Entry {
    /// The rung's name.
    pub name: &'static str,
    /// The lesson's name.
    pub lesson: &'static str,
    /// The title of the lesson's page.
    pub title: &'static str,
    /// The rung's idea.
    pub idea: &'static str,
    /// The variable of the lesson.
    pub axis: &'static str,
    /// Whether a chart shows it on a logarithmic axis.
    pub is_log: bool,
    /// The measure of the rung: `bytes`, `flops` or `time`.
    pub measure: &'static str,
    /// The problem's value on the axis.
    pub at: f64,
    /// The problem in words.
    pub problem: String,
    /// The kernels that ran.
    pub kernels: Vec<&'static str>,
    /// Useful bytes per run.
    pub bytes: f64,
    /// Bytes that global memory must move per run, if they differ.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<f64>,
    /// Floating-point operations per run.
    pub flop: f64,
    /// Maximum bytes or operations per second at the device's clocks, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peak: Option<f64>,
    /// Predicted sectors touched by loads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sectors_loaded: Option<f64>,
    /// Predicted sectors touched by stores.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sectors_stored: Option<f64>,
    /// Predicted passes over shared memory beyond the minimum.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bank_conflicts: Option<f64>,
    /// Predicted divergent branches.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub divergent_branches: Option<f64>,
    /// Blocks of the launch, if the lesson is about its grid.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blocks: Option<u64>,
    /// The number of these blocks that the device runs at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resident_blocks: Option<u64>,
    /// The emulator's counts of one run, if there are any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub counted: Option<WarpCounts>,
    /// Device time of one run, the median of the samples.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub microseconds: Option<f64>,
    /// Timed batches.
    pub samples: usize,
    /// What the device lacks to run it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lacking: Option<String>,
    /// When and where its blocks or warps ran, if recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeline: Option<Columns>,
    /// The error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A [`Timeline`] with columns as lines of numbers, separated by spaces.
#[derive(Debug, Serialize)]
pub struct Columns {
    /// The recording unit: `block` or `warp`.
    pub unit: &'static str,
    /// Units per block.
    pub of_block: usize,
    /// The multiprocessor of each.
    pub multiprocessors: String,
    /// The position of each in the order of their starts.
    pub tickets: String,
    /// The start of each, in nanoseconds after the first.
    pub starts: String,
    /// The end of each.
    pub ends: String,
}

impl From<Timeline> for Columns {
    fn from(timeline: Timeline) -> Self {
        fn column<T: ToString>(numbers: &[T]) -> String {
            numbers.iter().map(T::to_string).collect::<Vec<_>>().join(" ")
        }
        Self {
            unit: timeline.unit,
            of_block: timeline.of_block,
            multiprocessors: column(&timeline.multiprocessors),
            tickets: column(&timeline.tickets),
            starts: column(&timeline.starts),
            ends: column(&timeline.ends),
        }
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

impl Entry {
    /// Creates the trial's entry, without a time.
    pub fn new(lesson: &Lesson, trial: &Trial) -> Self {
        let rungs = (lesson.rungs)();
        let idea = rungs.iter().find(|(name, _)| *name == trial.rung).map_or("", |&(_, idea)| idea);
        let Foretold { sectors_loaded, sectors_stored, bank_conflicts, divergent_branches } =
            trial.foretold();
        Self {
            name: trial.rung,
            lesson: lesson.name,
            title: lesson.title,
            idea,
            axis: lesson.axis.label,
            is_log: lesson.axis.is_log,
            measure: match lesson.measure {
                Measure::Bytes => "bytes",
                Measure::Flops => "flops",
                Measure::Time => "time",
            },
            at: trial.at,
            problem: trial.words.clone(),
            kernels: trial.kernels.clone(),
            bytes: trial.work.bytes,
            memory_bytes: trial.work.memory_bytes,
            flop: trial.work.flop,
            peak: None,
            sectors_loaded,
            sectors_stored,
            bank_conflicts,
            divergent_branches,
            blocks: trial.grid.map(|(_, config)| config.grid.volume()),
            resident_blocks: None,
            counted: None,
            microseconds: None,
            samples: 0,
            lacking: None,
            timeline: None,
            error: None,
        }
    }

    /// Creates the trial's entry, timed on the device. If the device lacks something, it has neither a time nor an error.
    pub fn measured(lesson: &Lesson, trial: &Trial, device: &Device) -> Self {
        let mut entry = Self { peak: trial.peak(device), ..Self::new(lesson, trial) };
        match samples(device, trial) {
            Ok(Timed::Samples(samples)) => {
                let seconds: Vec<f64> = samples.iter().map(Duration::as_secs_f64).collect();
                entry.microseconds = Some(median(&seconds) * 1e6);
                entry.samples = seconds.len();
            }
            Ok(Timed::Lacking(what)) => entry.lacking = Some(what),
            Err(error) => entry.error = Some(format!("{error:#}")),
        }
        // On a CPU the number of concurrent blocks says nothing about waves.
        let grid = trial.grid.filter(|_| device.is_cuda());
        entry.resident_blocks = grid.and_then(|(meta, config)| device.resident_blocks(meta, &config).ok());
        if let Some(take) = trial.timeline().filter(|_| entry.error.is_none() && entry.lacking.is_none()) {
            match take(device) {
                Ok(timeline) => entry.timeline = Some(timeline.into()),
                Err(error) => entry.error = Some(format!("{error:#}")),
            }
        }
        entry
    }
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
    let count = matrices::count(device, problem.bytes())?;
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
