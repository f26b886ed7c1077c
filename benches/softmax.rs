//! Times the softmax ladder and the operations that users call: `cargo bench softmax`.
//!
//! Ids are `softmax/<rung or operation>/<dtype>/<rows>x<cols>`. The operations are those of [`Op`], in all three types. A
//! softmax is timed at every shape, the others at a few shapes and at those of one token's logits. Two kernels that copy the
//! same number of bytes are timed too. The throughput counts one read and one write of every element (of the gradient too,
//! for a backward pass), however often a kernel reads it.
//!
//! Before anything is timed its output is checked: 64 rows from the first to the last, or all rows if there are fewer, are
//! filled with NaN, computed, and compared with f64. A wrong result is reported instead of timed, and the run ends with an
//! error.
//!
//! On a GPU:
//! - The time is the device's own, from two events around a batch with one synchronisation. A batch replays a CUDA graph of
//!   launches, so the time excludes the host's launch cost. One more replay runs before the first event and keeps the device
//!   busy while the batch is queued.
//! - The L2 cache is cold. The launches of a graph rotate through sets of buffers. There are at least two sets, and together
//!   they are at least four times the cache. A graph holds about 2 ms of work and each set at least once.
//! - A launch of over 10 ms is a graph of its own. [`NAIVE_LIMIT`] sets where the naive rung is omitted.
//! - The operations run before the ladder. The naive rung computes for seconds, which takes the GPU to its power limit, so
//!   what runs next has lower clocks.
//!
//! Without a GPU all runs use the CPU executor, at small shapes and at 4096x1024: wall time, one set, warm caches. That
//! shows the effect of a change on the executor, and the speed of the operations on a CPU; `benches/peers/softmax_numpy.py`
//! times NumPy at 4096x1024.
//!
//! `cargo bench softmax -- --quick`, or `FERROWARP_BENCH_SHAPES=few` in the environment, selects a few shapes, `some` all
//! but half of the widths; `cargo bench softmax/k8` selects ids that contain it; `-- --test` checks and times nothing. The
//! medians go into `softmax.json` in criterion's folder.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context;
use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, BenchmarkId, Criterion, SamplingMode, Throughput};
use cuda_std::half::{bf16, f16};
use ferrowarp::device::{Device, DeviceChoice, open};
use ferrowarp_benches::exit_code;
use ferrowarp_benches::matrices::Sets;
use ferrowarp_benches::op::{Number, Op, SELECTED};
use ferrowarp_benches::operations::{self, Launch};
use ferrowarp_benches::results::{Results, SoftmaxEntry, median};
use ferrowarp_benches::rotation::Rotation;
use ferrowarp_benches::shapes::{self, Extent, Shape};
use gpu_kernels::copy::{self, copy_x1, copy_x4};
use gpu_kernels::ladders::softmax::LADDER;

/// Batches per median.
const SAMPLES: usize = 10;

/// Resamples of the bootstrap; criterion warns at 1000.
const RESAMPLES: usize = 1001;

/// The largest `rows * cols * cols` for the naive rung, where every thread reads its whole row. A launch then takes about a
/// tenth of a second, as it does on a CPU with the smaller number.
const NAIVE_LIMIT: f64 = 1e11;
const NAIVE_LIMIT_CPU: f64 = 1e8;

/// What is timed: a name, the operation, and the launch for a shape, if it supports the shape.
struct Subject<T> {
    name: &'static str,
    op: Op,
    launch: Box<Prepare<T>>,
}

type Prepare<T> = dyn Fn(&Device, Shape) -> Option<Launch<T>>;

/// The rungs of the ladder.
fn rungs() -> Vec<Subject<f32>> {
    let rung = |(place, rung): (usize, &'static gpu_kernels::ladders::softmax::Rung)| Subject {
        name: rung.name,
        op: Op::Softmax,
        launch: Box::new(move |device: &Device, shape: Shape| -> Option<Launch<f32>> {
            let work = shape.len() as f64 * shape.cols as f64;
            let kernel = rung.prepare_on(device.limits(), shape.rows, shape.cols);
            let limit = if device.is_cuda() { NAIVE_LIMIT } else { NAIVE_LIMIT_CPU };
            let kernel = kernel.filter(|_| place > 0 || work <= limit)?;
            let device = device.clone();
            // Allocated by the first launch, which checks the output. All recorded launches share it.
            let workspace = Mutex::new(None);
            Some(Arc::new(move |set| {
                let mut workspace = workspace.lock().unwrap_or_else(PoisonError::into_inner);
                let workspace = match &mut *workspace {
                    Some(workspace) => workspace,
                    none => none.insert(device.alloc_zeroed::<f32>(kernel.workspace_len())?),
                };
                // SAFETY: there are three buffers, with the lengths that the kernel was prepared for.
                Ok(unsafe { kernel.launch(&device, &mut set.out, &set.inp, workspace) }?)
            }))
        }),
    };
    LADDER.iter().enumerate().map(rung).collect()
}

