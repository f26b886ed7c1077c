//! Operations, number types, and how close a result must be to the oracle.

use cuda_std::testing::Element as _;
use ferrowarp::{Sample, Softmax};
pub use ferrowarp_cases::reference::Number;
use ferrowarp_cases::reference::{self, Draw};
use gpu_kernels::softmax::sample::Noise;

/// The seed of the random numbers.
const SEED: u64 = 42;

/// The number of the draw, the same for all launches.
const DRAW: u64 = 7;

/// The operation on each row of a matrix `inp`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// `out = exp(inp) / sum(exp(inp))`.
    Softmax,
    /// `out = inp - ln(sum(exp(inp)))`.
    LogSoftmax,
    /// With a softmax in `inp` and the gradient at it in `gradient`: `out = inp * (gradient - sum(inp * gradient))`.
    Backward,
    /// With a class per row in `targets`: the loss of each row, and in `out` the gradient of their mean at the logits `inp`:
    /// `(exp(inp) / sum(exp(inp)) - [col == target]) / rows`.
    CrossEntropy,
    /// The `k` largest probabilities of the softmax of `inp`, and their columns: one of [`SELECTED`].
    TopK(usize),
    /// Draws a token from `inp` at [`TEMPERATURE`].
    Sample,
    /// Same as `Sample`, from the most probable tokens that sum up to [`TOP_P`].
    SampleTopP,
    /// `out = inp`: the baseline of the other operations.
    Copy,
}

/// Elements that [`Op::TopK`] selects; the first has the plain name `top_k`.
pub const SELECTED: [usize; 2] = [64, 8];

/// The temperature of [`Op::Sample`].
pub const TEMPERATURE: f32 = 0.8;

/// The probability that [`Op::SampleTopP`] keeps.
pub const TOP_P: f32 = 0.9;

/// The expected result of a row.
#[derive(Clone, Debug)]
pub enum Wanted {
    /// A row of the output, and for each element the magnitude that its error is relative to.
    Elements(Vec<(f64, f64)>),
    /// Columns and probabilities.
    Largest(Vec<(u32, f64)>),
    /// One of these tokens.
    Token(Vec<u32>),
}

impl Op {
    /// The name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Op::Softmax => "softmax",
            Op::LogSoftmax => "log_softmax",
            Op::Backward => "backward",
            Op::CrossEntropy => "cross_entropy",
            Op::TopK(8) => "top_k_8",
            Op::TopK(_) => "top_k",
            Op::Sample => "sample",
            Op::SampleTopP => "sample_top_p",
            Op::Copy => "copy",
        }
    }

    /// Matrices that must be read or written at least once.
    pub fn matrices(self) -> usize {
        match self {
            Op::Backward => 3,
            Op::TopK(_) | Op::Sample | Op::SampleTopP => 1,
            Op::Softmax | Op::LogSoftmax | Op::CrossEntropy | Op::Copy => 2,
        }
    }

    /// Whether it writes a matrix of the input's shape.
    pub fn writes_matrix(self) -> bool {
        !matches!(self, Op::TopK(_) | Op::Sample | Op::SampleTopP)
    }

    /// The sampling parameters.
    pub fn sampling(self) -> Sample {
        let sample = Sample::new().seed(SEED).draw(DRAW).temperature(TEMPERATURE);
        if self == Op::SampleTopP { sample.top_p(TOP_P) } else { sample }
    }

    /// Probabilities and columns, or tokens, per row.
    pub fn results_a_row(self) -> usize {
        match self {
            Op::TopK(k) => k,
            Op::Sample | Op::SampleTopP => 1,
            Op::Softmax | Op::LogSoftmax | Op::Backward | Op::CrossEntropy | Op::Copy => 0,
        }
    }

    /// The expected result of row `index`.
    pub fn wanted(
        self,
        (index, row): (usize, &[f32]),
        gradient: &[f32],
        target: usize,
        rows: usize,
    ) -> Wanted {
        let noise = Noise { seed: SEED, draw: DRAW, row: index as u32 };
        let draw = |temperature, top_p| Draw { noise, temperature, top_k: 0, top_p };
        match self {
            Op::TopK(k) => {
                let all = reference::softmax(row, row.len());
                let columns = reference::largest(row).into_iter().take(k);
                Wanted::Largest(columns.map(|col| (col as u32, all[col])).collect())
            }
            Op::Sample => Wanted::Token(draw(TEMPERATURE, 1.0).tokens(row)),
            Op::SampleTopP => Wanted::Token(draw(TEMPERATURE, TOP_P).tokens(row)),
            _ => Wanted::Elements(self.oracle(row, gradient, target, rows)),
        }
    }

    /// An element of the input, from a number between -1 and 1.
    pub fn element(self, noise: f32, cols: usize) -> f32 {
        match self {
            // Like probabilities: positive, with a sum near 1.
            Op::Backward => noise.abs() * 2.0 / cols as f32,
            _ => noise * 8.0,
        }
    }

    /// The elements of a row of the output, and for each the magnitude that its error is relative to.
    fn oracle(self, row: &[f32], gradient: &[f32], target: usize, rows: usize) -> Vec<(f64, f64)> {
        match self {
            Op::Softmax => reference::softmax(row, row.len()).into_iter().map(|y| (y, y)).collect(),
            Op::LogSoftmax => {
                // The logarithm of the sum is at most the logarithm of the number of columns.
                let (most, log) = ((row.len() as f64).ln(), Softmax::new().log());
                reference::softmax_with(row, row.len(), &log)
                    .into_iter()
                    .map(|y| (y, y.abs() + most))
                    .collect()
            }
            Op::Backward => {
                let sums = reference::softmax_backward(gradient, row, false).into_iter();
                sums.map(|sum| (sum.value, sum.magnitude)).collect()
            }
            Op::CrossEntropy => {
                let probabilities = reference::softmax(row, row.len());
                let gradient = reference::cross_entropy(row, target as i64, -100).gradient;
                let is_target = |col| if col == target { 1.0 } else { 0.0 };
                let pairs = gradient.into_iter().zip(probabilities).enumerate();
                let mean = |x: f64| x / rows as f64;
                pairs.map(|(col, (g, p))| (mean(g), mean(p + is_target(col)))).collect()
            }
            Op::Copy => row.iter().map(|&x| (f64::from(x), 0.0)).collect(),
            Op::TopK(_) | Op::Sample | Op::SampleTopP => Vec::new(),
        }
    }
}

