//! The fused kernels: matrix multiplications on tiles with their epilogues.

use std::sync::Arc;

use anyhow::Result;
use cuda_std::launch::{KernelsOf, LaunchConfig, Limits, RawBuffer};
use cuda_std::testing::{Memory, Output};
use ferrowarp::device::Device;
use gpu_kernels::mlp::fused_backward::{
    BackwardLaunch, InputGradientLaunch, UpdateLaunch, UpdatesLaunch, linear_backward, linear_updates,
};
use gpu_kernels::mlp::fused_forward::{LinearArgs, LinearArgsHost, linear_act_forward};
use gpu_kernels::mlp::operand::Operands;
use gpu_kernels::mlp::product::Shape as Product;
use gpu_kernels::mlp::state::StepState;

use super::check::{SUM, TENSOR_SUM, case, shape, within};
use super::linear::{backward_relu, forward, forward_relu};
use super::problem::Problem;
use super::run::Run;
use super::update::{LEARNING_RATE, MOMENTA, NAMES, updates};
use super::{head, rounded};
use crate::case::{Case, wide};
use crate::compare::{Bound, Expected, Outputs};

/// The number of cores or multiprocessors that share the work of a kernel for any number of rows.
const WORKERS: u32 = 2;

/// Every fused kernel that runs on a device with these limits.
pub fn cases(problem: &Arc<Problem>, limits: &Limits) -> Vec<Case> {
    let mut cases = Vec::new();
    let forward_kernels = <linear_act_forward as KernelsOf<LinearArgs>>::INSTANCES.iter();
    for kernel in forward_kernels.filter(|kernel| limits.runs(kernel.meta)) {
        // Any number of blocks may share the sums.
        let splits =
            if kernel.is_cluster { (1 + problem.batch as u32 % 8).min(limits.max_cluster) } else { 1 };
        // Miri needs only one of them: ReLU changes no access.
        for relu in if cfg!(miri) { 1..2 } else { 0..2 } {
            let words = move |p: &Problem| p.to_string() + if relu == 1 { ", ReLU" } else { "" };
            let expected = [forward, forward_relu][relu];
            let run = move |p: &Problem, device: &Device| {
                let mut run = Run::new(p);
                let (inp, weights) = (run.input(&p.activations), run.input(&p.weights));
                let (biases, out) = (run.input(&p.biases), run.output::<f32>(p.batch * p.outputs));
                let [rows, inputs, outputs] = shape(p);
                let tiles = kernel.tiles(rows, outputs, WORKERS);
                let config = LaunchConfig::new(tiles.count * splits, kernel.threads);
                let config = if splits > 1 { config.with_cluster(splits) } else { config };
                let results = run.on(device, |on, memory| {
                    let args = LinearArgsHost {
                        out: memory.output(out),
                        inp: memory.input(inp),
                        weights: memory.input(weights),
                        biases: memory.input(biases),
                        rows,
                        inputs,
                        outputs,
                        relu: relu as u32,
                        tile_rows: tiles.rows,
                    };
                    // SAFETY: the arrays have the problem's shapes, and there are blocks for each tile.
                    unsafe { kernel.launch(on, config, args) }
                })?;
                Ok(vec![("out", wide(&results.of(out)))])
            };
            let case = Case::of(problem, vec![kernel.meta.name], words, run, move |p| {
                let of = rounded::of_output(p, kernel.operands);
                vec![("out", within(expected(&of), roundings(kernel)))]
            });
            cases.push(case.with_cluster_threads(if splits > 1 { splits * kernel.threads } else { 0 }));
        }
    }
    for kernel in linear_backward::INSTANCES.iter().filter(|kernel| limits.runs(kernel.meta)) {
        let run = move |p: &Problem, device: &Device| backward(device, p, kernel);
        cases.push(case(problem, kernel.meta, run, move |p| backward_and_update(p, kernel)));
    }
    for kernel in linear_updates::INSTANCES.iter().filter(|kernel| limits.runs(kernel.meta)) {
        let run = move |p: &Problem, device: &Device| two_updates(device, p, kernel);
        cases.push(case(problem, kernel.meta, run, move |p| two_updates_expected(p, kernel)));
    }
    cases.extend(head::cases(problem, limits));
    cases
}

/// Tolerance of a sum in roundings, in addition to the rounding of its operands.
fn roundings(kernel: &Product) -> f64 {
    if kernel.operands == Operands::F32 || kernel.threads == 1 { SUM } else { TENSOR_SUM }
}

type Backward = cuda_std::launch::Instance<BackwardLaunch, Product>;
type Updates = cuda_std::launch::Instance<UpdatesLaunch, Product>;

/// The parameters of a layer, to be updated.
fn parameters(run: &mut Run, p: &Problem) -> [Output<f32>; 4] {
    [&p.weights, &p.biases, &p.weight_velocity, &p.bias_velocity].map(|elements| run.updated(elements))
}

/// The rates of an epoch's steps.
const RATES: [f32; 5] = [8.0, 4.0, LEARNING_RATE, 2.0, 16.0];

/// The state before step 2, as words, with its rate at index `turn`.
fn state(first: u32, momentum: f32, turn: usize) -> [u32; StepState::WORDS] {
    let mut lr = [1.0; 2];
    lr[turn] = RATES[2];
    StepState { first, step: 2, lr, momentum, ..StepState::default() }.to_words()
}

