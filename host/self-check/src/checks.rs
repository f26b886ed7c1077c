//! The table: for every kernel how to run it and what is right.

use anyhow::Result;
use cuda_std::launch::{KernelMeta, LaunchConfig};
use ferrowarp::device::Device;
use gpu_kernels::mlp::{activation, batch, fused_backward, fused_forward, fused_update, linear, loss, sgd};
use gpu_kernels::softmax::{LADDER, Variant};

use super::problem::Problem;
use super::reference::{self, Expected, LEARNING_RATE};
use super::run::Run;
use super::single;

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

/// One thread per element.
pub fn per_element(rows: usize, cols: usize) -> LaunchConfig {
    let blocks = |n: usize| (n as u32).div_ceil(16);
    LaunchConfig::new((blocks(cols), blocks(rows)), (16, 16))
}

/// One thread per row.
pub fn per_row(rows: usize) -> LaunchConfig {
    LaunchConfig::cover(rows, 64)
}

/// One block per tile of `bm` x `bn` outputs, `tm` x `tn` of them a thread.
fn per_tile(rows: usize, cols: usize, [bm, bn, tm, tn]: [u32; 4]) -> LaunchConfig {
    LaunchConfig::new(((cols as u32).div_ceil(bn), (rows as u32).div_ceil(bm)), (bm / tm) * (bn / tn))
}

