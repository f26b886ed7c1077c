//! Draws a token in f64, and finds all tokens that rounding to f32 may give.

use std::collections::BTreeMap;

use gpu_kernels::softmax::sample::{NO_TOKEN, Noise};

use super::softmax::{largest, softmax_with};
use ferrowarp::Softmax;

/// Columns that are drawn as a chunk, before one of them is chosen.
const CHUNK: usize = 1024;

/// Tolerance of the difference of two sums of a logarithm and noise that are close to the largest: logarithms at most 33
/// below the largest, and noise of at most 23, each with a few roundings.
const ROUNDED: f64 = 4e-5;

/// Tolerance of a partial sum of a chunk's weights, relative to their total.
const ROUNDED_PART: f64 = 4e-6;

/// Tolerance of a sum of probabilities, relative to the total.
const ROUNDED_SUM: f64 = 1e-5;

/// The parameters of a row's draw.
#[derive(Clone, Copy, Debug)]
pub struct Draw {
    /// The random numbers of the row.
    pub noise: Noise,
    /// The temperature.
    pub temperature: f32,
    /// The number of largest tokens to keep; 0 for all.
    pub top_k: usize,
    /// The share of the probability to keep.
    pub top_p: f32,
}

impl Draw {
    /// The factor of the logits, rounded as kernels get it.
    pub fn scale(&self) -> f32 {
        if self.temperature == 0.0 { 1.0 } else { 1.0 / self.temperature }
    }

    /// The tokens of a row after temperature and cuts, most probable first: column, probability, and the total share of
    /// earlier ones. Empty for a row with NaN or +inf, or only -inf.
    pub fn left(&self, logits: &[f32]) -> Vec<(usize, f64, f64)> {
        if logits.iter().any(|&x| x.is_nan() || x == f32::INFINITY)
            || logits.iter().all(|&x| x == f32::NEG_INFINITY)
        {
            return Vec::new();
        }
        let all = softmax_with(logits, logits.len(), &Softmax::new().scale(self.scale()));
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

    /// The tokens that may be drawn; several if rounding decides. [`NO_TOKEN`] stands for no token.
    pub fn tokens(&self, logits: &[f32]) -> Vec<u32> {
        let left = self.left(logits);
        let Some(&(first, ..)) = left.first() else { return vec![NO_TOKEN] };
        let mut tokens = if self.temperature == 0.0 {
            vec![first as u32]
        } else if self.top_k > 0 {
            self.of_largest(&left)
        } else {
            self.of_all(&left)
        };
        tokens.sort_unstable();
        tokens.dedup();
        tokens
    }

    /// Draws from the largest tokens, by the distribution function over their ranks.
    fn of_largest(&self, left: &[(usize, f64, f64)]) -> Vec<u32> {
        let p = f64::from(self.top_p);
        let tokens = [-ROUNDED_SUM, ROUNDED_SUM].into_iter().flat_map(|more| {
            let is_kept =
                |&&(.., before): &&(usize, f64, f64)| p >= 1.0 || before == 0.0 || before < p + more;
            let kept: Vec<_> = left.iter().filter(is_kept).map(|&(col, own, _)| (col, own)).collect();
            at(uniform(self.noise.words(0, 0)[1]), &kept)
        });
        tokens.map(|col| col as u32).collect()
    }

    /// Draws from all tokens, in rounds; each draws from the tokens that are larger than the last one.
    fn of_all(&self, left: &[(usize, f64, f64)]) -> Vec<u32> {
        let (p, mut tokens, mut rounds) = (f64::from(self.top_p), Vec::new(), vec![(left.len(), 0)]);
        while let Some((len, round)) = rounds.pop() {
            for place in self.of_round(&left[..len], round) {
                let (col, _, before) = left[place];
                if p >= 1.0 || place == 0 || before < p + ROUNDED_SUM {
                    tokens.push(col as u32);
                }
                if p < 1.0 && place > 0 && before >= p - ROUNDED_SUM {
                    rounds.push((place, round + 1));
                }
            }
        }
        tokens
    }

    /// The ranks that a round may draw.
    fn of_round(&self, left: &[(usize, f64, f64)], round: u32) -> Vec<usize> {
        let mut chunks: BTreeMap<usize, Vec<(usize, usize, f64)>> = BTreeMap::new();
        for (place, &(col, own, _)) in left.iter().enumerate() {
            chunks.entry(col / CHUNK).or_default().push((col, place, own));
        }
        let height = |(&chunk, members): (&usize, &Vec<(usize, usize, f64)>)| {
            let sum: f64 = members.iter().map(|&(.., own)| own).sum();
            let exponential = -(-uniform(self.noise.words(chunk as u32, round)[0])).ln_1p();
            sum.ln() - exponential.ln()
        };
        let most = chunks.iter().map(height).fold(f64::NEG_INFINITY, f64::max);
        let near = chunks.iter().filter(|&entry| height(entry) >= most - ROUNDED);
        let places = near.flat_map(|(&chunk, members)| {
            let mut members = members.clone();
            members.sort_unstable_by_key(|&(col, ..)| col);
            let weights: Vec<_> = members.iter().map(|&(_, place, own)| (place, own)).collect();
            at(uniform(self.noise.words(chunk as u32, round)[1]), &weights)
        });
        places.collect()
    }
}

/// The uniform number of a word, which is defined as rounded to f32, the same everywhere.
fn uniform(word: u32) -> f64 {
    Noise::uniform(word).into()
}

/// The weights that the distribution function may select at a share of their sum.
fn at(part: f64, weights: &[(usize, f64)]) -> Vec<usize> {
    let sum: f64 = weights.iter().map(|&(_, weight)| weight).sum();
    let (mut before, mut near) = (0.0, Vec::new());
    for &(which, weight) in weights {
        let is_near = before - ROUNDED_PART <= part && part <= before + weight / sum + ROUNDED_PART;
        if weight > 0.0 && is_near {
            near.push(which);
        }
        before += weight / sum;
    }
    near
}
