//! Training: takes a [`Config`] and a data set, and returns trained weights and a record per epoch.

mod config;
mod error;
mod profile;
mod saver;
mod start;
mod trainer;
mod transfers;
mod upload;

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::checkpoint::{self, Found, Training};
use crate::model::{ModelError, Parameters};
use ferrowarp_data::LazyMnist;
use ferrowarp_device::collective::Communicator;
use ferrowarp_device::device::Device;
use ferrowarp_report::{EpochRecord, Metrics, Profile, Times, save_plot};
use trainer::Trainer;
use transfers::Transfers;

pub use config::{Checkpoints, Config, DEFAULT_HIDDEN, DEFAULT_KEEP, DEFAULT_SEED};
pub use error::TrainError;
pub use start::Start;

/// The plan of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// Widths of the network from the input to the output.
    pub sizes: Vec<usize>,
    /// Images in an epoch.
    pub train_images: usize,
    /// Images in a test.
    pub test_images: usize,
    /// The first epoch of this run, counted from 1 over all training.
    pub first_epoch: u32,
    /// The last epoch of this run, counted the same way; `first_epoch - 1` if the run has no epochs.
    pub last_epoch: u32,
}

impl Run {
    fn new(sizes: Vec<usize>, mnist: &LazyMnist, epochs_before: u32, last_epoch: u32) -> Run {
        Run {
            sizes,
            train_images: mnist.train.len(),
            test_images: mnist.test.len(),
            first_epoch: epochs_before + 1,
            last_epoch,
        }
    }
}

/// Observes a training run.
pub trait Observer {
    /// Called when an epoch begins.
    fn epoch_started(&mut self, run: &Run, epoch: u32) {
        let _ = (run, epoch);
    }

    /// Called when `images` images of the current epoch have been trained on.
    fn progress(&mut self, images: usize) {
        let _ = images;
    }

    /// Whether to stop the run. Called after every step or, such as in [`Pipeline::Graph`](crate::model::Pipeline::Graph),
    /// launch of steps, except the last. A stopped run writes a checkpoint and the weights, if the settings name a folder
    /// and a file for them, and ends with [`TrainError::Stopped`].
    fn stop(&mut self) -> bool {
        false
    }

    /// Called with a sentence about a problem that does not end the run, and its fix.
    fn warning(&mut self, warning: &str) {
        let _ = warning;
    }

    /// Called when an epoch has ended and the network has been tested.
    ///
    /// # Errors
    /// The observer could not write its output. This ends the run.
    fn epoch_ended(&mut self, run: &Run, record: &EpochRecord) -> io::Result<()> {
        let _ = (run, record);
        Ok(())
    }
}

/// An observer that does nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Observer for Silent {}

/// The results of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The plan of the run.
    pub run: Run,
    /// The weights at the end.
    pub parameters: Parameters,
    /// One record per epoch of this run, including epochs before it was resumed.
    pub records: Vec<EpochRecord>,
    /// The test after the last epoch, or of the loaded weights if there was no epoch.
    pub test: TestResult,
    /// The time until [`Config::target_accuracy`] was reached, if it was.
    pub reached: Option<TimeToAccuracy>,
    /// The times of the training kernels, with [`Config::profile`].
    pub profile: Option<Profile>,
    /// Where the time went; [`Times::fetch`] and [`Times::load`] are for the caller to fill in.
    pub times: Times,
}

/// The training time until the target accuracy.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TimeToAccuracy {
    /// The epochs of the run.
    pub epochs: usize,
    /// Training, including its copies.
    pub training: Duration,
    /// The tests after the epochs; only the last one is needed for the result.
    pub tests: Duration,
}

impl TimeToAccuracy {
    /// The time of a run with these records, if its last test reached `target` percent.
    fn of(records: &[EpochRecord], target: Option<f64>) -> Option<Self> {
        let (target, last) = (target?, records.last()?);
        let sum = |seconds: fn(&EpochRecord) -> f64| {
            Duration::try_from_secs_f64(records.iter().map(seconds).sum()).unwrap_or_default()
        };
        (100.0 * last.test_accuracy >= target).then(|| TimeToAccuracy {
            epochs: records.len(),
            training: sum(|record| record.seconds),
            tests: sum(|record| record.test_seconds),
        })
    }
}

/// The results of a network on the test images.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TestResult {
    /// Mean cross-entropy in nats.
    pub loss: f64,
    /// Images classified correctly.
    pub correct: usize,
    /// The number of images.
    pub images: usize,
    /// Whether the network gives every image the same answer.
    pub is_constant: bool,
}

impl TestResult {
    /// Share of the images that were classified correctly, 0 to 1.
    pub fn accuracy(&self) -> f64 {
        self.correct as f64 / self.images.max(1) as f64
    }
}

