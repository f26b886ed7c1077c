//! Evaluates a network on samples without training.

use super::activations::Activations;
use super::core::Core;
use super::dataset::{DeviceDataset, TrainingSet, samples_from};
use super::epoch::EpochSpec;
use super::error::ModelError;
use super::network::Network;
use super::ops::{Layer, Queue, batch, naive as ops};
use super::pipeline::Pipeline;
use super::precision::Precision;
use super::results::{Divergence, EpochStats, Evaluation, Scores, first_divergence};
use super::{fused, naive};
use crate::BatchSize;
use ferrowarp_data::Samples;
use ferrowarp_device::device::Device;

impl Network {
    /// Finds the first infinite or NaN loss in the epoch's batch that begins with sample `first`, with the current weights.
    /// It does not train.
    ///
    /// # Errors
    /// The data set does not match the network, there is no such batch, or the device failed.
    pub fn divergence_ahead(
        &mut self,
        data: &TrainingSet<'_>,
        spec: &EpochSpec,
        first: usize,
    ) -> Result<Option<Divergence>, ModelError> {
        self.check(data.extents())?;
        let rows = match data {
            TrainingSet::OnDevice(data) => self.judge_batch(data, spec, first)?,
            TrainingSet::OnHost(samples) => self.judge_decoded(samples, spec, first)?,
        };
        let losses = self.core.lock().results.loss.view(first..first + rows as usize)?.to_vec()?;
        Ok(first_divergence(&losses, first))
    }

    /// Gathers the batch that begins with sample `first` of an epoch, and leaves its losses and hits on the device.
    /// Pipelines with one kernel per operation also leave the gradient at the logits. Returns the number of samples.
    pub(super) fn judge_batch(
        &mut self,
        data: &DeviceDataset,
        spec: &EpochSpec,
        first: usize,
    ) -> Result<u32, ModelError> {
        let range @ (_, rows) = data.samples_from(first, self.setup.batch_size)?;
        self.judge_samples(data, spec, range)?;
        Ok(rows)
    }

    /// Same as [`Self::judge_batch`], for samples `first..first + rows` of an epoch, at most a batch.
    pub(super) fn judge_samples(
        &mut self,
        data: &DeviceDataset,
        spec: &EpochSpec,
        range @ (_, rows): (u32, u32),
    ) -> Result<(), ModelError> {
        let Network { device, pipeline, setup, core, .. } = self;
        let Core { layers, training, results, .. } = &mut *core.lock();
        let into = (&mut training.inputs, &mut training.labels);
        batch::shuffled_batch(device, into, data, range, (spec.seed, spec.epoch))?;
        loss(device, (*pipeline, setup.precision), layers, training, rows, results.at(range)?)
    }

    /// Same as [`Self::judge_batch`], for samples on the host.
    fn judge_decoded(
        &mut self,
        samples: &Samples,
        spec: &EpochSpec,
        first: usize,
    ) -> Result<u32, ModelError> {
        let (epoch, mut feed) = self.feed(samples, spec)?;
        let Network { device, pipeline, setup, core, .. } = self;
        let range @ (_, rows) = samples_from(samples.len(), first, setup.batch_size)?;
        let Core { layers, training, results, .. } = &mut *core.lock();
        let (half, into) = (feed.fetch(epoch, range)?, (&mut training.inputs, &mut training.labels));
        batch::decoded_batch(device, into, half, (setup.batch_size.get(), samples.features()), rows)?;
        loss(device, (*pipeline, setup.precision), layers, training, rows, results.at(range)?)?;
        Ok(rows)
    }

    /// Computes the mean loss and the hits over `data`.
    ///
    /// # Errors
    /// The data set does not match the network, or the device failed.
    pub fn evaluate(&mut self, data: &DeviceDataset) -> Result<Evaluation, ModelError> {
        self.check(data.extents())?;
        let Network { device, pipeline, setup, core, evaluation, .. } = self;
        let Core { layers, results, .. } = &mut *core.lock();
        let state = evaluation_state(evaluation, device, layers, *pipeline)?;
        for first in (0..data.samples).step_by(BatchSize::EVALUATION.get()) {
            let range @ (_, rows) = data.samples_from(first, BatchSize::EVALUATION)?;
            batch::ordered_batch(device, (&mut state.inputs, &mut state.labels), data, range)?;
            loss(device, (*pipeline, setup.precision), layers, state, rows, results.at(range)?)?;
        }
        let mut stats = EpochStats::default();
        results.add_to(&mut stats, data.samples)?;
        let EpochStats { correct, samples, .. } = stats;
        let is_constant = 2 * correct < samples && results.is_constant(samples, data.classes)?;
        Ok(Evaluation { loss: stats.loss(), correct, samples, is_constant })
    }

    /// Computes the class probabilities of `images` (`[n, features]`, one byte per pixel): `[n, classes]`.
    ///
    /// # Errors
    /// The images do not match the network, or the device failed.
    pub fn predict(&mut self, images: &[u8]) -> Result<Vec<f32>, ModelError> {
        let (features, classes) = self.core.lock().extents();
        let labels = vec![0; images.len() / features];
        let data = DeviceDataset::upload(&self.device, images, &labels, features, classes)?;
        self.check(data.extents())?;
        let mut probabilities = Vec::with_capacity(labels.len() * classes);
        let Network { device, pipeline, setup, core, evaluation, .. } = self;
        let layers = &core.lock().layers;
        let state = evaluation_state(evaluation, device, layers, *pipeline)?;
        for first in (0..data.samples).step_by(BatchSize::EVALUATION.get()) {
            let range @ (_, rows) = data.samples_from(first, BatchSize::EVALUATION)?;
            batch::ordered_batch(device, (&mut state.inputs, &mut state.labels), &data, range)?;
            forward(device, (*pipeline, setup.precision), layers, state, rows)?;
            let (Some(logits), Some(out)) = (state.outputs.last(), state.gradients.last_mut()) else {
                continue;
            };
            ops::softmax(device, out, logits, rows, state.classes)?;
            probabilities.extend(out.view(..rows as usize * classes)?.to_vec()?);
        }
        Ok(probabilities)
    }
}

/// The buffers of an evaluation, allocated at the first one.
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

fn forward(
    on: &Device,
    (pipeline, precision): (Pipeline, Precision),
    layers: &[Layer],
    state: &mut Activations,
    rows: u32,
) -> Result<(), ModelError> {
    if pipeline.is_fused() {
        fused::forward(Queue::new(on, precision), layers, state, rows)
    } else {
        naive::forward(on, layers, state, rows)
    }
}

/// Computes losses and hits of the batch in `state.inputs`.
fn loss(
    on: &Device,
    (pipeline, precision): (Pipeline, Precision),
    layers: &[Layer],
    state: &mut Activations,
    rows: u32,
    scores: Scores<'_>,
) -> Result<(), ModelError> {
    if pipeline.is_fused() {
        return fused::loss(Queue::new(on, precision), layers, state, rows, scores);
    }
    naive::forward(on, layers, state, rows)?;
    naive::loss(on, state, rows, scores)
}
