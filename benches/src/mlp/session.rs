//! Timed training of a network.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use anyhow::ensure;
use ferrowarp::device::Device;
use ferrowarp_cases::reference::{LayerOf, Sgd, step};
use ferrowarp_data::Dataset;
use ferrowarp_mnist::BatchSize;
use ferrowarp_mnist::model::{
    EpochSpec, EpochStats, LayerParameters, Network, Parameters, Pipeline, Precision,
};
use gpu_kernels::mlp::batch::permuted;

use super::data::{Data, synthetic};
use super::{RUN, SEED, SIZES};

/// Steps of the check; a short one follows.
const CHECKED_STEPS: usize = 3;

/// The maximum distance of a weight from its f64 value after [`CHECKED_STEPS`] steps and a short one, relative to the
/// largest weight of its tensor. Sums of 784 products in f32 are off by about 1e-6.
const TOLERANCE: f64 = 2e-5;

/// The maximum relative distance of the first epoch's mean loss from the lowest rung's. Rounding takes each rung through
/// other weights.
const LOSS_TOLERANCE: f64 = 0.02;

/// Steps timed together.
const STEPS: usize = 100;

/// Runs of [`RUN`] epochs, one after the other.
pub struct Session<'a> {
    device: &'a Device,
    data: &'a Data,
    pipeline: Pipeline,
    batch: BatchSize,
    network: Network,
    /// Epochs of this run so far.
    epoch: u32,
    /// The mean loss of each epoch of this run.
    losses: Vec<f64>,
    /// The accuracy at the end of each run.
    pub accuracies: Vec<f64>,
}

impl<'a> Session<'a> {
    /// Creates a run at its beginning.
    ///
    /// # Errors
    /// There is not enough memory, or the device failed.
    pub fn new(
        device: &'a Device,
        data: &'a Data,
        pipeline: Pipeline,
        batch: BatchSize,
    ) -> anyhow::Result<Self> {
        let network = network(device, pipeline, batch)?;
        let (epoch, losses, accuracies) = (0, Vec::new(), Vec::new());
        Ok(Self { device, data, pipeline, batch, network, epoch, losses, accuracies })
    }

    /// Trains an epoch. Returns the time from its first launch until its losses are on the host. Outside that time, it
    /// restarts a finished run before, and measures the accuracy of a run that ends after.
    ///
    /// # Errors
    /// The losses of a run do not fall, or the device failed.
    pub fn epoch(&mut self) -> anyhow::Result<Duration> {
        if self.epoch == RUN {
            self.network = network(self.device, self.pipeline, self.batch)?;
            self.epoch = 0;
            self.losses.clear();
        }
        self.epoch += 1;
        let spec = spec(self.epoch);
        self.device.synchronize()?;
        let start = Instant::now();
        let network = &mut self.network;
        let stats = self.data.train(self.pipeline, |set| {
            let progress = &mut |_| ControlFlow::Continue(());
            network.train_epoch(set, &spec, EpochStats::default(), set.len(), progress)
        })?;
        let time = start.elapsed();
        self.losses.push(stats.loss());
        if self.epoch == RUN {
            let (first, last) = (self.losses[0], stats.loss());
            ensure!(last < first, "the loss went from {first} in the first epoch to {last} in the last");
            let found = self.network.evaluate(&self.data.test)?;
            self.accuracies.push(found.correct as f64 / found.samples.max(1) as f64);
        }
        Ok(time)
    }

    /// Trains the first 100 steps of an epoch, or all if there are fewer. Returns the time of one, with the last
    /// synchronisation. Changes the weights of the run.
    ///
    /// # Errors
    /// The device failed.
    pub fn step(&mut self) -> anyhow::Result<Duration> {
        let wanted = STEPS * self.batch.get();
        self.device.synchronize()?;
        let start = Instant::now();
        let network = &mut self.network;
        let stats = self.data.train(self.pipeline, |set| {
            let progress = &mut |_| ControlFlow::Continue(());
            network.train_epoch(set, &spec(1), EpochStats::default(), wanted.min(set.len()), progress)
        })?;
        Ok(start.elapsed() / self.batch.steps(stats.samples).max(1) as u32)
    }

    /// The mean loss of the first epoch of this run.
    pub fn first_loss(&self) -> Option<f64> {
        self.losses.first().copied()
    }
}

/// The expected layers after a few steps.
pub struct Expected {
    set: Dataset,
    layers: Vec<LayerOf<f64>>,
}

impl Expected {
    /// Computes them for batches of this size.
    pub fn new(batch: BatchSize) -> Expected {
        let set = synthetic(CHECKED_STEPS * batch.get() + batch.get().div_ceil(3));
        Self::of(set, batch, super::lr_in(1))
    }

