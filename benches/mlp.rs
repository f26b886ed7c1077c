//! Times the training of the network of `train-mnist`, rung by rung: `cargo bench mlp`.
//!
//! Ids are `mlp/<rung>/<batch>/<step or epoch>`, for every [`Pipeline`] and the batches of [`mlp::BATCHES`]. Times are wall
//! times from the first launch until the losses are on the host. They include launch costs and the last synchronisation. A
//! step is one of the first hundred of an epoch. Epochs belong to runs of [`mlp::RUN`] that begin with the same weights and
//! the rates of `train-mnist`; the accuracy is measured at the end of a run.
//!
//! Before anything is timed, a few steps are compared with the same steps in f64, and the first epoch's loss with the lowest
//! rung's; in every run the loss must fall. A wrong result is reported instead of timed, and the bench ends with an error.
//!
//! On a GPU the images are MNIST, from `data/mnist` or the folder in `FERROWARP_BENCH_DATA`. If they are missing, or the
//! variable is `synthetic`, generated images of the same shape and number replace them. Without a GPU all runs use the CPU
//! executor and a few generated images: that shows the effect of a change on the executor. Peers are in `benches/peers`.
//!
//! `cargo bench mlp/fused` selects ids that contain it; `-- --test` checks and times nothing. The medians go into `mlp.json`
//! in criterion's folder.

use std::cell::{OnceCell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, ensure};
use clap::ValueEnum as _;
use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, BenchmarkId, Criterion, SamplingMode, Throughput};
use ferrowarp::device::{Device, DeviceChoice, open};
use ferrowarp_benches::exit_code;
use ferrowarp_benches::mlp::data::{Data, batches, images};
use ferrowarp_benches::mlp::session::{Expected, Session, check_loss};
use ferrowarp_benches::mlp::{self, Samples};
use ferrowarp_benches::results::{MlpEntry, Results, median};
use ferrowarp_mnist::BatchSize;
use ferrowarp_mnist::model::Pipeline;

/// Samples kept of each time: two runs of epochs.
const SAMPLES: usize = 2 * mlp::RUN as usize;

/// Resamples of the bootstrap; criterion warns at 1000.
const RESAMPLES: usize = 1001;

/// The precision of `f32` multiplications in every rung.
const PRECISION: &str = "f32";

fn main() -> ExitCode {
    let device = match open(DeviceChoice::Auto) {
        Ok((device, why)) => {
            eprintln!("{why}");
            device
        }
        Err(error) => {
            eprintln!("cannot bench: {error:#}");
            return ExitCode::FAILURE;
        }
    };
    exit_code(run(&device))
}

/// Times everything that the command line selects. Returns the failures.
fn run(device: &Device) -> anyhow::Result<Vec<String>> {
    let criterion = Criterion::default().without_plots().sample_size(SAMPLES).nresamples(RESAMPLES);
    // Warms up for one epoch. Below, a sample is one epoch as well, whatever number criterion asks for to fill this time.
    let criterion =
        criterion.warm_up_time(Duration::from_millis(1)).measurement_time(Duration::from_secs(10));
    let mut criterion = criterion.configure_from_args();
    let mut bench = Bench { device, data: OnceCell::new(), results: Results::new(device)? };
    let mut group = criterion.benchmark_group("mlp");
    group.sampling_mode(SamplingMode::Flat);
    for size in batches(device) {
        let at = Batch {
            size: BatchSize::new(size).map_err(anyhow::Error::msg)?,
            expected: OnceCell::new(),
            loss: OnceCell::new(),
        };
        for &pipeline in Pipeline::value_variants() {
            bench.rung(&mut group, &at, pipeline)?;
        }
    }
    group.finish();
    criterion.final_summary();
    let results = bench.results;
    if !results.entries.is_empty() && !std::env::args().any(|argument| argument == "--test") {
        eprintln!("medians in {}", results.write("mlp.json")?.display());
    }
    let failed = results
        .entries
        .into_iter()
        .filter_map(|entry| Some(format!("{}, batches of {}: {}", entry.name, entry.batch, entry.error?)));
    Ok(failed.collect())
}

/// The results so far, and what the timing needs. The data are loaded for the first selected bench.
struct Bench<'a> {
    device: &'a Device,
    data: OnceCell<Data>,
    results: Results<MlpEntry>,
}

/// What the rungs share at one batch size, each part computed when first needed.
struct Batch {
    size: BatchSize,
    expected: OnceCell<Expected>,
    /// The lowest rung's mean loss in the first epoch.
    loss: OnceCell<f64>,
}

/// The results of one rung at one batch size.
#[derive(Default)]
struct Timed {
    is_checked: bool,
    steps: Samples,
    epochs: Samples,
    accuracies: Vec<f64>,
    error: Option<String>,
}

