//! Training: a [`Config`] and a data set in, trained weights and a record per epoch out.

mod config;
mod error;
mod start;

use std::io;
use std::time::{Duration, Instant};

use crate::checkpoint::{self, Training};
use crate::data::{CLASSES, Dataset, Mnist};
use crate::device::Device;
use crate::model::{DeviceDataset, EpochSpec, Evaluation, Network, Parameters};
use crate::report::{EpochRecord, Metrics, Times, save_plot};

pub use config::{Config, DEFAULT_HIDDEN, DEFAULT_SEED};
pub use error::TrainError;
pub use start::Start;

/// What a run is going to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// Widths of the network from the input to the output.
    pub sizes: Vec<usize>,
    /// Images in an epoch.
    pub train_images: usize,
    /// Images in a test.
    pub test_images: usize,
    /// The first epoch of this run, counted from 1 over all the training the weights have had.
    pub first_epoch: u32,
    /// The last epoch of this run, counted likewise; before the first when there is none.
    pub last_epoch: u32,
}

impl Run {
    /// So many epochs more, of weights that have had `epochs_before`; [`Start`] has checked the sum.
    fn new(sizes: Vec<usize>, mnist: &Mnist, epochs_before: u32, epochs: u32) -> Run {
        Run {
            sizes,
            train_images: mnist.train.len(),
            test_images: mnist.test.len(),
            first_epoch: epochs_before + 1,
            last_epoch: epochs_before + epochs,
        }
    }
}

/// Looks on while a network is trained.
pub trait Observer {
    /// An epoch begins.
    fn epoch_started(&mut self, run: &Run, epoch: u32) {
        let _ = (run, epoch);
    }

    /// So many images of the current epoch have been learnt from.
    fn progress(&mut self, images: usize) {
        let _ = images;
    }

    /// An epoch has ended and the network has been tested.
    ///
    /// # Errors
    /// Whatever keeps the observer from telling; it ends the run.
    fn epoch_ended(&mut self, run: &Run, record: &EpochRecord) -> io::Result<()> {
        let _ = (run, record);
        Ok(())
    }
}

/// An observer that does not look.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Observer for Silent {}

/// What came out of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// What was run.
    pub run: Run,
    /// The weights at the end.
    pub parameters: Parameters,
    /// One record per epoch of this run.
    pub records: Vec<EpochRecord>,
    /// The test after the last epoch, or of the loaded weights when there was no epoch.
    pub test: TestResult,
    /// Where the time went; [`Times::fetch`] and [`Times::load`] are for the caller to fill in.
    pub times: Times,
}

/// How a network did on the test images.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TestResult {
    /// Mean cross-entropy in nats.
    pub loss: f64,
    /// Images classified right.
    pub correct: usize,
    /// Images in all.
    pub images: usize,
}

impl TestResult {
    /// Share of the images that were classified right, 0 to 1.
    pub fn accuracy(&self) -> f64 {
        self.correct as f64 / self.images.max(1) as f64
    }
}

/// Trains a network on `device` and judges it after every epoch; writes the files that `config` names.
///
/// Every epoch visits all training images once, in an order that the seed and the epoch's number give, so two
/// runs with one seed give the same weights on one device. The momentum starts from rest, also after
/// `config.load`.
///
/// # Errors
/// [`TrainError`]: the device failed, the loss is no longer finite, or a file could not be written.
pub fn run(
    device: &Device,
    mnist: &Mnist,
    config: &Config,
    start: Start,
    observer: &mut dyn Observer,
) -> Result<Outcome, TrainError> {
    config.check_against(mnist.train.len())?;
    let started = Instant::now();
    let transfers = Transfers::now(device);
    let (seed, epochs) = (start.seed, start.epochs);
    let parameters = start.parameters(config, mnist.train.features())?;
    let run = Run::new(parameters.sizes(), mnist, epochs, config.epochs);
    let mut trainer = Trainer {
        train: upload(device, &mnist.train)?,
        test: upload(device, &mnist.test)?,
        network: Network::new(device, &parameters, config.pipeline, config.batch_size)?,
        device,
        config,
        seed,
        times: Times::default(),
    };

    let mut metrics = config.metrics.as_deref().map(Metrics::new);
    let mut records = Vec::new();
    let mut test = None;
    for epoch in run.first_epoch..=run.last_epoch {
        observer.epoch_started(&run, epoch);
        let (record, result) = trainer.epoch(epoch, &run, observer)?;
        observer.epoch_ended(&run, &record).map_err(TrainError::Output)?;
        if let Some(metrics) = &mut metrics {
            metrics.push(&record)?;
        }
        records.push(record);
        test = Some(result);
    }
    let test = match test {
        Some(test) => test,
        None => trainer.test(&run)?.0,
    };

    let parameters = trainer.network.parameters()?;
    let mut times = trainer.times;
    (times.host_to_device, times.device_to_host) = transfers.since(device);
    times.total = started.elapsed();
    let outcome = Outcome { run, parameters, records, test, times };
    write_files(config, seed, &outcome)?;
    Ok(outcome)
}

