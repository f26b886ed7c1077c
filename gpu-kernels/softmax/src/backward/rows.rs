//! The arguments of the kernels, and their bodies.

use cuda_std::mem::u32x4;
use cuda_std::warp::reduce_sum_width;
use cuda_std::{GpuFloat as _, KernelArgs, thread};

use super::LOG;
use crate::forward::exp;
use crate::row::{Part, Row, prefetch_rows, row_or_empty};
use common_kernels::element::Element;

/// A vector of zeros, of any type.
const ZEROS: u32x4 = u32x4::splat(0);

/// The arguments of the kernels. Matrices are `[rows, cols]`, strides in elements.
///
/// Rows and columns lie between fields of 8 bytes: a load that merges them with another field costs registers.
#[derive(Clone, Copy, Debug, KernelArgs)]
#[repr(C)]
pub struct BackwardArgs<T> {
    /// The gradient of the logits, written.
    pub dx: *mut T,
    /// The gradient of the result.
    pub dy: *const T,
    /// The result.
    pub y: *const T,
    /// Rows.
    pub rows: u32,
    /// Distance from one row of `dx` to the next.
    pub dx_stride: u64,
    /// Distance from one row of `dy` to the next.
    pub dy_stride: u64,
    /// Columns.
    pub cols: u32,
    /// Distance from one row of `y` to the next.
    pub y_stride: u64,
    /// Factor of the gradient.
    pub scale: f32,
    /// [`LOG`] or 0.
    pub flags: u32,
    /// Prefetch distance: block (or cluster) `b` loads the rows of block `b + prefetch_blocks` into L2. 0: no prefetch.
    pub prefetch_blocks: u32,
}

impl<T> BackwardArgs<T> {
    #[inline(always)]
    pub(super) fn is_log(&self) -> bool {
        self.flags & LOG != 0
    }

    /// Prefetches into L2 the rows of the block `prefetch_blocks` after number `block`, `rows_per_block` of them, or a part
    /// of its row.
    ///
    /// # Safety
    /// Same as for the kernels.
    #[inline(always)]
    pub(super) unsafe fn prefetch(&self, block: usize, rows_per_block: usize, part: Part) {
        if self.prefetch_blocks > 0 {
            let first = (block + self.prefetch_blocks as usize) * rows_per_block;
            let (rows, shape) = ([first, rows_per_block], [self.rows, self.cols]);
            // SAFETY: the kernel's contract.
            unsafe {
                prefetch_rows(self.dy, self.dy_stride, shape, rows, part);
                prefetch_rows(self.y, self.y_stride, shape, rows, part);
            }
        }
    }
}

/// This thread's row of `dy` and of `y`, or the block's part of it. Both are divided alike, aligned to `dx`.
pub(super) struct Rows<T, const N: usize, const THREADS: usize> {
    pub dy: Row<T, T, THREADS>,
    pub y: Row<T, T, THREADS>,
    scale: f32,
    is_log: bool,
}

impl<T: Element<N>, const N: usize, const THREADS: usize> Rows<T, N, THREADS> {
    /// Returns the row of this thread, in blocks that hold `BLOCK / THREADS` rows.
    ///
    /// # Safety
    /// Same as for the kernels.
    #[inline(always)]
    unsafe fn of_block<const BLOCK: usize>(args: BackwardArgs<T>) -> Self {
        let (block, tid) = (thread::block_idx_x() as usize, thread::thread_idx_x() as usize);
        // SAFETY: the caller's contract.
        unsafe { Self::new(args, block * (BLOCK / THREADS) + tid / THREADS, Part::ALL) }
    }

    /// Returns row number `row`, or the block's part of it; after the last row, an empty one.
    ///
    /// # Safety
    /// Same as for the kernels.
    #[inline(always)]
    pub unsafe fn new(args: BackwardArgs<T>, row: usize, part: Part) -> Self {
        let [row, cols] = row_or_empty(row, [args.rows, args.cols]);
        // SAFETY: the kernel's contract.
        unsafe {
            let (dy, y) =
                (args.dy.add(row * args.dy_stride as usize), args.y.add(row * args.y_stride as usize));
            let dx = args.dx.add(row * args.dx_stride as usize);
            let of = |inp| Row::new::<N>(dx, inp, cols, part);
            Self { dy: of(dy), y: of(y), scale: args.scale, is_log: args.is_log() }
        }
    }

    /// Loads this thread's vectors of both matrices from number `start` on.
    #[inline(always)]
    fn load<const VECTORS: usize>(&self, start: usize) -> [[u32x4; VECTORS]; 2] {
        [self.dy.load::<N, VECTORS>(start, ZEROS), self.y.load::<N, VECTORS>(start, ZEROS)]
    }

    /// Loads this thread's single elements of both matrices.
    #[inline(always)]
    pub fn load_edges(&self) -> [[f32; 2]; 2] {
        [self.dy.load_edges::<N>(0.0), self.y.load_edges::<N>(0.0)]
    }

    /// Returns `sum` plus the terms of these elements.
    #[inline(always)]
    pub fn add<const LEN: usize>(&self, sum: f32, dy: [f32; LEN], y: [f32; LEN]) -> f32 {
        // One branch for all elements; otherwise both terms are computed for each.
        let elements = dy.into_iter().zip(y);
        if self.is_log {
            elements.fold(sum, |sum, (dy, _)| sum + dy)
        } else {
            elements.fold(sum, |sum, (dy, y)| dy.mul_add(y, sum))
        }
    }