/// Trains a network on `device`, tests it after every epoch, and writes the files that `config` names.
///
/// Every epoch visits all training images once, in an order that depends on the seed and the epoch's number, so runs with
/// the same seed give the same weights on the same device. Velocities start at 0, even after `config.load`. A resumed run
/// gives the same weights and, except for times, the same records as a run that never stopped.
///
/// # Errors
/// [`TrainError`]: the device failed, the loss is no longer finite, a file could not be written, or the observer stopped the
/// run. If the metrics or the timeline cannot be written, the run continues and ends with that error. If a checkpoint or the
/// observer's output cannot be written, the run writes the weights and ends at once.
pub fn run(
    device: &Device,
    mnist: &LazyMnist,
    config: &Config,
    start: Start,
    observer: &mut dyn Observer,
) -> Result<Outcome, TrainError> {
    run_as_rank(device, mnist, config, start, observer, None)
}

/// Same as [`run`], as one of the ranks of `communicator`, which train together: they divide the batches of a single-device
/// run. All ranks must have the same settings, except that only one may write files, and their observers must stop the run
/// after the same step.
///
/// # Errors
/// Same as for [`run`]; a rank is lost; the pipeline cannot train on several devices.
pub fn run_as_rank(
    device: &Device,
    mnist: &LazyMnist,
    config: &Config,
    start: Start,
    observer: &mut dyn Observer,
    communicator: Option<&Arc<Communicator>>,
) -> Result<Outcome, TrainError> {
    let started = Instant::now();
    let transfers = Transfers::now(device);
    let mut trainer = Trainer::new(device, mnist, config, start, communicator)?;
    let run = trainer.run.clone();

    let metrics = config.metrics.as_deref().map(|path| Metrics::going_on(path, &trainer.records));
    let mut metrics = metrics.transpose()?;
    let mut test = None;
    let mut reached = trainer.reached();
    while trainer.epoch <= run.last_epoch && reached.is_none() {
        match epoch(&mut trainer, metrics.as_mut(), observer) {
            Ok((tested, time)) => (test, reached) = (Some(tested), time),
            Err(error) => {
                trainer.keep(&error, observer);
                return Err(error);
            }
        }
    }
    let test = match test {
        Some(test) => test,
        None => trainer.test_loaded()?,
    };

    let profile = trainer.profiler.take().map(|profiler| profiler.finish(device));
    let profile = profile.transpose().map_err(ModelError::from)?;
    let (parameters, records) = (trainer.parameters()?, trainer.records.clone());
    let mut outcome = Outcome { run, parameters, records, test, reached, profile, times: Times::default() };
    write_files(config, &trainer.training(trainer.epoch - 1), &outcome)?;
    trainer.save()?;
    if let (Some(metrics), Some(profile)) = (&mut metrics, &outcome.profile) {
        metrics.push_kernels(&profile.kernels)?;
    }
    if let Some(error) = trainer.unwritten.take() {
        return Err(error.into());
    }
    outcome.times = trainer.times;
    (outcome.times.host_to_device, outcome.times.device_to_host) = transfers.since(device);
    outcome.times.total = started.elapsed();
    Ok(outcome)
}

/// Runs an epoch and its test, and writes the files that are due after it.
fn epoch(
    trainer: &mut Trainer<'_>,
    metrics: Option<&mut Metrics>,
    observer: &mut dyn Observer,
) -> Result<(TestResult, Option<TimeToAccuracy>), TrainError> {
    let (run, epoch) = (trainer.run.clone(), trainer.epoch);
    observer.epoch_started(&run, epoch);
    let test = trainer.finish_epoch(observer)?;
    if let Some(record) = trainer.records.last() {
        observer.epoch_ended(&run, record).map_err(TrainError::Output)?;
        if let Some(Err(error)) = metrics.map(|metrics| metrics.push(record)) {
            trainer.note_unwritten(error, observer);
        }
    }
    let reached = trainer.reached();
    if epoch < run.last_epoch && reached.is_none() {
        trainer.between_epochs(observer)?;
    }
    Ok((test, reached))
}

/// Lists, a sentence each, the permitted differences between a snapshot's run and this run that resumes it.
pub fn differences(device: &Device, config: &Config, found: &Found) -> Vec<String> {
    let progress = &found.snapshot.progress;
    let mut differences = Vec::new();
    let device = trainer::describe(device);
    if device != progress.device {
        differences.push(format!(
            "the run was on {} before and continues on {device}: its weights may differ by rounding from those of a \
             run on one device",
            progress.device
        ));
    }
    let epochs = progress.last_epoch.saturating_sub(progress.epochs_before);
    if config.epochs != epochs {
        differences.push(format!("the run now has {} epochs instead of {epochs}", config.epochs));
    }
    differences
}

fn write_files(config: &Config, training: &Training, outcome: &Outcome) -> Result<(), TrainError> {
    if let Some(path) = &config.save {
        checkpoint::save(path, &outcome.parameters, training)?;
    }
    if let Some(path) = &config.plot {
        save_plot(path, &plot_title(&outcome.run, config, outcome.test.accuracy()), &outcome.records)?;
    }
    Ok(())
}

/// The plot's title; `accuracy` is that of the last test.
fn plot_title(run: &Run, config: &Config, accuracy: f64) -> String {
    let sizes: Vec<String> = run.sizes.iter().map(usize::to_string).collect();
    format!(
        "{} in batches of {}: {:.2} % of the test images right",
        sizes.join("-"),
        config.batch_size,
        100.0 * accuracy
    )
}
