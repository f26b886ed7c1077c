//! The draw of a token from a chunk that a warp has read.

use cuda_std::mem::f32x2;
use cuda_std::warp::{reduce_max, reduce_min, reduce_sum, warp_shuffle_up};

use super::args::SampleArgs;
use crate::element::{Element, Number};
use crate::softmax::chunk::{Line, exp, lane};
use crate::softmax::forward::sum_of;
use crate::softmax::top_k::key::{column, value};

/// What elements a round draws from: those that are larger than the one with this key.
#[derive(Clone, Copy)]
pub(super) struct Above(pub u64);

impl Above {
    /// Everything is drawn from.
    pub const NOTHING: Self = Self(0);

    #[inline(always)]
    pub fn is_nothing(self) -> bool {
        self.0 == 0
    }

    /// The element, or -inf if the round leaves it out. Of equal elements the one in the smaller column counts as larger.
    #[inline(always)]
    pub fn masked(self, x: f32, col: usize) -> f32 {
        let (least, at) = (value(self.0), column(self.0));
        if x > least || (x == least && (col as u32) < at) { x } else { f32::NEG_INFINITY }
    }
}

/// A chunk of a row, from column `first` on, whose elements a warp has: `x`, of which some may be masked.
pub(super) struct InChunk<'a, T, const N: usize, const VECTORS: usize> {
    pub line: &'a Line<T>,
    pub first: usize,
    pub x: [[f32; N]; VECTORS],
}

impl<T: Element<N>, const N: usize, const VECTORS: usize> InChunk<'_, T, N, VECTORS> {
    /// Leaves out what a round does not draw from.
    #[inline(always)]
    pub fn mask(&mut self, above: Above) {
        for i in 0..VECTORS {
            for j in 0..N {
                self.x[i][j] = above.masked(self.x[i][j], self.line.column::<N>(self.first, i, j));
            }
        }
    }

    /// The (max, sum) of the elements, in all lanes, and the sum of each round of vectors.
    ///
    /// # Safety
    /// All lanes of the warp come here.
    #[inline(always)]
    pub unsafe fn sums(&self, factor: f32) -> (f32x2, [f32; VECTORS]) {
        let max = self.x.iter().flatten().fold(f32::MIN, |max, &x| max.max(x));
        // SAFETY: the caller brings all lanes.
        let max = unsafe { reduce_max(max) };
        let (mut sum, mut sums) = (0.0, [0.0; VECTORS]);
        for i in 0..VECTORS {
            // SAFETY: as above.
            sums[i] = unsafe { reduce_sum(sum_of(self.x[i].map(|x| exp(x - max, factor)))) };
            sum += sums[i];
        }
        (f32x2::new(max, sum), sums)
    }

    /// The column of the first of the largest elements.
    ///
    /// # Safety
    /// All lanes of the warp come here; `max` is the largest element.
    #[inline(always)]
    pub unsafe fn first_of_largest(&self, max: f32) -> u32 {
        let mut first = u32::MAX;
        for i in 0..VECTORS {
            for j in 0..N {
                let col = self.line.column::<N>(self.first, i, j) as u32;
                first = if self.x[i][j] == max { first.min(col) } else { first };
            }
        }
        // SAFETY: the caller brings all lanes.
        unsafe { reduce_min(first) }
    }

    /// The token at `uniform`, in (0, 1), of the distribution function over the columns: the last one of which those before it sum up
    /// to no more than that part.
    ///
    /// # Safety
    /// All lanes of the warp come here; the sums are those of [`Self::sums`], and not all 0.
    #[inline(always)]
    pub unsafe fn token_at(
        &self,
        uniform: f32,
        (pair, sums): (f32x2, [f32; VECTORS]),
        factor: f32,
        above: Above,
    ) -> u32 {
        let part = uniform * pair.y;
        let (mut before, mut round, mut rest) = (0.0, 0, part);
        for i in 0..VECTORS {
            if sums[i] > 0.0 && before <= part {
                (round, rest) = (i, part - before);
            }
            before += sums[i];
        }
        // The round's elements again, now in the order of the columns: to pick them out of registers would take longer.
        let first = self.first + 32 * N * round;
        let x: [f32; N] = self.line.load_in_order::<N>(first);
        let col = |j: usize| first + N * lane() + j;
        let mut weights = [0.0; N];
        for j in 0..N {
            let x = if above.is_nothing() { x[j] } else { above.masked(x[j], col(j)) };
            weights[j] = exp(x - pair.x, factor);
        }
        // SAFETY: the caller brings all lanes.
        let mut before = unsafe { sum_before(weights.into_iter().fold(0.0, |sum, weight| sum + weight)) };
        // One more than the column, so that 0 is none.
        let mut token = 0;
        for j in 0..N {
            if weights[j] > 0.0 && before <= rest {
                token = col(j) as u32 + 1;
            }
            before += weights[j];
        }
        // SAFETY: as above.
        unsafe { reduce_max(token) - 1 }
    }
}

/// The sum of the lanes before this one.
///
/// # Safety
/// All lanes of the warp come here.
#[inline(always)]
pub(super) unsafe fn sum_before(of_lane: f32) -> f32 {
    let (lane, mut sum) = (lane(), of_lane);
    let mut distance = 1;
    while distance < 32 {
        // SAFETY: the caller brings all lanes.
        let (lower, _) = unsafe { warp_shuffle_up(u32::MAX, sum, distance, 32) };
        sum += if lane >= distance as usize { lower } else { 0.0 };
        distance *= 2;
    }
    // SAFETY: as above.
    let (before, _) = unsafe { warp_shuffle_up(u32::MAX, sum, 1, 32) };
    if lane > 0 { before } else { 0.0 }
}
