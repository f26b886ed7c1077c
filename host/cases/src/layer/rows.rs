//! Activations, softmax and losses: what works on a row or an element by itself.

use anyhow::{Context as _, Result};
use cuda_std::launch::LaunchConfig;
use ferrowarp::device::Device;
use gpu_kernels::mlp::grid::{per_element, per_row};
use gpu_kernels::mlp::{activation, loss};
use gpu_kernels::softmax::Variant;

use super::run::Run;
use super::{Check, EXACT, Expected, ONCE, Outputs, Problem, Runner, TRANSCENDENTAL, exact, shape};
use crate::reference;

/// ReLU of the logits.
fn relu(p: &Problem) -> Vec<Expected> {
    p.logits.iter().map(|&x| exact(f64::from(x.max(0.0)))).collect()
}

/// `d_out` where the logits are positive, else 0.
fn relu_backward(p: &Problem) -> Vec<Expected> {
    p.logits.iter().zip(&p.d_out).map(|(&x, &d)| exact(if x > 0.0 { f64::from(d) } else { 0.0 })).collect()
}

/// Softmax of the logits. The argument of the exponential is rounded too, and its error grows with the spread.
pub(super) fn softmax(p: &Problem) -> Vec<Expected> {
    let values = reference::softmax(&p.logits, p.outputs);
    let spread = |row: &[f32]| {
        let (min, max) =
            row.iter().fold((f32::INFINITY, f32::NEG_INFINITY), |(min, max), &x| (min.min(x), max.max(x)));
        f64::from(max) - f64::from(min)
    };
    let rows = values.chunks_exact(p.outputs).zip(p.logits.chunks_exact(p.outputs));
    rows.flat_map(|(values, logits)| {
        let factor = 1.0 + spread(logits);
        values.iter().map(move |&value| Expected { value, magnitude: value * factor })
    })
    .collect()
}

/// The loss of the probabilities against the targets, one per row.
fn cross_entropy(p: &Problem) -> Vec<Expected> {
    let losses = reference::cross_entropy_loss(&p.probabilities, &p.targets, p.outputs);
    losses.into_iter().map(|value| Expected { value, magnitude: value.abs() }).collect()
}

/// Probabilities minus targets: one rounding.
fn cross_entropy_backward(p: &Problem) -> Vec<Expected> {
    p.probabilities
        .iter()
        .zip(&p.targets)
        .map(|(&q, &t)| Expected {
            value: f64::from(q) - f64::from(t),
            magnitude: f64::from(q) + f64::from(t),
        })
        .collect()
}

/// 1 at the label, else 0.
fn one_hot(p: &Problem) -> Vec<Expected> {
    p.targets.iter().map(|&x| exact(f64::from(x))).collect()
}

/// 1 where the largest logit, of equal ones the first, is at the label.
fn correct(p: &Problem) -> Vec<Expected> {
    let rows = p.logits.chunks_exact(p.outputs).zip(&p.labels);
    rows.map(|(row, &label)| exact(if reference::argmax(row) == label as usize { 1.0 } else { 0.0 }))
        .collect()
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

/// The checks.
pub const CHECKS: &[Check] = &[
    rowwise!(activation::relu_forward, EXACT, element_grid, out: f32[all], [logits], relu),
    rowwise!(activation::relu_backward, EXACT, element_grid, d_inp: f32[all], [d_out, logits], relu_backward),
    rowwise!(loss::softmax_naive, TRANSCENDENTAL, element_grid, out: f32[all], [logits], softmax),
    rowwise!(
        loss::cross_entropy_loss, TRANSCENDENTAL, row_grid, out: f32[rows], [probabilities, targets],
        cross_entropy
    ),
    rowwise!(
        loss::cross_entropy_backward, ONCE, element_grid, d_logits: f32[all], [probabilities, targets],
        cross_entropy_backward
    ),
    rowwise!(loss::one_hot, EXACT, element_grid, targets: f32[all], [labels], one_hot),
    rowwise!(loss::count_correct, EXACT, row_grid, out: u32[rows], [logits, labels], correct),
];

/// A way of the ladder on the logits.
pub(super) fn run_ladder(device: &Device, p: &Problem, variant: Variant) -> Result<Outputs> {
    let kernel = variant.prepare(p.batch, p.outputs).context("the kernel refuses the shape")?;
    let run = Run::new(device, p);
    let (inp, mut out) = (run.input(&p.logits)?, run.output::<f32>(p.batch * p.outputs)?);
    let mut workspace = run.output::<f32>(kernel.workspace_len())?;
    // SAFETY: the arrays are three, and have the lengths that the kernel was prepared for.
    unsafe { kernel.launch(device, out.view()?, inp.view()?, workspace.view()?) }?;
    // It holds nothing to compare, but is written whole, and not outside.
    workspace.finish()?;
    Ok(vec![out.finish()?])
}
