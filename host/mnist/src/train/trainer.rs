//! A run on one device: its epochs, and the state between two steps.

mod ending;
mod steps;

use std::fmt;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::profile::Profiler;
use super::saver::Saver;
use super::start::Origin;
use super::transfers::Transfers;
use super::upload::{training_set, upload};
use super::{Config, Observer, Run, Start, TestResult, TimeToAccuracy, TrainError};
use crate::checkpoint::{DataId, Found, Progress, Snapshot, Training, last_good};
use crate::model::{
    DeviceDataset, EpochSpec, EpochStats, Evaluation, Network, Parameters, Timeline, Trained, TrainingSet,
};
use ferrowarp_data::LazyMnist;
use ferrowarp_device::collective::Communicator;
use ferrowarp_device::device::Device;
use ferrowarp_report::{EpochRecord, Lane, ReportError, Times, in_one_line, save_timeline};

/// The most steps that a timeline shows.
const WATCHED_STEPS: usize = 64;

/// A network that is being trained.
pub(super) struct Trainer<'a> {
    device: &'a Device,
    config: &'a Config,
    pub run: Run,
    seed: u64,
    epochs_before: u32,
    network: Network,
    train: TrainingSet<'a>,
    test: DeviceDataset,
    saver: Option<Saver>,
    /// The snapshot that this run resumes from.
    resumed_from: Option<PathBuf>,
    pub times: Times,
    /// The current epoch, counted from 1 over all training.
    pub epoch: u32,
    /// Its results so far.
    stats: EpochStats,
    /// The time they took.
    elapsed: Duration,
    /// The complete epochs of the run.
    pub records: Vec<EpochRecord>,
    /// The epoch with the timeline, if there is one.
    watched: u32,
    /// Whether the observer was warned that the network no longer learns.
    has_warned: bool,
    /// Times of launches, if requested.
    pub profiler: Option<Profiler>,
    /// The first error of a file that could not be written; the run continues.
    pub unwritten: Option<ReportError>,
}

impl<'a> Trainer<'a> {
    pub fn new(
        device: &'a Device,
        mnist: &'a LazyMnist,
        config: &'a Config,
        start: Start,
        communicator: Option<&Arc<Communicator>>,
    ) -> Result<Self, TrainError> {
        config.check_against(mnist.train.len())?;
        let saver = Saver::open(config, mnist, &start)?;
        let parameters = start.parameters(config, mnist.train.features())?;
        let (seed, epochs_before) = (start.seed, start.epochs_before);
        let last_epoch = config.last_epoch(epochs_before)?;
        let network =
            Network::new(device, &parameters, config.pipeline, config.precision, config.batch_size)?;
        let network = match communicator {
            Some(communicator) => network.with_communicator(Arc::clone(communicator))?,
            None => network,
        };
        let mut trainer = Trainer {
            train: training_set(device, &mnist.train, config.pipeline)?,
            test: upload(device, &mnist.test)?,
            network: network.with_label_smoothing(config.label_smoothing),
            run: Run::new(parameters.sizes(), mnist, epochs_before, last_epoch),
            device,
            config,
            seed,
            epochs_before,
            saver,
            resumed_from: None,
            times: Times::default(),
            epoch: epochs_before + 1,
            stats: EpochStats::default(),
            elapsed: Duration::ZERO,
            records: Vec::new(),
            watched: 0,
            has_warned: false,
            profiler: config.profile.then(Profiler::default),
            unwritten: None,
        };
        if let Origin::Resumed(found) = start.origin {
            trainer.go_on_from(*found)?;
        }
        trainer.watched = last_epoch.min(trainer.epoch + 1);
        Ok(trainer)
    }

