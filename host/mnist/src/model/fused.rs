//! The pipeline with few launches: tiled matrix multiplications are fused with the operations around them, while other
//! blocks gather the next batch.
//!
//! A step of a network with three layers takes five launches: the first layer; the second; the third with the loss and its
//! input gradient; the second's input gradient with the third's update; and the updates of the second and the first. On a
//! GPU, small batches and layers take three launches instead ([`Short`](super::ops::short::Short)).

use mlp_kernels::operand::Operands;
use mlp_kernels::state::StepState;

use super::activations::Activations;
use super::core::Core;
use super::dataset::DeviceDataset;
use super::epoch::EpochSpec;
use super::error::ModelError;
use super::ops::{
    Layer, Queue, Shape, batch,
    fused::{self, Head, Move, Next, NextBatch, Pace, State},
    short,
};
use super::results::Scores;
use crate::BatchSize;
use ferrowarp_device::device::{Buffer, Device};

/// State that only this pipeline has.
#[derive(Debug)]
pub(super) struct Ahead {
    pub state: State,
    /// The next batch.
    pub inputs: Buffer<f32>,
    pub labels: Buffer<u32>,
    /// Whether the state is at sample 0.
    is_at_start: bool,
    /// Whether the two buffers of each kind are swapped.
    pub is_swapped: bool,
}

impl Ahead {
    /// Allocates buffers for batches of `batch_size` samples; 0 for a network that does not train.
    pub fn new(device: &Device, batch_size: usize, features: usize) -> Result<Self, ModelError> {
        Ok(Self {
            state: State::new(device, StepState::default())?,
            inputs: device.alloc_zeroed(batch_size * features)?,
            labels: device.alloc_zeroed(batch_size)?,
            is_at_start: true,
            is_swapped: false,
        })
    }

    /// The index of the next step's rate in the state: it alternates like the buffers.
    pub fn turn(&self) -> u32 {
        self.is_swapped.into()
    }

    fn set(&mut self, state: StepState) -> Result<(), ModelError> {
        self.is_at_start = false;
        self.state.set(state)
    }

    /// Resets the state to sample 0.
    fn rewind(&mut self) -> Result<(), ModelError> {
        if !self.is_at_start {
            self.set(StepState::default())?;
            self.is_at_start = true;
        }
        Ok(())
    }
}

/// Computes the logits of the batch in `state.inputs`, of `rows` samples.
pub(super) fn forward(
    on: Queue<'_>,
    layers: &[Layer],
    state: &mut Activations,
    rows: u32,
) -> Result<(), ModelError> {
    hidden(on, layers, state, rows)?;
    let Some((layer, below)) = layers.split_last() else { return Ok(()) };
    let shape = Shape::new(rows, layer.inputs, layer.outputs)?;
    let (inputs, logits) = state.outputs.split_at_mut(below.len());
    // The same precision as in the last layer's kernels.
    let on = Queue { operands: Operands::F32, ..on };
    fused::linear(on, &mut logits[0], inputs.last().unwrap_or(&state.inputs), layer, shape, false)
}

/// Computes the outputs of all layers except the last.
fn hidden(on: Queue<'_>, layers: &[Layer], state: &mut Activations, rows: u32) -> Result<(), ModelError> {
    let hidden = layers.split_last().map_or(&[][..], |(_, hidden)| hidden);
    for (l, layer) in hidden.iter().enumerate() {
        let shape = Shape::new(rows, layer.inputs, layer.outputs)?;
        let (below, here) = state.outputs.split_at_mut(l);
        fused::linear(on, &mut here[0], below.last().unwrap_or(&state.inputs), layer, shape, true)?;
    }
    Ok(())
}

