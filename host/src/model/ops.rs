//! Every kernel of a training step as a safe function: the shapes are checked against the buffers, the grid is
//! chosen, then the kernel is launched.

use cuda_std::launch::{Dim3, LaunchConfig};
use gpu_kernels::mlp::{
    activation, batch, fused_backward, fused_forward, fused_loss, fused_update, linear, loss, sgd,
};

use super::dataset::DeviceDataset;
use super::error::{ModelError, to_u32};
use crate::device::{Buffer, BufferViewMut, Device};

/// Threads of a one-dimensional block in kernels with a thread per row.
const ROW_BLOCK: u32 = 32;

/// Threads of a two-dimensional block in kernels with a thread per element.
const ELEMENT_BLOCK: (u32, u32) = (32, 8);

/// The shape of a linear layer applied to a batch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub batch: u32,
    pub inputs: u32,
    pub outputs: u32,
}

impl Shape {
    pub fn new(batch: usize, inputs: usize, outputs: usize) -> Result<Self, ModelError> {
        Ok(Self {
            batch: to_u32("batch size", batch)?,
            inputs: to_u32("number of inputs", inputs)?,
            outputs: to_u32("number of outputs", outputs)?,
        })
    }
}

/// A layer's parameters on the device; the velocities are empty unless there is momentum.
#[derive(Debug)]
pub(super) struct Layer {
    pub inputs: usize,
    pub outputs: usize,
    pub weights: Buffer<f32>,
    pub biases: Buffer<f32>,
    pub weight_velocity: Buffer<f32>,
    pub bias_velocity: Buffer<f32>,
}

/// Learning rate and momentum of a step.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sgd {
    pub lr: f32,
    pub momentum: f32,
}

