//! The pipeline that training uses by default: products on tiles, with bias, ReLU, loss and update fused in.

use super::error::ModelError;
use super::network::Activations;
use super::ops::{
    Layer, Shape,
    linear::{self, Activation},
    loss,
    update::{self, Sgd},
};
use super::results::Scores;
use ferrowarp::device::Device;

/// Logits of the batch in `state.inputs`, of `rows` samples.
pub(super) fn forward(
    on: &Device,
    layers: &[Layer],
    state: &mut Activations,
    rows: u32,
) -> Result<(), ModelError> {
    for (l, layer) in layers.iter().enumerate() {
        let shape = Shape::new(rows, layer.inputs, layer.outputs)?;
        let (below, here) = state.outputs.split_at_mut(l);
        let inp = below.last().unwrap_or(&state.inputs);
        let act = if l + 1 == layers.len() { Activation::Identity } else { Activation::Relu };
        linear::linear_act_forward(on, &mut here[0], inp, layer, shape, act)?;
    }
    Ok(())
}

/// Losses, hits and the gradient at the logits, averaged over the batch.
pub(super) fn loss(
    on: &Device,
    state: &mut Activations,
    rows: u32,
    scores: Scores<'_>,
) -> Result<(), ModelError> {
    let classes = state.classes;
    let Activations { outputs, gradients, labels, .. } = state;
    let (Some(logits), Some(d_logits)) = (outputs.last(), gradients.last_mut()) else {
        return Ok(());
    };
    loss::softmax_cross_entropy(on, d_logits, (scores.loss, scores.correct), logits, labels, rows, classes)
}

/// From the last layer down: the gradient at a layer's input is taken before its weights move.
pub(super) fn backward(
    on: &Device,
    layers: &mut [Layer],
    state: &mut Activations,
    rows: u32,
    sgd: Sgd,
) -> Result<(), ModelError> {
    for (l, layer) in layers.iter_mut().enumerate().rev() {
        let shape = Shape::new(rows, layer.inputs, layer.outputs)?;
        let (below, here) = state.gradients.split_at_mut(l);
        let activations = if l == 0 { &state.inputs } else { &state.outputs[l - 1] };
        if let Some(d_inp) = below.last_mut() {
            linear::linear_relu_backward(on, d_inp, &here[0], activations, layer, shape)?;
        }
        update::linear_update(on, layer, activations, &here[0], shape, sgd)?;
    }
    Ok(())
}
