//! The draw of a token in f64, and which tokens may come of it where numbers are rounded to f32.

use std::collections::BTreeMap;

use gpu_kernels::softmax::sample::{NO_TOKEN, Noise};

use super::softmax::{largest, softmax_with};
use ferrowarp::softmax::Options;

/// Columns that are drawn together, before one of them is.
const CHUNK: usize = 1024;

/// How far the difference of two sums of a logarithm and noise may be off, where both are near the largest: logarithms at most 33 below the
/// largest, and noise of at most 23, each with a few roundings.
const ROUNDED: f64 = 4e-5;

/// How far the sum of a chunk's weights up to a column may be off, in parts of all of them.
const ROUNDED_PART: f64 = 4e-6;

/// How far a sum of probabilities may be off, in parts of all.
const ROUNDED_SUM: f64 = 1e-5;

/// What is drawn from a row.
#[derive(Clone, Copy, Debug)]
pub struct Draw {
    /// The random numbers of the row.
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

    /// The tokens that may be drawn: more than one where rounding decides; none is [`NO_TOKEN`].
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

    /// Of the largest, by the distribution function over their places.
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

    /// Of all, in rounds, of which each draws from the tokens that are larger than the last one.
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

    /// The places that a round may draw.
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

/// Which of the weights the distribution function may have at a part of their sum.
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