/// Checks that each named buffer holds at least as many elements as its shape.
fn need(sizes: &[(&'static str, usize, u64)]) -> Result<(), ModelError> {
    for &(what, len, needed) in sizes {
        if (len as u64) < needed {
            let expected = usize::try_from(needed).unwrap_or(usize::MAX);
            return Err(ModelError::Mismatch { what, got: len, expected });
        }
    }
    Ok(())
}

fn area(rows: u32, cols: u32) -> u64 {
    u64::from(rows) * u64::from(cols)
}

/// A thread per element of `[rows, cols]`.
fn per_element(rows: u32, cols: u32) -> LaunchConfig {
    let (x, y) = ELEMENT_BLOCK;
    LaunchConfig::new((cols.div_ceil(x), rows.div_ceil(y)), (x, y))
}

/// A thread per row.
fn per_row(rows: u32) -> LaunchConfig {
    LaunchConfig::cover(rows as usize, ROW_BLOCK)
}

/// The samples `first..first + rows` of an epoch, as pixels in 0..=1 and labels.
pub(super) fn shuffled_batch(
    on: &Device,
    (out, labels_out): (&mut Buffer<f32>, &mut Buffer<u32>),
    data: &DeviceDataset,
    (first, rows): (u32, u32),
    (seed, epoch): (u64, u32),
) -> Result<(), ModelError> {
    let (samples, features) = check_batch(out, labels_out, data, first, rows)?;
    // SAFETY: the rows lie in the data set, and the buffers hold them, as was just checked.
    unsafe {
        batch::shuffled_batch::launch(
            on,
            per_sample(rows),
            out,
            labels_out,
            &data.images,
            &data.labels,
            samples,
            features,
            first,
            rows,
            seed,
            epoch,
        )?;
    }
    Ok(())
}

/// The samples `first..first + rows` of the data set, as pixels in 0..=1 and labels.
pub(super) fn ordered_batch(
    on: &Device,
    (out, labels_out): (&mut Buffer<f32>, &mut Buffer<u32>),
    data: &DeviceDataset,
    (first, rows): (u32, u32),
) -> Result<(), ModelError> {
    let (_, features) = check_batch(out, labels_out, data, first, rows)?;
    let (images, labels) = (&data.images, &data.labels);
    // SAFETY: the rows lie in the data set, and the buffers hold them, as was just checked.
    unsafe {
        batch::ordered_batch::launch(
            on,
            per_sample(rows),
            out,
            labels_out,
            images,
            labels,
            features,
            first,
            rows,
        )?;
    }
    Ok(())
}

fn per_sample(rows: u32) -> LaunchConfig {
    let samples_per_block = 8;
    LaunchConfig::new((1, rows.div_ceil(samples_per_block)), (batch::THREADS_PER_SAMPLE, samples_per_block))
}

fn check_batch(
    out: &Buffer<f32>,
    labels_out: &Buffer<u32>,
    data: &DeviceDataset,
    first: u32,
    rows: u32,
) -> Result<(u32, u32), ModelError> {
    let samples = to_u32("number of samples", data.samples)?;
    let features = to_u32("number of features", data.features)?;
    need(&[
        ("length of the batch", out.len(), area(rows, features)),
        ("length of the batch's labels", labels_out.len(), rows.into()),
        ("number of samples", data.samples, u64::from(first) + u64::from(rows)),
    ])?;
    Ok((samples, features))
}

fn check_forward(out: usize, inp: usize, layer: &Layer, shape: Shape) -> Result<(), ModelError> {
    let Shape { batch, inputs, outputs } = shape;
    need(&[
        ("length of the outputs", out, area(batch, outputs)),
        ("length of the inputs", inp, area(batch, inputs)),
        ("length of the weights", layer.weights.len(), area(inputs, outputs)),
        ("length of the biases", layer.biases.len(), outputs.into()),
    ])
}

/// `out = inp * weights + biases`, one thread per output.
pub(super) fn linear_forward(
    on: &Device,
    out: &mut Buffer<f32>,
    inp: &Buffer<f32>,
    layer: &Layer,
    shape: Shape,
) -> Result<(), ModelError> {
    check_forward(out.len(), inp.len(), layer, shape)?;
    let Shape { batch, inputs, outputs } = shape;
    let config = per_element(batch, outputs);
    let (weights, biases) = (&layer.weights, &layer.biases);
    // SAFETY: the buffers hold their shapes, as was just checked, and the grid covers the outputs.
    unsafe { linear::linear_forward::launch(on, config, out, inp, weights, biases, batch, inputs, outputs)? };
    Ok(())
}

/// The activation that a tiled forward pass ends with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Activation {
    Relu,
    Identity,
}

/// `out = act(inp * weights + biases)` on tiles.
pub(super) fn linear_act_forward(
    on: &Device,
    out: &mut Buffer<f32>,
    inp: &Buffer<f32>,
    layer: &Layer,
    shape: Shape,
    act: Activation,
) -> Result<(), ModelError> {
    check_forward(out.len(), inp.len(), layer, shape)?;
    let Shape { batch, inputs, outputs } = shape;
    let tile = Tile::choose(on, batch, outputs);
    let config = tile.config(batch, outputs);
    let (weights, biases) = (&layer.weights, &layer.biases);
    macro_rules! launch {
        ($kernel:ident) => {
            fused_forward::$kernel::launch(on, config, out, inp, weights, biases, batch, inputs, outputs)?
        };
    }
    // SAFETY: the buffers hold their shapes, as was just checked; grid and block are the tile's.
    unsafe {
        match (act, tile) {
            (Activation::Relu, Tile::T64x64) => launch!(linear_relu_forward_64x64),
            (Activation::Relu, Tile::T64x32) => launch!(linear_relu_forward_64x32),
            (Activation::Relu, Tile::T32x32) => launch!(linear_relu_forward_32x32),
            (Activation::Identity, Tile::T64x64) => launch!(linear_forward_64x64),
            (Activation::Identity, Tile::T64x32) => launch!(linear_forward_64x32),
            (Activation::Identity, Tile::T32x32) => launch!(linear_forward_32x32),
        }
    }
    Ok(())
}

/// `out = max(inp, 0)`.
pub(super) fn relu_forward(
    on: &Device,
    out: &mut Buffer<f32>,
    inp: &Buffer<f32>,
    rows: u32,
    cols: u32,
) -> Result<(), ModelError> {
    let len = area(rows, cols);
    need(&[("length of the outputs", out.len(), len), ("length of the inputs", inp.len(), len)])?;
    // SAFETY: the buffers hold their shapes, as was just checked, and the grid covers them.
    unsafe { activation::relu_forward::launch(on, per_element(rows, cols), out, inp, rows, cols)? };
    Ok(())
}

/// `d_inp = d_out` where the activation is positive.
pub(super) fn relu_backward(
    on: &Device,
    d_inp: &mut Buffer<f32>,
    d_out: &Buffer<f32>,
    activations: &Buffer<f32>,
    rows: u32,
    cols: u32,
) -> Result<(), ModelError> {
    let len = area(rows, cols);
    need(&[
        ("length of the input gradient", d_inp.len(), len),
        ("length of the output gradient", d_out.len(), len),
        ("length of the activations", activations.len(), len),
    ])?;
    let config = per_element(rows, cols);
    // SAFETY: the buffers hold their shapes, as was just checked, and the grid covers them.
    unsafe { activation::relu_backward::launch(on, config, d_inp, d_out, activations, rows, cols)? };
    Ok(())
}

/// `out = softmax(inp)` along rows, one thread per output.
pub(super) fn softmax(
    on: &Device,
    out: &mut Buffer<f32>,
    inp: &Buffer<f32>,
    rows: u32,
    cols: u32,
) -> Result<(), ModelError> {
    let len = area(rows, cols);
    need(&[("length of the probabilities", out.len(), len), ("length of the logits", inp.len(), len)])?;
    // SAFETY: the buffers hold their shapes, as was just checked, and the grid covers them.
    unsafe { loss::softmax_naive::launch(on, per_element(rows, cols), out, inp, rows, cols)? };
    Ok(())
}

/// `targets = one_hot(labels)`.
pub(super) fn one_hot(
    on: &Device,
    targets: &mut Buffer<f32>,
    labels: &Buffer<u32>,
    rows: u32,
    cols: u32,
) -> Result<(), ModelError> {
    need(&[
        ("length of the targets", targets.len(), area(rows, cols)),
        ("length of the labels", labels.len(), rows.into()),
    ])?;
    // SAFETY: the buffers hold their shapes, as was just checked, and the grid covers them.
    unsafe { loss::one_hot::launch(on, per_element(rows, cols), targets, labels, rows, cols)? };
    Ok(())
}

/// Loss of each row.
pub(super) fn cross_entropy_loss(
    on: &Device,
    out: BufferViewMut<'_, f32>,
    probs: &Buffer<f32>,
    targets: &Buffer<f32>,
    rows: u32,
    cols: u32,
) -> Result<(), ModelError> {
    let len = area(rows, cols);
    need(&[
        ("length of the losses", out.len(), rows.into()),
        ("length of the probabilities", probs.len(), len),
        ("length of the targets", targets.len(), len),
    ])?;
    // SAFETY: the buffers hold their shapes, as was just checked, and the grid covers the rows.
    unsafe { loss::cross_entropy_loss::launch(on, per_row(rows), out, probs, targets, rows, cols)? };
    Ok(())
}

/// `d_logits = probs - targets`.
pub(super) fn cross_entropy_backward(
    on: &Device,
    d_logits: &mut Buffer<f32>,
    probs: &Buffer<f32>,
    targets: &Buffer<f32>,
    rows: u32,
    cols: u32,
) -> Result<(), ModelError> {
    let len = area(rows, cols);
    need(&[
        ("length of the gradient", d_logits.len(), len),
        ("length of the probabilities", probs.len(), len),
        ("length of the targets", targets.len(), len),
    ])?;
    let config = per_element(rows, cols);
    // SAFETY: the buffers hold their shapes, as was just checked, and the grid covers them.
    unsafe { loss::cross_entropy_backward::launch(on, config, d_logits, probs, targets, rows, cols)? };
    Ok(())
}

/// 1 for each row whose largest score is its label's.
pub(super) fn count_correct(
    on: &Device,
    out: BufferViewMut<'_, u32>,
    scores: &Buffer<f32>,
    labels: &Buffer<u32>,
    rows: u32,
    cols: u32,
) -> Result<(), ModelError> {
    need(&[
        ("length of the hits", out.len(), rows.into()),
        ("length of the scores", scores.len(), area(rows, cols)),
        ("length of the labels", labels.len(), rows.into()),
    ])?;
    // SAFETY: the buffers hold their shapes, as was just checked, and the grid covers the rows.
    unsafe { loss::count_correct::launch(on, per_row(rows), out, scores, labels, rows, cols)? };
    Ok(())
}

/// Gradient averaged over the batch, loss and hit of each row, from the logits. Labels are less than `cols`.
pub(super) fn softmax_cross_entropy(
    on: &Device,
    d_logits: &mut Buffer<f32>,
    (loss, correct): (BufferViewMut<'_, f32>, BufferViewMut<'_, u32>),
    logits: &Buffer<f32>,
    labels: &Buffer<u32>,
    rows: u32,
    cols: u32,
) -> Result<(), ModelError> {
    let len = area(rows, cols);
    need(&[
        ("length of the gradient", d_logits.len(), len),
        ("length of the losses", loss.len(), rows.into()),
        ("length of the hits", correct.len(), rows.into()),
        ("length of the logits", logits.len(), len),
        ("length of the labels", labels.len(), rows.into()),
    ])?;
    let config = per_row(rows);
    // SAFETY: the buffers hold their shapes, as was just checked, the grid covers the rows, and the labels come
    // from a data set that checked them.
    unsafe {
        fused_loss::softmax_cross_entropy::launch(
            on, config, d_logits, loss, correct, logits, labels, rows, cols,
        )?;
    }
    Ok(())
}

/// `d_inp = d_out * weights^T`, one thread per output.
pub(super) fn linear_backward_input(
    on: &Device,
    d_inp: &mut Buffer<f32>,
    d_out: &Buffer<f32>,
    layer: &Layer,
    shape: Shape,
) -> Result<(), ModelError> {
    let Shape { batch, inputs, outputs } = shape;
    need(&[
        ("length of the input gradient", d_inp.len(), area(batch, inputs)),
        ("length of the output gradient", d_out.len(), area(batch, outputs)),
        ("length of the weights", layer.weights.len(), area(inputs, outputs)),
    ])?;
    let config = per_element(batch, inputs);
    let weights = &layer.weights;
    // SAFETY: the buffers hold their shapes, as was just checked, and the grid covers the inputs.
    unsafe {
        linear::linear_backward_input::launch(on, config, d_inp, d_out, weights, batch, inputs, outputs)?
    };
    Ok(())
}

/// `d_inp = d_out * weights^T` where the activation is positive, on tiles.
pub(super) fn linear_relu_backward(
    on: &Device,
    d_inp: &mut Buffer<f32>,
    d_out: &Buffer<f32>,
    activations: &Buffer<f32>,
    layer: &Layer,
    shape: Shape,
) -> Result<(), ModelError> {
    let Shape { batch, inputs, outputs } = shape;
    need(&[
        ("length of the input gradient", d_inp.len(), area(batch, inputs)),
        ("length of the output gradient", d_out.len(), area(batch, outputs)),
        ("length of the activations", activations.len(), area(batch, inputs)),
        ("length of the weights", layer.weights.len(), area(inputs, outputs)),
    ])?;
    let tile = Tile::choose(on, batch, inputs);
    let config = tile.config(batch, inputs);
    let weights = &layer.weights;
    macro_rules! launch {
        ($kernel:ident) => {
            fused_backward::$kernel::launch(
                on,
                config,
                d_inp,
                d_out,
                weights,
                activations,
                batch,
                inputs,
                outputs,
            )?
        };
    }
    // SAFETY: the buffers hold their shapes, as was just checked; grid and block are the tile's.
    unsafe {
        match tile {
            Tile::T64x64 => launch!(linear_relu_backward_64x64),
            Tile::T64x32 => launch!(linear_relu_backward_64x32),
            Tile::T32x32 => launch!(linear_relu_backward_32x32),
        }
    }
    Ok(())
}

fn check_update(
    layer: &Layer,
    activations: usize,
    d_out: usize,
    shape: Shape,
    sgd: Sgd,
) -> Result<(), ModelError> {
    let Shape { batch, inputs, outputs } = shape;
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
        ("length of the activations", activations, area(batch, inputs)),
        ("length of the output gradient", d_out, area(batch, outputs)),
    ])
}

