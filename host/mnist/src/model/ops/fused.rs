//! The launches of a fused step.

use cuda_std::launch::{Instance, KernelsOf, RawBuffer};
use mlp_kernels::fused_backward::{
    BackwardLaunch, InputGradientLaunch, UpdateLaunch, UpdatesLaunch, linear_backward, linear_updates,
};
use mlp_kernels::fused_forward::{LinearArgs, LinearArgsHost, linear_act_forward};
use mlp_kernels::grid::Tiles;
use mlp_kernels::head::{HeadLaunch, HeadRowsLaunch, MAX_CLASSES, NextBatchLaunch, network_head};
use mlp_kernels::loss::Targets;
use mlp_kernels::product::Shape as Product;
use mlp_kernels::state::StepState;

use super::tile::{Extents, choose};
use super::{Layer, Queue, Shape, area, need};
use crate::model::dataset::DeviceDataset;
use crate::model::error::{ModelError, to_u32};
use crate::model::precision::Precision;
use crate::model::results::Scores;
use ferrowarp_device::device::{Buffer, Device};

/// The state of a step on the device.
#[derive(Debug)]
pub(in crate::model) struct State(Buffer<u32>);

impl State {
    /// Uploads a state.
    pub fn new(on: &Device, state: StepState) -> Result<Self, ModelError> {
        Ok(Self(on.upload(&state.to_words())?))
    }

    pub fn set(&mut self, state: StepState) -> Result<(), ModelError> {
        Ok(self.0.copy_from(&state.to_words())?)
    }

    /// The argument for a kernel that reads it.
    pub(super) fn read(&self) -> RawBuffer<StepState> {
        RawBuffer::read(&self.0).cast()
    }

    /// The argument for a kernel that advances it.
    pub(super) fn written(&mut self) -> RawBuffer<StepState> {
        RawBuffer::written(&mut self.0).cast()
    }
}

/// The device data for a step's updates.
pub(in crate::model) struct Pace<'a> {
    /// The state of training.
    pub state: &'a mut State,
    /// The learning rates of all steps of the epoch, and one more.
    pub rates: &'a Buffer<f32>,
    /// The index of the step's rate in the state, 0 or 1.
    pub turn: u32,
    /// The momentum, which is in the state too.
    pub momentum: f32,
}

/// Computes `out = act(inp * weights + biases)`, where the activation is a ReLU or the identity.
pub(in crate::model) fn linear(
    on: Queue<'_>,
    out: &mut Buffer<f32>,
    inp: &Buffer<f32>,
    layer: &Layer,
    shape: Shape,
    has_relu: bool,
) -> Result<(), ModelError> {
    let Shape { rows, inputs, outputs } = shape;
    layer.need(inputs, outputs, 0.0)?;
    need(&[
        ("length of the outputs", out.len(), area(rows, outputs)),
        ("length of the inputs", inp.len(), area(rows, inputs)),
    ])?;
    let product = Extents { rows, cols: outputs, depth: inputs, is_update: false };
    let kernels = <linear_act_forward as KernelsOf<LinearArgs>>::INSTANCES;
    let Some(choice) = choose(kernels, |kernel| kernel.meta, on, &[product]) else { return Ok(()) };
    let tiles = choice.tiles(product);
    let args = LinearArgsHost {
        out,
        inp,
        weights: &layer.weights,
        biases: &layer.biases,
        rows,
        inputs,
        outputs,
        relu: has_relu.into(),
        tile_rows: tiles.rows,
    };
    // SAFETY: the buffers hold their shapes, as just checked; there is a block or a cluster for each tile.
    unsafe { choice.kernel.launch(&on, choice.config(tiles.count), args)? };
    Ok(())
}

/// The operands of the last layer.
pub(in crate::model) struct Head<'a> {
    pub scores: Scores<'a>,
    /// The gradients at the logits and at the layer's input, if they are wanted.
    pub d_logits: Option<&'a mut Buffer<f32>>,
    pub d_inp: Option<&'a mut Buffer<f32>>,
    pub inp: &'a Buffer<f32>,
    pub labels: &'a Buffer<u32>,
    pub targets: Targets,
}

/// The source of the next batch, and its number of samples; the last batch of an epoch may have fewer.
#[derive(Clone, Copy)]
pub(in crate::model) struct Next<'a> {
    pub data: &'a DeviceDataset,
    pub rows: u32,
}

/// The source and the destination of the next batch.
pub(in crate::model) struct NextBatch<'a> {
    pub out: &'a mut Buffer<f32>,
    pub labels_out: &'a mut Buffer<u32>,
    pub data: &'a DeviceDataset,
    /// The number of samples; the last batch of an epoch may have fewer.
    pub rows: u32,
}

