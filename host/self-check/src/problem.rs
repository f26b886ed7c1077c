//! The inputs of the checks: one layer of a network, filled with random numbers from a fixed seed.

use std::fmt;

/// Shapes at which tiles, warps and vectors end in their midst, and one of the size that training uses.
const SHAPES: [[usize; 3]; 8] = [
    [1, 1, 1],
    [1, 31, 33],
    [33, 1, 31],
    [31, 33, 65],
    [64, 64, 64],
    [65, 130, 67],
    [128, 100, 10],
    [64, 784, 300],
];

/// Elements that the inputs lie off a 16-byte boundary in the problem that has them misaligned.
const MISALIGNMENT: usize = 1;

/// One layer with `batch` samples, `inputs` features in and `outputs` out. Arrays are row-major.
pub struct Problem {
    /// Samples.
    pub batch: usize,
    /// Features in.
    pub inputs: usize,
    /// Features out, or classes.
    pub outputs: usize,
    /// Elements by which every array lies off its natural alignment in device memory.
    pub misalignment: usize,
    /// Momentum of the update.
    pub momentum: f32,
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
    /// `[batch, outputs]`, 1 at the label, else 0.
    pub targets: Vec<f32>,
    /// `[batch, inputs]`.
    pub images: Vec<u8>,
    /// `[batch]`.
    pub image_labels: Vec<u8>,
}

/// All problems, in the order of their sizes.
pub fn problems() -> Vec<Problem> {
    let mut problems: Vec<_> =
        SHAPES.iter().enumerate().map(|(seed, &shape)| Problem::new(shape, seed as u64, 0)).collect();
    problems.push(Problem::new([65, 128, 68], SHAPES.len() as u64, MISALIGNMENT));
    problems
}

impl Problem {
    /// A layer of this shape, the same for the same seed.
    pub fn new([batch, inputs, outputs]: [usize; 3], seed: u64, misalignment: usize) -> Self {
        let mut random = Random { state: seed };
        let mut uniform = |len: usize| -> Vec<f32> { (0..len).map(|_| random.uniform()).collect() };
        let activations = uniform(batch * inputs).into_iter().map(|x| x.max(0.0)).collect();
        let (weights, biases) = (uniform(inputs * outputs), uniform(outputs));
        let (weight_velocity, bias_velocity) = (uniform(inputs * outputs), uniform(outputs));
        let d_out = uniform(batch * outputs);
        let logits = logits(uniform(batch * outputs), outputs);
        let labels: Vec<u32> = (0..batch).map(|_| random.below(outputs)).collect();
        let targets =
            (0..batch * outputs).map(|i| one_if(labels[i / outputs] as usize == i % outputs)).collect();
        Problem {
            batch,
            inputs,
            outputs,
            misalignment,
            momentum: if seed.is_multiple_of(2) { 0.0 } else { 0.9 },
            activations,
            weights,
            biases,
            weight_velocity,
            bias_velocity,
            d_out,
            probabilities: probabilities(&logits, outputs),
            logits,
            labels,
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

/// Scales the numbers, makes every fourth row constant and plants an outlier in the row after it.
fn logits(mut values: Vec<f32>, cols: usize) -> Vec<f32> {
    for (row, values) in values.chunks_exact_mut(cols).enumerate() {
        let first = values[0];
        match row % 4 {
            1 => values.fill(first),
            2 => values[row % cols] = 300.0,
            _ => values.iter_mut().for_each(|x| *x *= 8.0),
        }
    }
    values
}

/// Softmax along the rows; the largest of every third row takes all.
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

    /// In -1 to 1.
    fn uniform(&mut self) -> f32 {
        (self.next() >> 40) as f32 / (1 << 23) as f32 - 1.0
    }

    fn below(&mut self, end: usize) -> u32 {
        (self.next() % end as u64) as u32
    }
}
