//! The draw of a token in f64, and which tokens may come of it where numbers are rounded to f32.

use gpu_kernels::softmax::sample::{NO_TOKEN, Noise};

use super::softmax::{largest, softmax_with};
use ferrowarp::softmax::Options;

/// How far the difference of two sums of a logit and noise may be off, where both are near the largest. That has logits at most 26 below the
/// largest, after the temperature, and noise of at most 23: of both one rounding in the multiplication, two in each logarithm and one in the
/// sum are together less than 2e-5.
const ROUNDED: f64 = 4e-5;

/// How far a sum of probabilities may be off, in parts of all.
const ROUNDED_SUM: f64 = 1e-5;

/// What is drawn from a row.
#[derive(Clone, Copy, Debug)]
pub struct Draw {
    /// The noise of the row.
    pub noise: Noise,
    /// The temperature.
    pub temperature: f32,
    /// How many of the largest are left; 0 for all.
    pub top_k: usize,
    /// What part of the probability is left.
    pub top_p: f32,
}

impl Draw {
    /// The factor of the logits, rounded as it is handed to kernels.
    pub fn scale(&self) -> f32 {
        if self.temperature == 0.0 { 1.0 } else { 1.0 / self.temperature }
    }

    /// The probability of each token of a row after temperature and cuts, the more probable ones first: its column, its probability,
    /// and what part those before it have. A row with NaN or +inf, or of -inf only, has none.
    pub fn left(&self, logits: &[f32]) -> Vec<(usize, f64, f64)> {
        if logits.iter().any(|&x| x.is_nan() || x == f32::INFINITY)
            || logits.iter().all(|&x| x == f32::NEG_INFINITY)
        {
            return Vec::new();
        }
        let all = softmax_with(logits, logits.len(), &Options::new().scale(self.scale()));
        let mut columns = largest(logits);
        columns.truncate(if self.top_k == 0 { logits.len() } else { self.top_k });
        let sum: f64 = columns.iter().map(|&col| all[col]).sum();
        let mut before = 0.0;
        let parts = columns.into_iter().map(|col| {
            let own = all[col] / sum;
            before += own;
            (col, own, before - own)
        });
        parts.collect()
    }

    /// The tokens that may be drawn: of those that may be left the ones whose sum of logit and noise may be the largest. More than one where
    /// rounding decides; none is [`NO_TOKEN`].
    pub fn tokens(&self, logits: &[f32]) -> Vec<u32> {
        let left = self.left(logits);
        let Some(&(first, ..)) = left.first() else { return vec![NO_TOKEN] };
        if self.temperature == 0.0 {
            return vec![first as u32];
        }
        let (max, scale, p) = (f64::from(logits[first]), f64::from(self.scale()), f64::from(self.top_p));
        let sum = |col: usize| {
            let word = self.noise.four((col / 4) as u32)[col % 4];
            // The uniform number is defined as rounded to f32, the same everywhere.
            let exponential = -(-f64::from(Noise::uniform(word))).ln_1p();
            (f64::from(logits[col]) - max) * scale - exponential.ln()
        };
        let is_left = |before: f64, more: f64| p >= 1.0 || before < p + more;
        let surely = left.iter().filter(|&&(_, _, before)| before == 0.0 || is_left(before, -ROUNDED_SUM));
        let most = surely.map(|&(col, ..)| sum(col)).fold(f64::NEG_INFINITY, f64::max);
        let perhaps = left.iter().filter(|&&(_, _, before)| before == 0.0 || is_left(before, ROUNDED_SUM));
        let near = perhaps.filter(|&&(col, ..)| sum(col) >= most - ROUNDED);
        near.map(|&(col, ..)| col as u32).collect()
    }
}
