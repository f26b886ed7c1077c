//! The answers in f64, by the definitions, with the magnitude that their rounding errors are measured by.

use gpu_kernels::mlp::batch::{PIXEL_SCALE, permuted};

use ferrowarp_cases::reference::{self, LayerShape};

use super::problem::Problem;

/// One right answer, and the magnitudes added up on the way; 0 if the answer is exact in f32.
pub use ferrowarp_cases::reference::Sum as Expected;

/// Seed and epoch of the shuffled batch.
pub const ORDER: (u64, u32) = (0x0123_4567_89ab_cdef, 3);
/// Learning rate of the updates.
pub const LEARNING_RATE: f32 = 0.125;

fn exact(value: f64) -> Expected {
    Expected { value, magnitude: 0.0 }
}

fn shape(p: &Problem) -> LayerShape {
    LayerShape { batch: p.batch, inputs: p.inputs, outputs: p.outputs }
}

/// `inp * weights + biases`.
pub fn forward(p: &Problem) -> Vec<Expected> {
    reference::linear_forward(&p.activations, &p.weights, &p.biases, shape(p))
}

/// `max(inp * weights + biases, 0)`.
pub fn forward_relu(p: &Problem) -> Vec<Expected> {
    let mut out = forward(p);
    out.iter_mut().for_each(|x| x.value = x.value.max(0.0));
    out
}

/// `d_out * weights^T`.
pub fn backward(p: &Problem) -> Vec<Expected> {
    reference::linear_backward_input(&p.d_out, &p.weights, shape(p))
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
            probabilities.into_iter().map(move |value| Expected { value, magnitude: value * (1.0 + spread) })
        })
        .collect()
}

/// The loss of the probabilities against the targets, one per row.
pub fn cross_entropy(p: &Problem) -> Vec<Expected> {
    let losses = reference::cross_entropy_loss(&p.probabilities, &p.targets, p.outputs);
    losses.into_iter().map(|value| Expected { value, magnitude: value.abs() }).collect()
}

/// Probabilities minus targets: one rounding.
pub fn cross_entropy_backward(p: &Problem) -> Vec<Expected> {
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
pub fn one_hot(p: &Problem) -> Vec<Expected> {
    p.targets.iter().map(|&x| exact(f64::from(x))).collect()
}

/// 1 where the largest logit, of equal ones the first, is at the label.
pub fn correct(p: &Problem) -> Vec<Expected> {
    let rows = p.logits.chunks_exact(p.outputs).zip(&p.labels);
    rows.map(|(row, &label)| exact(if reference::argmax(row) == label as usize { 1.0 } else { 0.0 }))
        .collect()
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
    let (d_weights, d_biases) = reference::parameter_gradients(&p.activations, &p.d_out, shape(p));
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
        let (value, magnitude) =
            (carried + gradient.value / divisor, carried.abs() + gradient.magnitude / divisor);
        let moved = Expected {
            value: f64::from(parameter) - lr * value,
            magnitude: f64::from(parameter).abs() + lr * magnitude,
        };
        // Without momentum the velocity stays as it is.
        (moved, if momentum == 0.0 { exact(f64::from(velocity)) } else { Expected { value, magnitude } })
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
