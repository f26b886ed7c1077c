//! A row as the warps of sampling and selection read it: in chunks of [`CHUNK`] columns.

use cuda_std::mem::{load_global, u32x4};
use cuda_std::thread;

use super::row::row_or_empty;
use common_kernels::element::{Element, Number, VECTOR_ALIGN};

/// Columns of a chunk.
pub const CHUNK: usize = 1024;

/// A row that no code writes.
///
/// From a column on, a warp reads `VECTORS` vectors of `N` elements per lane, each vector in the order of the lanes. If the
/// row consists of whole, aligned vectors, a load is 16 bytes. Other rows are read element by element; L1 makes up for it.
#[derive(Clone, Copy)]
pub(super) struct Line<T> {
    start: *const T,
    cols: usize,
    is_whole: bool,
}

/// Returns the thread's lane, in a one-dimensional block.
#[inline(always)]
pub(super) fn lane() -> usize {
    thread::thread_idx_x() as usize % 32
}

impl<T: Number> Line<T> {
    /// Returns row `index` of a matrix of `rows` rows and `cols` columns; after the last row, an empty one.
    ///
    /// # Safety
    /// The matrix is valid, and its rows are `stride` elements apart.
    #[inline(always)]
    pub unsafe fn new<const N: usize>(matrix: *const T, stride: u64, shape: [u32; 2], index: usize) -> Self
    where
        T: Element<N>,
    {
        let [row, cols] = row_or_empty(index, shape);
        // SAFETY: the row lies in the matrix.
        let start = unsafe { matrix.add(row * stride as usize) };
        Self { start, cols, is_whole: start.addr().is_multiple_of(VECTOR_ALIGN) && cols.is_multiple_of(N) }
    }

    /// Returns the number of chunks of the row; the last one may have fewer columns.
    #[inline(always)]
    pub fn chunks(&self) -> u32 {
        self.cols.div_ceil(CHUNK) as u32
    }

    /// Returns the number of columns of the row.
    #[inline(always)]
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// Returns the column of element `j` of the lane's vector `i`, read from column `first` on.
    #[inline(always)]
    pub fn column<const N: usize>(first: usize, i: usize, j: usize) -> usize {
        first + N * lane() + (32 * N * i + j)
    }

    /// Loads the lane's vectors from column `first` on; -inf after the last column.
    #[inline(always)]
    pub fn load<const N: usize, const VECTORS: usize>(&self, first: usize) -> [u32x4; VECTORS]
    where
        T: Element<N>,
    {
        self.load_each::<N, 32, VECTORS>(first, lane())
    }

    /// Loads the vectors of thread `thread` of `THREADS` threads.
    #[inline(always)]
    fn load_each<const N: usize, const THREADS: usize, const VECTORS: usize>(
        &self,
        first: usize,
        thread: usize,
    ) -> [u32x4; VECTORS]
    where
        T: Element<N>,
    {
        // SAFETY: `first` is at most the end of the row.
        let start = unsafe { self.start.add(first.min(self.cols)) };
        let left = self.cols.saturating_sub(first).min(THREADS * N * VECTORS) as u32;
        // Two loops without a branch inside, so all loads of a thread are in flight before the first result is used.
        if self.is_whole {
            return core::array::from_fn(|i| {
                let at = (THREADS * i + thread) * N;
                if (at as u32) < left {
                    // SAFETY: an aligned vector of the row.
                    unsafe { load_global(start.add(at).cast()) }
                } else {
                    T::NEG_INFINITY
                }
            });
        }
        core::array::from_fn(|i| {
            let elements: [T; N] = core::array::from_fn(|j| {
                let at = (THREADS * i + thread) * N + j;
                // SAFETY: an element of the row.
                if (at as u32) < left { unsafe { *start.add(at) } } else { T::from_f32(f32::NEG_INFINITY) }
            });
            // SAFETY: `N` elements are 16 bytes, and every bit pattern is valid.
            unsafe { core::mem::transmute_copy(&elements) }
        })
    }

    /// Like [`Self::load`], for a block of `BLOCK` threads: it reads each round of vectors in the order of its threads.
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

    /// Loads `N` neighbouring elements from column `col` on, a multiple of `N`; -inf after the last column.
    #[inline(always)]
    pub fn vector_at<const N: usize>(&self, col: usize) -> u32x4
    where
        T: Element<N>,
    {
        if self.is_whole {
            return if col < self.cols {
                // SAFETY: an aligned vector of the row.
                unsafe { load_global(self.start.add(col).cast()) }
            } else {
                T::NEG_INFINITY
            };
        }
        let elements: [T; N] = core::array::from_fn(|j| {
            let col = col + j;
            // SAFETY: an element of the row.
            if col < self.cols { unsafe { *self.start.add(col) } } else { T::from_f32(f32::NEG_INFINITY) }
        });
        // SAFETY: `N` elements are 16 bytes, and every bit pattern is valid.
        unsafe { core::mem::transmute_copy(&elements) }
    }

    /// Returns the element of a column.
    ///
    /// # Safety
    /// The row has this column.
    #[inline(always)]
    pub unsafe fn element(&self, col: u32) -> f32 {
        // SAFETY: the row has the column.
        unsafe { *self.start.add(col as usize) }.to_f32()
    }
}

/// Returns the largest element of some vectors, without NaN.
#[inline(always)]
pub(super) fn largest<T: Element<N>, const N: usize>(x_reg: &[u32x4]) -> f32 {
    let max = x_reg.iter().fold(T::NEG_INFINITY, |max, &x| T::larger(max, x));
    T::unpack(max).into_iter().fold(f32::NEG_INFINITY, f32::max)
}

/// Returns the exponential of `x * scale`, which is at most 0; `factor` is `scale * log2(e)`. One instruction, which flushes
/// results below 2^-126 to 0.
#[inline(always)]
pub(super) fn exp(x: f32, factor: f32) -> f32 {
    cuda_std::fastmath::ex2_approx_ftz(x * factor)
}
