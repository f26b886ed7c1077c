//! The kernels of the network and of the softmax ladder on one layer: for each how to run it and what is right.

mod oracle;
mod problem;
mod run;
mod single;

use anyhow::{Result, ensure};
use cuda_std::launch::{KernelMeta, LaunchConfig};
use ferrowarp::device::Device;
use gpu_kernels::mlp::grid::{Tile, per_element, per_row};
use gpu_kernels::mlp::{activation, batch, fused_backward, fused_forward, fused_update, linear, loss, sgd};
use gpu_kernels::softmax::{LADDER, Variant};

use crate::compare::compare;
use oracle::{Expected, LEARNING_RATE};
use run::Run;

pub use problem::{Problem, problems, small_problems};

/// One kernel's check.
#[derive(Clone, Copy)]
pub struct Check {
    /// The kernel.
    pub kernel: &'static KernelMeta,
    /// Rounding errors of the magnitude that an element may be off. Sums are added in another order here and there, and
    /// with or without fused multiply-add; libm's and libdevice's functions are off by two or so.
    pub roundings: f64,
    /// How to run the kernel.
    pub run: Runner,
    /// The outputs in f64, with their names.
    pub reference: fn(&Problem) -> References,
}

impl Check {
    /// The kernels that it launches.
    pub fn kernels(&self) -> Vec<&'static str> {
        match self.run {
            Runner::With(_) => vec![self.kernel.name],
            Runner::Softmax(variant) => variant.steps.iter().map(|step| step.meta.name).collect(),
        }
    }

    /// Runs the kernel on a problem and compares with the oracle. Gives the outputs, and the largest error in parts of
    /// what is allowed.
    ///
    /// # Errors
    /// A result is off by more, or the kernel failed or wrote outside its output.
    pub fn assess(&self, device: &Device, problem: &Problem) -> Result<(Outputs, f64)> {
        let got = self.run.on(device, problem)?;
        let worst = compare_all(&got, &(self.reference)(problem), self.roundings)?;
        Ok((got, worst))
    }

    /// As [`Self::assess`]; also a second run gives the same, and a GPU what the CPU executor does, within the rounding
    /// errors of both.
    ///
    /// # Errors
    /// Those of `assess`, or the results differ.
    pub fn assess_thoroughly(&self, device: &Device, problem: &Problem) -> Result<f64> {
        let (got, mut worst) = self.assess(device, problem)?;
        if device.is_cuda() {
            let on_cpu = self.run.on(&Device::cpu(), problem)?;
            let oracle = (self.reference)(problem);
            let around = oracle.iter().zip(&on_cpu);
            let around = around.map(|((name, expected), values)| (*name, with_values(expected, values)));
            worst = worst.max(compare_all(&got, &around.collect::<Vec<_>>(), 2.0 * self.roundings)?);
        }
        ensure!(self.run.on(device, problem)? == got, "a second run gave other results");
        Ok(worst)
    }
}

fn compare_all(got: &[Vec<f64>], expected: &[(&str, Vec<Expected>)], roundings: f64) -> Result<f64> {
    ensure!(got.len() == expected.len(), "{} outputs instead of {}", got.len(), expected.len());
    let mut worst = 0.0f64;
    for (got, (name, expected)) in got.iter().zip(expected) {
        worst = worst.max(compare(name, got, expected, roundings).map_err(anyhow::Error::msg)?);
    }
    Ok(worst)
}

/// The same scales around other values.
fn with_values(expected: &[Expected], values: &[f64]) -> Vec<Expected> {
    expected.iter().zip(values).map(|(expected, &value)| Expected { value, ..*expected }).collect()
}

/// How to run a kernel on a problem.
#[derive(Clone, Copy)]
pub enum Runner {
    /// This returns its outputs.
    With(fn(&Device, &Problem) -> Result<Outputs>),
    /// On the logits, as the ladder says.
    Softmax(&'static Variant),
}

impl Runner {
    /// Whether the problem's shape is one for the kernel, and the device new enough for it.
    pub fn takes(self, device: &Device, problem: &Problem) -> bool {
        match self {
            Runner::With(_) => true,
            Runner::Softmax(variant) => {
                let prepared = variant.prepare(problem.batch, problem.outputs);
                prepared.is_some_and(|prepared| prepared.runs_on(device.limits()))
            }
        }
    }

