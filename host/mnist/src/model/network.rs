//! A network on a device: its layers, the buffers of a batch, one epoch, one evaluation.

use std::ops::ControlFlow;

use super::dataset::DeviceDataset;
use super::error::{ModelError, expect, to_u32};
use super::fused::Ahead;
use super::ops::{Layer, batch, fused::check_classes, loss, update::Sgd};
use super::parameters::{LayerParameters, Parameters};
use super::pipeline::{self, Pipeline};
use super::resident::{self, Resident};
use super::results::{Divergence, EpochStats, Evaluation, Results, first_divergence};
use super::{fused, naive};
use crate::BatchSize;
use ferrowarp::device::{Buffer, Device, DeviceError};

/// One epoch of training.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EpochSpec {
    /// Seed of the order of the samples.
    pub seed: u64,
    /// Number of the epoch, which changes the order.
    pub epoch: u32,
    /// Learning rate.
    pub lr: f32,
    /// Momentum, 0 for plain SGD.
    pub momentum: f32,
}

/// A multi-layer perceptron on a device.
#[derive(Debug)]
pub struct Network {
    device: Device,
    pipeline: Pipeline,
    batch_size: BatchSize,
    layers: Vec<Layer>,
    training: Activations,
    /// Made when first needed.
    evaluation: Option<Activations>,
    results: Results,
    /// Made by the first epoch of its pipeline.
    resident: Option<Resident>,
    notice: Option<String>,
}

/// The buffers of one batch.
#[derive(Debug)]
pub(super) struct Activations {
    pub inputs: Buffer<f32>,
    pub labels: Buffer<u32>,
    /// By layer: after the ReLU, and the logits last.
    pub outputs: Vec<Buffer<f32>>,
    /// By layer: the gradient before the ReLU, and at the logits last.
    pub gradients: Vec<Buffer<f32>>,
    /// Only the naive pipeline uses these three.
    pub probs: Buffer<f32>,
    pub targets: Buffer<f32>,
    pub scratch: Buffer<f32>,
    pub classes: u32,
    /// Only the fused pipeline uses this.
    pub ahead: Ahead,
}

impl Activations {
    fn new(
        device: &Device,
        layers: &[Layer],
        batch_size: BatchSize,
        pipeline: Pipeline,
    ) -> Result<Self, ModelError> {
        let batch_size = batch_size.get();
        let features = layers.first().map_or(0, |layer| layer.inputs);
        let classes = layers.last().map_or(0, |layer| layer.outputs);
        let widest = layers.iter().map(|layer| layer.inputs).max().unwrap_or(0);
        let per_layer = || -> Result<Vec<Buffer<f32>>, DeviceError> {
            layers.iter().map(|layer| device.alloc_zeroed(batch_size * layer.outputs)).collect()
        };
        let naive_only = |width: usize| {
            device.alloc_zeroed(if pipeline == Pipeline::Naive { batch_size * width } else { 0 })
        };
        if pipeline.is_fused() {
            check_classes(classes)?;
        }
        let ahead = if pipeline.is_fused() { batch_size } else { 0 };
        Ok(Self {
            inputs: device.alloc_zeroed(batch_size * features)?,
            labels: device.alloc_zeroed(batch_size)?,
            outputs: per_layer()?,
            gradients: per_layer()?,
            probs: naive_only(classes)?,
            targets: naive_only(classes)?,
            scratch: naive_only(widest)?,
            classes: to_u32("number of classes", classes)?,
            ahead: Ahead::new(device, ahead, features)?,
        })
    }
}

impl Network {
    /// Copies `parameters` to `device`, for training in batches of `batch_size`.
    ///
    /// # Errors
    /// A width of 0, parameters whose sizes disagree, or no memory.
    pub fn new(
        device: &Device,
        parameters: &Parameters,
        pipeline: Pipeline,
        batch_size: BatchSize,
    ) -> Result<Network, ModelError> {
        to_u32("number of layers", parameters.layers.len())?;
        for pair in parameters.layers.windows(2) {
            expect("number of a layer's inputs", pair[1].inputs, pair[0].outputs)?;
        }
        let layers = parameters.layers.iter().map(|layer| upload_layer(device, layer));
        let layers = layers.collect::<Result<Vec<_>, _>>()?;
        Ok(Network {
            training: Activations::new(device, &layers, batch_size, pipeline)?,
            evaluation: None,
            results: Results::new(device, 0)?,
            resident: None,
            notice: None,
            device: device.clone(),
            pipeline,
            batch_size,
            layers,
        })
    }