/// Computes losses, hits and gradients of the last layer, and gathers the next batch.
pub(in crate::model) fn head(
    on: Queue<'_>,
    head: Head<'_>,
    layer: &Layer,
    shape: Shape,
    state: &State,
    next: Option<NextBatch<'_>>,
) -> Result<(), ModelError> {
    let Shape { rows, inputs, outputs: classes } = shape;
    let Head { scores, d_logits, d_inp, inp, labels, targets } = head;
    check_classes(classes as usize)?;
    layer.need(inputs, classes, 0.0)?;
    need(&[
        ("length of the losses", scores.loss.len(), rows.into()),
        ("length of the hits", scores.correct.len(), rows.into()),
        ("length of the inputs", inp.len(), area(rows, inputs)),
        ("length of the labels", labels.len(), rows.into()),
    ])?;
    for (what, gradient, cols) in [
        ("length of the output gradient", &d_logits, classes),
        ("length of the input gradient", &d_inp, inputs),
    ] {
        gradient.as_ref().map_or(Ok(()), |gradient| need(&[(what, gradient.len(), area(rows, cols))]))?;
    }
    let suits = |kernel: &&Instance<_, _>| kernel.meta.cpu_only == on.limits().runs_cpu_only;
    let Some(kernel) = network_head::INSTANCES.iter().find(suits) else { return Ok(()) };
    let batch = next.as_ref().map_or(0, |next| next.rows);
    let rows = HeadRowsLaunch {
        loss: RawBuffer::written(scores.loss),
        correct: RawBuffer::written(scores.correct),
        d_logits: d_logits.map_or(RawBuffer::NULL, RawBuffer::written),
        d_inp: d_inp.map_or(RawBuffer::NULL, RawBuffer::written),
        inp: RawBuffer::read(inp),
        weights: RawBuffer::read(&layer.weights),
        biases: RawBuffer::read(&layer.biases),
        labels: RawBuffer::read(labels),
        state: state.read(),
        rows,
        inputs,
        classes,
        targets,
        blocks: kernel.blocks(rows),
    };
    let config = kernel.config(rows.rows, batch);
    let next = next.map_or(Ok(NextBatchLaunch::none()), next_batch)?;
    // SAFETY: the buffers hold their shapes, as just checked, and are borrowed for the call. Later uses of them are queued
    // after this or wait for the device. The grid covers the rows and the next batch.
    unsafe { (kernel.launch)(&on, config, HeadLaunch { rows, next })? };
    Ok(())
}

/// Checks that the last layer's kernels support `classes` classes.
pub(in crate::model) fn check_classes(classes: usize) -> Result<(), ModelError> {
    match classes {
        1..=MAX_CLASSES => Ok(()),
        got => Err(ModelError::out_of_range("number of classes of a fused pipeline", got, MAX_CLASSES)),
    }
}

/// Checks that the device can run the kernels of this precision.
pub(in crate::model) fn check_precision(on: &Device, precision: Precision) -> Result<(), ModelError> {
    let limits = on.limits();
    let suits = |kernel: &&Instance<_, Product>| {
        kernel.operands == precision.operands() && kernel.meta.cpu_only == limits.runs_cpu_only
    };
    let of_precision = linear_updates::INSTANCES.iter().filter(suits);
    if of_precision.clone().any(|kernel| limits.runs(kernel.meta)) {
        return Ok(());
    }
    let least = of_precision.map(|kernel| kernel.meta.min_arch).min().unwrap_or(0);
    let (got, [a, b]) = (limits.capability, [least / 10, least % 10]);
    let why = if got >= least {
        format!("the PTX, built for GPUs before compute capability {a}.{b}, lacks its kernels")
    } else {
        format!("its kernels need compute capability {a}.{b}, but this device has {}.{}", got / 10, got % 10)
    };
    Err(ModelError::precision(precision, why, "train with f32"))
}

pub(super) fn next_batch(next: NextBatch<'_>) -> Result<NextBatchLaunch, ModelError> {
    let NextBatch { out, labels_out, data, rows } = next;
    let (samples, features) =
        (to_u32("number of samples", data.samples)?, to_u32("number of features", data.features)?);
    need(&[
        ("length of the next batch", out.len(), area(rows, features)),
        ("length of the next batch's labels", labels_out.len(), rows.into()),
    ])?;
    Ok(NextBatchLaunch {
        out: RawBuffer::written(out),
        labels_out: RawBuffer::written(labels_out),
        images: RawBuffer::read(&*data.images),
        labels: RawBuffer::read(&*data.labels),
        samples,
        features,
        batch: rows,
    })
}

/// The update of a layer's parameters.
pub(in crate::model) struct Move<'a> {
    pub layer: &'a mut Layer,
    pub activations: &'a Buffer<f32>,
    pub d_out: &'a Buffer<f32>,
}

