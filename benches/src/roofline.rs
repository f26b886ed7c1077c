//! The position of each kernel of the workspace under a roofline: the emulator's counts, and the time on a GPU.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::Result;
use cuda_std::launch::Limits;
use cuda_std::testing::{Counter, LaunchCounts};
use ferrowarp::device::{Device, LaunchTimes, Launched};
use ferrowarp_cases::gallery::{LESSONS, Scale, Trial};
use ferrowarp_cases::layer::{self, Problem};
use ferrowarp_cases::random::bench as random;
use ferrowarp_cases::softmax::{self, ladder, logits};
use ferrowarp_cases::{Case, Scope, Setting, emulated};
use ferrowarp_report::gallery::{KernelCounts, KernelEntry};

use crate::contest::Type;
use crate::random::{Operation, Visitor, visit};
use crate::shapes::Shape;
use crate::softmax::{Op, SELECTED};

/// The layer for counting the network's kernels: `[batch, inputs, outputs]`, with whole tiles.
const COUNTED_LAYER: [usize; 3] = [64, 128, 64];
/// A layer with few classes, for the kernels of the last layer.
const COUNTED_LAST: [usize; 3] = [64, 64, 10];
/// Rows and columns of the matrix for counting the ladder's kernels.
const COUNTED_ROWS: [usize; 2] = [16, 1024];

/// The layers for timing. The second is for kernels of a whole network, which must fit a GPU's shared memory.
const TIMED_LAYER: [usize; 3] = [1024, 784, 512];
const TIMED_NETWORK: [usize; 3] = [64, 784, 300];
const TIMED_LAST: [usize; 3] = [4096, 512, 10];
const TIMED_ROWS: [usize; 2] = [8192, 1024];

/// The matrices for timing the operations on rows, 2^25 elements each, so that every kernel that is chosen by width runs.
const TIMED_SHAPES: [Shape; 6] = [
    Shape { rows: 1 << 21, cols: 16 },
    Shape { rows: 1 << 18, cols: 128 },
    Shape { rows: 1 << 15, cols: 1 << 10 },
    Shape { rows: 1 << 13, cols: 1 << 12 },
    Shape { rows: 1 << 11, cols: 1 << 14 },
    Shape { rows: 1 << 7, cols: 1 << 18 },
];

/// The matrices for counting them.
const COUNTED_SHAPES: [Shape; 6] = [
    Shape { rows: 1 << 10, cols: 16 },
    Shape { rows: 1 << 7, cols: 128 },
    Shape { rows: 1 << 4, cols: 1 << 10 },
    Shape { rows: 1 << 2, cols: 1 << 12 },
    Shape { rows: 1 << 1, cols: 1 << 14 },
    Shape { rows: 1, cols: 1 << 17 },
];

fn counts(launch: &LaunchCounts) -> KernelCounts {
    let LaunchCounts { total, footprint, .. } = launch;
    let sectors = 32 * total.global.total().sectors;
    KernelCounts {
        bytes: footprint.bytes() as f64,
        requested_bytes: (sectors + total.bulk.loaded_bytes + total.bulk.stored_bytes) as f64,
        flop: (total.flop.f32 + total.flop.f64) as f64,
        tensor_flop: total.flop.tensor as f64,
        functions: total.flop.functions as f64,
    }
}

/// Work that launches kernels.
struct Job {
    words: String,
    bytes: Option<f64>,
    flop: Option<f64>,
    prepare: Box<Prepare>,
}

type Prepare = dyn Fn(&Device) -> Result<Box<dyn FnMut() -> Result<()>>>;

/// Counts every kernel that a GPU runs, on the largest of its problems for counting, by emulating its PTX.
///
/// # Errors
/// A kernel failed.
pub fn counted(tell: impl Fn(&str)) -> Result<Vec<KernelEntry>> {
    let counter = Counter::new();
    let device = emulated::counting(&counter)?;
    let mut largest = BTreeMap::<String, KernelEntry>::new();
    for job in counted_jobs(device.limits()) {
        let mut run = (job.prepare)(&device)?;
        // What filled the operands.
        counter.take();
        run()?;
        for launch in counter.take() {
            let (counted, name) = (counts(&launch), launch.kernels.concat());
            let known = largest.get(&name).and_then(|entry| entry.counted);
            if known.is_none_or(|known| known.bytes < counted.bytes) {
                let entry =
                    KernelEntry { counted: Some(counted), bytes: job.bytes, ..entry(name.clone(), &job) };
                largest.insert(name, entry);
            }
        }
        tell(&job.words);
    }
    Ok(largest.into_values().collect())
}