    /// Trains on every sample of `data` once, in an order that `spec` names, the last batch as short as it is. Goes on
    /// after the samples of `done`, which are whole batches; the default is an epoch from its beginning. Calls
    /// `progress` with the number of samples whose step has been launched, and stops where it answers so.
    ///
    /// # Errors
    /// The data set does not fit the network, `done` does not fit both, or the device failed.
    pub fn train_epoch(
        &mut self,
        data: &DeviceDataset,
        spec: &EpochSpec,
        done: EpochStats,
        progress: &mut dyn FnMut(usize) -> ControlFlow<()>,
    ) -> Result<EpochStats, ModelError> {
        self.check(data)?;
        expect("number of samples in whole batches", done.samples % self.batch_size.get(), 0)?;
        if spec.momentum != 0.0 {
            self.ensure_velocities()?;
        }
        if self.pipeline == Pipeline::Resident {
            let Network { device, batch_size, layers, results, resident, .. } = self;
            let on = (&*device, &mut layers[..], *batch_size);
            match resident::train_epoch(resident, on, (data, results), spec, done, progress)? {
                Ok(stats) => return Ok(stats),
                Err(why) => (self.pipeline, self.notice) = (Pipeline::Fused, Some(why)),
            }
        }
        let mut end = done.samples;
        for first in (done.samples..data.samples).step_by(self.batch_size.get()) {
            end = first + self.step(data, spec, first, first == done.samples)? as usize;
            if progress(end).is_break() {
                break;
            }
        }
        let mut stats = done;
        self.results.add_to(&mut stats, end)?;
        Ok(stats)
    }

    /// What has to be said about how the network is trained, once.
    pub fn take_notice(&mut self) -> Option<String> {
        self.notice.take()
    }

    /// The step with the batch that begins with the sample `first` of the epoch. `is_first` after anything but the step
    /// before it. Returns its number of samples.
    fn step(
        &mut self,
        data: &DeviceDataset,
        spec: &EpochSpec,
        first: usize,
        is_first: bool,
    ) -> Result<u32, ModelError> {
        if self.pipeline == Pipeline::Naive {
            let rows = self.judge_batch(data, spec, first)?;
            let sgd = Sgd { lr: spec.lr, momentum: spec.momentum };
            naive::backward(&self.device, &mut self.layers, &mut self.training, rows, sgd)?;
            return Ok(rows);
        }
        let Network { device, batch_size, layers, training, results, .. } = self;
        let range @ (_, rows) = data.samples_from(first, *batch_size)?;
        if is_first {
            fused::begin(device, training, data, spec, range)?;
        }
        fused::step(device, layers, training, (data, *batch_size), spec, (rows, results))?;
        Ok(rows)
    }

    /// The first loss of the epoch's batch that begins with the sample `first` that is infinite or no number, with the
    /// weights as they are. Nothing is learnt.
    ///
    /// # Errors
    /// The data set does not fit the network, there is no such batch, or the device failed.
    pub fn divergence_ahead(
        &mut self,
        data: &DeviceDataset,
        spec: &EpochSpec,
        first: usize,
    ) -> Result<Option<Divergence>, ModelError> {
        self.check(data)?;
        let rows = self.judge_batch(data, spec, first)?;
        Ok(first_divergence(&self.results.loss.view(first..first + rows as usize)?.to_vec()?, first))
    }

    /// Gathers the batch that begins with the sample `first` of an epoch, and leaves its losses and its hits on the
    /// device; the naive pipeline also the gradient at its logits. Returns its number of samples.
    fn judge_batch(
        &mut self,
        data: &DeviceDataset,
        spec: &EpochSpec,
        first: usize,
    ) -> Result<u32, ModelError> {
        let Network { device, pipeline, batch_size, layers, training, results, .. } = self;
        let range @ (_, rows) = data.samples_from(first, *batch_size)?;
        let into = (&mut training.inputs, &mut training.labels);
        batch::shuffled_batch(device, into, data, range, (spec.seed, spec.epoch))?;
        pipeline::loss(device, *pipeline, layers, training, rows, results.at(range)?)?;
        Ok(rows)
    }

    /// Mean loss and hits over `data`.
    ///
    /// # Errors
    /// The data set does not fit the network, or the device failed.
    pub fn evaluate(&mut self, data: &DeviceDataset) -> Result<Evaluation, ModelError> {
        self.check(data)?;
        let Network { device, pipeline, layers, evaluation, results, .. } = self;
        let state = evaluation_state(evaluation, device, layers, *pipeline)?;
        for first in (0..data.samples).step_by(BatchSize::EVALUATION.get()) {
            let range @ (_, rows) = data.samples_from(first, BatchSize::EVALUATION)?;
            batch::ordered_batch(device, (&mut state.inputs, &mut state.labels), data, range)?;
            pipeline::loss(device, *pipeline, layers, state, rows, results.at(range)?)?;
        }
        let mut stats = EpochStats::default();
        self.results.add_to(&mut stats, data.samples)?;
        let EpochStats { correct, samples, .. } = stats;
        let is_constant = 2 * correct < samples && self.results.is_constant(samples, data.classes)?;
        Ok(Evaluation { loss: stats.loss(), correct, samples, is_constant })
    }