impl Move<'_> {
    fn extents(&self, rows: u32) -> Result<Extents, ModelError> {
        let Shape { inputs, outputs, .. } = Shape::new(rows, self.layer.inputs, self.layer.outputs)?;
        // The biases are an additional row.
        Ok(Extents { rows: inputs.saturating_add(1), cols: outputs, depth: rows, is_update: true })
    }

    pub(super) fn launch(self, rows: u32, momentum: f32, tiles: Tiles) -> Result<UpdateLaunch, ModelError> {
        let Shape { inputs, outputs, .. } = Shape::new(rows, self.layer.inputs, self.layer.outputs)?;
        let Move { layer, activations, d_out } = self;
        layer.need(inputs, outputs, momentum)?;
        need(&[
            ("length of the activations", activations.len(), area(rows, inputs)),
            ("length of the output gradient", d_out.len(), area(rows, outputs)),
        ])?;
        Ok(UpdateLaunch {
            weights: RawBuffer::written(&mut layer.weights),
            biases: RawBuffer::written(&mut layer.biases),
            weight_velocity: RawBuffer::written(&mut layer.weight_velocity),
            bias_velocity: RawBuffer::written(&mut layer.bias_velocity),
            activations: RawBuffer::read(activations),
            d_out: RawBuffer::read(d_out),
            inputs,
            outputs,
            tile_rows: tiles.rows,
            blocks: tiles.count,
        })
    }
}

/// Computes the gradient at the input of `below`, through its ReLU, and updates the parameters of the layer above.
pub(in crate::model) fn backward(
    on: Queue<'_>,
    d_inp: &mut Buffer<f32>,
    (below, activations, d_out): (&Layer, &Buffer<f32>, &Buffer<f32>),
    above: Move<'_>,
    pace: &Pace<'_>,
    rows: u32,
) -> Result<(), ModelError> {
    let Shape { inputs, outputs, .. } = Shape::new(rows, below.inputs, below.outputs)?;
    need(&[
        ("length of the input gradient", d_inp.len(), area(rows, inputs)),
        ("length of the output gradient", d_out.len(), area(rows, outputs)),
        ("length of the activations", activations.len(), area(rows, inputs)),
        ("length of the weights", below.weights.len(), area(inputs, outputs)),
    ])?;
    let gradient = Extents { rows, cols: inputs, depth: outputs, is_update: false };
    let products = [gradient, above.extents(rows)?];
    let Some(choice) = choose(linear_backward::INSTANCES, |kernel| kernel.meta, on, &products) else {
        return Ok(());
    };
    let tiles = choice.tiles(gradient);
    let of_above = choice.tiles(above.extents(rows)?);
    let update = above.launch(rows, pace.momentum, of_above)?;
    let gradient = InputGradientLaunch {
        d_inp: RawBuffer::written(d_inp),
        d_out: RawBuffer::read(d_out),
        weights: RawBuffer::read(&below.weights),
        activations: RawBuffer::read(activations),
        inputs,
        outputs,
        tile_rows: tiles.rows,
        blocks: tiles.count,
    };
    let config = choice.config(tiles.count + update.blocks);
    let args = BackwardLaunch { gradient, update, state: pace.state.read(), turn: pace.turn, rows };
    // SAFETY: the buffers hold their shapes, as just checked, and are borrowed for the call, outputs exclusively. Later uses
    // of them are queued after this or wait for the device. There is a block for each tile.
    unsafe { (choice.kernel.launch)(&on, config, args)? };
    Ok(())
}

/// Updates the parameters of one or two layers, and advances the state by `rows` samples.
pub(in crate::model) fn updates(
    on: Queue<'_>,
    above: Option<Move<'_>>,
    below: Move<'_>,
    pace: Pace<'_>,
    rows: u32,
) -> Result<(), ModelError> {
    let products = above.iter().chain([&below]).map(|layer| layer.extents(rows));
    let products = products.collect::<Result<Vec<_>, _>>()?;
    let Some(choice) = choose(linear_updates::INSTANCES, |kernel| kernel.meta, on, &products) else {
        return Ok(());
    };
    let launch = |layer: Move<'_>| {
        let tiles = choice.tiles(layer.extents(rows)?);
        layer.launch(rows, pace.momentum, tiles)
    };
    let above = above.map_or(Ok(UpdateLaunch::none()), launch)?;
    let below = launch(below)?;
    let config = choice.config(above.blocks + below.blocks);
    let (state, rates, turn) = (pace.state.written(), RawBuffer::read(pace.rates), pace.turn);
    let args = UpdatesLaunch { above, below, state, rates, turn, rows };
    // SAFETY: as in `backward`.
    unsafe { (choice.kernel.launch)(&on, config, args)? };
    Ok(())
}