    /// Restores the state of a snapshot, except its weights.
    fn go_on_from(&mut self, Found { path, snapshot, .. }: Found) -> Result<(), TrainError> {
        self.resumed_from = Some(path);
        if let Some(velocities) = &snapshot.velocities {
            self.network.set_velocities(velocities)?;
        }
        self.epoch = snapshot.epoch();
        let Progress { samples, loss_sum, correct, seconds, .. } = snapshot.progress;
        self.stats = EpochStats { loss_sum, correct, samples, diverged: None };
        if let Some(ahead) = &snapshot.ahead {
            self.network.set_ahead(&self.spec(), samples, ahead)?;
        }
        self.elapsed = Duration::try_from_secs_f64(seconds).unwrap_or_default();
        self.records = snapshot.records;
        Ok(())
    }

    /// Runs the rest of the current epoch and its test, and writes checkpoints that are due before its last step.
    pub fn finish_epoch(&mut self, observer: &mut dyn Observer) -> Result<TestResult, TrainError> {
        let is_watched = self.config.timeline.is_some() && self.epoch == self.watched;
        if is_watched {
            self.network.watch(WATCHED_STEPS);
        }
        self.train_epoch(observer)?;
        self.network.check_ranks()?;
        if is_watched {
            match self.draw_timeline() {
                Err(TrainError::Report(error)) => self.note_unwritten(error, observer),
                drawn => drawn?,
            }
        }
        let (test, test_elapsed) = self.test()?;
        if !test.loss.is_finite() {
            return Err(self.diverged(
                self.steps(),
                format_args!("the loss of the test images after it is {}", test.loss),
            ));
        }
        if test.is_constant && !std::mem::replace(&mut self.has_warned, true) {
            observer.warning(&self.stopped_learning());
        }
        let EpochStats { correct, samples, .. } = self.stats;
        let seconds = self.elapsed.as_secs_f64();
        self.records.push(EpochRecord {
            epoch: self.epoch,
            train_loss: self.stats.loss(),
            train_accuracy: correct as f64 / samples.max(1) as f64,
            test_loss: test.loss,
            test_accuracy: test.accuracy(),
            seconds,
            test_seconds: test_elapsed.as_secs_f64(),
            images_per_second: samples as f64 / seconds.max(f64::MIN_POSITIVE),
        });
        self.epoch += 1;
        self.stats = EpochStats::default();
        self.elapsed = Duration::ZERO;
        Ok(test)
    }

    /// Warns about a file that could not be written. The run continues, so that its weights are not lost, and ends with the
    /// error.
    pub fn note_unwritten(&mut self, error: ReportError, observer: &mut dyn Observer) {
        observer.warning(&format!("{}; the training goes on without it", in_one_line(&error)));
        self.unwritten.get_or_insert(error);
    }

    fn draw_timeline(&mut self) -> Result<(), TrainError> {
        let timeline = self.network.take_timeline()?;
        let (Some(path), Some(timeline)) = (&self.config.timeline, timeline) else { return Ok(()) };
        let Timeline { steps, load, copies, fetches, kernels, host } = timeline;
        let title = format!(
            "pipeline {}, precision {}, the first {steps} steps of epoch {} on {}",
            self.network.pipeline().name(),
            self.config.precision,
            self.epoch,
            self.device.name()
        );
        let lanes =
            [("load", load), ("copy", copies), ("kernels", kernels), ("host", host), ("fetch", fetches)];
        let lanes = lanes.map(|(name, spans)| Lane { name: name.to_owned(), spans });
        Ok(save_timeline(path, &title, &lanes)?)
    }

