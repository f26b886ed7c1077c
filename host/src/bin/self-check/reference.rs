//! The answers in f64, by the definitions, with the scale that their rounding errors are measured by.

use gpu_kernels::mlp::batch::{PIXEL_SCALE, permuted};
use gpu_kernels::mlp::loss::MIN_PROBABILITY;

use super::problem::Problem;

/// One right answer.
#[derive(Clone, Copy, Debug)]
pub struct Expected {
    /// The answer.
    pub value: f64,
    /// The sum of the magnitudes that were added up on the way; 0 if the answer is exact in f32.
    pub scale: f64,
}

/// Seed and epoch of the shuffled batch.
pub const ORDER: (u64, u32) = (0x0123_4567_89ab_cdef, 3);
/// Learning rate of the updates.
pub const LEARNING_RATE: f32 = 0.125;

fn exact(value: f64) -> Expected {
    Expected { value, scale: 0.0 }
}

/// `[m, n]` sums of `k` products, with `start(row, col)` added.
fn product(
    [m, n, k]: [usize; 3],
    start: impl Fn(usize, usize) -> f64,
    term: impl Fn(usize, usize, usize) -> f64,
) -> Vec<Expected> {
    let mut out = Vec::with_capacity(m * n);
    for row in 0..m {
        for col in 0..n {
            let start = start(row, col);
            let mut sum = Expected { value: start, scale: start.abs() };
            for i in 0..k {
                let term = term(row, col, i);
                sum.value += term;
                sum.scale += term.abs();
            }
            out.push(sum);
        }
    }
    out
}

/// `inp * weights + biases`.
pub fn forward(p: &Problem) -> Vec<Expected> {
    product(
        [p.batch, p.outputs, p.inputs],
        |_, col| f64::from(p.biases[col]),
        |row, col, i| {
            f64::from(p.activations[row * p.inputs + i]) * f64::from(p.weights[i * p.outputs + col])
        },
    )
}

/// `max(inp * weights + biases, 0)`.
pub fn forward_relu(p: &Problem) -> Vec<Expected> {
    let mut out = forward(p);
    out.iter_mut().for_each(|x| x.value = x.value.max(0.0));
    out
}

/// `d_out * weights^T`.
pub fn backward(p: &Problem) -> Vec<Expected> {
    product(
        [p.batch, p.inputs, p.outputs],
        |_, _| 0.0,
        |row, col, o| f64::from(p.d_out[row * p.outputs + o]) * f64::from(p.weights[col * p.outputs + o]),
    )
}

/// [`backward`] where the activations are positive, else 0.
pub fn backward_relu(p: &Problem) -> Vec<Expected> {
    let masked = backward(p).into_iter().zip(&p.activations);
    masked.map(|(x, &activation)| if activation > 0.0 { x } else { exact(0.0) }).collect()
}

/// ReLU of the logits.
pub fn relu(p: &Problem) -> Vec<Expected> {
    p.logits.iter().map(|&x| exact(f64::from(x.max(0.0)))).collect()
}

/// `d_out` where the logits are positive, else 0.
pub fn relu_backward(p: &Problem) -> Vec<Expected> {
    p.logits.iter().zip(&p.d_out).map(|(&x, &d)| exact(if x > 0.0 { f64::from(d) } else { 0.0 })).collect()
}

/// Softmax of one row: probabilities, the logarithm of the sum plus the maximum, and the spread of the logits.
fn softmax_row(logits: &[f32]) -> (Vec<f64>, f64, f64) {
    let max = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let min = logits.iter().copied().fold(f32::INFINITY, f32::min);
    let exps: Vec<f64> = logits.iter().map(|&x| (f64::from(x) - f64::from(max)).exp()).collect();
    let sum: f64 = exps.iter().sum();
    (exps.iter().map(|e| e / sum).collect(), sum.ln() + f64::from(max), f64::from(max) - f64::from(min))
}

/// Softmax of the logits. The argument of the exponential is rounded too, and its error grows with the spread.
pub fn softmax(p: &Problem) -> Vec<Expected> {
    p.logits
        .chunks_exact(p.outputs)
        .flat_map(|row| {
            let (probabilities, _, spread) = softmax_row(row);
            probabilities.into_iter().map(move |value| Expected { value, scale: value * (1.0 + spread) })
        })
        .collect()
}

/// The loss of the probabilities against the targets, one per row.
pub fn cross_entropy(p: &Problem) -> Vec<Expected> {
    let rows = p.probabilities.chunks_exact(p.outputs).zip(p.targets.chunks_exact(p.outputs));
    rows.map(|(probabilities, targets)| {
        let term = |(&q, &t): (&f32, &f32)| -f64::from(t) * f64::from(q.max(MIN_PROBABILITY)).ln();
        let value: f64 = probabilities.iter().zip(targets).map(term).sum();
        Expected { value, scale: value.abs() }
    })
    .collect()
}

