//! A row as warps read it that draw from it or select its largest elements: in chunks of [`CHUNK`] columns.

use cuda_std::mem::{load_global, u32x4};
use cuda_std::thread;

use super::row::row_or_empty;
use crate::element::{Element, Number, VECTOR_ALIGN};

/// Columns of a chunk.
pub const CHUNK: usize = 1024;

/// A row that nobody writes.
///
/// A warp reads `VECTORS` vectors of `N` elements a lane from a column on, each of them in the order of the lanes: 16 bytes at a time, if
/// the row is whole vectors on 16-byte boundaries. The elements of any other row are read one by one, which L1 makes up for.
#[derive(Clone, Copy)]
pub(super) struct Line<T> {
    start: *const T,
    cols: usize,
    is_whole: bool,
}

/// The lane in its warp, of a block of one dimension.
#[inline(always)]
pub(super) fn lane() -> usize {
    thread::thread_idx_x() as usize % 32
}

impl<T: Number> Line<T> {
    /// Row number `index` of a matrix of `rows` rows and `cols` columns; after the last row it is empty.
    ///
    /// # Safety
    /// The matrix is valid, with `stride` elements from one row to the next.
    #[inline(always)]
    pub unsafe fn new<const N: usize>(matrix: *const T, stride: u64, shape: [u32; 2], index: usize) -> Self
    where
        T: Element<N>,
    {
        let [row, cols] = row_or_empty(index, shape);
        // SAFETY: the row is one of the matrix.
        let start = unsafe { matrix.add(row * stride as usize) };
        Self { start, cols, is_whole: start.addr().is_multiple_of(VECTOR_ALIGN) && cols.is_multiple_of(N) }
    }

    /// Chunks of the row; the last one may have fewer columns.
    #[inline(always)]
    pub fn chunks(&self) -> u32 {
        self.cols.div_ceil(CHUNK) as u32
    }

    /// Columns of the row.
    #[inline(always)]
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// The column of element `j` of the lane's vector number `i`, read from column `first` on.
    #[inline(always)]
    pub fn column<const N: usize>(first: usize, i: usize, j: usize) -> usize {
        first + N * lane() + (32 * N * i + j)
    }

    /// The lane's vectors from column `first` on; -inf after the last column.
    #[inline(always)]
    pub fn load<const N: usize, const VECTORS: usize>(&self, first: usize) -> [u32x4; VECTORS]
    where
        T: Element<N>,
    {
        self.load_each::<N, 32, VECTORS>(first, lane())
    }

    /// The vectors of number `thread` of `THREADS` threads.
    #[inline(always)]
    fn load_each<const N: usize, const THREADS: usize, const VECTORS: usize>(
        &self,
        first: usize,
        thread: usize,
    ) -> [u32x4; VECTORS]
    where
        T: Element<N>,
    {
        // SAFETY: `first` is a column of the row, or its end.
        let start = unsafe { self.start.add(first.min(self.cols)) };
        let left = self.cols.saturating_sub(first).min(THREADS * N * VECTORS) as u32;
        // Two loops and no branch inside, so that all loads of a thread are on their way before the first is used.
        if self.is_whole {
            return core::array::from_fn(|i| {
                let at = (THREADS * i + thread) * N;
                if at as u32 >= left {
                    return T::NEG_INFINITY;
                }
                // SAFETY: a vector of the row, on a boundary.
                unsafe { load_global(start.add(at).cast()) }
            });
        }
        core::array::from_fn(|i| {
            let elements: [T; N] = core::array::from_fn(|j| {
                let at = (THREADS * i + thread) * N + j;
                // SAFETY: an element of the row.
                if (at as u32) < left { unsafe { *start.add(at) } } else { T::from_f32(f32::NEG_INFINITY) }
            });
            // SAFETY: `N` elements are 16 bytes, and every pattern of bits is a vector.
            unsafe { core::mem::transmute_copy(&elements) }
        })
    }

    /// As [`Self::load`], for a block of `BLOCK` threads, which reads each round of vectors in the order of its threads.
    #[inline(always)]
    pub fn load_by_block<const N: usize, const BLOCK: usize, const VECTORS: usize>(
        &self,
        first: usize,
    ) -> [u32x4; VECTORS]
    where
        T: Element<N>,
    {
        self.load_each::<N, BLOCK, VECTORS>(first, thread::thread_idx_x() as usize)
    }

    /// `N` neighbouring elements from a column on that is a multiple of `N`; -inf after the last column.
    #[inline(always)]
    pub fn vector_at<const N: usize>(&self, col: usize) -> u32x4
    where
        T: Element<N>,
    {
        if self.is_whole {
            if col >= self.cols {
                return T::NEG_INFINITY;
            }
            // SAFETY: a vector of the row, on a boundary.
            return unsafe { load_global(self.start.add(col).cast()) };
        }
        let elements: [T; N] = core::array::from_fn(|j| {
            let col = col + j;
            // SAFETY: an element of the row.
            if col < self.cols { unsafe { *self.start.add(col) } } else { T::from_f32(f32::NEG_INFINITY) }
        });
        // SAFETY: `N` elements are 16 bytes, and every pattern of bits is a vector.
        unsafe { core::mem::transmute_copy(&elements) }
    }

    /// The element of a column.
    ///
    /// # Safety
    /// The row has it.
    #[inline(always)]
    pub unsafe fn element(&self, col: u32) -> f32 {
        // SAFETY: the caller's column.
        unsafe { *self.start.add(col as usize) }.to_f32()
    }
}

/// The largest element of some vectors; NaN counts as nothing.
#[inline(always)]
pub(super) fn largest<T: Element<N>, const N: usize>(x_reg: &[u32x4]) -> f32 {
    let max = x_reg.iter().fold(T::NEG_INFINITY, |max, &x| T::larger(max, x));
    T::unpack(max).into_iter().fold(f32::NEG_INFINITY, f32::max)
}

/// The exponential of `x * scale`, which is at most 0, where `factor` is `scale * log2(e)`: by one instruction, which takes results
/// under 2^-126 for 0.
#[inline(always)]
pub(super) fn exp(x: f32, factor: f32) -> f32 {
    cuda_std::fastmath::ex2_approx_ftz(x * factor)
}