/// The operations that users call.
fn operations<T: Number>(ops: &[Op]) -> Vec<Subject<T>> {
    let operation = |&op: &Op| Subject {
        name: op.name(),
        op,
        launch: Box::new(move |device: &Device, shape| operations::launch(device, op, shape)),
    };
    ops.iter().map(operation).collect()
}

/// The copies.
fn copies() -> Vec<Subject<f32>> {
    macro_rules! copies {
        ($($kernel:ident: $vectors:literal),*) => {
            vec![$(Subject {
                name: stringify!($kernel),
                op: Op::Copy,
                launch: Box::new(|device: &Device, shape: Shape| -> Option<Launch<f32>> {
                    let device = device.clone();
                    let config = copy::grid::<$vectors>(shape.len());
                    let (rows, cols) = (u32::try_from(shape.rows).ok()?, u32::try_from(shape.cols).ok()?);
                    Some(Arc::new(move |set| {
                        // SAFETY: both buffers have this shape, and the grid is the kernel's for it.
                        unsafe { $kernel::launch(&device, config, &mut set.out, &set.inp, rows, cols) }?;
                        Ok(())
                    }))
                }),
            }),*]
        };
    }
    copies![copy_x1: 1, copy_x4: 4]
}

fn main() -> ExitCode {
    let (device, shapes) = match device_and_shapes() {
        Ok(found) => found,
        Err(error) => {
            eprintln!("cannot bench: {error:#}");
            return ExitCode::FAILURE;
        }
    };
    exit_code(run(&device, &shapes))
}

/// The device and its shapes. Prints which device it is, and why, to standard error.
fn device_and_shapes() -> anyhow::Result<(Device, Vec<Shape>)> {
    let (device, why) = open(DeviceChoice::Auto)?;
    eprintln!("{why}");
    let extent = match std::env::var("FERROWARP_BENCH_SHAPES").ok().as_deref() {
        Some("all") => Extent::All,
        Some("some") => Extent::Some,
        Some("few") => Extent::Few,
        Some(other) => {
            anyhow::bail!(
                "FERROWARP_BENCH_SHAPES is `{other}`; set it to `few`, `some` or `all`, or unset it"
            )
        }
        None if has_flag("--quick") || has_flag("--test") => Extent::Few,
        None => Extent::All,
    };
    let shapes = if device.is_cuda() { shapes::gpu(extent) } else { shapes::cpu() };
    Ok((device, shapes))
}

fn has_flag(flag: &str) -> bool {
    std::env::args().any(|argument| argument == flag)
}

/// Times everything that the command line selects. Returns the failures.
fn run(device: &Device, shapes: &[Shape]) -> anyhow::Result<Vec<String>> {
    let ms = Duration::from_millis;
    let (warm_up, measurement) = if device.is_cuda() { (ms(10), ms(100)) } else { (ms(100), ms(500)) };
    let criterion = Criterion::default().without_plots().sample_size(SAMPLES).nresamples(RESAMPLES);
    let criterion = criterion.warm_up_time(warm_up).measurement_time(measurement);
    let mut criterion = criterion.configure_from_args();
    let mut results = Results::new(device)?;
    let mut group = criterion.benchmark_group("softmax");
    group.sampling_mode(SamplingMode::Flat);
    let ladder = rungs();
    let of_operations = if device.is_cuda() { shapes::of_operations() } else { shapes::cpu() };
    let copies = copies();
    let mut copied = Vec::new();
    let mut others = vec![Op::LogSoftmax, Op::Backward, Op::CrossEntropy, Op::Sample, Op::SampleTopP];
    others.extend(SELECTED.map(Op::TopK));
    for &shape in shapes {
        let softmax = [Op::Softmax];
        bench_shape::<f32>(device, &mut group, shape, &operations(&softmax), &mut results)?;
        bench_shape::<f16>(device, &mut group, shape, &operations(&softmax), &mut results)?;
        bench_shape::<bf16>(device, &mut group, shape, &operations(&softmax), &mut results)?;
        if of_operations.contains(&shape) {
            bench_shape::<f32>(device, &mut group, shape, &operations(&others), &mut results)?;
            bench_shape::<f16>(device, &mut group, shape, &operations(&others), &mut results)?;
            bench_shape::<bf16>(device, &mut group, shape, &operations(&others), &mut results)?;
        }
        // As many bytes as f32, and as the 16-bit types.
        for shape in [shape, shape.halved()] {
            if !copied.contains(&shape.len()) {
                copied.push(shape.len());
                bench_shape(device, &mut group, shape, &copies, &mut results)?;
            }
        }
    }
    for &shape in shapes.iter().filter(|&&shape| !shapes::is_decode(shape)) {
        bench_shape(device, &mut group, shape, &ladder, &mut results)?;
    }
    group.finish();
    criterion.final_summary();
    if !results.entries.is_empty() && !has_flag("--test") {
        eprintln!("medians in {}", results.write("softmax.json")?.display());
    }
    let failed = results.entries.into_iter().filter_map(|entry| {
        Some(format!("{} {} {}x{}: {}", entry.name, entry.dtype, entry.rows, entry.cols, entry.error?))
    });
    Ok(failed.collect())
}

