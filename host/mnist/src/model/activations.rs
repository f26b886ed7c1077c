//! The buffers of one batch.

use mlp_kernels::loss::Targets;

use super::error::{ModelError, to_u32};
use super::fused::Ahead;
use super::ops::Layer;
use super::pipeline::Pipeline;
use crate::BatchSize;
use ferrowarp_device::device::{Buffer, Device, DeviceError};

/// The buffers of one batch.
#[derive(Debug)]
pub(super) struct Activations {
    pub inputs: Buffer<f32>,
    pub labels: Buffer<u32>,
    /// By layer, after the ReLU; the last are the logits.
    pub outputs: Vec<Buffer<f32>>,
    /// By layer, the gradient before the ReLU; the last is the gradient at the logits.
    pub gradients: Vec<Buffer<f32>>,
    /// Only pipelines with one kernel per operation use these three.
    pub probs: Buffer<f32>,
    pub one_hot: Buffer<f32>,
    pub scratch: Buffer<f32>,
    pub classes: u32,
    /// The targets of a sample.
    pub targets: Targets,
    /// Only the fused pipelines use this.
    pub ahead: Ahead,
}

impl Activations {
    pub fn new(
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
        let (single, ahead) = if pipeline.is_fused() { (0, batch_size) } else { (batch_size, 0) };
        Ok(Self {
            inputs: device.alloc_zeroed(batch_size * features)?,
            labels: device.alloc_zeroed(batch_size)?,
            outputs: per_layer()?,
            gradients: per_layer()?,
            probs: device.alloc_zeroed(single * classes)?,
            one_hot: device.alloc_zeroed(single * classes)?,
            scratch: device.alloc_zeroed(single * widest)?,
            classes: to_u32("number of classes", classes)?,
            targets: Targets::new(0.0, to_u32("number of classes", classes)?),
            ahead: Ahead::new(device, ahead, features)?,
        })
    }

    /// Makes the next batch the current one, and reuses the buffers for the one after it.
    pub fn swap(&mut self) {
        std::mem::swap(&mut self.inputs, &mut self.ahead.inputs);
        std::mem::swap(&mut self.labels, &mut self.ahead.labels);
        self.ahead.is_swapped = !self.ahead.is_swapped;
    }
}