/// Times the kernels that a GPU runs on problems that keep it busy, each on the one where it takes longest. `is_once` omits
/// the launch before the timed one, for Nsight Compute. A failure becomes an entry without a kernel.
pub fn timed(device: &Device, is_once: bool, tell: impl Fn(&str)) -> Vec<KernelEntry> {
    let mut longest = BTreeMap::<String, KernelEntry>::new();
    let mut failed = Vec::new();
    for job in timed_jobs(device.limits()) {
        match times(device, &job, is_once) {
            Ok(times) => {
                let is_alone = matches!(times[..], [LaunchTimes { launches: 1, .. }]);
                for LaunchTimes { what, launches, time } in times {
                    let Launched::Kernel(name) = what else { continue };
                    let time = time.as_secs_f64() * 1e6 / launches as f64;
                    let known = longest.get(name).and_then(|entry| entry.microseconds);
                    if known.is_none_or(|known| known < time) {
                        let bytes = job.bytes.filter(|_| is_alone);
                        let untimed = entry(name.to_owned(), &job);
                        longest.insert(
                            name.to_owned(),
                            KernelEntry { bytes, microseconds: Some(time), ..untimed },
                        );
                    }
                }
                tell(&job.words);
            }
            Err(error) => {
                tell(&format!("{}: {error:#}", job.words));
                let untimed = entry(String::new(), &job);
                failed.push(KernelEntry { error: Some(format!("{error:#}")), ..untimed });
            }
        }
        // Keeps what was timed before the device was lost.
        if let Err(error) = device.synchronize() {
            tell(&format!("the device is lost: {error}"));
            break;
        }
    }
    longest.into_values().chain(failed).collect()
}

fn times(device: &Device, job: &Job, is_once: bool) -> Result<Vec<LaunchTimes>> {
    let mut run = (job.prepare)(device)?;
    if !is_once {
        run()?;
    }
    device.start_profile();
    let result = run();
    let times = device.take_profile();
    result.map(|()| times)
}

/// The entry of a kernel on a job's problem, without a time.
fn entry(name: String, job: &Job) -> KernelEntry {
    let meta = gpu_kernels::KERNELS.iter().find(|kernel| kernel.name == name);
    let file = meta.map_or("", |kernel| kernel.file).to_owned();
    KernelEntry { name, file, problem: job.words.clone(), flop: job.flop, ..KernelEntry::default() }
}

fn counted_jobs(limits: &Limits) -> Vec<Job> {
    let count = LESSONS.iter().flat_map(|lesson| (lesson.trials)(Scale::Count));
    let mut jobs: Vec<Job> = count.filter_map(of_trial_once).collect();
    // Kernels that no rung chooses at that size.
    let edges = LESSONS.iter().flat_map(|lesson| (lesson.trials)(Scale::Edges));
    jobs.extend(edges.filter_map(of_trial_once));
    let mut cases = on_rows(COUNTED_ROWS, limits);
    cases.extend(ladder::cases(Scope::NewEmulator, limits, |_| true));
    cases.extend(softmax::cases(&Setting::new(Scope::NewEmulator)));
    jobs.extend(cases.into_iter().map(of_case));
    jobs.extend(of_network(COUNTED_LAYER, COUNTED_LAYER, COUNTED_LAST, limits));
    jobs.extend(of_all_operations(&COUNTED_SHAPES));
    jobs
}

fn timed_jobs(limits: &Limits) -> Vec<Job> {
    let mut jobs = Vec::new();
    jobs.extend(of_network(TIMED_LAYER, TIMED_NETWORK, TIMED_LAST, limits));
    jobs.extend(on_rows(TIMED_ROWS, limits).into_iter().map(of_case));
    jobs.extend(of_all_operations(&TIMED_SHAPES));
    jobs
}

