//! Steps of a network in three launches each, compared with the same steps in `f64`.

use std::sync::Arc;

use anyhow::Result;
use cuda_std::launch::{LaunchError, Launcher, RawBuffer};
use cuda_std::testing::{Input, Memory, Output};
use ferrowarp::device::Device;
use gpu_kernels::mlp::batch::{PIXEL_SCALE, permuted};
use gpu_kernels::mlp::fused_backward::UpdateLaunch;
use gpu_kernels::mlp::head::NextBatchLaunch;
use gpu_kernels::mlp::resident::Extents;
use gpu_kernels::mlp::short::MAX_HIDDEN1;
use gpu_kernels::mlp::short::first::{self, FirstArgsHost, short_first};
use gpu_kernels::mlp::short::rows::{self, RowsLaunch, short_rows};
use gpu_kernels::mlp::short::updates::{self, short_updates};
use gpu_kernels::mlp::state::StepState;

use super::check::{ORDER, UNTOUCHED, UNTOUCHED_WORD};
use super::problem::Problem;
use super::resident::{NAMES, ROUNDINGS, Training, layers};
use super::run::Run;
use crate::case::{Case, wide};
use crate::compare::Outputs;

/// The kernels on a network with this layer's features and batches; the last batch is short. Its hidden layers have the
/// layer's number of outputs, and about half of it, as units.
pub fn cases(problem: &Arc<Problem>) -> Vec<Case> {
    let mut training = Training::of_layer(problem);
    let outputs = problem.outputs.min(MAX_HIDDEN1);
    let mut network = Extents {
        hidden1: outputs,
        hidden2: outputs.div_ceil(2).next_multiple_of(4).min(128),
        ..training.extents
    };
    // The second layer's weights must be aligned.
    training.misalignment = 0;
    while !network.fits_short() {
        network.hidden1 /= 2;
    }
    let numbers = problem.weights.iter().chain(&problem.weight_velocity).chain(&problem.activations).cycle();
    (training.layers, training.extents) = (layers(&network, numbers), network);
    vec![case(Arc::new(training))]
}

/// The case of this training.
pub fn case(training: Arc<Training>) -> Case {
    let kernels = vec![short_first::META.name, short_rows::META.name, short_updates::META.name];
    let run = |of: &Training, device: &Device| steps(device, of);
    Case::of(training, kernels, Training::words, run, |of| of.expected(ROUNDINGS))
}

/// The data passed from launch to launch.
struct Buffers {
    parameters: Vec<[Output<f32>; 2]>,
    inputs: [Output<f32>; 2],
    labels: [Output<u32>; 2],
    sums: Output<f32>,
    units: [Output<f32>; 2],
    gradients: [Output<f32>; 3],
    loss: Output<f32>,
    correct: Output<u32>,
    state: Output<u32>,
    rates: Input<f32>,
    images: Input<u8>,
    image_labels: Input<u8>,
}

fn steps(device: &Device, of: &Training) -> Result<Outputs> {
    let Extents { features, hidden1, hidden2, classes, batch } = of.extents;
    let mut run = Run::with_misalignment(of.misalignment);
    let samples = of.labels.len();
    let parameters = of.layers.iter().map(|layer| [run.updated(&layer.weights), run.updated(&layer.biases)]);
    let parameters = parameters.collect();
    let first = batch.min(samples - of.first);
    let order = (of.first..of.first + first)
        .map(|place| permuted(place as u32, samples as u32, ORDER.0, ORDER.1) as usize)
        .collect::<Vec<_>>();
    let mut pixels = vec![UNTOUCHED; batch * features];
    let mut words = vec![UNTOUCHED_WORD; batch];
    for (row, &sample) in order.iter().enumerate() {
        words[row] = of.labels[sample].into();
        for (to, &pixel) in
            pixels[row * features..].iter_mut().zip(&of.images[sample * features..][..features])
        {
            *to = f32::from(pixel) * PIXEL_SCALE;
        }
    }
    let (rates, number, (seed, epoch)) = (of.rates(), of.first / batch, ORDER);
    let (first, lr) = (of.first as u32, [rates[number], UNTOUCHED]);
    let state = StepState { first, step: number as u32, lr, momentum: 0.0, epoch, seed };
    let mut scratch = |len: usize| run.updated(&vec![UNTOUCHED; len]);
    let buffers = Buffers {
        parameters,
        sums: scratch(of.extents.share_sums()),
        units: [scratch(batch * hidden1), scratch(batch * hidden2)],
        gradients: [scratch(batch * hidden1), scratch(batch * hidden2), scratch(batch * classes)],
        loss: scratch(samples),
        inputs: [run.updated(&pixels), run.updated(&vec![UNTOUCHED; batch * features])],
        labels: [run.updated(&words), run.updated(&vec![UNTOUCHED_WORD; batch])],
        correct: run.updated(&vec![UNTOUCHED_WORD; samples]),
        state: run.updated(&state.to_words()),
        rates: run.input(&rates),
        images: run.input(&of.images),
        image_labels: run.input(&of.labels),
    };
    let results = run.on(device, |on, memory| {
        for i in 0..of.steps {
            let rows = batch.min(samples - of.first - i * batch);
            step(on, memory, of, &buffers, rows, i % 2)?;
        }
        Ok(())
    })?;
    let parameters = buffers.parameters.iter().flatten().map(|&output| wide(&results.of(output)));
    let samples = [wide(&results.of(buffers.loss)), wide(&results.of(buffers.correct))];
    Ok(NAMES.into_iter().zip(parameters.chain(samples)).collect())
}

