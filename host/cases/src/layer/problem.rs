//! The inputs of the checks: one layer of a network, filled with random numbers from a fixed seed.

use std::fmt;

use gpu_kernels::mlp::loss::Targets;

/// Batch, inputs and outputs: below, above or between multiples of tiles, warps and vectors, or exact multiples.
const SHAPES: [[usize; 3]; 13] = [
    [1, 1, 1],
    [1, 31, 33],
    [33, 1, 31],
    [31, 33, 1],
    [1, 3, 10],
    [7, 1, 129],
    [31, 3, 10],
    [2, 784, 10],
    [33, 31, 65],
    [13, 2, 1025],
    [64, 64, 64],
    [65, 100, 33],
    [63, 129, 67],
];

/// More shapes, too slow for an emulator; the last has the size that training uses.
const LARGE: [[usize; 3]; 5] = [[31, 33, 65], [128, 100, 10], [65, 130, 67], [64, 300, 100], [64, 784, 300]];

/// Elements by which the misaligned problem's inputs are off a 16-byte boundary.
const MISALIGNMENT: usize = 1;

/// One layer with `batch` samples, `inputs` input features and `outputs` output features. Arrays are row-major.
#[derive(Clone)]
pub struct Problem {
    /// Samples.
    pub batch: usize,
    /// Input features.
    pub inputs: usize,
    /// Output features, or classes.
    pub outputs: usize,
    /// Elements by which every array is off its natural alignment in device memory.
    pub misalignment: usize,
    /// `[batch, inputs]`, about half of them 0, as after a ReLU.
    pub activations: Vec<f32>,
    /// `[inputs, outputs]`.
    pub weights: Vec<f32>,
    /// `[outputs]`.
    pub biases: Vec<f32>,
    /// `[inputs, outputs]`.
    pub weight_velocity: Vec<f32>,
    /// `[outputs]`.
    pub bias_velocity: Vec<f32>,
    /// `[batch, outputs]`, the gradient at the layer's output.
    pub d_out: Vec<f32>,
    /// `[batch, outputs]`, with rows of equal values and rows with one far above the others.
    pub logits: Vec<f32>,
    /// `[batch, outputs]`, rows that sum to about 1, with zeros among them.
    pub probabilities: Vec<f32>,
    /// `[batch]`, each less than `outputs`.
    pub labels: Vec<u32>,
    /// The share of the targets that is spread evenly over all classes.
    pub smoothing: f32,
    /// The kernels' form of that.
    pub row_targets: Targets,
    /// `[batch, outputs]`, 1 at the label, else 0, with that share spread.
    pub targets: Vec<f32>,
    /// `[batch, inputs]`.
    pub images: Vec<u8>,
    /// `[batch]`.
    pub image_labels: Vec<u8>,
}

/// The problems that are fast enough for an emulator.
pub fn small_problems() -> impl Iterator<Item = Problem> {
    let aligned = SHAPES.into_iter().map(|shape| (shape, 0));
    let all = aligned.chain([([65, 32, 68], MISALIGNMENT)]).zip(0..);
    all.map(|((shape, misalignment), seed)| Problem::new(shape, seed, misalignment))
}

/// All problems.
pub fn problems() -> impl Iterator<Item = Problem> {
    let large = LARGE.into_iter().zip(100..).map(|(shape, seed)| Problem::new(shape, seed, 0));
    small_problems().chain(large).chain([Problem::new([65, 128, 68], 200, MISALIGNMENT)])
}

impl Problem {
    /// Creates a layer of this shape, the same for the same seed.
    pub fn new([batch, inputs, outputs]: [usize; 3], seed: u64, misalignment: usize) -> Self {
        let mut random = Random { state: seed };
        // Some outliers, without which a wrong index can go unnoticed.
        let mut uniform = |len: usize| -> Vec<f32> {
            let mut values: Vec<f32> = (0..len).map(|_| random.uniform()).collect();
            (0..len / 50).for_each(|_| values[random.below(len) as usize] *= 4.0);
            values
        };
        let activations = uniform(batch * inputs).into_iter().map(|x| x.max(0.0)).collect();
        let (weights, biases) = (uniform(inputs * outputs), uniform(outputs));
        let (weight_velocity, bias_velocity) = (uniform(inputs * outputs), uniform(outputs));
        let d_out = uniform(batch * outputs);
        let logits = logits(uniform(batch * outputs), outputs);
        let labels: Vec<u32> = (0..batch).map(|_| random.below(outputs)).collect();
        let smoothing = if seed.is_multiple_of(2) { 0.0 } else { 0.1 };
        let target = |is_label| (1.0 - smoothing) * one_if(is_label) + smoothing / outputs as f32;
        let targets =
            (0..batch * outputs).map(|i| target(labels[i / outputs] as usize == i % outputs)).collect();
        Problem {
            batch,
            inputs,
            outputs,
            misalignment,
            activations,
            weights,
            biases,
            weight_velocity,
            bias_velocity,
            d_out,
            probabilities: probabilities(&logits, outputs),
            logits,
            labels,
            smoothing,
            row_targets: Targets::new(smoothing, outputs as u32),
            targets,
            images: (0..batch * inputs).map(|_| random.below(256) as u8).collect(),
            image_labels: (0..batch).map(|_| random.below(10) as u8).collect(),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}x{}", self.batch, self.inputs, self.outputs)?;
        if self.misalignment > 0 {
            f.write_str(", misaligned")?;
        }
        Ok(())
    }
}

fn one_if(condition: bool) -> f32 {
    if condition { 1.0 } else { 0.0 }
}

/// Scales the numbers, and makes most rows hard for a softmax: all equal, with one far above the others, very large, very
/// small, or only of the smallest number.
fn logits(mut values: Vec<f32>, cols: usize) -> Vec<f32> {
    for (row, values) in values.chunks_exact_mut(cols).enumerate() {
        let first = values[0];
        match row % 8 {
            1 => values.fill(first),
            2 => values[row % cols] = 300.0,
            3 => values.iter_mut().for_each(|x| *x = *x * 10.0 + 1e4),
            4 => values.iter_mut().for_each(|x| *x = *x * 10.0 - 1e4),
            5 => values.fill(f32::MIN),
            6 => values[cols / 2] = 90.0,
            _ => values.iter_mut().for_each(|x| *x *= 8.0),
        }
    }
    values
}

/// Softmax along the rows; in every third row the largest gets all the probability.
fn probabilities(logits: &[f32], cols: usize) -> Vec<f32> {
    let mut out = Vec::with_capacity(logits.len());
    for (row, logits) in logits.chunks_exact(cols).enumerate() {
        let max = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        if row % 3 == 2 {
            out.extend(logits.iter().map(|&x| one_if(x == max)));
            continue;
        }
        let sum: f64 = logits.iter().map(|&x| f64::from(x - max).exp()).sum();
        out.extend(logits.iter().map(|&x| (f64::from(x - max).exp() / sum) as f32));
    }
    out
}

/// SplitMix64 (Steele, Lea and Flood 2014): the same numbers on every machine.
struct Random {
    state: u64,
}

impl Random {
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number from -1 to 1.
    fn uniform(&mut self) -> f32 {
        (self.next() >> 40) as f32 / (1 << 23) as f32 - 1.0
    }

    fn below(&mut self, end: usize) -> u32 {
        (self.next() % end as u64) as u32
    }
}