/// The first error in a row, if any; a NaN is an error.
pub fn complaint<T: Number>(got: &[T], want: &[(f64, f64)]) -> Option<String> {
    // Computed in f32 by at most one thread per row, so the sum's error grows with the row, and rounded once.
    let relative = T::ROUNDING * 1.01 + (1e-5f64).max(want.len() as f64 * f32::ROUNDING).min(1e-3);
    got.iter().zip(want).enumerate().find_map(|(col, (&got, &(want, magnitude)))| {
        let got = f64::from(got.value());
        let is_near = (got - want).abs() <= relative * magnitude + T::SMALLEST;
        (!is_near).then(|| format!("column {col} is {got:e}, expected {want:e}"))
    })
}

/// The first error in a row's largest probabilities, if any.
pub fn complaint_of_largest(columns: &[u32], probabilities: &[f32], want: &[(u32, f64)]) -> Option<String> {
    let is_right = |((&col, &p), &(want, probability)): ((&u32, &f32), &(u32, f64))| {
        col == want && (f64::from(p) - probability).abs() <= 1e-5 * probability
    };
    let place = columns.iter().zip(probabilities).zip(want).position(|pair| !is_right(pair))?;
    let ((got, p), (col, want)) = ((columns[place], probabilities[place]), want[place]);
    Some(format!("place {place} is column {got} with {p:e}, expected column {col} with {want:e}"))
}

#[cfg(test)]
mod tests {
    use cuda_std::half::bf16;

    use super::*;

    #[test]
    fn a_wrong_row_is_told_and_nan_too() {
        let want = Op::Softmax.oracle(&[0.0, 0.0], &[], 0, 1);
        assert_eq!(complaint(&[0.5f32, 0.5], &want), None);
        assert_eq!(
            complaint(&[0.5f32, 0.51], &want).unwrap(),
            "column 1 is 5.099999904632568e-1, expected 5e-1"
        );
        assert!(complaint(&[f32::NAN, 0.5], &want).is_some());
        assert_eq!(complaint(&[bf16::from_f32(0.501), bf16::from_f32(0.5)], &want), None);
    }

    #[test]
    fn a_wrong_place_is_told() {
        let want = [(3, 0.5), (0, 0.25)];
        assert_eq!(complaint_of_largest(&[3, 0], &[0.5, 0.25], &want), None);
        let told = complaint_of_largest(&[3, 1], &[0.5, 0.25], &want).unwrap();
        assert_eq!(told, "place 1 is column 1 with 2.5e-1, expected column 0 with 2.5e-1");
        assert!(complaint_of_largest(&[3, 0], &[0.5, f32::NAN], &want).is_some());
    }

    #[test]
    fn gradients_are_those_of_the_definition() {
        // A finite difference of the mean loss over 3 rows, at each logit.
        let (row, target, step) = ([0.5f32, -1.0, 2.0], 1, 1e-6);
        let loss = |row: &[f64]| row.iter().map(|x| x.exp()).sum::<f64>().ln() - row[target];
        let exact: Vec<f64> = row.iter().map(|&x| x.into()).collect();
        for (col, (gradient, _)) in Op::CrossEntropy.oracle(&row, &[], target, 3).into_iter().enumerate() {
            let mut moved = exact.clone();
            moved[col] += step;
            assert!((gradient - (loss(&moved) - loss(&exact)) / step / 3.0).abs() < 1e-5);
        }
        // The gradient through a softmax, and the logarithm of one.
        let y: Vec<f32> = reference::softmax(&row, 3).into_iter().map(|y| y as f32).collect();
        for (col, (gradient, _)) in Op::Backward.oracle(&y, &[0.0, 0.0, 1.0], 0, 1).into_iter().enumerate() {
            let delta = if col == 2 { 1.0 } else { 0.0 };
            let derivative = f64::from(y[2]) * (delta - f64::from(y[col]));
            assert!((gradient - derivative).abs() < 1e-7, "{col}");
        }
        for ((log, _), y) in
            Op::LogSoftmax.oracle(&row, &[], 0, 1).into_iter().zip(reference::softmax(&row, 3))
        {
            assert!((log - y.ln()).abs() < 1e-12);
        }
    }
}
