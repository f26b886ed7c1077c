//! The buffers that operands are copied to ahead of their use.

use cuda_std::hint;
use cuda_std::mem::f32x4;
use cuda_std::pipeline::{self, memcpy_async_l2_zfill, memcpy_async_zfill};

use super::edges::Matrix;
use super::fragments::pitch;

/// Terms of a buffer.
pub const DEPTH: usize = 8;
/// Buffers: one that is read, and three on their way.
pub const STAGES: usize = 4;

/// Elements of a buffer for a tile of so many rows and columns: those of A, transposed, then those of B.
pub const fn stage_len(rows: usize, cols: usize) -> usize {
    DEPTH * (pitch(rows) + cols)
}

/// A thread's part of the copies: `A` elements of A, one of every so many rows, and `B` times `WIDTH` neighbours of B.
#[derive(Clone, Copy)]
pub struct Copies<const A: usize, const B: usize, const WIDTH: usize> {
    a: *const f32,
    b: *const f32,
    /// Where the thread's elements of A lie, and the first of B.
    from_a: [u32; A],
    from_b: u32,
    /// From each of B to the next, and to the one that the next buffer has in its place.
    next_b: u32,
    ahead_b: u32,
    /// Places in a buffer, and from each to the next.
    to_a: usize,
    step_a: usize,
    to_b: usize,
    step_b: usize,
    /// Terms of the sums that are left, from the thread's of A and its first of B on; not above 0 where none are.
    left_a: i32,
    left_b: i32,
    /// Rows from one of B's to the next.
    rows_b: i32,
}

impl<const A: usize, const B: usize, const WIDTH: usize> Copies<A, B, WIDTH> {
    /// The copies of thread `tid` of `THREADS`, for the tile of `ROWS` x `COLS` sums at `origin` and the terms
    /// `start..end`. Rows and columns outside have the last one's elements, which nobody uses.
    #[inline(always)]
    pub fn new<const THREADS: usize, const ROWS: usize, const COLS: usize>(
        a: Matrix,
        b: Matrix,
        (row0, col0): (usize, usize),
        [start, end]: [usize; 2],
        tid: usize,
    ) -> Self {
        const { assert!(A * THREADS == ROWS * DEPTH && B * WIDTH * THREADS == COLS * DEPTH) };
        let across = COLS / WIDTH;
        let (row_a, k_a) = (tid / DEPTH, tid % DEPTH);
        let (k_b, col_b) = (tid / across, tid % across * WIDTH);
        let from_a = |i: usize| {
            let row = ((row0 + row_a + i * (THREADS / DEPTH)) as u32).min(a.rows - 1);
            hint::opaque((row * a.cols + (start + k_a) as u32) as usize) as u32
        };
        let col = ((col0 + col_b) as u32).min(b.cols - WIDTH as u32);
        Self {
            a: a.elements,
            b: b.elements,
            from_a: core::array::from_fn(from_a),
            from_b: (start + k_b) as u32 * b.cols + col,
            next_b: (THREADS / across) as u32 * b.cols,
            ahead_b: DEPTH as u32 * b.cols,
            to_a: k_a * pitch(ROWS) + row_a,
            step_a: THREADS / DEPTH,
            to_b: DEPTH * pitch(ROWS) + k_b * COLS + col_b,
            step_b: THREADS / across * COLS,
            left_a: end as i32 - (start + k_a) as i32,
            left_b: end as i32 - (start + k_b) as i32,
            rows_b: (THREADS / across) as i32,
        }
    }

    /// Starts the copies of the next [`DEPTH`] terms to `stage`, and makes them a group. After the last term come zeros.
    ///
    /// # Safety
    /// `stage` is a buffer of the block, which nobody reads before all have waited for the group and met at a barrier.
    #[inline(always)]
    pub unsafe fn start(&mut self, stage: *mut f32) {
        // SAFETY: each thread has its own places. Sources lie in the matrices where there are terms left; where there are none,
        // no byte is read.
        unsafe {
            let bytes = if self.left_a > 0 { 4 } else { 0 };
            for i in 0..A {
                let from = self.a.wrapping_add(self.from_a[i] as usize);
                memcpy_async_zfill(stage.add(self.to_a + i * self.step_a), from, bytes);
                self.from_a[i] = self.from_a[i].wrapping_add(DEPTH as u32);
            }
            for i in 0..B {
                let to = stage.add(self.to_b + i * self.step_b);
                let from = self.b.wrapping_add(self.from_b.wrapping_add(i as u32 * self.next_b) as usize);
                let is_left = self.left_b > i as i32 * self.rows_b;
                match WIDTH {
                    4 => memcpy_async_l2_zfill::<f32x4>(to.cast(), from.cast(), if is_left { 16 } else { 0 }),
                    _ => memcpy_async_zfill(to, from, if is_left { 4 } else { 0 }),
                }
            }
        }
        self.from_b = self.from_b.wrapping_add(self.ahead_b);
        (self.left_a, self.left_b) = (self.left_a - DEPTH as i32, self.left_b - DEPTH as i32);
        pipeline::commit();
    }
}
