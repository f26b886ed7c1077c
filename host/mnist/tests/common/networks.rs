//! Networks that are trained in this process, by any pipeline.

use std::ops::ControlFlow;

use clap::ValueEnum as _;
use ferrowarp_data::{Dataset, Samples};
use ferrowarp_device::device::Device;
use ferrowarp_mnist::BatchSize;
use ferrowarp_mnist::model::{
    DeviceDataset, EpochSpec, EpochStats, Network, Parameters, Pipeline, Precision, Rates, TrainingSet,
};

use super::{SIDE, digits};

/// The widths of the small network.
pub const SIZES: [usize; 4] = [SIDE * SIDE, 24, 16, 10];

/// All pipelines.
pub fn pipelines() -> impl Iterator<Item = Pipeline> {
    Pipeline::value_variants().iter().copied()
}

/// The momentum 0.5, or 0 for the pipeline without momentum.
pub fn momentum_of(pipeline: Pipeline) -> f32 {
    if pipeline == Pipeline::Resident { 0.0 } else { 0.5 }
}

/// Synthetic digits on the device and on the host.
pub struct Data {
    pub on_device: DeviceDataset,
    pub on_host: Samples,
}

impl Data {
    pub fn new(device: &Device, samples: usize) -> Data {
        Data::with_classes(device, samples, 10)
    }

    pub fn with_classes(device: &Device, samples: usize, classes: usize) -> Data {
        let (images, labels) = digits(samples, 1);
        let on_device = DeviceDataset::upload(device, &images, &labels, SIDE * SIDE, classes).unwrap();
        Data { on_device, on_host: Dataset { images, labels, rows: SIDE, cols: SIDE }.into() }
    }

    /// The samples where the pipeline reads them.
    pub fn of(&self, pipeline: Pipeline) -> TrainingSet<'_> {
        match pipeline {
            Pipeline::Overlapped => TrainingSet::OnHost(&self.on_host),
            _ => TrainingSet::OnDevice(self.on_device.clone()),
        }
    }
}

pub fn network(device: &Device, pipeline: Pipeline, sizes: &[usize], batch: usize) -> Network {
    let parameters = Parameters::init(sizes, 7);
    let batch_size = BatchSize::new(batch as u64).unwrap();
    Network::new(device, &parameters, pipeline, Precision::F32, batch_size).unwrap()
}

/// An epoch in the order of a fixed seed.
pub fn spec(epoch: u32, rates: impl Into<Rates>, momentum: f32) -> EpochSpec {
    EpochSpec { seed: 5, epoch, rates: rates.into(), momentum }
}

/// Trains for a whole epoch.
pub fn epoch(network: &mut Network, data: &TrainingSet<'_>, spec: &EpochSpec) -> EpochStats {
    let progress = &mut |_| ControlFlow::Continue(());
    network.train_epoch(data, spec, EpochStats::default(), usize::MAX, progress).unwrap()
}

/// All weights and biases.
pub fn values(parameters: &Parameters) -> Vec<f32> {
    parameters.layers.iter().flat_map(|layer| layer.weights.iter().chain(&layer.biases)).copied().collect()
}

/// The largest difference between the weights and biases of two networks.
pub fn largest_difference(one: &Parameters, other: &Parameters) -> f32 {
    assert_eq!(one.sizes(), other.sizes());
    values(one).into_iter().zip(values(other)).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}