    /// Trains for an epoch in f64, in the order of [`spec`].
    fn of(set: Dataset, batch: BatchSize, lr: f32) -> Expected {
        let (len, EpochSpec { seed, epoch, .. }) = (set.len() as u32, spec(1));
        let layer = |layer: LayerParameters| {
            LayerOf::of(&LayerOf::<f32> { weights: layer.weights, biases: layer.biases })
        };
        let mut layers: Vec<_> = Parameters::init(&SIZES, SEED).layers.into_iter().map(layer).collect();
        let order: Vec<usize> = (0..len).map(|i| permuted(i, len, seed, epoch) as usize).collect();
        for samples in order.chunks(batch.get()) {
            let pixels = |&sample: &usize| -> Vec<f64> {
                let image = &set.images[sample * SIZES[0]..][..SIZES[0]];
                image.iter().map(|&pixel| f64::from(pixel) / 255.0).collect()
            };
            let labels: Vec<usize> = samples.iter().map(|&sample| set.labels[sample].into()).collect();
            step(&mut layers, samples.iter().map(pixels).collect(), &labels, Sgd { lr, smoothing: 0.0 });
        }
        Expected { set, layers }
    }

    /// Trains the same steps on `device` and compares the weights.
    ///
    /// # Errors
    /// The weights are too far from the f64 weights, or the device failed.
    pub fn check(&self, device: &Device, pipeline: Pipeline, batch: BatchSize) -> anyhow::Result<()> {
        let data = Data::upload(device, "synthetic", &self.set, &self.set)?;
        let mut network = network(device, pipeline, batch)?;
        data.train(pipeline, |set| {
            let progress = &mut |_| ControlFlow::Continue(());
            network.train_epoch(set, &spec(1), EpochStats::default(), set.len(), progress)
        })?;
        let distance = distance(&network.parameters()?, &self.layers);
        ensure!(
            distance <= TOLERANCE,
            "after {} steps weights are {distance:.1e} from those in f64, over {TOLERANCE:.0e}",
            CHECKED_STEPS + 1
        );
        Ok(())
    }
}

/// The largest distance from the expected weights, relative to the largest weight of the tensor. Infinite for a NaN.
fn distance(parameters: &Parameters, expected: &[LayerOf<f64>]) -> f64 {
    let got = parameters.layers.iter().flat_map(|layer| [&layer.weights, &layer.biases]);
    let of_tensor = |(got, expected): (&Vec<f32>, &Vec<f64>)| {
        let largest = expected.iter().fold(f64::MIN_POSITIVE, |largest, value| largest.max(value.abs()));
        let differences = got.iter().zip(expected).map(|(&got, expected)| (f64::from(got) - expected).abs());
        differences.map(|d| if d.is_nan() { f64::INFINITY } else { d / largest }).fold(0.0, f64::max)
    };
    let expected = expected.iter().flat_map(|layer| [&layer.weights, &layer.biases]);
    got.zip(expected).map(of_tensor).fold(0.0, f64::max)
}

/// Compares the first epoch's loss of two rungs.
///
/// # Errors
/// The losses differ too much.
pub fn check_loss(got: f64, lowest: f64) -> anyhow::Result<()> {
    // Written so that a NaN fails.
    let is_near = (got - lowest).abs() <= LOSS_TOLERANCE * lowest;
    ensure!(is_near, "the first epoch's loss is {got}, that of the lowest rung {lowest}");
    Ok(())
}

fn spec(epoch: u32) -> EpochSpec {
    EpochSpec { seed: SEED, epoch, rates: super::lr_in(epoch).into(), momentum: 0.0 }
}

fn network(device: &Device, pipeline: Pipeline, batch: BatchSize) -> anyhow::Result<Network> {
    Ok(Network::new(device, &Parameters::init(&SIZES, SEED), pipeline, Precision::F32, batch)?)
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum as _;

    use super::*;

    /// Every rung agrees with f64; with another learning rate none does.
    #[test]
    fn the_check_passes_right_weights_and_no_others() {
        let batch = BatchSize::new(5).unwrap();
        let mut expected = Expected::new(batch);
        let device = Device::cpu();
        for &pipeline in Pipeline::value_variants() {
            expected.check(&device, pipeline, batch).unwrap();
        }
        expected = Expected::of(expected.set, batch, 0.31);
        let error = expected.check(&device, Pipeline::Fused, batch).unwrap_err().to_string();
        assert!(error.starts_with("after 4 steps weights are "), "{error}");
        expected.layers[1].biases[3] = f64::NAN;
        let error = expected.check(&device, Pipeline::Fused, batch).unwrap_err().to_string();
        assert!(error.contains("weights are inf from those"), "{error}");
    }

    #[test]
    fn losses_that_differ_or_are_no_number_are_refused() {
        assert!(check_loss(1.01, 1.0).is_ok());
        assert!(check_loss(1.03, 1.0).is_err() && check_loss(f64::NAN, 1.0).is_err());
    }
}
