//! The draw of a token from the largest elements of a row.

use cuda_std::mem::f32x2;
use cuda_std::warp::{reduce_max, reduce_sum};

use super::args::SampleArgs;
use super::in_chunk::sum_before;
use super::noise::Noise;
use crate::chunk::{exp, lane};
use crate::top_k::MOST;
use crate::top_k::key::{column, value};
use crate::top_k::select::Selection;
use common_kernels::element::Number;

/// Places that each lane has.
const PLACES: usize = MOST / 32;

impl<T: Number> Selection<T> for SampleArgs<T> {
    #[inline(always)]
    fn logits(&self) -> (*const T, u64) {
        (self.logits, self.stride)
    }

    #[inline(always)]
    fn shape(&self) -> [u32; 2] {
        [self.rows, self.cols]
    }

    #[inline(always)]
    fn k(&self) -> usize {
        self.top_k as usize
    }

    #[inline(always)]
    fn scale(&self) -> f32 {
        self.scale
    }

    /// Draws a place by inverse transform sampling.
    #[inline(always)]
    unsafe fn finish(&self, row: usize, sorted: *const u64, pair: f32x2) {
        let (factor, first) = (self.factor(), PLACES * lane());
        let mut weights = [0.0; PLACES];
        for i in 0..PLACES {
            // SAFETY: the caller has sorted `k` keys.
            let key = if first + i < self.k() { unsafe { *sorted.add(first + i) } } else { 0 };
            weights[i] = if key > 0 { exp(value(key) - pair.x, factor) } else { 0.0 };
        }
        let sum_of = |weights: [f32; PLACES]| weights.into_iter().fold(0.0, |sum, weight| sum + weight);
        // SAFETY: all lanes execute this.
        let (mut before, mut sum) = unsafe { (sum_before(sum_of(weights)), reduce_sum(sum_of(weights))) };
        let mut befores = [0.0; PLACES];
        for i in 0..PLACES {
            befores[i] = before;
            before += weights[i];
        }
        if self.top_p < 1.0 {
            for i in 0..PLACES {
                weights[i] = if befores[i] < self.top_p * sum { weights[i] } else { 0.0 };
            }
            // SAFETY: all lanes execute this.
            sum = unsafe { reduce_sum(sum_of(weights)) };
        }
        let [_, word] = self.noise(row).words(0, 0);
        let part = Noise::uniform(word) * sum;
        // The place plus one, so that 0 means no place.
        let mut place = 0;
        for i in 0..PLACES {
            if weights[i] > 0.0 && befores[i] <= part {
                place = (first + i) as u32 + 1;
            }
        }
        // SAFETY: one lane writes. A row without a sum has no token, but it has a first place.
        unsafe {
            let place = reduce_max(place).max(1) - 1;
            if lane() == 0 {
                self.write(row, column(*sorted.add(place as usize)), pair);
            }
        }
    }
}