    /// Runs the kernel and returns its outputs.
    pub fn on(self, device: &Device, problem: &Problem) -> Result<Outputs> {
        match self {
            Runner::With(run) => run(device, problem),
            Runner::Softmax(variant) => single::softmax(device, problem, variant),
        }
    }
}

/// Every output of a kernel.
pub type Outputs = Vec<Vec<f64>>;

/// Every output of a kernel as it should be, with its name.
pub type References = Vec<(&'static str, Vec<Expected>)>;

/// For sums of products.
const SUM: f64 = 16.0;
/// For exponentials and logarithms.
const TRANSCENDENTAL: f64 = 32.0;
/// For a single operation.
const ONCE: f64 = 1.0;
/// For what is exact.
const EXACT: f64 = 0.0;

macro_rules! forward {
    ($kernel:ty, $config:expr, $reference:path) => {
        Check {
            kernel: <$kernel>::META,
            roundings: SUM,
            run: Runner::With(|device, p| {
                let run = Run::new(device, p);
                let (inp, weights) = (run.input(&p.activations)?, run.input(&p.weights)?);
                let biases = run.input(&p.biases)?;
                let mut out = run.output::<f32>(p.batch * p.outputs)?;
                let config: fn(u32, u32) -> LaunchConfig = $config;
                let [batch, inputs, outputs] = shape(p);
                let (inp, weights, biases) = (inp.view()?, weights.view()?, biases.view()?);
                // SAFETY: the arrays have the problem's shapes, and the grid covers the output.
                unsafe {
                    <$kernel>::launch(
                        device,
                        config(batch, outputs),
                        out.view()?,
                        inp,
                        weights,
                        biases,
                        batch,
                        inputs,
                        outputs,
                    )
                }?;
                Ok(vec![out.finish()?])
            }),
            reference: |p| vec![("out", $reference(p))],
        }
    };
}

macro_rules! backward {
    ($kernel:ty, $tile:ident) => {
        Check {
            kernel: <$kernel>::META,
            roundings: SUM,
            run: Runner::With(|device, p| {
                let run = Run::new(device, p);
                let (d_out, weights) = (run.input(&p.d_out)?, run.input(&p.weights)?);
                let activations = run.input(&p.activations)?;
                let mut d_inp = run.output::<f32>(p.batch * p.inputs)?;
                let [batch, inputs, outputs] = shape(p);
                let (d_out, weights, activations) = (d_out.view()?, weights.view()?, activations.view()?);
                // SAFETY: the arrays have the problem's shapes, and the grid covers the output.
                unsafe {
                    <$kernel>::launch(
                        device,
                        Tile::$tile.config(batch, inputs),
                        d_inp.view()?,
                        d_out,
                        weights,
                        activations,
                        batch,
                        inputs,
                        outputs,
                    )
                }?;
                Ok(vec![d_inp.finish()?])
            }),
            reference: |p| vec![("d_inp", oracle::backward_relu(p))],
        }
    };
}

macro_rules! update {
    ($kernel:ty, $config:expr, $divisor:expr) => {
        Check {
            kernel: <$kernel>::META,
            roundings: SUM,
            run: Runner::With(|device, p| {
                let run = Run::new(device, p);
                let (activations, d_out) = (run.input(&p.activations)?, run.input(&p.d_out)?);
                let config: fn(u32, u32) -> LaunchConfig = $config;
                let [batch, inputs, outputs] = shape(p);
                let mut results = Vec::new();
                for momentum in oracle::MOMENTA {
                    let (mut weights, mut biases) = (run.updated(&p.weights)?, run.updated(&p.biases)?);
                    let mut weight_velocity = run.updated(&p.weight_velocity)?;
                    let mut bias_velocity = run.updated(&p.bias_velocity)?;
                    // SAFETY: the arrays have the problem's shapes, and the grid covers the weights.
                    unsafe {
                        <$kernel>::launch(
                            device,
                            config(inputs, outputs),
                            weights.view()?,
                            biases.view()?,
                            weight_velocity.view()?,
                            bias_velocity.view()?,
                            activations.view()?,
                            d_out.view()?,
                            batch,
                            inputs,
                            outputs,
                            LEARNING_RATE,
                            momentum,
                        )
                    }?;
                    for output in [weights, biases, weight_velocity, bias_velocity] {
                        results.push(output.finish()?);
                    }
                }
                Ok(results)
            }),
            reference: |p| {
                let divisor: fn(&Problem) -> f64 = $divisor;
                oracle::updates(p, divisor(p))
            },
        }
    };
}

/// A kernel that writes `[batch, outputs]` or `[batch]` from one or two arrays of such shapes.
macro_rules! rowwise {
    ($kernel:ty, $roundings:expr, $config:expr, $out:ident: $ty:ty[$len:expr], [$($input:ident),*], $reference:path) => {
        Check {
            kernel: <$kernel>::META,
            roundings: $roundings,
            run: Runner::With(|device, p| {
                let run = Run::new(device, p);
                let len: fn(&Problem) -> usize = $len;
                let config: fn(&Problem) -> LaunchConfig = $config;
                let mut out = run.output::<$ty>(len(p))?;
                $(let $input = run.input(&p.$input)?;)*
                let [rows, _, cols] = shape(p);
                // SAFETY: the arrays have the problem's shapes, and the grid covers the output.
                unsafe {
                    <$kernel>::launch(device, config(p), out.view()?, $($input.view()?,)* rows, cols)
                }?;
                Ok(vec![out.finish()?])
            }),
            reference: |p| vec![(stringify!($out), $reference(p))],
        }
    };
}

/// The problem's shape as kernels take it.
fn shape(p: &Problem) -> [u32; 3] {
    [p.batch as u32, p.inputs as u32, p.outputs as u32]
}

fn all(p: &Problem) -> usize {
    p.batch * p.outputs
}

fn rows(p: &Problem) -> usize {
    p.batch
}

fn element_grid(p: &Problem) -> LaunchConfig {
    per_element(p.batch as u32, p.outputs as u32)
}

fn row_grid(p: &Problem) -> LaunchConfig {
    per_row(p.batch as u32)
}

/// Every kernel's check.
pub fn checks() -> Vec<Check> {
    let softmax = LADDER.iter().flat_map(|rung| rung.variants).map(|variant| Check {
        kernel: variant.meta(),
        roundings: TRANSCENDENTAL,
        run: Runner::Softmax(variant),
        reference: |p| vec![("out", oracle::softmax(p))],
    });
    NETWORK.iter().copied().chain(softmax).collect()
}

/// The checks of the network's kernels.
pub const NETWORK: &[Check] = &[
    Check {
        kernel: batch::shuffled_batch::META,
        roundings: EXACT,
        run: Runner::With(single::shuffled_batch),
        reference: oracle::shuffled_batches,
    },
    Check {
        kernel: batch::ordered_batch::META,
        roundings: EXACT,
        run: Runner::With(single::ordered_batch),
        reference: oracle::ordered_batches,
    },
    forward!(linear::linear_forward, per_element, oracle::forward),
    Check {
        kernel: linear::linear_backward_input::META,
        roundings: SUM,
        run: Runner::With(single::linear_backward_input),
        reference: |p| vec![("d_inp", oracle::backward(p))],
    },
    rowwise!(activation::relu_forward, EXACT, element_grid, out: f32[all], [logits], oracle::relu),
    rowwise!(
        activation::relu_backward, EXACT, element_grid, d_inp: f32[all], [d_out, logits],
        oracle::relu_backward
    ),
    rowwise!(loss::softmax_naive, TRANSCENDENTAL, element_grid, out: f32[all], [logits], oracle::softmax),
    rowwise!(
        loss::cross_entropy_loss, TRANSCENDENTAL, row_grid, out: f32[rows], [probabilities, targets],
        oracle::cross_entropy
    ),
    rowwise!(
        loss::cross_entropy_backward, ONCE, element_grid, d_logits: f32[all], [probabilities, targets],
        oracle::cross_entropy_backward
    ),
    rowwise!(loss::one_hot, EXACT, element_grid, targets: f32[all], [labels], oracle::one_hot),
    rowwise!(loss::count_correct, EXACT, row_grid, out: u32[rows], [logits, labels], oracle::correct),
    update!(sgd::update_layer, per_element, |p| p.batch as f64),
    forward!(
        fused_forward::linear_relu_forward_64x64,
        |m, n| Tile::T64x64.config(m, n),
        oracle::forward_relu
    ),
    forward!(
        fused_forward::linear_relu_forward_64x32,
        |m, n| Tile::T64x32.config(m, n),
        oracle::forward_relu
    ),
    forward!(
        fused_forward::linear_relu_forward_32x32,
        |m, n| Tile::T32x32.config(m, n),
        oracle::forward_relu
    ),
    forward!(fused_forward::linear_forward_64x64, |m, n| Tile::T64x64.config(m, n), oracle::forward),
    forward!(fused_forward::linear_forward_64x32, |m, n| Tile::T64x32.config(m, n), oracle::forward),
    forward!(fused_forward::linear_forward_32x32, |m, n| Tile::T32x32.config(m, n), oracle::forward),
    backward!(fused_backward::linear_relu_backward_64x64, T64x64),
    backward!(fused_backward::linear_relu_backward_64x32, T64x32),
    backward!(fused_backward::linear_relu_backward_32x32, T32x32),
    update!(fused_update::linear_update_64x64, |m, n| Tile::T64x64.config(m, n), |_| 1.0),
    update!(fused_update::linear_update_64x32, |m, n| Tile::T64x32.config(m, n), |_| 1.0),
    update!(fused_update::linear_update_32x32, |m, n| Tile::T32x32.config(m, n), |_| 1.0),
    // Fewer blocks than tiles: each walks down the rows.
    update!(fused_update::linear_update_32x32, |m, n| Tile::T32x32.walking_config(m, n, 2), |_| 1.0),
];