fn upload(device: &Device, dataset: &Dataset) -> Result<DeviceDataset, TrainError> {
    let features = dataset.features();
    Ok(DeviceDataset::upload(device, &dataset.images, &dataset.labels, features, CLASSES)?)
}

fn write_files(config: &Config, seed: u64, outcome: &Outcome) -> Result<(), TrainError> {
    if let Some(path) = &config.save {
        let training = Training {
            sizes: outcome.run.sizes.clone(),
            seed,
            epochs: outcome.run.last_epoch,
            batch_size: config.batch_size,
            lr: config.lr,
            lr_decay: config.lr_decay,
            momentum: config.momentum,
            pipeline: config.pipeline_name(),
        };
        checkpoint::save(path, &outcome.parameters, &training)?;
    }
    if let Some(path) = &config.plot {
        let sizes: Vec<String> = outcome.run.sizes.iter().map(usize::to_string).collect();
        let title = format!(
            "{} in batches of {}: {:.2} % of the test images right",
            sizes.join("-"),
            config.batch_size,
            100.0 * outcome.test.accuracy()
        );
        save_plot(path, &title, &outcome.records)?;
    }
    Ok(())
}

struct Trainer<'a> {
    device: &'a Device,
    config: &'a Config,
    seed: u64,
    network: Network,
    train: DeviceDataset,
    test: DeviceDataset,
    times: Times,
}

impl Trainer<'_> {
    fn epoch(
        &mut self,
        epoch: u32,
        run: &Run,
        observer: &mut dyn Observer,
    ) -> Result<(EpochRecord, TestResult), TrainError> {
        let spec = EpochSpec {
            seed: self.seed,
            epoch: epoch - 1,
            lr: self.config.lr_in(epoch),
            momentum: self.config.momentum,
        };
        let transfers = Transfers::now(self.device);
        let started = Instant::now();
        let stats = self.network.train_epoch(&self.train, &spec, &mut |done| observer.progress(done))?;
        let elapsed = started.elapsed();
        self.times.train_kernels += transfers.without(self.device, elapsed);
        if !stats.loss.is_finite() {
            return Err(TrainError::Diverged { epoch, loss: stats.loss, lr: self.config.lr_in(epoch) });
        }

        let (test, test_elapsed) = self.test(run)?;
        let seconds = elapsed.as_secs_f64();
        let record = EpochRecord {
            epoch,
            train_loss: stats.loss,
            train_accuracy: stats.correct as f64 / stats.samples.max(1) as f64,
            test_loss: test.loss,
            test_accuracy: test.accuracy(),
            seconds,
            test_seconds: test_elapsed.as_secs_f64(),
            images_per_second: stats.samples as f64 / seconds.max(f64::MIN_POSITIVE),
        };
        if !test.loss.is_finite() {
            return Err(TrainError::Diverged { epoch, loss: test.loss, lr: self.config.lr_in(epoch) });
        }
        Ok((record, test))
    }

    fn test(&mut self, run: &Run) -> Result<(TestResult, Duration), TrainError> {
        let transfers = Transfers::now(self.device);
        let started = Instant::now();
        let Evaluation { loss, correct, .. } = self.network.evaluate(&self.test)?;
        let elapsed = started.elapsed();
        self.times.test_kernels += transfers.without(self.device, elapsed);
        Ok((TestResult { loss, correct, images: run.test_images }, elapsed))
    }
}

/// What the device had spent on copies at some moment.
struct Transfers {
    to_device: Duration,
    to_host: Duration,
}

impl Transfers {
    fn now(device: &Device) -> Self {
        let times = device.transfer_times();
        Transfers { to_device: times.host_to_device.time, to_host: times.device_to_host.time }
    }

    /// What it has spent since then, to the device and from it.
    fn since(&self, device: &Device) -> (Duration, Duration) {
        let now = Self::now(device);
        (now.to_device.saturating_sub(self.to_device), now.to_host.saturating_sub(self.to_host))
    }

    /// `elapsed` without what it has spent since then.
    fn without(&self, device: &Device, elapsed: Duration) -> Duration {
        let (to_device, to_host) = self.since(device);
        elapsed.saturating_sub(to_device + to_host)
    }
}