    /// Probabilities of the classes for `images` (`[n, features]`, a pixel a byte): `[n, classes]`.
    ///
    /// # Errors
    /// The images do not fit the network, or the device failed.
    pub fn predict(&mut self, images: &[u8]) -> Result<Vec<f32>, ModelError> {
        let features = self.layers.first().map_or(1, |layer| layer.inputs);
        let classes = self.layers.last().map_or(1, |layer| layer.outputs);
        let labels = vec![0; images.len() / features];
        let data = DeviceDataset::upload(&self.device, images, &labels, features, classes)?;
        self.check(&data)?;
        let mut probabilities = Vec::with_capacity(labels.len() * classes);
        let Network { device, pipeline, layers, evaluation, .. } = self;
        let state = evaluation_state(evaluation, device, layers, *pipeline)?;
        for first in (0..data.samples).step_by(BatchSize::EVALUATION.get()) {
            let range @ (_, rows) = data.samples_from(first, BatchSize::EVALUATION)?;
            batch::ordered_batch(device, (&mut state.inputs, &mut state.labels), &data, range)?;
            pipeline::forward(device, *pipeline, layers, state, rows)?;
            let (Some(logits), Some(out)) = (state.outputs.last(), state.gradients.last_mut()) else {
                continue;
            };
            loss::softmax(device, out, logits, rows, state.classes)?;
            probabilities.extend(out.view(..rows as usize * classes)?.to_vec()?);
        }
        Ok(probabilities)
    }

    /// The parameters as they are now, copied from the device.
    ///
    /// # Errors
    /// The device failed.
    pub fn parameters(&self) -> Result<Parameters, ModelError> {
        let layers = self.layers.iter().map(|layer| {
            Ok(LayerParameters {
                inputs: layer.inputs,
                outputs: layer.outputs,
                weights: layer.weights.to_vec()?,
                biases: layer.biases.to_vec()?,
            })
        });
        Ok(Parameters { layers: layers.collect::<Result<_, ModelError>>()? })
    }

    /// The velocities as they are now, copied from the device; none when there was no momentum yet.
    ///
    /// # Errors
    /// The device failed.
    pub fn velocities(&self) -> Result<Option<Parameters>, ModelError> {
        if self.layers.iter().any(|layer| layer.weight_velocity.is_empty()) {
            return Ok(None);
        }
        let layers = self.layers.iter().map(|layer| {
            Ok(LayerParameters {
                inputs: layer.inputs,
                outputs: layer.outputs,
                weights: layer.weight_velocity.to_vec()?,
                biases: layer.bias_velocity.to_vec()?,
            })
        });
        Ok(Some(Parameters { layers: layers.collect::<Result<_, ModelError>>()? }))
    }

    /// Copies `velocities`, which have the shapes of the parameters, to the device. Without this they start from rest.
    ///
    /// # Errors
    /// The shapes differ, or the device failed.
    pub fn set_velocities(&mut self, velocities: &Parameters) -> Result<(), ModelError> {
        expect("number of layers with velocities", velocities.layers.len(), self.layers.len())?;
        self.ensure_velocities()?;
        for (layer, velocity) in self.layers.iter_mut().zip(&velocities.layers) {
            layer.weight_velocity.copy_from(&velocity.weights)?;
            layer.bias_velocity.copy_from(&velocity.biases)?;
        }
        Ok(())
    }

    /// Checks `data` against the network, and makes room for its results.
    fn check(&mut self, data: &DeviceDataset) -> Result<(), ModelError> {
        let features = self.layers.first().map_or(0, |layer| layer.inputs);
        let classes = self.layers.last().map_or(0, |layer| layer.outputs);
        expect("number of features of the data set", data.features, features)?;
        expect("number of classes of the data set", data.classes, classes)?;
        if self.results.loss.len() < data.samples {
            self.results = Results::new(&self.device, data.samples)?;
        }
        Ok(())
    }

    fn ensure_velocities(&mut self) -> Result<(), ModelError> {
        for layer in &mut self.layers {
            if layer.weight_velocity.is_empty() {
                layer.weight_velocity = self.device.alloc_zeroed(layer.weights.len())?;
                layer.bias_velocity = self.device.alloc_zeroed(layer.biases.len())?;
            }
        }
        Ok(())
    }
}

/// The buffers of an evaluation, made at the first one.
fn evaluation_state<'a>(
    slot: &'a mut Option<Activations>,
    device: &Device,
    layers: &[Layer],
    pipeline: Pipeline,
) -> Result<&'a mut Activations, ModelError> {
    match slot {
        Some(state) => Ok(state),
        None => Ok(slot.insert(Activations::new(device, layers, BatchSize::EVALUATION, pipeline)?)),
    }
}

fn upload_layer(device: &Device, layer: &LayerParameters) -> Result<Layer, ModelError> {
    let LayerParameters { inputs, outputs, weights, biases } = layer;
    to_u32("number of a layer's inputs", *inputs)?;
    to_u32("number of a layer's outputs", *outputs)?;
    expect("number of a layer's weights", weights.len(), inputs * outputs)?;
    expect("number of a layer's biases", biases.len(), *outputs)?;
    Ok(Layer {
        inputs: *inputs,
        outputs: *outputs,
        weights: device.upload(weights)?,
        biases: device.upload(biases)?,
        weight_velocity: device.alloc_zeroed(0)?,
        bias_velocity: device.alloc_zeroed(0)?,
    })
}