    /// Returns the gradient of these logits.
    #[inline(always)]
    fn finish<const LEN: usize>(&self, sum: f32, dy: [f32; LEN], y: [f32; LEN]) -> [f32; LEN] {
        let Self { scale, is_log, .. } = *self;
        // This takes one multiplication per element less than to scale the difference.
        let shift = sum * scale;
        core::array::from_fn(|j| {
            if is_log {
                exp::<T>(y[j], 1.0).mul_add(-sum, dy[j]) * scale
            } else {
                y[j] * dy[j].mul_add(scale, -shift)
            }
        })
    }

    /// Writes the gradient of this thread's vector number `i`, if the row has it.
    ///
    /// # Safety
    /// No other code uses this vector.
    #[inline(always)]
    pub unsafe fn store(&self, i: usize, sum: f32, dy: u32x4, y: u32x4) {
        if let Some(to) = self.dy.output::<N>(i) {
            // SAFETY: the vector is aligned and lies in the row.
            unsafe { T::store(to, self.finish(sum, T::unpack(dy), T::unpack(y))) };
        }
    }

    /// Writes the gradient of this thread's single elements.
    ///
    /// # Safety
    /// No other code uses these elements.
    #[inline(always)]
    pub unsafe fn store_edges(&self, sum: f32, [dy, y]: [[f32; 2]; 2]) {
        // SAFETY: each element of the gradient belongs to one thread.
        unsafe { self.dy.store_edges::<N>(self.finish(sum, dy, y)) };
    }
}

/// Returns the sum of a row that `THREADS` threads hold, `LANES` of each warp, to all of them.
///
/// # Safety
/// All threads of the block call this, once; `shared` belongs to the block and has an element per warp.
#[inline(always)]
pub(super) unsafe fn sum_of_row<const THREADS: usize, const LANES: u32>(shared: *mut f32, sum: f32) -> f32 {
    let thread = thread::thread_idx_x() as usize;
    let (warps, lane) = (THREADS / 32, thread % 32);
    // SAFETY: all threads execute this. Each warp has its own element, and reads after the barrier.
    unsafe {
        let sum = reduce_sum_width::<f32, LANES>(u32::MAX, sum);
        if THREADS <= 32 {
            return sum;
        }
        if lane == 0 {
            *shared.add(thread / 32) = sum;
        }
        thread::sync_threads_aligned();
        let of_warp = if lane < warps { *shared.add(thread / THREADS * warps + lane) } else { 0.0 };
        reduce_sum_width::<f32, 32>(u32::MAX, of_warp)
    }
}

/// Computes the gradient of rows in registers: each of `THREADS` threads holds `VECTORS` vectors of both matrices.
///
/// # Safety
/// Same as for the kernels; `shared` belongs to the block and has an element per warp.
#[inline(always)]
pub(super) unsafe fn in_registers<
    T,
    const N: usize,
    const BLOCK: usize,
    const THREADS: usize,
    const LANES: u32,
    const VECTORS: usize,
>(
    shared: *mut f32,
    args: BackwardArgs<T>,
) where
    T: Element<N>,
{
    // SAFETY: the kernel's contract.
    let rows = unsafe { Rows::<T, N, THREADS>::of_block::<BLOCK>(args) };
    let [dy_reg, y_reg] = rows.load::<VECTORS>(0);
    let [dy, y] = rows.load_edges();
    // SAFETY: the kernel's contract.
    unsafe { args.prefetch(thread::block_idx_x() as usize, BLOCK / THREADS, Part::ALL) };
    let mut sum = rows.add(0.0, dy, y);
    for i in 0..VECTORS {
        sum = rows.add(sum, T::unpack(dy_reg[i]), T::unpack(y_reg[i]));
    }
    // SAFETY: all threads of the block execute this; each writes only what it alone has read.
    unsafe {
        let sum = sum_of_row::<THREADS, LANES>(shared, sum);
        for i in 0..VECTORS {
            rows.store(i, sum, dy_reg[i], y_reg[i]);
        }
        rows.store_edges(sum, [dy, y]);
    }
}

/// Computes the gradient of rows of any width, one per block: reads a row once for the sum and once for the result.
///
/// # Safety
/// Same as for the kernels; `shared` belongs to the block and has an element per warp.
#[inline(always)]
pub(super) unsafe fn wide<T, const N: usize, const BLOCK: usize, const VECTORS: usize>(
    shared: *mut f32,
    args: BackwardArgs<T>,
) where
    T: Element<N>,
{
    // SAFETY: the kernel's contract.
    let rows = unsafe { Rows::<T, N, BLOCK>::of_block::<BLOCK>(args) };
    let [dy, y] = rows.load_edges();
    let mut sum = rows.add(0.0, dy, y);
    let mut start = 0;
    while rows.dy.has_vectors(start) {
        let [dy_reg, y_reg] = rows.load::<VECTORS>(start);
        for i in 0..VECTORS {
            sum = rows.add(sum, T::unpack(dy_reg[i]), T::unpack(y_reg[i]));
        }
        start += VECTORS;
    }
    // SAFETY: all threads of the block execute this; each writes only what it alone reads.
    unsafe {
        let sum = sum_of_row::<BLOCK, 32>(shared, sum);
        // Backwards: L2 still holds the end of the row.
        while start > 0 {
            start -= VECTORS;
            let [dy_reg, y_reg] = rows.load::<VECTORS>(start);
            for i in 0..VECTORS {
                rows.store(start + i, sum, dy_reg[i], y_reg[i]);
            }
        }
        rows.store_edges(sum, [dy, y]);
    }
}
