//! The softmax of rows whose logits arrive a tile at a time.

use cuda_std::fastmath::{ex2_approx_ftz, lg2_approx_ftz};
use cuda_std::wgmma::{Accumulator, Element16};
use cuda_std::{GpuFloat, warp};

/// From here on, the rounding error of a maximum times the factor of the exponents is too large for an exponent.
const LARGE: f32 = 65_536.0;

/// The largest logit and the sum of exponentials of each of a thread's two rows. Four neighbouring lanes share a row: the
/// maxima are the row's, and the sums are of the thread's own logits.
#[derive(Clone, Copy)]
pub struct Online {
    max: [f32; 2],
    sum: [f32; 2],
}

impl Online {
    /// Rows without logits.
    pub const EMPTY: Self = Self { max: [f32::NEG_INFINITY; 2], sum: [0.0; 2] };

    /// Replaces the logits of a tile by `2^(factor (logit - max))`. Returns the factors that rescale earlier tiles' sums and
    /// results to the new maxima. A logit of -inf counts as none.
    ///
    /// # Safety
    /// All lanes of the warp call this.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn update<const S: usize>(&mut self, logits: &mut Accumulator<S>, factor: f32) -> [f32; 2] {
        // SAFETY: all lanes execute this.
        let largest = unsafe { logits.row_max(self.max) };
        let base = largest.map(base);
        let offset = base.map(|max| max * factor);
        let is_large = offset[0].abs().max(offset[1].abs()) > LARGE;
        let mut sum = [0.0; 2];
        // One instruction instead of two, if the rounded product is accurate enough.
        // SAFETY: all lanes execute this.
        if unsafe { warp::warp_vote_any(u32::MAX, is_large) } {
            logits.map_rows(|row, x| {
                let weight = ex2_approx_ftz((x - base[row]) * factor);
                sum[row] += weight;
                weight
            });
        } else {
            logits.map_rows(|row, x| {
                let weight = ex2_approx_ftz(x.mul_add(factor, -offset[row]));
                sum[row] += weight;
                weight
            });
        }
        let [a, b] = [0, 1].map(|row: usize| rescale(self.max[row], largest[row], factor));
        self.sum = [self.sum[0] * a + sum[0], self.sum[1] * b + sum[1]];
        self.max = largest;
        [a, b]
    }

    /// Raises the maxima of `M` tiles of 16 rows to those of these logits. Returns the numbers to subtract from `factor * logit`,
    /// and the factors that rescale earlier tiles' results.
    ///
    /// # Safety
    /// All lanes of the warp call this.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn raise<const M: usize, const S: usize>(
        rows: &mut [Self; M],
        logits: &mut [Accumulator<S>; M],
        factor: f32,
    ) -> [[[f32; 2]; M]; 2] {
        // SAFETY: all lanes execute this.
        let largest: [[f32; 2]; M] = core::array::from_fn(|m| unsafe { logits[m].row_max(rows[m].max) });
        let mut offsets = largest.map(|rows| rows.map(|max| base(max) * factor));
        let mut most = 0.0f32;
        let mut m = 0;
        while m < M {
            most = most.max(offsets[m][0].abs()).max(offsets[m][1].abs());
            m += 1;
        }
        // SAFETY: all lanes execute this.
        if unsafe { warp::warp_vote_any(u32::MAX, most > LARGE) } {
            // The rounded products are not accurate enough, so the maxima are subtracted first.
            let mut m = 0;
            while m < M {
                logits[m].map_rows(|row, x| x - base(largest[m][row]));
                offsets[m] = [0.0; 2];
                m += 1;
            }
        }
        let factors = core::array::from_fn(|m| {
            let factors = [0, 1].map(|row: usize| rescale(rows[m].max[row], largest[m][row], factor));
            let [a, b] = [0, 1].map(|row: usize| rows[m].sum[row] * factors[row]);
            rows[m] = Self { max: largest[m], sum: [a, b] };
            factors
        });
        [offsets, factors]
    }

    /// Returns the weights `2^(factor logit - offset)` of columns `16 * step` to `16 * step + 15` of `M` tiles of 16 rows, rounded,
    /// as operands. Adds them to the sums.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn weigh<T: Element16, const M: usize, const S: usize>(
        rows: &mut [Self; M],
        logits: &[Accumulator<S>; M],
        step: usize,
        factor: f32,
        offsets: &[[f32; 2]; M],
    ) -> [[u32; 4]; M] {
        let (mut weights, mut i) = ([[0; 4]; M], 0);
        while i < 4 {
            let mut m = 0;
            while m < M {
                let (row, at) = (i % 2, 8 * step + 2 * i);
                let [a, b] = [logits[m].0[at], logits[m].0[at + 1]]
                    .map(|x| ex2_approx_ftz(x.mul_add(factor, -offsets[m][row])));
                rows[m].sum[row] += a + b;
                weights[m][i] = T::pack([a, b]);
                m += 1;
            }
            i += 1;
        }
        weights
    }

    /// Returns the largest logit and the sum of exponentials of each row.
    ///
    /// # Safety
    /// All lanes of the warp call this.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn totals(self) -> [Total; 2] {
        [0, 1].map(|row: usize| {
            // SAFETY: all lanes execute this.
            let sum = unsafe { warp::reduce_sum_width::<f32, 4>(u32::MAX, self.sum[row]) };
            Total { max: self.max[row], sum }
        })
    }

    /// Returns [`Total::finish`] of each row.
    ///
    /// # Safety
    /// All lanes of the warp call this.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn finish(self, scale: f32) -> [[f32; 2]; 2] {
        // SAFETY: all lanes execute this.
        unsafe { self.totals() }.map(|total| total.finish(scale))
    }
}

/// Returns the number to subtract for a maximum. Without logits it is 0: every difference is -inf, and every exponential 0.
#[inline(always)]
pub fn base(max: f32) -> f32 {
    if max == f32::NEG_INFINITY { 0.0 } else { max }
}

/// Returns the factor from the maximum `of` to the maximum `max`, at least as large: 0 without logits.
#[inline(always)]
pub fn rescale(of: f32, max: f32, factor: f32) -> f32 {
    ex2_approx_ftz((of - base(max)) * factor)
}

/// The largest logit of a row, and the sum of `2^(factor (logit - max))`.
#[derive(Clone, Copy)]
pub struct Total {
    /// The largest logit, or -inf.
    pub max: f32,
    /// The sum, or 0.
    pub sum: f32,
}

impl Total {
    /// Returns the results' factor and the logarithm of its sum of `exp(scale * logit)`; 0 and -inf without logits.
    #[inline(always)]
    pub fn finish(self, scale: f32) -> [f32; 2] {
        if self.max == f32::NEG_INFINITY && self.sum == 0.0 {
            return [0.0, f32::NEG_INFINITY];
        }
        [1.0 / self.sum, self.max * scale + lg2_approx_ftz(self.sum) * core::f32::consts::LN_2]
    }
}