    fn train_epoch(&mut self, observer: &mut dyn Observer) -> Result<(), TrainError> {
        let spec = self.spec();
        let (samples, batch_size) = (self.samples(), self.config.batch_size);
        while self.stats.samples < samples {
            let transfers = Transfers::now(self.device);
            let started = Instant::now();
            let due = self.saver.as_ref().and_then(|saver| saver.due_in(self.steps()));
            let until = due.map_or(samples, |steps| {
                let due = usize::try_from(steps).unwrap_or(usize::MAX).saturating_mul(batch_size.get());
                self.stats.samples.saturating_add(due).min(samples)
            });
            let mut progress = |done| {
                observer.progress(done);
                let pause = done < samples && observer.stop();
                if pause { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            };
            let before = self.stats.samples;
            if self.profiler.is_some() {
                self.device.start_profile();
            }
            self.stats = self.network.train_epoch(&self.train, &spec, self.stats, until, &mut progress)?;
            self.note_launches(before);
            if let Some(notice) = self.network.take_notice() {
                observer.warning(&notice);
            }
            let elapsed = started.elapsed();
            self.elapsed += elapsed;
            self.times.train_kernels += transfers.without(self.device, elapsed);
            if let Some(divergence) = self.stats.diverged {
                let step = self.step_with(divergence.sample);
                return Err(self.diverged(step, format_args!("the loss is {}", divergence.loss)));
            }
            if self.stats.samples < samples {
                self.pause(observer)?;
            }
        }
        Ok(())
    }

    /// Adds the times of the launches since sample `before` to the profile, if there is one.
    fn note_launches(&mut self, before: usize) {
        let Some(profiler) = &mut self.profiler else { return };
        let Config { batch_size, momentum, .. } = *self.config;
        let (sizes, is_short) = (&self.run.sizes[..], self.network.is_short());
        let trained = Trained { sizes, has_momentum: momentum != 0.0, is_short };
        let done = before..self.stats.samples;
        profiler.add(self.device, self.network.pipeline(), trained, batch_size, done, self.train.len());
    }

    /// Handles a pause between two steps of an epoch: writes a checkpoint, and stops if the observer wants it.
    fn pause(&mut self, observer: &mut dyn Observer) -> Result<(), TrainError> {
        self.save()?;
        if observer.stop() { Err(self.stopped(observer)?) } else { Ok(()) }
    }

    /// Handles the time between two epochs: writes a checkpoint if one is due, and stops if the observer wants it.
    pub fn between_epochs(&mut self, observer: &mut dyn Observer) -> Result<(), TrainError> {
        let steps = self.steps();
        let stop = observer.stop();
        if stop || self.saver.as_ref().is_some_and(|saver| saver.is_due_after_epoch(steps)) {
            self.save()?;
        }
        if stop { Err(self.stopped(observer)?) } else { Ok(()) }
    }

    /// Writes a checkpoint of the current state, if the settings name a folder and it has none of this state yet. Training
    /// must be able to continue from it: the losses and weights so far, and the losses of the next step, must be finite.
    pub fn save(&mut self) -> Result<(), TrainError> {
        let steps = self.steps();
        let Some(saver) = self.saver.as_ref().filter(|saver| !saver.has(steps)) else { return Ok(()) };
        let data = saver.data.clone();
        let transfers = Transfers::now(self.device);
        let started = Instant::now();
        if self.stats.samples > 0 {
            let spec = self.spec();
            let ahead = self.network.divergence_ahead(&self.train, &spec, self.stats.samples)?;
            if let Some(divergence) = ahead {
                return Err(self.diverged(steps + 1, format_args!("the loss is {}", divergence.loss)));
            }
        }
        let snapshot = self.snapshot(data)?;
        let weights = [Some(&snapshot.parameters), snapshot.velocities.as_ref()];
        if let Some(weight) = weights.into_iter().flatten().find_map(first_infinite) {
            return Err(self.diverged(steps, format_args!("a weight after it is {weight}")));
        }
        if let Some(saver) = &mut self.saver {
            saver.folder.write(&snapshot)?;
            saver.note(steps);
        }
        self.times.checkpoints += transfers.without(self.device, started.elapsed());
        Ok(())
    }

    fn snapshot(&self, data: DataId) -> Result<Snapshot, TrainError> {
        Ok(Snapshot {
            training: self.training(self.epoch - 1),
            data,
            progress: Progress {
                epochs_before: self.epochs_before,
                last_epoch: self.run.last_epoch,
                samples: self.stats.samples,
                loss_sum: self.stats.loss_sum,
                correct: self.stats.correct,
                seconds: self.elapsed.as_secs_f64(),
                every: self.config.checkpoints.as_ref().and_then(|checkpoints| checkpoints.every),
                keep: self.config.checkpoints.as_ref().map_or(1, |checkpoints| checkpoints.keep),
                device: describe(self.device),
            },
            records: self.records.clone(),
            parameters: self.network.parameters()?,
            velocities: if self.config.momentum == 0.0 { None } else { self.network.velocities()? },
            ahead: self.network.ahead(&self.spec(), self.stats.samples)?,
        })
    }

    /// Describes how the weights were trained, after `epochs` epochs in total.
    pub fn training(&self, epochs: u32) -> Training {
        Training {
            sizes: self.run.sizes.clone(),
            seed: self.seed,
            epochs,
            batch_size: self.config.batch_size,
            drop_last: self.config.drop_last,
            lr: self.config.lr,
            lr_decay: self.config.lr_decay,
            lr_schedule: self.config.lr_schedule,
            lr_warmup: self.config.lr_warmup,
            momentum: self.config.momentum,
            label_smoothing: self.config.label_smoothing,
            pipeline: self.config.pipeline.name(),
            precision: self.config.precision.name(),
        }
    }

    pub fn test(&mut self) -> Result<(TestResult, Duration), TrainError> {
        let transfers = Transfers::now(self.device);
        let started = Instant::now();
        let Evaluation { loss, correct, is_constant, .. } = self.network.evaluate(&self.test)?;
        let elapsed = started.elapsed();
        self.times.test_kernels += transfers.without(self.device, elapsed);
        Ok((TestResult { loss, correct, images: self.run.test_images, is_constant }, elapsed))
    }

    /// Tests weights that this run does not train.
    pub fn test_loaded(&mut self) -> Result<TestResult, TrainError> {
        let (test, _) = self.test()?;
        let path = self.config.load.as_ref().or(self.resumed_from.as_ref());
        match path.filter(|_| !test.loss.is_finite()) {
            Some(path) => Err(TrainError::Run(format!(
                "the weights in {} are so large that the loss of the test images is {}; train again with a smaller learning \
                 rate",
                path.display(),
                test.loss
            ))),
            None => Ok(test),
        }
    }

    /// The time until the target accuracy, once it is reached.
    pub fn reached(&self) -> Option<TimeToAccuracy> {
        TimeToAccuracy::of(&self.records, self.config.target_accuracy)
    }

    pub fn parameters(&self) -> Result<Parameters, TrainError> {
        Ok(self.network.parameters()?)
    }

    fn spec(&self) -> EpochSpec {
        EpochSpec {
            seed: self.seed,
            epoch: self.epoch - 1,
            rates: self.rates(self.epoch),
            momentum: self.config.momentum,
        }
    }

    /// The error of a loss or a weight that has become infinite or NaN.
    fn diverged(&self, step: u64, symptom: fmt::Arguments<'_>) -> TrainError {
        let (epoch, lr) = (self.epoch, self.largest_lr());
        let checkpoint = self.newest_checkpoint().or_else(|| self.resumed_from.clone());
        let again = checkpoint.as_ref().map_or_else(String::new, |path| {
            format!("; a new run with other settings can start from it: --load {}", path.display())
        });
        let last_good = last_good(checkpoint.as_deref());
        TrainError::Run(format!(
            "training diverged in epoch {epoch} at step {step}: {symptom}; choose a learning rate below {lr}; \
             {last_good}{again}"
        ))
    }

    fn newest_checkpoint(&self) -> Option<PathBuf> {
        self.saver.as_ref().and_then(|saver| saver.folder.newest()).map(Path::to_owned)
    }
}

/// Describes the device for a snapshot. With another number of processors, sums may be added in another order.
pub(super) fn describe(device: &Device) -> String {
    let (name, processors) = (device.name(), device.multiprocessors());
    let what = if device.is_cuda() { "multiprocessors" } else { "threads" };
    format!("{name} with {processors} {what}")
}

fn first_infinite(parameters: &Parameters) -> Option<f32> {
    let values = parameters.layers.iter().flat_map(|layer| layer.weights.iter().chain(&layer.biases));
    values.copied().find(|value| !value.is_finite())
}
