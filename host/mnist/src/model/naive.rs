//! Textbook kernels: one per operation, one thread per output, nothing fused.

use super::activations::Activations;
use super::error::ModelError;
use super::ops::naive::{self, Sgd};
use super::ops::{Layer, Shape};
use super::results::Scores;
use super::work::{self, All, Step, Work, gather};
use ferrowarp_device::device::Device;

/// Computes the logits of the batch in `state.inputs`, of `rows` samples.
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
        // The gradient's buffer is unused in the forward pass, so it holds the values before the ReLU.
        let out = if is_last { &mut here[0] } else { &mut state.gradients[l] };
        let Shape { rows, inputs, outputs } = shape;
        naive::linear_forward(on, out, inp, &layer.weights, &layer.biases, rows, inputs, outputs)?;
        if !is_last {
            naive::relu_forward(on, &mut here[0], &state.gradients[l], rows, outputs)?;
        }
    }
    Ok(())
}

/// Computes losses, hits and the gradient at the logits, summed over the batch.
pub(super) fn loss(
    on: &Device,
    state: &mut Activations,
    rows: u32,
    scores: Scores<'_>,
) -> Result<(), ModelError> {
    let classes = state.classes;
    let Activations { outputs, gradients, labels, probs, one_hot, targets, .. } = state;
    let (Some(logits), Some(d_logits)) = (outputs.last(), gradients.last_mut()) else {
        return Ok(());
    };
    naive::softmax(on, probs, logits, rows, classes)?;
    naive::one_hot(on, one_hot, labels, rows, classes, *targets)?;
    naive::cross_entropy_loss(on, scores.loss, probs, one_hot, rows, classes)?;
    naive::count_correct(on, scores.correct, probs, labels, rows, classes)?;
    naive::cross_entropy_backward(on, d_logits, probs, one_hot, rows, classes)
}

/// Computes the gradients of all layers, then all updates.
pub(super) fn backward(
    on: &Device,
    layers: &mut [Layer],
    state: &mut Activations,
    rows: u32,
    sgd: Sgd,
) -> Result<(), ModelError> {
    for l in (1..layers.len()).rev() {
        input_gradient(on, layers, state, rows, l)?;
    }
    for (l, layer) in layers.iter_mut().enumerate() {
        update(on, layer, state, rows, sgd, l)?;
    }
    Ok(())
}

/// Computes the gradient at the inputs of layer `l`, that is, at the outputs of the layer below. The first layer needs none.
pub(super) fn input_gradient(
    on: &Device,
    layers: &[Layer],
    state: &mut Activations,
    rows: u32,
    l: usize,
) -> Result<(), ModelError> {
    let shape = Shape::new(rows, layers[l].inputs, layers[l].outputs)?;
    let Activations { outputs, gradients, scratch, .. } = state;
    let (below, here) = gradients.split_at_mut(l);
    let (Some(to), Some(activations)) = (below.last_mut(), outputs[..l].last()) else { return Ok(()) };
    let Shape { rows, inputs, outputs } = shape;
    naive::linear_backward_input(on, scratch, &here[0], &layers[l].weights, rows, inputs, outputs)?;
    naive::relu_backward(on, to, scratch, activations, rows, inputs)
}

/// Updates the parameters of layer `l`, or others of the same shapes.
pub(super) fn update(
    on: &Device,
    layer: &mut Layer,
    state: &Activations,
    rows: u32,
    sgd: Sgd,
    l: usize,
) -> Result<(), ModelError> {
    let shape = Shape::new(rows, layer.inputs, layer.outputs)?;
    let activations = state.outputs[..l].last().unwrap_or(&state.inputs);
    naive::update_layer(on, layer, activations, &state.gradients[l], shape, sgd)
}

impl Step {
    /// Lists the work of a step's kernels; the first one gathers the samples.
    pub fn naive(&self, layers: &[work::Layer], batch: &'static str, all: &mut All) {
        let Some((last, hidden)) = layers.split_last() else { return };
        let (rows, classes) = (self.rows, last.outputs);
        all.push((batch, gather(rows, layers[0].inputs)));
        for (l, layer) in layers.iter().enumerate() {
            all.push(("linear_forward", self.forward(*layer)));
            if l < hidden.len() {
                let len = rows * layer.outputs;
                all.push(("relu_forward", Work::of(2 * len, len)));
            }
        }
        let logits = rows * classes;
        // Per logit: the comparison for the maximum, a subtraction, an exponential, an addition and a division.
        all.push(("softmax_naive", Work::of(2 * logits, 5 * logits)));
        all.push(("one_hot", Work::of(rows + logits, 0)));
        // The comparison with the least probability, a logarithm, a multiplication and a subtraction.
        all.push(("cross_entropy_loss", Work::of(2 * logits + rows, 4 * logits)));
        all.push(("count_correct", Work::of(logits + 2 * rows, logits)));
        all.push(("cross_entropy_backward", Work::of(3 * logits, logits)));
        for layer in layers.iter().skip(1).rev() {
            all.push(("linear_backward_input", self.input_gradient(*layer)));
            let len = rows * layer.inputs;
            all.push(("relu_backward", Work::of(3 * len, len)));
        }
        for layer in layers {
            let average = Work::of(0, layer.parameters());
            all.push(("update_layer", self.update(*layer).and(average)));
        }
    }
}