/// Computes losses and hits of the batch in `state.inputs`; with `gradients` also the gradients at the logits and at the
/// last layer's input. The launch also gathers `next`.
fn judge(
    on: Queue<'_>,
    layers: &[Layer],
    state: &mut Activations,
    rows: u32,
    scores: Scores<'_>,
    gradients: bool,
    next: Option<Next<'_>>,
) -> Result<(), ModelError> {
    hidden(on, layers, state, rows)?;
    let Some((layer, below)) = layers.split_last() else { return Ok(()) };
    let shape = Shape::new(rows, layer.inputs, layer.outputs)?;
    let Activations { inputs, labels, outputs, gradients: gradient_buffers, ahead, targets, .. } = state;
    let (d_below, d_logits) = gradient_buffers.split_at_mut(below.len());
    let head = Head {
        scores,
        d_logits: d_logits.first_mut().filter(|_| gradients),
        d_inp: d_below.last_mut().filter(|_| gradients),
        inp: below.len().checked_sub(1).map_or(&*inputs, |last| &outputs[last]),
        labels,
        targets: *targets,
    };
    let next = next.map(|Next { data, rows }| NextBatch {
        out: &mut ahead.inputs,
        labels_out: &mut ahead.labels,
        data,
        rows,
    });
    fused::head(on, head, layer, shape, &ahead.state, next)
}

/// Computes losses and hits of the batch in `state.inputs`.
pub(super) fn loss(
    on: Queue<'_>,
    layers: &[Layer],
    state: &mut Activations,
    rows: u32,
    scores: Scores<'_>,
) -> Result<(), ModelError> {
    // The scores of this batch are the first ones.
    state.ahead.rewind()?;
    judge(on, layers, state, rows, scores, false, None)
}

/// Gathers the batch that begins with sample `first` of the epoch, in batches of `batch_size`. Steps continue from there.
pub(super) fn begin(
    on: &Device,
    state: &mut Activations,
    data: &DeviceDataset,
    (spec, batch_size): (&EpochSpec, BatchSize),
    range @ (first, _): (u32, u32),
) -> Result<(), ModelError> {
    let &EpochSpec { seed, epoch, momentum, .. } = spec;
    if state.ahead.is_swapped {
        state.swap();
    }
    let step = batch_size.steps(first as usize) as usize;
    let lr = [spec.rates.at(step), 0.0];
    state.ahead.set(StepState { first, step: step as u32, lr, momentum, epoch, seed })?;
    batch::shuffled_batch(on, (&mut state.inputs, &mut state.labels), data, range, (seed, epoch))
}

/// Trains on the last gathered batch, of `rows` samples, and gathers the next one.
pub(super) fn step(
    on: Queue<'_>,
    core: &mut Core,
    next: Next<'_>,
    momentum: f32,
    rows: u32,
) -> Result<(), ModelError> {
    let Core { layers, training, results, rates, short } = core;
    if let Some(short) = short {
        let step = short::Step { rows, scores: results.all()?, rates: rates.all(), momentum, next };
        short.step(on, layers, training, step)?;
        training.swap();
        return Ok(());
    }
    judge(on, layers, training, rows, results.all()?, true, Some(next))?;
    backward(on, layers, training, rows, (rates.all(), momentum))?;
    training.swap();
    Ok(())
}

/// Updates the layers from the last to the first. A layer is updated after the gradient at its input has been computed.
fn backward(
    on: Queue<'_>,
    layers: &mut [Layer],
    state: &mut Activations,
    rows: u32,
    (rates, momentum): (&Buffer<f32>, f32),
) -> Result<(), ModelError> {
    let Activations { inputs, outputs, gradients, ahead, .. } = state;
    let turn = ahead.turn();
    let pace = Pace { state: &mut ahead.state, rates, turn, momentum };
    let (inputs, outputs) = (&*inputs, &*outputs);
    let input_of = |l: usize| if l == 0 { inputs } else { &outputs[l - 1] };
    for l in (1..layers.len().saturating_sub(1)).rev() {
        let (below, above) = layers.split_at_mut(l + 1);
        let (d_inp, d_out) = gradients.split_at_mut(l);
        let above = Move { layer: &mut above[0], activations: &outputs[l], d_out: &d_out[1] };
        let below = (&below[l], input_of(l), &d_out[0]);
        fused::backward(on, &mut d_inp[l - 1], below, above, &pace, rows)?;
    }
    let mut moves = layers.iter_mut().zip(&*gradients).enumerate().take(2);
    let mut next = || {
        let (l, (layer, d_out)) = moves.next()?;
        Some(Move { layer, activations: input_of(l), d_out })
    };
    let (Some(below), above) = (next(), next()) else { return Ok(()) };
    fused::updates(on, above, below, pace, rows)
}
