//! The step of stochastic gradient descent.

use mlp_kernels::grid::per_element;
use mlp_kernels::sgd;

use super::{Layer, Shape, area, need};
use crate::BatchSize;
use crate::model::epoch::EpochSpec;
use crate::model::error::ModelError;
use ferrowarp_device::device::{Buffer, Device};

/// Learning rate and momentum of a step.
#[derive(Clone, Copy, Debug)]
pub(in crate::model) struct Sgd {
    pub lr: f32,
    pub momentum: f32,
}

impl Sgd {
    /// The values for the epoch's batch that begins with sample `first`.
    pub fn of(spec: &EpochSpec, batch_size: BatchSize, first: u32) -> Self {
        let step = batch_size.steps(first as usize) as usize;
        Self { lr: spec.rates.at(step), momentum: spec.momentum }
    }
}

fn check_update(
    layer: &Layer,
    activations: usize,
    d_out: usize,
    shape: Shape,
    sgd: Sgd,
) -> Result<(), ModelError> {
    let Shape { rows, inputs, outputs } = shape;
    let has_velocity = if sgd.momentum == 0.0 { 0 } else { 1 };
    need(&[
        ("length of the weights", layer.weights.len(), area(inputs, outputs)),
        ("length of the biases", layer.biases.len(), outputs.into()),
        (
            "length of the weights' velocity",
            layer.weight_velocity.len(),
            has_velocity * area(inputs, outputs),
        ),
        ("length of the biases' velocity", layer.bias_velocity.len(), has_velocity * u64::from(outputs)),
        ("length of the activations", activations, area(rows, inputs)),
        ("length of the output gradient", d_out, area(rows, outputs)),
    ])
}

/// Runs an SGD step of a layer, one thread per weight. It averages `d_out`, which is summed over the batch.
pub(in crate::model) fn update_layer(
    on: &Device,
    layer: &mut Layer,
    activations: &Buffer<f32>,
    d_out: &Buffer<f32>,
    shape: Shape,
    sgd: Sgd,
) -> Result<(), ModelError> {
    check_update(layer, activations.len(), d_out.len(), shape, sgd)?;
    let Shape { rows, inputs, outputs } = shape;
    let config = per_element(inputs, outputs);
    let Layer { weights, biases, weight_velocity, bias_velocity, .. } = layer;
    // SAFETY: the buffers hold their shapes, as just checked, and the grid covers the weights.
    unsafe {
        sgd::update_layer::launch(
            on,
            config,
            weights,
            biases,
            weight_velocity,
            bias_velocity,
            activations,
            d_out,
            rows,
            inputs,
            outputs,
            sgd.lr,
            sgd.momentum,
        )?;
    }
    Ok(())
}
