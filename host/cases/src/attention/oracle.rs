//! The expected values of attention, in f64.

use crate::compare::Bound;
use crate::reference::{Number, Sum};

/// Half a unit in the last place of `f32`, relative.
const ROUNDING: f64 = f32::EPSILON as f64 / 2.0;
/// Tolerance for a sum of few terms, in roundings of the sum's magnitude.
const ROUNDINGS: f64 = 16.0;
/// Terms that may cost one more rounding: tensor cores may truncate addends.
const TERMS_A_ROUNDING: f64 = 8.0;
/// The relative error of an approximate exponential, and the error of a logarithm.
const APPROXIMATE: f64 = 1.0 / (1 << 20) as f64;

/// The logits of a query over the keys that it sees, times the scale.
pub struct Row {
    logits: Vec<f64>,
    /// The possible error of each logit.
    errors: Vec<f64>,
    /// The possible common error of the exponents: the maximum is rounded.
    common: f64,
    /// The weights, which add up to 1, and the possible relative error of each.
    weights: Vec<(f64, f64)>,
}

impl Row {
    /// Creates the row from the query's dot products with the keys, each a sum of `size` terms.
    pub fn new(products: impl Iterator<Item = Sum>, size: usize, scale: f64) -> Self {
        let roundings = ROUNDINGS + size as f64 / TERMS_A_ROUNDING;
        let (logits, errors): (Vec<_>, Vec<_>) = products
            .map(|sum| (sum.value * scale, (roundings * ROUNDING * sum.magnitude + 1e-37) * scale))
            .unzip();
        let largest = logits.iter().fold(0.0, |largest: f64, x| largest.max(x.abs()));
        let common = 4.0 * ROUNDING * largest;
        let max = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let sum: f64 = logits.iter().map(|x| (x - max).exp()).sum();
        let pairs = logits.iter().zip(&errors);
        // The rounding of a difference also affects its exponential.
        let error = |x: f64, error: f64| error + common + 4.0 * ROUNDING * (max - x);
        let weights = pairs
            .map(|(&x, &e)| ((x - max).exp() / sum, (2.0 * error(x, e)).min(40.0).exp_m1() + APPROXIMATE))
            .collect();
        Self { logits, errors, common, weights }
    }

    fn max(&self) -> f64 {
        self.logits.iter().copied().fold(f64::NEG_INFINITY, f64::max)
    }

    /// The expected value of a column, for the values of the keys. With `is_rounded`, the weights are rounded to `T`.
    pub fn result<T: Number>(&self, values: &[f64], is_rounded: bool) -> Bound {
        if self.logits.is_empty() {
            return Bound::exact(0.0);
        }
        let pairs = || self.weights.iter().zip(values);
        let value: f64 = pairs().map(|((weight, _), v)| weight * v).sum();
        let magnitude: f64 = pairs().map(|((weight, _), v)| weight * v.abs()).sum();
        // A relative change of a weight moves the result towards the key's value, or away from it.
        let moved: f64 = pairs().map(|((weight, error), v)| weight * error * (v - value).abs()).sum();
        let farthest = values.iter().map(|v| (v - value).abs()).fold(0.0, f64::max);
        let all: f64 = values.iter().map(|v| v.abs()).sum();
        let of_weights = if is_rounded { T::ROUNDING * magnitude + T::SMALLEST * all } else { 0.0 };
        let roundings = ROUNDINGS + values.len() as f64 / TERMS_A_ROUNDING;
        let of_sums = (roundings * ROUNDING + APPROXIMATE) * (magnitude + value.abs());
        let error = moved.min(farthest) + of_weights + of_sums + f64::from(f32::MIN_POSITIVE) * all;
        Bound::rounded::<T>(value, error)
    }

    /// The expected logarithm of the sum of the exponentials.
    pub fn log_sum_exp(&self) -> Bound {
        if self.logits.is_empty() {
            return Bound::exact(f64::NEG_INFINITY);
        }
        let max = self.max();
        let value = max + self.logits.iter().map(|x| (x - max).exp()).sum::<f64>().ln();
        let moved: f64 = self.weights.iter().map(|(weight, error)| weight * error).sum();
        let most = self.errors.iter().copied().fold(0.0, f64::max);
        // A logarithm changes by at most as much as the logits.
        let moved = moved.min(most + self.common) + self.common;
        let roundings = ROUNDINGS + self.logits.len() as f64 / TERMS_A_ROUNDING;
        Bound::near(value, moved + roundings * ROUNDING * (1.0 + value.abs()) + 2.0 * APPROXIMATE)
    }
}

#[cfg(test)]
mod tests {
    use cuda_std::half::bf16;

    use super::*;

    fn row(logits: &[f64]) -> Row {
        Row::new(logits.iter().map(|&value| Sum { value, magnitude: value.abs() }), 1, 1.0)
    }

    #[test]
    fn a_query_without_keys_has_zeros_and_no_logarithm() {
        assert_eq!(row(&[]).result::<bf16>(&[], true), Bound::exact(0.0));
        assert_eq!(row(&[]).log_sum_exp(), Bound::exact(f64::NEG_INFINITY));
    }

    #[test]
    fn equal_logits_weigh_equally() {
        let row = row(&[3.0, 3.0]);
        let bound = row.result::<bf16>(&[1.0, 2.0], true);
        assert!(bound.value == 1.5 && bound.allowed < 0.02, "{bound:?}");
        let log = row.log_sum_exp();
        assert!((log.value - 3.0 - 2f64.ln()).abs() < 1e-12 && log.allowed < 1e-4, "{log:?}");
    }

    #[test]
    fn a_dominant_key_leaves_no_doubt() {
        let bound = row(&[1e7, 0.0, 2.0]).result::<bf16>(&[1.0, 5.0, -3.0], true);
        assert!(bound.value == 1.0 && bound.allowed < 0.02, "{bound:?}");
    }
}