/// One SGD step of a layer, one thread per weight; `d_out` is summed over the batch, and averaged here.
pub(super) fn update_layer(
    on: &Device,
    layer: &mut Layer,
    activations: &Buffer<f32>,
    d_out: &Buffer<f32>,
    shape: Shape,
    sgd: Sgd,
) -> Result<(), ModelError> {
    check_update(layer, activations.len(), d_out.len(), shape, sgd)?;
    let Shape { batch, inputs, outputs } = shape;
    let config = per_element(inputs, outputs);
    let Layer { weights, biases, weight_velocity, bias_velocity, .. } = layer;
    // SAFETY: the buffers hold their shapes, as was just checked, and the grid covers the weights.
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
            batch,
            inputs,
            outputs,
            sgd.lr,
            sgd.momentum,
        )?;
    }
    Ok(())
}

/// One SGD step of a layer on tiles; `d_out` carries the average over the batch already.
pub(super) fn linear_update(
    on: &Device,
    layer: &mut Layer,
    activations: &Buffer<f32>,
    d_out: &Buffer<f32>,
    shape: Shape,
    sgd: Sgd,
) -> Result<(), ModelError> {
    check_update(layer, activations.len(), d_out.len(), shape, sgd)?;
    let Shape { batch, inputs, outputs } = shape;
    let tile = Tile::choose(on, inputs, outputs);
    let config = tile.config(inputs, outputs);
    let Layer { weights, biases, weight_velocity, bias_velocity, .. } = layer;
    macro_rules! launch {
        ($kernel:ident) => {
            fused_update::$kernel::launch(
                on,
                config,
                weights,
                biases,
                weight_velocity,
                bias_velocity,
                activations,
                d_out,
                batch,
                inputs,
                outputs,
                sgd.lr,
                sgd.momentum,
            )?
        };
    }
    // SAFETY: the buffers hold their shapes, as was just checked; grid and block are the tile's.
    unsafe {
        match tile {
            Tile::T64x64 => launch!(linear_update_64x64),
            Tile::T64x32 => launch!(linear_update_64x32),
            Tile::T32x32 => launch!(linear_update_32x32),
        }
    }
    Ok(())
}