/// A step on one of the two batches, which gathers the other.
fn step(
    on: &dyn Launcher,
    memory: &Memory<'_>,
    of: &Training,
    buffers: &Buffers,
    rows: usize,
    this: usize,
) -> Result<(), LaunchError> {
    let Extents { features, hidden1, hidden2, classes, batch } = of.extents;
    let [features, hidden1, hidden2, classes] = [features, hidden1, hidden2, classes].map(|n| n as u32);
    let written = |output| RawBuffer::written(memory.output(output));
    let [weights, biases] =
        [0, 1].map(|i| buffers.parameters.iter().map(|layer| layer[i]).collect::<Vec<_>>());
    let args = FirstArgsHost {
        sums: memory.output(buffers.sums),
        inp: memory.output(buffers.inputs[this]),
        weights: memory.output(weights[0]),
        rows: rows as u32,
        inputs: features,
        outputs: hidden1,
    };
    // SAFETY: the buffers have the network's shapes, and the launches have their kernels' configurations.
    unsafe { short_first::launch(on, first::config(features, hidden1), args)? };
    let args = RowsLaunch {
        loss: written(buffers.loss),
        correct: RawBuffer::written(memory.output(buffers.correct)),
        d_logits: written(buffers.gradients[2]),
        d_hidden2: written(buffers.gradients[1]),
        d_hidden1: written(buffers.gradients[0]),
        units2: written(buffers.units[1]),
        units1: written(buffers.units[0]),
        sums: written(buffers.sums),
        biases1: written(biases[0]),
        weights2: written(weights[1]),
        biases2: written(biases[1]),
        weights3: written(weights[2]),
        biases3: written(biases[2]),
        labels: RawBuffer::written(memory.output(buffers.labels[this])),
        state: RawBuffer::written(memory.output(buffers.state)).cast(),
        rows: rows as u32,
        shares: of.extents.shares() as u32,
        hidden1,
        hidden2,
        classes,
        targets: of.targets(),
    };
    let batch_after = NextBatchLaunch {
        out: written(buffers.inputs[1 - this]),
        labels_out: RawBuffer::written(memory.output(buffers.labels[1 - this])),
        images: RawBuffer::read(memory.input(buffers.images)),
        labels: RawBuffer::read(memory.input(buffers.image_labels)),
        samples: of.labels.len() as u32,
        features,
        batch: batch as u32,
    };
    // SAFETY: same as above.
    unsafe { short_rows::launch(on, rows::config(rows as u32, batch as u32), args, batch_after)? };
    let inputs = [buffers.inputs[this], buffers.units[0], buffers.units[1]];
    let sizes = [[features, hidden1], [hidden1, hidden2], [hidden2, classes]];
    let layers: [UpdateLaunch; 3] = std::array::from_fn(|l| {
        let [inputs_of, outputs] = sizes[l];
        let tiles = updates::tiles(inputs_of, outputs);
        UpdateLaunch {
            weights: written(weights[l]),
            biases: written(biases[l]),
            activations: written(inputs[l]),
            d_out: written(buffers.gradients[l]),
            inputs: inputs_of,
            outputs,
            tile_rows: tiles.rows,
            blocks: tiles.count,
            ..UpdateLaunch::none()
        }
    });
    let config = updates::config(layers.iter().map(|layer| layer.blocks).sum());
    let [one, two, three] = layers;
    let state = RawBuffer::written(memory.output(buffers.state)).cast();
    let rates = RawBuffer::read(memory.input(buffers.rates));
    // SAFETY: same as above.
    unsafe { short_updates::launch(on, config, one, two, three, state, rates, this as u32, rows as u32) }
}
