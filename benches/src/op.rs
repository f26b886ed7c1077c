//! What is computed, on which type of number, and how near a result must be to the oracle.

use cuda_std::testing::Element as _;
use ferrowarp::softmax::Options;
use ferrowarp_cases::reference;
pub use ferrowarp_cases::reference::Number;

/// What is computed for each row of a matrix `inp`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// `out = exp(inp) / sum(exp(inp))`.
    Softmax,
    /// `out = inp - ln(sum(exp(inp)))`.
    LogSoftmax,
    /// With a softmax in `inp` and the gradient at it in `gradient`: `out = inp * (gradient - sum(inp * gradient))`.
    Backward,
    /// With a class a row in `targets`: the loss of each row, and in `out` the gradient of their mean at the logits
    /// `inp`: `(exp(inp) / sum(exp(inp)) - [col == target]) / rows`.
    CrossEntropy,
    /// `out = inp`: what the others are measured against.
    Copy,
}

impl Op {
    /// The name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Op::Softmax => "softmax",
            Op::LogSoftmax => "log_softmax",
            Op::Backward => "backward",
            Op::CrossEntropy => "cross_entropy",
            Op::Copy => "copy",
        }
    }

    /// Matrices that must be read or written at least once.
    pub fn matrices(self) -> usize {
        if self == Op::Backward { 3 } else { 2 }
    }

    /// An element of the input from a number between -1 and 1.
    pub fn element(self, noise: f32, cols: usize) -> f32 {
        match self {
            // Like probabilities: positive, with a sum near 1.
            Op::Backward => noise.abs() * 2.0 / cols as f32,
            _ => noise * 8.0,
        }
    }

    /// The results of a row, and for each what its error is measured against.
    pub fn oracle(self, row: &[f32], gradient: &[f32], target: usize, rows: usize) -> Vec<(f64, f64)> {
        match self {
            Op::Softmax => reference::softmax(row, row.len()).into_iter().map(|y| (y, y)).collect(),
            Op::LogSoftmax => {
                // The logarithm of the sum is at most that of the columns.
                let (most, log) = ((row.len() as f64).ln(), Options::new().log());
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
        }
    }
}

/// What is wrong with a row, if anything; NaN is.
pub fn complaint<T: Number>(got: &[T], want: &[(f64, f64)]) -> Option<String> {
    // Computed in f32 by at most one thread a row, so that the sum's error grows with the row, and rounded once.
    let relative = T::ROUNDING * 1.01 + (1e-5f64).max(want.len() as f64 * f32::ROUNDING).min(1e-3);
    got.iter().zip(want).enumerate().find_map(|(col, (&got, &(want, magnitude)))| {
        let got = f64::from(got.value());
        let is_near = (got - want).abs() <= relative * magnitude + T::SMALLEST;
        (!is_near).then(|| format!("column {col} is {got:e}, expected {want:e}"))
    })
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