/// The tiles that the fused kernels come in, rows by columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tile {
    T64x64,
    T64x32,
    T32x32,
}

impl Tile {
    const ALL: [Tile; 3] = [Tile::T64x64, Tile::T64x32, Tile::T32x32];

    /// Rows, columns and threads.
    fn extents(self) -> (u32, u32, u32) {
        match self {
            Tile::T64x64 => (64, 64, 64),
            Tile::T64x32 => (64, 32, 32),
            Tile::T32x32 => (32, 32, 64),
        }
    }

    /// Time per output, in units of the largest tile's: a thread with 8x8 outputs reads shared memory half as
    /// often as one with 4x4.
    fn cost_per_output(self) -> u64 {
        match self {
            Tile::T64x64 => 10,
            Tile::T64x32 => 11,
            Tile::T32x32 => 25,
        }
    }

    /// The tile with which a `rows` x `cols` product takes the least time, when each multiprocessor (or core)
    /// works on one block at a time: few large tiles leave some idle, many small ones are slow each.
    fn choose(on: &Device, rows: u32, cols: u32) -> Tile {
        let cost = |tile: &Tile| {
            let (bm, bn, _) = tile.extents();
            let blocks = u64::from(rows.div_ceil(bm)) * u64::from(cols.div_ceil(bn));
            let rounds = blocks.div_ceil(on.multiprocessors().max(1) as u64);
            rounds * area(bm, bn) * tile.cost_per_output()
        };
        Tile::ALL.into_iter().min_by_key(cost).unwrap_or(Tile::T64x64)
    }

    fn config(self, rows: u32, cols: u32) -> LaunchConfig {
        let (bm, bn, threads) = self.extents();
        LaunchConfig::new(Dim3::new(cols.div_ceil(bn), rows.div_ceil(bm), 1), threads)
    }
}