/// Probabilities minus targets: one rounding.
pub fn cross_entropy_backward(p: &Problem) -> Vec<Expected> {
    p.probabilities
        .iter()
        .zip(&p.targets)
        .map(|(&q, &t)| Expected { value: f64::from(q) - f64::from(t), scale: f64::from(q) + f64::from(t) })
        .collect()
}

/// 1 at the label, else 0.
pub fn one_hot(p: &Problem) -> Vec<Expected> {
    p.targets.iter().map(|&x| exact(f64::from(x))).collect()
}

/// 1 where the largest logit, of equal ones the first, is at the label.
pub fn correct(p: &Problem) -> Vec<Expected> {
    let rows = p.logits.chunks_exact(p.outputs).zip(&p.labels);
    rows.map(|(row, &label)| {
        let best = (0..row.len()).rev().max_by(|&a, &b| row[a].total_cmp(&row[b])).unwrap_or(0);
        exact(if best == label as usize { 1.0 } else { 0.0 })
    })
    .collect()
}

/// Gradient at the logits, averaged over the batch, and the loss of every row.
pub fn softmax_cross_entropy(p: &Problem) -> (Vec<Expected>, Vec<Expected>) {
    let (mut gradients, mut losses) = (Vec::new(), Vec::new());
    let rows = p.batch as f64;
    for (logits, &label) in p.logits.chunks_exact(p.outputs).zip(&p.labels) {
        let (probabilities, log_sum, spread) = softmax_row(logits);
        for (col, q) in probabilities.into_iter().enumerate() {
            let target = if col == label as usize { 1.0 } else { 0.0 };
            gradients
                .push(Expected { value: (q - target) / rows, scale: (q * (1.0 + spread) + target) / rows });
        }
        let at_label = f64::from(logits[label as usize]);
        losses.push(Expected { value: log_sum - at_label, scale: 1.0 + log_sum.abs() + at_label.abs() });
    }
    (gradients, losses)
}

/// Parameters and velocities after one step of SGD.
pub struct Updated {
    /// `[inputs, outputs]`.
    pub weights: Vec<Expected>,
    /// `[outputs]`.
    pub biases: Vec<Expected>,
    /// `[inputs, outputs]`.
    pub weight_velocity: Vec<Expected>,
    /// `[outputs]`.
    pub bias_velocity: Vec<Expected>,
}

/// One step of SGD, with the gradients divided by `divisor`.
pub fn update(p: &Problem, divisor: f64) -> Updated {
    let d_weights = product(
        [p.inputs, p.outputs, p.batch],
        |_, _| 0.0,
        |row, col, b| f64::from(p.activations[b * p.inputs + row]) * f64::from(p.d_out[b * p.outputs + col]),
    );
    let d_biases =
        product([1, p.outputs, p.batch], |_, _| 0.0, |_, col, b| f64::from(p.d_out[b * p.outputs + col]));
    let (weights, weight_velocity) = steps(&p.weights, &p.weight_velocity, &d_weights, divisor, p.momentum);
    let (biases, bias_velocity) = steps(&p.biases, &p.bias_velocity, &d_biases, divisor, p.momentum);
    Updated { weights, biases, weight_velocity, bias_velocity }
}

fn steps(
    parameters: &[f32],
    velocities: &[f32],
    gradients: &[Expected],
    divisor: f64,
    momentum: f32,
) -> (Vec<Expected>, Vec<Expected>) {
    let lr = f64::from(LEARNING_RATE);
    let step = |((&parameter, &velocity), gradient): ((&f32, &f32), &Expected)| {
        let carried = f64::from(momentum) * f64::from(velocity);
        let (value, scale) = (carried + gradient.value / divisor, carried.abs() + gradient.scale / divisor);
        let moved = Expected {
            value: f64::from(parameter) - lr * value,
            scale: f64::from(parameter).abs() + lr * scale,
        };
        // Without momentum the velocity stays as it is.
        (moved, if momentum == 0.0 { exact(f64::from(velocity)) } else { Expected { value, scale } })
    };
    parameters.iter().zip(velocities).zip(gradients).map(step).unzip()
}

/// The samples of a batch that `positions` names: pixels, then labels.
fn samples(p: &Problem, positions: impl Iterator<Item = usize> + Clone) -> (Vec<Expected>, Vec<Expected>) {
    let pixels = positions.clone().flat_map(|sample| &p.images[sample * p.inputs..(sample + 1) * p.inputs]);
    let labels = positions.map(|sample| exact(f64::from(p.image_labels[sample])));
    (pixels.map(|&pixel| exact(f64::from(f32::from(pixel) * PIXEL_SCALE))).collect(), labels.collect())
}

/// All samples, in their own order.
pub fn ordered_batch(p: &Problem) -> (Vec<Expected>, Vec<Expected>) {
    samples(p, 0..p.batch)
}

/// All samples, in the order of [`ORDER`].
pub fn shuffled_batch(p: &Problem) -> (Vec<Expected>, Vec<Expected>) {
    let (seed, epoch) = ORDER;
    let order: Vec<usize> =
        (0..p.batch).map(|i| permuted(i as u32, p.batch as u32, seed, epoch) as usize).collect();
    samples(p, order.into_iter())
}