/// A row of threads for every sample.
pub fn per_sample(rows: usize) -> LaunchConfig {
    LaunchConfig::new((1, (rows as u32).div_ceil(8)), (batch::THREADS_PER_SAMPLE, 8))
}

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
                let config: fn(usize, usize) -> LaunchConfig = $config;
                let [batch, inputs, outputs] = shape(p);
                let (inp, weights, biases) = (inp.view()?, weights.view()?, biases.view()?);
                // SAFETY: the arrays have the problem's shapes, and the grid covers the output.
                unsafe {
                    <$kernel>::launch(
                        device,
                        config(p.batch, p.outputs),
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
    ($kernel:ty, $tile:expr) => {
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
                        per_tile(p.batch, p.inputs, $tile),
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
            reference: |p| vec![("d_inp", reference::backward_relu(p))],
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
                let (mut weights, mut biases) = (run.updated(&p.weights)?, run.updated(&p.biases)?);
                let mut weight_velocity = run.updated(&p.weight_velocity)?;
                let mut bias_velocity = run.updated(&p.bias_velocity)?;
                let config: fn(usize, usize) -> LaunchConfig = $config;
                let [batch, inputs, outputs] = shape(p);
                // SAFETY: the arrays have the problem's shapes, and the grid covers the weights.
                unsafe {
                    <$kernel>::launch(
                        device,
                        config(p.inputs, p.outputs),
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
                        p.momentum,
                    )
                }?;
                Ok(vec![
                    weights.finish()?,
                    biases.finish()?,
                    weight_velocity.finish()?,
                    bias_velocity.finish()?,
                ])
            }),
            reference: |p| {
                let divisor: fn(&Problem) -> f64 = $divisor;
                let updated = reference::update(p, divisor(p));
                vec![
                    ("weights", updated.weights),
                    ("biases", updated.biases),
                    ("weight_velocity", updated.weight_velocity),
                    ("bias_velocity", updated.bias_velocity),
                ]
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
pub fn shape(p: &Problem) -> [u32; 3] {
    [p.batch as u32, p.inputs as u32, p.outputs as u32]
}

fn all(p: &Problem) -> usize {
    p.batch * p.outputs
}

fn rows(p: &Problem) -> usize {
    p.batch
}

fn element_grid(p: &Problem) -> LaunchConfig {
    per_element(p.batch, p.outputs)
}

fn row_grid(p: &Problem) -> LaunchConfig {
    per_row(p.batch)
}

/// Tiles of 64 x 64, 64 x 32 and 32 x 32 outputs.
const T64X64: [u32; 4] = [64, 64, 8, 8];
const T64X32: [u32; 4] = [64, 32, 8, 8];
const T32X32: [u32; 4] = [32, 32, 4, 4];

/// Every kernel's check.
pub fn checks() -> Vec<Check> {
    let softmax = LADDER.iter().flat_map(|rung| rung.variants).map(|variant| Check {
        kernel: variant.meta(),
        roundings: TRANSCENDENTAL,
        run: Runner::Softmax(variant),
        reference: |p| vec![("out", reference::softmax(p))],
    });
    MLP.iter().copied().chain(softmax).collect()
}

/// The checks of the network's kernels.
const MLP: &[Check] = &[
    Check {
        kernel: batch::shuffled_batch::META,
        roundings: EXACT,
        run: Runner::With(single::shuffled_batch),
        reference: |p| single::batch_outputs(reference::shuffled_batch(p)),
    },
    Check {
        kernel: batch::ordered_batch::META,
        roundings: EXACT,
        run: Runner::With(single::ordered_batch),
        reference: |p| single::batch_outputs(reference::ordered_batch(p)),
    },
    forward!(linear::linear_forward, per_element, reference::forward),
    Check {
        kernel: linear::linear_backward_input::META,
        roundings: SUM,
        run: Runner::With(single::linear_backward_input),
        reference: |p| vec![("d_inp", reference::backward(p))],
    },
    rowwise!(activation::relu_forward, EXACT, element_grid, out: f32[all], [logits], reference::relu),
    rowwise!(
        activation::relu_backward, EXACT, element_grid, d_inp: f32[all], [d_out, logits],
        reference::relu_backward
    ),
    rowwise!(loss::softmax_naive, TRANSCENDENTAL, element_grid, out: f32[all], [logits], reference::softmax),
    rowwise!(
        loss::cross_entropy_loss, TRANSCENDENTAL, row_grid, out: f32[rows], [probabilities, targets],
        reference::cross_entropy
    ),
    rowwise!(
        loss::cross_entropy_backward, ONCE, element_grid, d_logits: f32[all], [probabilities, targets],
        reference::cross_entropy_backward
    ),
    rowwise!(loss::one_hot, EXACT, element_grid, targets: f32[all], [labels], reference::one_hot),
    rowwise!(loss::count_correct, EXACT, row_grid, out: u32[rows], [logits, labels], reference::correct),
    update!(sgd::update_layer, per_element, |p| p.batch as f64),
    forward!(
        fused_forward::linear_relu_forward_64x64,
        |m, n| per_tile(m, n, T64X64),
        reference::forward_relu
    ),
    forward!(
        fused_forward::linear_relu_forward_64x32,
        |m, n| per_tile(m, n, T64X32),
        reference::forward_relu
    ),
    forward!(
        fused_forward::linear_relu_forward_32x32,
        |m, n| per_tile(m, n, T32X32),
        reference::forward_relu
    ),
    forward!(fused_forward::linear_forward_64x64, |m, n| per_tile(m, n, T64X64), reference::forward),
    forward!(fused_forward::linear_forward_64x32, |m, n| per_tile(m, n, T64X32), reference::forward),
    forward!(fused_forward::linear_forward_32x32, |m, n| per_tile(m, n, T32X32), reference::forward),
    backward!(fused_backward::linear_relu_backward_64x64, T64X64),
    backward!(fused_backward::linear_relu_backward_64x32, T64X32),
    backward!(fused_backward::linear_relu_backward_32x32, T32X32),
    update!(fused_update::linear_update_64x64, |m, n| per_tile(m, n, T64X64), |_| 1.0),
    update!(fused_update::linear_update_64x32, |m, n| per_tile(m, n, T64X32), |_| 1.0),
    update!(fused_update::linear_update_32x32, |m, n| per_tile(m, n, T32X32), |_| 1.0),
];

#[cfg(test)]
mod tests {
    use super::{Check, Runner, checks};

    #[test]
    fn every_kernel_has_one_check() {
        let names = |check: &Check| match check.run {
            Runner::With(_) => vec![check.kernel.name],
            Runner::Softmax(variant) => variant.steps.iter().map(|step| step.meta.name).collect(),
        };
        let mut checked: Vec<_> =
            checks().iter().flat_map(names).chain(crate::operation::kernels()).collect();
        let mut kernels: Vec<_> = gpu_kernels::KERNELS.iter().map(|kernel| kernel.name).collect();
        checked.sort_unstable();
        kernels.sort_unstable();
        assert_eq!(checked, kernels);
    }
}
