//! What the kernels compute, in f64 and one loop after the other: the oracles of tests and self-check.
//!
//! Layouts are those of [`gpu_kernels::mlp`]. Matrix products come with a second result, the same sum over
//! absolute values, which is what rounding errors are measured against.

/// Extents of a linear layer on a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayerShape {
    /// Samples.
    pub batch: usize,
    /// Features in.
    pub inputs: usize,
    /// Features out.
    pub outputs: usize,
}

/// A sum and the sum of its terms' absolute values.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sum {
    /// The sum.
    pub value: f64,
    /// The sum of the absolute values, by which an error of rounding is bounded.
    pub magnitude: f64,
}

impl Sum {
    fn add(&mut self, term: f64) {
        self.value += term;
        self.magnitude += term.abs();
    }
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

/// One SGD step: the parameter and the velocity after it.
pub fn sgd_step(parameter: f64, velocity: f64, gradient: f64, lr: f64, momentum: f64) -> (f64, f64) {
    let velocity = momentum * velocity + gradient;
    (parameter - lr * velocity, velocity)
}

/// Softmax along rows of `[rows, cols]`.
pub fn softmax(inp: &[f32], cols: usize) -> Vec<f64> {
    let rows = inp.chunks(cols).flat_map(|row| {
        let max = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let exps: Vec<f64> = row.iter().map(|&x| (f64::from(x) - f64::from(max)).exp()).collect();
        let sum: f64 = exps.iter().sum();
        exps.into_iter().map(move |e| e / sum)
    });
    rows.collect()
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

/// Loss, gradient averaged over the rows, and hit of each row, from logits and labels.
pub fn softmax_cross_entropy(logits: &[f32], labels: &[u32], cols: usize) -> (Vec<f64>, Vec<f64>, Vec<u32>) {
    let probs = softmax(logits, cols);
    let (mut loss, mut gradient, mut correct) = (Vec::new(), Vec::new(), Vec::new());
    for ((logits, probs), &label) in logits.chunks(cols).zip(probs.chunks(cols)).zip(labels) {
        let max = f64::from(logits.iter().copied().fold(f32::NEG_INFINITY, f32::max));
        let sum: f64 = logits.iter().map(|&x| (f64::from(x) - max).exp()).sum();
        loss.push(sum.ln() + max - f64::from(logits[label as usize]));
        for (col, p) in probs.iter().enumerate() {
            let target = if col == label as usize { 1.0 } else { 0.0 };
            gradient.push((p - target) / labels.len() as f64);
        }
        correct.push(u32::from(argmax(logits) == label as usize));
    }
    (loss, gradient, correct)
}

/// Index of the largest score, of equal ones the first.
pub fn argmax(scores: &[f32]) -> usize {
    (1..scores.len()).fold(0, |best, i| if scores[i] > scores[best] { i } else { best })
}