/// The timed part of a rung.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Step,
    Epoch,
}

impl Bench<'_> {
    /// Checks a rung and times its steps and its epochs.
    fn rung(
        &mut self,
        group: &mut BenchmarkGroup<'_, WallTime>,
        at: &Batch,
        pipeline: Pipeline,
    ) -> anyhow::Result<()> {
        let name = pipeline.to_possible_value().context("a rung has no name")?.get_name().to_owned();
        let timed = RefCell::new(Timed::default());
        for (what, images) in [(What::Step, at.size.get()), (What::Epoch, images(self.device))] {
            let mut session = None;
            let id = BenchmarkId::new(format!("{name}/{}", at.size), format!("{what:?}").to_lowercase());
            // Criterion takes no error from a bench, and calls it only if the command line selects it.
            let outcome = catch_unwind(AssertUnwindSafe(|| {
                group.throughput(Throughput::Elements(images as u64));
                group.bench_function(id, |bencher| {
                    bencher.iter_custom(|iterations| {
                        let timed = &mut *timed.borrow_mut();
                        let time = self.time(at, pipeline, what, &mut session, timed);
                        let time = time.unwrap_or_else(|cause| {
                            timed.error = Some(format!("{cause:#}"));
                            panic!("{name}, batches of {}: {cause:#}", at.size)
                        });
                        time * iterations.max(1) as u32
                    });
                });
            }));
            let timed = &mut *timed.borrow_mut();
            timed.accuracies.extend(session.into_iter().flat_map(|session| session.accuracies));
            if outcome.is_err() {
                timed.error.get_or_insert_with(|| "a panic".to_owned());
                break;
            }
        }
        self.results.entries.extend(self.entry(name, at.size, timed.into_inner()));
        if let Err(fault) = self.device.synchronize() {
            self.results.write("mlp.json")?;
            return Err(fault).context("the device is lost");
        }
        Ok(())
    }

    /// The time of a step or of an epoch. The first call for a rung checks it.
    fn time<'a>(
        &'a self,
        at: &Batch,
        pipeline: Pipeline,
        what: What,
        session: &mut Option<Session<'a>>,
        timed: &mut Timed,
    ) -> anyhow::Result<Duration> {
        if !timed.is_checked {
            at.expected.get_or_init(|| Expected::new(at.size)).check(self.device, pipeline, at.size)?;
            timed.is_checked = true;
        }
        let session = match session {
            Some(session) => session,
            none => none.insert(Session::new(self.device, self.data()?, pipeline, at.size)?),
        };
        if what == What::Step {
            let time = session.step()?;
            timed.steps.push(time);
            return Ok(time);
        }
        let time = session.epoch()?;
        if timed.epochs.last(1).is_empty() {
            check_loss(session.first_loss().context("an epoch has no loss")?, self.lowest_loss(at)?)?;
        }
        timed.epochs.push(time);
        Ok(time)
    }

    /// The images, loaded at the first call.
    fn data(&self) -> anyhow::Result<&Data> {
        if self.data.get().is_none() {
            let data = Data::load(self.device)?;
            ensure!(self.data.set(data).is_ok(), "the images were loaded twice");
        }
        self.data.get().context("the images are gone")
    }

    /// The lowest rung's mean loss in the first epoch, found at the first call.
    fn lowest_loss(&self, at: &Batch) -> anyhow::Result<f64> {
        if let Some(&loss) = at.loss.get() {
            return Ok(loss);
        }
        let lowest = *Pipeline::value_variants().first().context("there is no rung")?;
        let mut session = Session::new(self.device, self.data()?, lowest, at.size)?;
        session.epoch()?;
        let loss = session.first_loss().context("an epoch has no loss")?;
        Ok(*at.loss.get_or_init(|| loss))
    }

    /// The entry of a rung, if the command line selected it.
    fn entry(&self, name: String, batch: BatchSize, timed: Timed) -> Option<MlpEntry> {
        let (steps, epochs) = (timed.steps.last(SAMPLES), timed.epochs.last(SAMPLES));
        let is_right = timed.error.is_none();
        if is_right && steps.is_empty() && epochs.is_empty() {
            return None;
        }
        Some(MlpEntry {
            name,
            precision: PRECISION,
            batch: batch.get(),
            data: self.data.get().map_or("none", |data| data.name),
            images: self.data.get().map_or(0, |data| data.images()),
            epoch_seconds: if is_right { epochs.to_vec() } else { Vec::new() },
            step_microseconds: (is_right && !steps.is_empty()).then(|| median(steps) * 1e6),
            accuracy: (is_right && !timed.accuracies.is_empty()).then(|| median(&timed.accuracies)),
            error: timed.error,
        })
    }
}
