//! The kernels' computations as simple loops in f64: the oracles of tests and self-check.
//!
//! Layouts are those of [`gpu_kernels::mlp`]. Matrix multiplications also return the same sum over absolute values, the
//! measure for rounding errors.

use cuda_std::testing::Element as _;
use ferrowarp::Softmax;

use crate::compare::Bound;

mod network;
mod sample;
mod softmax;

pub use network::{Judgement, LayerOf, Real, Sgd, step};
pub use sample::Draw;
pub use softmax::{Number, RELATIVE, largest, relative_one_after_the_other, softmax_bounds, softmax_with};

/// Extents of a linear layer on a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayerShape {
    /// Samples.
    pub batch: usize,
    /// Input features.
    pub inputs: usize,
    /// Output features.
    pub outputs: usize,
}

/// A sum and the sum of its terms' absolute values.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sum {
    /// The sum.
    pub value: f64,
    /// The sum of the absolute values, which bounds the rounding error.
    pub magnitude: f64,
}

impl Sum {
    /// The sum, with a tolerance of `roundings` f32 roundings of the magnitude.
    pub fn within(self, roundings: f64) -> Bound {
        // Below the smallest normal f32 the rounding error no longer shrinks with the number.
        let floor = if self.magnitude == 0.0 { 0.0 } else { f64::from(f32::MIN_POSITIVE) };
        Bound::near(self.value, roundings * f32::ROUNDING * self.magnitude + floor)
    }

    /// The sum with another term.
    pub fn and(self, term: f64) -> Self {
        Self { value: self.value + term, magnitude: self.magnitude + term.abs() }
    }

    fn add(&mut self, term: f64) {
        *self = self.and(term);
    }
}

/// The dot product of two rows.
pub(crate) fn dot<T: Number>(a: &[T], b: &[T]) -> Sum {
    let terms = a.iter().zip(b).map(|(a, b)| f64::from(a.value()) * f64::from(b.value()));
    terms.fold(Sum::default(), Sum::and)
}

/// `inp * weights + biases`: `[batch, outputs]`.
pub fn linear_forward(inp: &[f32], weights: &[f32], biases: &[f32], shape: LayerShape) -> Vec<Sum> {
    let LayerShape { batch, inputs, outputs } = shape;
    let mut out = vec![Sum::default(); batch * outputs];
    for row in 0..batch {
        for col in 0..outputs {
            let sum = &mut out[row * outputs + col];
            sum.add(biases[col].into());
            for i in 0..inputs {
                sum.add(f64::from(inp[row * inputs + i]) * f64::from(weights[i * outputs + col]));
            }
        }
    }
    out
}

/// `d_out * weights^T`: `[batch, inputs]`.
pub fn linear_backward_input(d_out: &[f32], weights: &[f32], shape: LayerShape) -> Vec<Sum> {
    let LayerShape { batch, inputs, outputs } = shape;
    let mut d_inp = vec![Sum::default(); batch * inputs];
    for row in 0..batch {
        for col in 0..inputs {
            for o in 0..outputs {
                let term = f64::from(d_out[row * outputs + o]) * f64::from(weights[col * outputs + o]);
                d_inp[row * inputs + col].add(term);
            }
        }
    }
    d_inp
}

/// `activations^T * d_out`, `[inputs, outputs]`, and the column sums of `d_out`, `[outputs]`.
pub fn parameter_gradients(activations: &[f32], d_out: &[f32], shape: LayerShape) -> (Vec<Sum>, Vec<Sum>) {
    let LayerShape { batch, inputs, outputs } = shape;
    let (mut d_weights, mut d_biases) =
        (vec![Sum::default(); inputs * outputs], vec![Sum::default(); outputs]);
    for sample in 0..batch {
        for o in 0..outputs {
            let d = f64::from(d_out[sample * outputs + o]);
            d_biases[o].add(d);
            for i in 0..inputs {
                d_weights[i * outputs + o].add(f64::from(activations[sample * inputs + i]) * d);
            }
        }
    }
    (d_weights, d_biases)
}

/// Softmax along rows of `[rows, cols]`.
pub fn softmax(inp: &[f32], cols: usize) -> Vec<f64> {
    softmax_with(inp, cols, &Softmax::new())
}

/// `-sum(targets * ln(max(probs, 1e-12)))` of each row.
pub fn cross_entropy_loss(probs: &[f32], targets: &[f32], cols: usize) -> Vec<f64> {
    let floor = f64::from(gpu_kernels::mlp::loss::MIN_PROBABILITY);
    let rows = probs.chunks(cols).zip(targets.chunks(cols));
    rows.map(|(probs, targets)| {
        probs.iter().zip(targets).map(|(&p, &t)| -f64::from(t) * f64::from(p).max(floor).ln()).sum()
    })
    .collect()
}

/// Cross entropy of one row, with the gradient of the loss at the logits.
#[derive(Clone, Debug)]
pub struct CrossEntropy {
    /// `ln(sum(exp(x))) - x[target]`; 0 if the target is ignored, NaN if it is not a column.
    pub loss: f64,
    /// `ln(sum(exp(x)))`.
    pub log_sum_exp: f64,
    /// `softmax(x) - one_hot(target)`; 0 or NaN like the loss.
    pub gradient: Vec<f64>,
    /// Whether the largest logit, the first of equal ones, is the target's; false if the loss is NaN.
    pub is_correct: bool,
}

/// Cross entropy of a row of logits.
pub fn cross_entropy(logits: &[f32], target: i64, ignore_index: i64) -> CrossEntropy {
    let max = f64::from(logits.iter().copied().fold(f32::NEG_INFINITY, f32::max));
    let ln_sum = logits.iter().map(|&x| (f64::from(x) - max).exp()).sum::<f64>().ln();
    let mut row = CrossEntropy {
        loss: 0.0,
        log_sum_exp: if logits.iter().all(|&x| x == f32::NEG_INFINITY) { max } else { max + ln_sum },
        gradient: vec![0.0; logits.len()],
        is_correct: false,
    };
    if target != ignore_index {
        let column = usize::try_from(target).ok().filter(|&column| column < logits.len());
        row.loss = column.map_or(f64::NAN, |column| ln_sum - (f64::from(logits[column]) - max));
        row.gradient = softmax(logits, logits.len());
        match column {
            Some(column) => row.gradient[column] -= 1.0,
            None => row.gradient.fill(f64::NAN),
        }
        row.is_correct = column == Some(argmax(logits)) && !row.loss.is_nan();
    }
    row
}

/// The gradient at the logits of a row, from the gradient at its softmax or log-softmax `y`.
pub fn softmax_backward(dy: &[f32], y: &[f32], is_log: bool) -> Vec<Sum> {
    let pairs = || dy.iter().zip(y).map(|(&dy, &y)| (f64::from(dy), f64::from(y)));
    let mut sum = Sum::default();
    pairs().for_each(|(dy, y)| sum.add(if is_log { dy } else { dy * y }));
    let gradient = pairs().map(|(dy, y)| {
        let (own, share) = if is_log { (dy, y.exp()) } else { (dy * y, y) };
        Sum { value: own - share * sum.value, magnitude: own.abs() + share.abs() * sum.magnitude }
    });
    gradient.collect()
}

/// The index of the largest score, the first of equal ones.
pub fn argmax(scores: &[f32]) -> usize {
    (1..scores.len()).fold(0, |best, i| if scores[i] > scores[best] { i } else { best })
}
