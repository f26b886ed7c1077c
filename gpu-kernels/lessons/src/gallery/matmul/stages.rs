//! The buffers to which operands are copied ahead of their use.

use cuda_std::mem::f32x4;
use cuda_std::pipeline::{self, memcpy_async_l2_zfill, memcpy_async_zfill};
use cuda_std::shared::SharedPtr;

use super::edges::Matrix;
use super::fragments::pitch;

/// Terms of a buffer.
pub const DEPTH: usize = 8;
/// Buffers: one that is read, and three with copies in flight.
pub const STAGES: usize = 4;

/// Returns the elements of a buffer for a tile of `rows` rows and `cols` columns: those of A, transposed, then those of B.
pub const fn stage_len(rows: usize, cols: usize) -> usize {
    DEPTH * (pitch(rows) + cols)
}

/// Returns the number of threads that copy neighbours in a row of B.
const fn lanes(cols: usize, width: usize) -> usize {
    if cols / width < 32 { cols / width } else { 32 }
}

/// A thread's part of the copies: `A` elements of A, evenly spaced over the rows, and `B` times `WIDTH` neighbours of B.
#[derive(Clone, Copy)]
pub struct Copies<const A: usize, const B: usize, const WIDTH: usize> {
    /// The next term's column of A and row of B, and the number of terms left. They are the same in all threads, so they
    /// need few registers.
    a: *const f32,
    b: *const f32,
    left: i32,
    /// Elements of a row of B, and the number left from the tile's first column on.
    pitch_b: u32,
    cols_left: u32,
    /// The offsets of the thread's elements from there: of each in A, and of the first in B.
    from_a: [u32; A],
    from_b: u32,
    /// Their terms, counted from the next one, and the column in the tile of the first in B.
    k_a: i32,
    k_b: i32,
    col_b: u32,
    /// The offsets in a buffer of the first of each, in bytes.
    to_a: u32,
    to_b: u32,
}

impl<const A: usize, const B: usize, const WIDTH: usize> Copies<A, B, WIDTH> {
    /// Creates the copies of thread `tid` of `THREADS`, for the tile of `ROWS` x `COLS` sums at `origin` and the terms
    /// `start..end`. Rows outside get the last row's elements, and columns outside get zeros: no result uses either.
    #[inline(always)]
    pub fn new<const THREADS: usize, const ROWS: usize, const COLS: usize>(
        a: Matrix,
        b: Matrix,
        (row0, col0): (usize, usize),
        [start, end]: [usize; 2],
        tid: usize,
    ) -> Self {
        const { assert!(A * THREADS == ROWS * DEPTH && B * WIDTH * THREADS == COLS * DEPTH) };
        let across = lanes(COLS, WIDTH);
        let (row_a, k_a) = (tid / DEPTH, tid % DEPTH);
        let (k_b, col_b) = (tid / across, tid % across * WIDTH);
        let from_a = |i: usize| {
            let row = ((row0 + row_a + i * (THREADS / DEPTH)) as u32).min(a.rows - 1);
            row * a.cols + k_a as u32
        };
        Self {
            a: a.elements.wrapping_add(start),
            b: b.elements.wrapping_add(start * b.cols as usize),
            left: end as i32 - start as i32,
            pitch_b: b.cols,
            cols_left: b.cols - col0 as u32,
            from_a: core::array::from_fn(from_a),
            from_b: k_b as u32 * b.cols + (col0 + col_b) as u32,
            k_a: k_a as i32,
            k_b: k_b as i32,
            col_b: col_b as u32,
            to_a: 4 * (k_a * pitch(ROWS) + row_a) as u32,
            to_b: 4 * (DEPTH * pitch(ROWS) + k_b * COLS + col_b) as u32,
        }
    }

    /// Starts the copies of the next [`DEPTH`] terms to the buffer at `stage` bytes in `shared`, and makes them a group.
    /// After the last term come zeros.
    ///
    /// # Safety
    /// The arguments are those of [`Self::new`]. The buffer is the block's, and no thread reads it before all threads have
    /// waited for the group and synchronised.
    #[inline(always)]
    pub unsafe fn start<const THREADS: usize, const COLS: usize>(
        &mut self,
        shared: SharedPtr<f32>,
        stage: u32,
    ) {
        let (groups, rows_b) = (COLS / WIDTH / lanes(COLS, WIDTH), THREADS / lanes(COLS, WIDTH));
        // SAFETY: each thread writes its own elements. Sources lie in the matrices while terms are left; afterwards no byte
        // is read.
        unsafe {
            let bytes = if self.k_a < self.left { 4 } else { 0 };
            for i in 0..A {
                let to = shared.wrapping_byte_add(stage + self.to_a + (4 * i * THREADS / DEPTH) as u32);
                memcpy_async_zfill(to, self.a.wrapping_add(self.from_a[i] as usize), bytes);
            }
            for i in 0..B {
                let (row, col) = (i / groups * rows_b, i % groups * lanes(COLS, WIDTH) * WIDTH);
                let to = shared.wrapping_byte_add(stage + self.to_b + 4 * (row * COLS + col) as u32);
                let row_from = self.b.wrapping_add((self.from_b + row as u32 * self.pitch_b) as usize);
                let from = row_from.wrapping_add(col);
                let is_left =
                    self.k_b + (row as i32) < self.left && (self.col_b + (col as u32) < self.cols_left);
                match WIDTH {
                    4 => memcpy_async_l2_zfill::<f32x4>(to.cast(), from.cast(), if is_left { 16 } else { 0 }),
                    _ => memcpy_async_zfill(to, from, if is_left { 4 } else { 0 }),
                }
            }
        }
        self.a = self.a.wrapping_add(DEPTH);
        self.b = self.b.wrapping_add(DEPTH * self.pitch_b as usize);
        self.left -= DEPTH as i32;
        pipeline::commit();
    }
}
