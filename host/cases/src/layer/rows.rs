//! Copies, activations, softmax and losses: kernels that process each row or element separately.

use cuda_std::launch::LaunchConfig;
use ferrowarp::Softmax;
use gpu_kernels::copy;
use gpu_kernels::mlp::grid::{per_element, per_row};
use gpu_kernels::mlp::{activation, loss};

use super::check::{Check, ONCE, TRANSCENDENTAL, shape};
use super::problem::Problem;
use super::run::Run;
use crate::case::wide;
use crate::compare::Bound;
use crate::reference::{self, Sum};

/// The logits.
fn copied(p: &Problem) -> Vec<Bound> {
    p.logits.iter().map(|&x| Bound::exact(f64::from(x))).collect()
}

/// ReLU of the logits.
fn relu(p: &Problem) -> Vec<Bound> {
    p.logits.iter().map(|&x| Bound::exact(f64::from(x.max(0.0)))).collect()
}

/// `d_out` where the logits are positive, else 0.
fn relu_backward(p: &Problem) -> Vec<Bound> {
    p.logits
        .iter()
        .zip(&p.d_out)
        .map(|(&x, &d)| Bound::exact(if x > 0.0 { f64::from(d) } else { 0.0 }))
        .collect()
}

/// Softmax of the logits; each thread sums a row.
fn softmax(p: &Problem) -> Vec<Bound> {
    let relative = reference::relative_one_after_the_other(p.outputs);
    reference::softmax_bounds::<f32>(&p.logits, p.outputs, &Softmax::new(), relative)
}

/// The loss of the probabilities against the targets, one per row.
fn cross_entropy(p: &Problem) -> Vec<Bound> {
    let losses = reference::cross_entropy_loss(&p.probabilities, &p.targets, p.outputs);
    // One term per row, or one per class, added sequentially.
    let additions = if p.smoothing == 0.0 { 0.0 } else { p.outputs as f64 };
    let bound = |value: f64| Sum { value, magnitude: value.abs() }.within(TRANSCENDENTAL + additions);
    losses.into_iter().map(bound).collect()
}

/// Probabilities minus targets: one rounding.
fn cross_entropy_backward(p: &Problem) -> Vec<Bound> {
    p.probabilities
        .iter()
        .zip(&p.targets)
        .map(|(&q, &t)| (f64::from(q), f64::from(t)))
        .map(|(q, t)| Sum { value: q - t, magnitude: q + t }.within(ONCE))
        .collect()
}

/// 1 at the label, else 0, with the share spread over all classes.
fn one_hot(p: &Problem) -> Vec<Bound> {
    let smoothing = f64::from(p.smoothing);
    let of_class = |label: u32, class: usize| {
        let one_hot = if class == label as usize { 1.0 } else { 0.0 };
        let value = (1.0 - smoothing) * one_hot + smoothing / p.outputs as f64;
        // Without spreading there is no rounding.
        if smoothing == 0.0 { Bound::exact(value) } else { Sum { value, magnitude: value }.within(TARGET) }
    };
    let of_row = |&label: &u32| (0..p.outputs).map(move |class| of_class(label, class));
    p.labels.iter().flat_map(of_row).collect()
}

/// 1 if the largest logit, the first of equal ones, is at the label.
fn correct(p: &Problem) -> Vec<Bound> {
    let rows = p.logits.chunks_exact(p.outputs).zip(&p.labels);
    rows.map(|(row, &label)| Bound::exact(if reference::argmax(row) == label as usize { 1.0 } else { 0.0 }))
        .collect()
}

/// Roundings of a target: of a difference, of a quotient and of their sum.
pub(super) const TARGET: f64 = 3.0;

/// A kernel that writes `[batch, outputs]` or `[batch]` from one or two such arrays, and maybe another parameter.
macro_rules! rowwise {
    (
        $kernel:ty, $config:expr, $out:ident: $ty:ty[$len:expr], [$($input:ident),* $(; $more:ident)?],
        $reference:path
    ) => {
        Check {
            kernel: <$kernel>::META,
            run: |device, p| {
                let mut run = Run::new(p);
                let len: fn(&Problem) -> usize = $len;
                let config: fn(&Problem) -> LaunchConfig = $config;
                let out = run.output::<$ty>(len(p));
                $(let $input = run.input(&p.$input);)*
                let [rows, _, cols] = shape(p);
                let results = run.on(device, |on, memory| {
                    let out = memory.output(out);
                    // SAFETY: the arrays have the problem's shapes, and the grid covers the output.
                    unsafe {
                        <$kernel>::launch(
                            on, config(p), out, $(memory.input($input),)* rows, cols $(, p.$more)?
                        )
                    }
                })?;
                Ok(vec![(stringify!($out), wide(&results.of(out)))])
            },
            expected: |p| vec![(stringify!($out), $reference(p))],
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

fn copy_grid<const VECTORS: usize>(p: &Problem) -> LaunchConfig {
    copy::grid::<VECTORS>(all(p))
}

/// The checks.
pub const CHECKS: &[Check] = &[
    rowwise!(copy::copy_x1, copy_grid::<1>, out: f32[all], [logits], copied),
    rowwise!(copy::copy_x4, copy_grid::<4>, out: f32[all], [logits], copied),
    rowwise!(activation::relu_forward, element_grid, out: f32[all], [logits], relu),
    rowwise!(activation::relu_backward, element_grid, d_inp: f32[all], [d_out, logits], relu_backward),
    rowwise!(loss::softmax_naive, element_grid, out: f32[all], [logits], softmax),
    rowwise!(
        loss::cross_entropy_loss, row_grid, out: f32[rows], [probabilities, targets],
        cross_entropy
    ),
    rowwise!(
        loss::cross_entropy_backward, element_grid, d_logits: f32[all], [probabilities, targets],
        cross_entropy_backward
    ),
    rowwise!(loss::one_hot, element_grid, targets: f32[all], [labels; row_targets], one_hot),
    rowwise!(loss::count_correct, row_grid, out: u32[rows], [logits, labels], correct),
];