/// The network's kernels on a layer, the kernels of a whole network on another one, and those of the last layer.
fn of_network(layer: [usize; 3], network: [usize; 3], last: [usize; 3], limits: &Limits) -> Vec<Job> {
    let problem_of = |shape| Arc::new(Problem::new(shape, 0, 0));
    let is_of_network =
        |case: &Case| case.kernels().any(|name| ["resident", "short"].iter().any(|of| name.starts_with(of)));
    let of_layer: Vec<Case> =
        layer::cases(&problem_of(layer), limits).filter(|case| !is_of_network(case)).collect();
    let whole = layer::cases(&problem_of(network), limits).filter(is_of_network).collect();
    let of_last = layer::last(&problem_of(last), limits);
    [of_layer, whole, of_last].into_iter().flatten().map(of_case).collect()
}

/// The ladder's cases on a matrix.
fn on_rows([rows, cols]: [usize; 2], limits: &Limits) -> Vec<Case> {
    let logits = logits::logits(rows, cols);
    ladder::Ladder { rows, cols, offsets: [0; 2], logits }.cases(limits)
}

fn of_case(case: Case) -> Job {
    let case = Arc::new(case);
    Job {
        words: case.to_string(),
        bytes: None,
        flop: None,
        prepare: Box::new(move |device| {
            let (case, device) = (Arc::clone(&case), device.clone());
            Ok(Box::new(move || case.run(&device).map(drop)))
        }),
    }
}

/// The job of the trial, with guards around its arrays; `None` for a trial without launches.
fn of_trial_once(trial: Trial) -> Option<Job> {
    trial.problem()?;
    let (words, trial) = (format!("{}, {}", trial.rung, trial.words), Arc::new(trial));
    // The work of several kernels together does not apply to one of them.
    let is_one = trial.kernels.len() == 1;
    let flop = Some(trial.work.flop).filter(|flop| is_one && *flop > 0.0);
    let prepare = Box::new(move |device: &Device| {
        let (trial, device) = (Arc::clone(&trial), device.clone());
        let run = move || trial.problem().map_or(Ok(()), |problem| problem.run(&device).map(drop));
        Ok(Box::new(run) as _)
    });
    Some(Job { words, bytes: None, flop, prepare })
}

/// Floating-point operations per element, as usually counted: comparisons and exponentials one each.
fn flop(op: Op) -> f64 {
    match op {
        Op::Copy => 0.0,
        // The maximum, a subtraction, an exponential, the sum, a division.
        Op::Softmax | Op::LogSoftmax | Op::TopK(_) => 5.0,
        // A multiplication and an addition for the sum, a subtraction, a multiplication.
        Op::Backward => 4.0,
        // Softmax, and the factor of the gradient.
        Op::CrossEntropy => 6.0,
        // Two logarithms of noise, a factor, a sum, a comparison.
        Op::Sample | Op::SampleTopP => 5.0,
    }
}

fn of_all_operations(shapes: &'static [Shape]) -> Vec<Job> {
    [Type::F32, Type::Bf16, Type::F16].into_iter().flat_map(|dtype| of_operations(dtype, shapes)).collect()
}

/// Launches an operation again and again.
struct Launches(Device);

impl Visitor for Launches {
    type Output = Box<dyn FnMut() -> Result<()>>;

    fn visit<O: Operation>(self, operation: O) -> Result<Self::Output> {
        let mut set = operation.set()?;
        Ok(Box::new(move || Ok(operation.run(&self.0, &mut set, None)?)))
    }
}

/// The operations that users call, on each of the shapes.
fn of_operations(dtype: Type, shapes: &'static [Shape]) -> impl Iterator<Item = Job> {
    use Op::{Backward, CrossEntropy, LogSoftmax, Sample, SampleTopP, Softmax, TopK};
    let ops = [Softmax, LogSoftmax, Backward, CrossEntropy, TopK(SELECTED[0]), Sample, SampleTopP];
    let jobs = ops.into_iter().flat_map(|op| shapes.iter().map(move |&shape| (op, shape)));
    let jobs = jobs.filter(|(op, shape)| !matches!(op, TopK(k) if shape.cols <= *k));
    let job = move |(op, shape): (Op, Shape)| Job {
        words: format!("{} of {shape} {}", op.name(), dtype.name()),
        bytes: Some((op.matrices() * shape.len() * dtype.bytes()) as f64),
        flop: Some(flop(op) * shape.len() as f64),
        prepare: Box::new(move |device: &Device| {
            let problem = random::Problem { family: String::new(), dtype, operation: op.operation(shape) };
            visit(device, &problem, Launches(device.clone()))
        }),
    };
    jobs.map(job)
}
