//! The draw of a token from a chunk that a warp has read.

use cuda_std::mem::{f32x2, u32x4};
use cuda_std::warp::{reduce_max, reduce_min, reduce_sum, warp_shuffle_up};

use crate::element::Element;
use crate::softmax::chunk::{Line, exp, lane, largest};
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

    /// As [`Self::masked`], for the lane's elements of a vector read from column `first` on.
    #[inline(always)]
    fn masked_vector<const N: usize>(self, x: [f32; N], first: usize) -> [f32; N] {
        let (least, at, from) = (value(self.0), column(self.0) as usize, first + N * lane());
        if from <= at && at < from + N {
            return core::array::from_fn(|j| self.masked(x[j], from + j));
        }
        // Of equal elements all of the vector count as larger, or none.
        let cut = if from < at { least.next_down() } else { least };
        x.map(|x| if x > cut { x } else { f32::NEG_INFINITY })
    }
}

/// A chunk of a row, from column `first` on, whose vectors a warp has, and what a round draws from them.
pub(super) struct InChunk<'a, T, const VECTORS: usize> {
    pub line: &'a Line<T>,
    pub first: usize,
    pub x_reg: [u32x4; VECTORS],
    pub above: Above,
    /// The largest element of the row, where a round leaves some out.
    pub max_of_row: f32,
}

impl<T, const VECTORS: usize> InChunk<'_, T, VECTORS> {
    /// The elements of the lane's vector number `i`; -inf for those that the round leaves out.
    #[inline(always)]
    fn vector<const N: usize>(&self, i: usize) -> [f32; N]
    where
        T: Element<N>,
    {
        let x = T::unpack(self.x_reg[i]);
        if self.above.is_nothing() { x } else { self.above.masked_vector(x, self.first + 32 * N * i) }
    }

    /// What the exponentials are taken against: the largest element, at least the smallest number, or in later rounds that of the row.
    ///
    /// # Safety
    /// All lanes of the warp come here.
    #[inline(always)]
    unsafe fn max<const N: usize>(&self) -> f32
    where
        T: Element<N>,
    {
        if !self.above.is_nothing() {
            return self.max_of_row;
        }
        // SAFETY: the caller promises that all lanes execute this.
        unsafe { reduce_max(largest::<T, N>(&self.x_reg).max(f32::MIN)) }
    }

    /// The (max, sum) of the elements, in all lanes.
    ///
    /// # Safety
    /// All lanes of the warp come here.
    #[inline(always)]
    pub unsafe fn pair<const N: usize>(&self, factor: f32) -> f32x2
    where
        T: Element<N>,
    {
        // SAFETY: the caller promises that all lanes execute this.
        unsafe {
            let (max, mut sum) = (self.max::<N>(), 0.0);
            for i in 0..VECTORS {
                sum += sum_of(self.vector::<N>(i).map(|x| exp(x - max, factor)));
            }
            f32x2::new(max, reduce_sum(sum))
        }
    }

    /// The (max, sum) of the elements, in all lanes, and the sum of each round of vectors.
    ///
    /// # Safety
    /// All lanes of the warp come here.
    #[inline(always)]
    pub unsafe fn sums<const N: usize>(&self, factor: f32) -> (f32x2, [f32; VECTORS])
    where
        T: Element<N>,
    {
        // SAFETY: the caller promises that all lanes execute this.
        let max = unsafe { self.max::<N>() };
        let (mut sum, mut sums) = (0.0, [0.0; VECTORS]);
        for i in 0..VECTORS {
            // SAFETY: as above.
            sums[i] = unsafe { reduce_sum(sum_of(self.vector::<N>(i).map(|x| exp(x - max, factor)))) };
            sum += sums[i];
        }
        (f32x2::new(max, sum), sums)
    }

    /// The column of the first of the largest elements.
    ///
    /// # Safety
    /// All lanes of the warp come here; `max` is the largest element.
    #[inline(always)]
    pub unsafe fn first_of_largest<const N: usize>(&self, max: f32) -> u32
    where
        T: Element<N>,
    {
        let mut first = u32::MAX;
        for i in 0..VECTORS {
            let x = self.vector::<N>(i);
            for j in 0..N {
                let col = Line::<T>::column::<N>(self.first, i, j) as u32;
                first = if x[j] == max { first.min(col) } else { first };
            }
        }
        // SAFETY: the caller promises that all lanes execute this.
        unsafe { reduce_min(first) }
    }

    /// The token at `uniform`, in (0, 1), of the distribution function over the columns: the last one of which those before it sum up
    /// to no more than that part.
    ///
    /// # Safety
    /// All lanes of the warp come here; the sums are those of [`Self::sums`], and not all 0.
    #[inline(always)]
    pub unsafe fn token_at<const N: usize>(
        &self,
        uniform: f32,
        (pair, sums): (f32x2, [f32; VECTORS]),
        factor: f32,
    ) -> u32
    where
        T: Element<N>,
    {
        let part = uniform * pair.y;
        let (mut before, mut round, mut rest) = (0.0, 0, part);
        for i in 0..VECTORS {
            if sums[i] > 0.0 && before <= part {
                (round, rest) = (i, part - before);
            }
            before += sums[i];
        }
        // The round's elements again: to pick them out of registers would take longer.
        let first = self.first + 32 * N * round;
        let [x] = self.line.load::<N, 1>(first);
        let x = T::unpack(x);
        let x = if self.above.is_nothing() { x } else { self.above.masked_vector(x, first) };
        let weights = x.map(|x| exp(x - pair.x, factor));
        // SAFETY: the caller promises that all lanes execute this.
        let mut before = unsafe { sum_before(weights.into_iter().fold(0.0, |sum, weight| sum + weight)) };
        // One more than the column, so that 0 is none.
        let mut token = 0;
        for j in 0..N {
            if weights[j] > 0.0 && before <= rest {
                token = (first + N * lane() + j) as u32 + 1;
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
        // SAFETY: the caller promises that all lanes execute this.
        let (lower, _) = unsafe { warp_shuffle_up(u32::MAX, sum, distance, 32) };
        sum += if lane >= distance as usize { lower } else { 0.0 };
        distance *= 2;
    }
    // SAFETY: as above.
    let (before, _) = unsafe { warp_shuffle_up(u32::MAX, sum, 1, 32) };
    if lane > 0 { before } else { 0.0 }
}
