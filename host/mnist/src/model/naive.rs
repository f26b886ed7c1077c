//! The kernels of the textbook: one per operation, one thread per output, nothing fused.

use super::activations::Activations;
use super::error::ModelError;
use super::ops::{
    Layer, Shape, activation, linear, loss,
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
        let is_last = l + 1 == layers.len();
        let (below, here) = state.outputs.split_at_mut(l);
        let inp = below.last().unwrap_or(&state.inputs);
        if is_last {
            linear::linear_forward(on, &mut here[0], inp, layer, shape)?;
        } else {
            linear::linear_forward(on, &mut state.gradients[l], inp, layer, shape)?;
            // The gradient's buffer is free during the forward pass, and holds the sums before the ReLU.
            activation::relu_forward(on, &mut here[0], &state.gradients[l], shape.rows, shape.outputs)?;
        }
    }
    Ok(())
}

/// Losses, hits and the gradient at the logits, summed over the batch.
pub(super) fn loss(
    on: &Device,
    state: &mut Activations,
    rows: u32,
    scores: Scores<'_>,
) -> Result<(), ModelError> {
    let classes = state.classes;
    let Activations { outputs, gradients, labels, probs, targets, .. } = state;
    let (Some(logits), Some(d_logits)) = (outputs.last(), gradients.last_mut()) else {
        return Ok(());
    };
    loss::softmax(on, probs, logits, rows, classes)?;
    loss::one_hot(on, targets, labels, rows, classes)?;
    loss::cross_entropy_loss(on, scores.loss, probs, targets, rows, classes)?;
    loss::count_correct(on, scores.correct, probs, labels, rows, classes)?;
    loss::cross_entropy_backward(on, d_logits, probs, targets, rows, classes)
}

/// Gradients of all layers, then all updates.
pub(super) fn backward(
    on: &Device,
    layers: &mut [Layer],
    state: &mut Activations,
    rows: u32,
    sgd: Sgd,
) -> Result<(), ModelError> {
    for l in (1..layers.len()).rev() {
        let shape = Shape::new(rows, layers[l].inputs, layers[l].outputs)?;
        let (below, here) = state.gradients.split_at_mut(l);
        let activations = &state.outputs[l - 1];
        linear::linear_backward_input(on, &mut state.scratch, &here[0], &layers[l], shape)?;
        activation::relu_backward(
            on,
            &mut below[l - 1],
            &state.scratch,
            activations,
            shape.rows,
            shape.inputs,
        )?;
    }
    for (l, layer) in layers.iter_mut().enumerate() {
        let shape = Shape::new(rows, layer.inputs, layer.outputs)?;
        let activations = if l == 0 { &state.inputs } else { &state.outputs[l - 1] };
        update::update_layer(on, layer, activations, &state.gradients[l], shape, sgd)?;
    }
    Ok(())
}
