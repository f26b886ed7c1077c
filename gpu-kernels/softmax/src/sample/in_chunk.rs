//! The draw of a token from a chunk that a warp has read.

use cuda_std::mem::{f32x2, u32x4};
use cuda_std::warp::{reduce_max, reduce_min, reduce_sum, warp_shuffle_up};

use crate::chunk::{Line, exp, lane, largest};
use crate::forward::sum_of;
use crate::top_k::key::{column, value};
use common_kernels::element::Element;

/// The elements that a round draws from: those that are larger than the one with this key.
#[derive(Clone, Copy)]
pub(super) struct Above(pub u64);

impl Above {
    /// No bound: all elements take part.
    pub const NOTHING: Self = Self(0);

    #[inline(always)]
    pub fn is_nothing(self) -> bool {
        self.0 == 0
    }

    /// Returns the element, or -inf if the round leaves it out. Of equal ones, that in the smaller column counts as larger.
    #[inline(always)]
    pub fn masked(self, x: f32, col: usize) -> f32 {
        let (least, at) = (value(self.0), column(self.0));
        if x > least || (x == least && (col as u32) < at) { x } else { f32::NEG_INFINITY }
    }

    /// Like [`Self::masked`], for the lane's elements of a vector that was read from column `first` on.
    #[inline(always)]
    fn masked_vector<const N: usize>(self, x: [f32; N], first: usize) -> [f32; N] {
        let (least, at, from) = (value(self.0), column(self.0) as usize, first + N * lane());
        if from <= at && at < from + N {
            return core::array::from_fn(|j| self.masked(x[j], from + j));
        }
        // Of equal elements, either all of the vector count as larger, or none.
        let cut = if from < at { least.next_down() } else { least };
        x.map(|x| if x > cut { x } else { f32::NEG_INFINITY })
    }
}

/// A chunk of a row, from column `first` on: the warp's vectors of it, and the elements that a round draws from.
pub(super) struct InChunk<'a, T, const VECTORS: usize> {
    pub line: &'a Line<T>,
    pub first: usize,
    pub x_reg: [u32x4; VECTORS],
    pub above: Above,
    /// The largest element of the row, used if a round leaves some out.
    pub max_of_row: f32,
}

impl<T, const VECTORS: usize> InChunk<'_, T, VECTORS> {
    /// Returns the elements of the lane's vector number `i`; -inf for those that the round leaves out.
    #[inline(always)]
    fn vector<const N: usize>(&self, i: usize) -> [f32; N]
    where
        T: Element<N>,
    {
        let x = T::unpack(self.x_reg[i]);
        if self.above.is_nothing() { x } else { self.above.masked_vector(x, self.first + 32 * N * i) }
    }

    /// Returns the exponentials' reference: the largest element, at least the smallest number; in later rounds, the row's.
    ///
    /// # Safety
    /// All lanes of the warp call this.
    #[inline(always)]
    unsafe fn max<const N: usize>(&self) -> f32
    where
        T: Element<N>,
    {
        if !self.above.is_nothing() {
            return self.max_of_row;
        }
        // SAFETY: all lanes execute this.
        unsafe { reduce_max(largest::<T, N>(&self.x_reg).max(f32::MIN)) }
    }

    /// Returns the (max, sum) of the elements, to all lanes.
    ///
    /// # Safety
    /// All lanes of the warp call this.
    #[inline(always)]
    pub unsafe fn pair<const N: usize>(&self, factor: f32) -> f32x2
    where
        T: Element<N>,
    {
        // SAFETY: all lanes execute this.
        unsafe {
            let (max, mut sum) = (self.max::<N>(), 0.0);
            for i in 0..VECTORS {
                sum += sum_of(self.vector::<N>(i).map(|x| exp(x - max, factor)));
            }
            f32x2::new(max, reduce_sum(sum))
        }
    }

    /// Returns the (max, sum) of the elements, to all lanes, and the sum of each round of vectors.
    ///
    /// # Safety
    /// All lanes of the warp call this.
    #[inline(always)]
    pub unsafe fn sums<const N: usize>(&self, factor: f32) -> (f32x2, [f32; VECTORS])
    where
        T: Element<N>,
    {
        // SAFETY: all lanes execute this.
        let max = unsafe { self.max::<N>() };
        let (mut sum, mut sums) = (0.0, [0.0; VECTORS]);
        for i in 0..VECTORS {
            // SAFETY: all lanes execute this.
            sums[i] = unsafe { reduce_sum(sum_of(self.vector::<N>(i).map(|x| exp(x - max, factor)))) };
            sum += sums[i];
        }
        (f32x2::new(max, sum), sums)
    }

    /// Returns the column of the first of the largest elements.
    ///
    /// # Safety
    /// All lanes of the warp call this; `max` is the largest element.
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
        // SAFETY: all lanes execute this.
        unsafe { reduce_min(first) }
    }

    /// Returns the token at `uniform`, in (0, 1), of the distribution function over the columns: the last column for which
    /// the columns before it sum to no more than this part of the whole.
    ///
    /// # Safety
    /// All lanes of the warp call this; the sums come from [`Self::sums`], and are not all 0.
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
        // Loads the round's elements again: picking them out of registers would take longer.
        let first = self.first + 32 * N * round;
        let [x] = self.line.load::<N, 1>(first);
        let x = T::unpack(x);
        let x = if self.above.is_nothing() { x } else { self.above.masked_vector(x, first) };
        let weights = x.map(|x| exp(x - pair.x, factor));
        // SAFETY: all lanes execute this.
        let mut before = unsafe { sum_before(weights.into_iter().fold(0.0, |sum, weight| sum + weight)) };
        // The column plus one, so that 0 means no column.
        let mut token = 0;
        for j in 0..N {
            if weights[j] > 0.0 && before <= rest {
                token = (first + N * lane() + j) as u32 + 1;
            }
            before += weights[j];
        }
        // SAFETY: all lanes execute this.
        unsafe { reduce_max(token) - 1 }
    }
}

/// Returns the sum of the lanes before this one.
///
/// # Safety
/// All lanes of the warp call this.
#[inline(always)]
pub(super) unsafe fn sum_before(of_lane: f32) -> f32 {
    let (lane, mut sum) = (lane(), of_lane);
    let mut distance = 1;
    while distance < 32 {
        // SAFETY: all lanes execute this.
        let (lower, _) = unsafe { warp_shuffle_up(u32::MAX, sum, distance, 32) };
        sum += if lane >= distance as usize { lower } else { 0.0 };
        distance *= 2;
    }
    // SAFETY: all lanes execute this.
    let (before, _) = unsafe { warp_shuffle_up(u32::MAX, sum, 1, 32) };
    if lane > 0 { before } else { 0.0 }
}
