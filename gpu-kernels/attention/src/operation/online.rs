//! The softmax of rows whose logits arrive a tile at a time.

use cuda_std::fastmath::{ex2_approx_ftz, lg2_approx_ftz};
use cuda_std::wgmma::{Accumulator, Element16};
use cuda_std::{GpuFloat, warp};

/// From here on, the rounding error of a maximum times the factor of the exponents is too large for an exponent.
const LARGE: f32 = 65_536.0;
/// Rounding an exponent up to this one changes it by at most 1, so a weight relative to it is at most 2.
const LIMIT: f32 = 16_777_216.0;
/// More than the exponents of two logits whose weights matter differ.
const MARGIN: f32 = 1024.0;

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

    /// Rows without logits, whose maxima [`Self::raise`] stores. Multiplied by the factor, no maximum is below `-LIMIT`.
    #[inline(always)]
    pub const fn empty(is_exact: bool) -> Self {
        Self { max: [if is_exact { f32::NEG_INFINITY } else { -LIMIT }; 2], sum: [0.0; 2] }
    }

    /// Returns whether the maxima that [`Self::raise`] stored, multiplied by the factor, are too far from 0 for exact weights.
    #[inline(always)]
    pub fn is_inexact(self) -> bool {
        let is_near = |max| (MARGIN - LIMIT..=LIMIT).contains(max);
        !self.max.iter().all(is_near)
    }

    /// Raises the maxima of `M` tiles of 16 rows to those of these logits, multiplied by the factor. The rounded products are the
    /// same for all tiles, so their rounding cancels out. If `is_exact`, subtracts the maxima from the logits instead, before the
    /// multiplication.
    ///
    /// # Safety
    /// All lanes of the warp call this.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn raise<const M: usize, const S: usize>(
        rows: &mut [Self; M],
        logits: &mut [Accumulator<S>; M],
        factor: f32,
        is_exact: bool,
    ) -> Raised<M> {
        let mut raised = Raised { offsets: [[0.0; 2]; M], factors: [[0.0; 2]; M] };
        let mut m = 0;
        while m < M {
            // SAFETY: all lanes execute this.
            let largest = unsafe { logits[m].row_max([f32::NEG_INFINITY; 2]) };
            let mut row = 0;
            while row < 2 {
                let old = rows[m].max[row];
                let max = old.max(if is_exact { largest[row] } else { largest[row] * factor });
                raised.offsets[m][row] = if is_exact { base(max) } else { max };
                let raise = old - raised.offsets[m][row];
                raised.factors[m][row] = ex2_approx_ftz(if is_exact { raise * factor } else { raise });
                rows[m].max[row] = max;
                rows[m].sum[row] *= raised.factors[m][row];
                row += 1;
            }
            if is_exact {
                logits[m].map_rows(|row, x| x - raised.offsets[m][row]);
                raised.offsets[m] = [0.0; 2];
            }
            m += 1;
        }
        raised
    }

    /// Returns the weights of columns `16 * step` to `16 * step + 15` of `M` tiles of 16 rows, rounded, as operands. Adds them to
    /// the sums.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn weigh<T: Element16, const M: usize, const S: usize>(
        rows: &mut [Self; M],
        logits: &[Accumulator<S>; M],
        step: usize,
        factor: f32,
        raised: &Raised<M>,
    ) -> [[u32; 4]; M] {
        let (mut weights, mut i) = ([[0; 4]; M], 0);
        while i < 4 {
            let mut m = 0;
            while m < M {
                let (row, at) = (i % 2, 8 * step + 2 * i);
                let [a, b] = [logits[m].0[at], logits[m].0[at + 1]]
                    .map(|x| ex2_approx_ftz(x.mul_add(factor, -raised.offsets[m][row])));
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

/// The new maxima of `M` tiles of 16 rows: the weight of a logit is `2^(factor logit - offset)`.
pub struct Raised<const M: usize> {
    offsets: [[f32; 2]; M],
    /// The factors that rescale earlier tiles' results.
    pub factors: [[f32; 2]; M],
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
        if self.sum == 0.0 {
            return [0.0, f32::NEG_INFINITY];
        }
        [1.0 / self.sum, self.max * scale + lg2_approx_ftz(self.sum) * core::f32::consts::LN_2]
    }
}