/// The result of [`state`] after the step with `rows` rows.
fn state_after(first: u32, momentum: f32, turn: usize, rows: u32) -> [u32; StepState::WORDS] {
    let mut lr = [RATES[3]; 2];
    lr[turn] = RATES[2];
    StepState { first: first + rows, step: 3, lr, momentum, ..StepState::default() }.to_words()
}

/// The update of a layer on tiles for this kernel.
fn update(
    memory: &Memory<'_>,
    kernel: &Product,
    [_, inputs, outputs]: [u32; 3],
    parameters: [Output<f32>; 4],
    [activations, d_out]: [RawBuffer<f32>; 2],
) -> UpdateLaunch {
    let [weights, biases, weight_velocity, bias_velocity] =
        parameters.map(|output| RawBuffer::written(memory.output(output)));
    let tiles = kernel.update_tiles(inputs + 1, outputs, WORKERS);
    UpdateLaunch {
        weights,
        biases,
        weight_velocity,
        bias_velocity,
        activations,
        d_out,
        inputs,
        outputs,
        tile_rows: tiles.rows,
        blocks: tiles.count,
    }
}

/// The gradient at the input of one layer, and the update of another of the same shape.
fn backward(device: &Device, p: &Problem, kernel: &'static Backward) -> Result<Outputs> {
    let extents @ [rows, inputs, outputs] = shape(p);
    let mut all = Vec::new();
    for (turn, momentum) in MOMENTA.into_iter().enumerate() {
        let mut run = Run::new(p);
        let (activations, d_out) = (run.input(&p.activations), run.input(&p.d_out));
        let (weights, state) = (run.input(&p.weights), run.input(&state(7, momentum, turn)));
        let d_inp = run.output::<f32>(p.batch * p.inputs);
        let parameters = parameters(&mut run, p);
        let results = run.on(device, |on, memory| {
            let activations = RawBuffer::read(memory.input(activations));
            let d_out = RawBuffer::read(memory.input(d_out));
            let tiles = kernel.tiles(rows, inputs, WORKERS);
            let gradient = InputGradientLaunch {
                d_inp: RawBuffer::written(memory.output(d_inp)),
                d_out,
                weights: RawBuffer::read(memory.input(weights)),
                activations,
                inputs,
                outputs,
                tile_rows: tiles.rows,
                blocks: tiles.count,
            };
            let update = update(memory, kernel, extents, parameters, [activations, d_out]);
            let config = LaunchConfig::new(tiles.count + update.blocks, kernel.threads);
            let state = RawBuffer::read(memory.input(state)).cast();
            // SAFETY: the arrays have the problem's shapes, and there is a block for each tile.
            unsafe {
                (kernel.launch)(
                    on,
                    config,
                    BackwardLaunch { gradient, update, state, turn: turn as u32, rows },
                )
            }
        })?;
        all.push(("d_inp", wide(&results.of(d_inp))));
        all.extend(NAMES.into_iter().zip(parameters.map(|output| wide(&results.of(output)))));
    }
    Ok(all)
}

fn backward_and_update(p: &Problem, kernel: &Product) -> Expected {
    let d_inp = within(backward_relu(&rounded::of_input_gradient(p, kernel.operands)), roundings(kernel));
    let updates = updates(&rounded::of_update(p, kernel.operands), 1.0, roundings(kernel));
    let of_momentum = updates.chunks(NAMES.len());
    of_momentum.flat_map(|updates| [vec![("d_inp", d_inp.clone())], updates.to_vec()].concat()).collect()
}

/// The same update of two layers, and the state after it.
fn two_updates(device: &Device, p: &Problem, kernel: &'static Updates) -> Result<Outputs> {
    let extents @ [rows, ..] = shape(p);
    let mut all = Vec::new();
    for (turn, momentum) in MOMENTA.into_iter().enumerate() {
        let mut run = Run::new(p);
        let (activations, d_out) = (run.input(&p.activations), run.input(&p.d_out));
        let (state, rates) = (run.updated(&state(7, momentum, turn)), run.input(&RATES));
        let both = [parameters(&mut run, p), parameters(&mut run, p)];
        let results = run.on(device, |on, memory| {
            let activations = RawBuffer::read(memory.input(activations));
            let d_out = RawBuffer::read(memory.input(d_out));
            let [above, below] =
                both.map(|parameters| update(memory, kernel, extents, parameters, [activations, d_out]));
            let config = LaunchConfig::new(above.blocks + below.blocks, kernel.threads);
            let state = RawBuffer::written(memory.output(state)).cast();
            let (rates, turn) = (RawBuffer::read(memory.input(rates)), turn as u32);
            // SAFETY: same as above.
            unsafe { (kernel.launch)(on, config, UpdatesLaunch { above, below, state, rates, turn, rows }) }
        })?;
        for parameters in both {
            all.extend(NAMES.into_iter().zip(parameters.map(|output| wide(&results.of(output)))));
        }
        all.push(("state", wide(&results.of(state))));
    }
    Ok(all)
}

fn two_updates_expected(p: &Problem, kernel: &Product) -> Expected {
    let updates = updates(&rounded::of_update(p, kernel.operands), 1.0, roundings(kernel));
    let mut all = Vec::new();
    for (turn, (momentum, updates)) in MOMENTA.into_iter().zip(updates.chunks(NAMES.len())).enumerate() {
        all.extend([updates, updates].concat());
        let after = state_after(7, momentum, turn, p.batch as u32).map(|word| Bound::exact(word.into()));
        all.push(("state", after.to_vec()));
    }
    all
}