/// Times the subjects at one shape. The sets are created for the first selected subject, and reused for all subjects with
/// the same operation.
fn bench_shape<T: Number>(
    device: &Device,
    group: &mut BenchmarkGroup<'_, WallTime>,
    shape: Shape,
    subjects: &[Subject<T>],
    results: &mut Results<SoftmaxEntry>,
) -> anyhow::Result<()> {
    let mut shared: Shared<T> = None;
    for subject in subjects {
        let Some(launch) = (subject.launch)(device, shape) else { continue };
        group.throughput(Throughput::Bytes((subject.op.matrices() * shape.len() * size_of::<T>()) as u64));
        let id = BenchmarkId::new(format!("{}/{}", subject.name, T::NAME), shape);
        let mut entry = entry::<T>(subject, shape);
        let mut rotation = None;
        let error = RefCell::new(None);
        // Criterion takes no error from a bench, and calls it only if the command line selects it.
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            group.bench_function(id, |bencher| {
                bencher.iter_custom(|launches| {
                    time(device, subject.op, shape, &launch, (&mut shared, &mut rotation), launches)
                        .unwrap_or_else(|cause| {
                            *error.borrow_mut() = Some(format!("{cause:#}"));
                            panic!("{} {} {shape}: {cause:#}", subject.name, T::NAME)
                        })
                });
            });
        }))
        .is_err();
        let is_timed = rotation.is_some();
        if let Some(rotation) = rotation {
            let samples = rotation.last_samples(SAMPLES);
            entry.microseconds = Some(median(samples) * 1e6);
            entry.samples = samples.len();
            entry.launches_per_sample = rotation.launches();
            let sets = rotation.into_sets();
            entry.sets = sets.sets.len();
            shared = Some((subject.op, sets));
        }
        if panicked {
            entry.microseconds = None;
            entry.error = Some(error.take().unwrap_or_else(|| "a panic".to_owned()));
        }
        if panicked || is_timed {
            results.entries.push(entry);
        }
        if let Err(fault) = device.synchronize() {
            results.write("softmax.json")?;
            return Err(fault).context("the device is lost");
        }
    }
    Ok(())
}

/// The operation that a shape's sets were created for, and the sets, unless a rotation owns them.
type Shared<T> = Option<(Op, Sets<T>)>;

/// The time of `launches` launches. The first call checks the output and prepares the rotation.
fn time<T: Number>(
    device: &Device,
    op: Op,
    shape: Shape,
    launch: &Launch<T>,
    (shared, rotation): (&mut Shared<T>, &mut Option<Rotation<Sets<T>>>),
    launches: u64,
) -> anyhow::Result<Duration> {
    if let Some(rotation) = rotation {
        return Ok(rotation.time(device, launches)?);
    }
    // Frees the sets of another operation first, to make room.
    let old = shared.take().filter(|(of, _)| *of == op);
    let mut sets = match old {
        Some((_, sets)) => sets,
        None => Sets::new(device, op, shape)?,
    };
    sets.check(&**launch)?;
    let launch = Arc::clone(launch);
    Ok(rotation.insert(Rotation::new(device, sets, move |set| launch(set))?).time(device, launches)?)
}

fn entry<T: Number>(subject: &Subject<T>, shape: Shape) -> SoftmaxEntry {
    SoftmaxEntry {
        name: subject.name.to_owned(),
        op: subject.op.name(),
        dtype: T::NAME,
        rows: shape.rows,
        cols: shape.cols,
        microseconds: None,
        samples: 0,
        launches_per_sample: 0,
        sets: 0,
        error: None,
    }
}
