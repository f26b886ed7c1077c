//! What the kernels are given, and what they make of it row by row.

use cuda_std::mem::f32x2;
use cuda_std::{GpuFloat as _, thread};

use super::{I32, I64};
use crate::element::{Element, Number, Output};
use crate::softmax::forward::Options;
use crate::softmax::row::{Matrix, Part, Row, prefetch_rows};

/// The exponential is that of the softmax of the logits as they are.
pub(super) const PLAIN: Options = Options { scale: 1.0, flags: 0, ahead: 0 };

/// No column: there are at most 2^32 - 1 of them.
const NONE: u32 = u32::MAX;

/// What a kernel is launched with.
#[derive(Clone, Copy)]
pub(super) struct Given<T> {
    pub loss: *mut f32,
    pub lse: *mut f32,
    pub correct: *mut u32,
    pub d_logits: Matrix<*mut T>,
    pub logits: Matrix<*const T>,
    pub targets: *const u8,
    pub target_bytes: u32,
    pub ignore_index: i64,
    pub d_loss: *const f32,
    pub d_scale: f32,
    pub shape: [u32; 2],
    pub ahead: u32,
}

/// The class of a row: a column, or `NONE`.
#[derive(Clone, Copy)]
pub(super) struct Target {
    pub col: u32,
    pub is_ignored: bool,
}

impl<T: Number> Given<T> {
    #[inline(always)]
    pub fn wants_gradient(&self) -> bool {
        !self.d_logits.data.is_null()
    }

    #[inline(always)]
    pub fn wants_hits(&self) -> bool {
        !self.correct.is_null()
    }

    /// This thread's row with its number, in blocks that hold `BLOCK / THREADS` of them. A thread after the last row
    /// has an empty one.
    ///
    /// # Safety
    /// As for the kernels.
    #[inline(always)]
    pub unsafe fn row<const N: usize, const BLOCK: usize, const THREADS: usize>(
        &self,
    ) -> (usize, Row<T, T, THREADS>)
    where
        T: Element<N>,
    {
        let (block, tid) = (thread::block_idx_x() as usize, thread::thread_idx_x() as usize);
        let index = block * (BLOCK / THREADS) + tid / THREADS;
        let Matrix { data, stride } = self.logits;
        let out =
            if self.wants_gradient() { self.d_logits } else { Matrix { data: data.cast_mut(), stride } };
        // SAFETY: the kernel's contract; without a gradient nothing is written.
        (index, unsafe { Row::new::<N>(out, self.logits, self.shape, index, Part::ALL) })
    }

    /// Prefetches the rows of a later block, of `rows_per_block`, into L2.
    ///
    /// # Safety
    /// As for the kernels.
    #[inline(always)]
    pub unsafe fn prefetch(&self, rows_per_block: usize) {
        if self.ahead > 0 {
            let first = (thread::block_idx_x() as usize + self.ahead as usize) * rows_per_block;
            // SAFETY: the kernel's contract.
            unsafe { prefetch_rows(self.logits, self.shape, [first, rows_per_block], Part::ALL) };
        }
    }

    /// Whether this thread is the one of the row that writes its results.
    #[inline(always)]
    pub fn is_first<const THREADS: usize>(&self, row: usize) -> bool {
        (thread::thread_idx_x() as usize).is_multiple_of(THREADS) && row < self.shape[0] as usize
    }

    /// Whether something is asked of the row that depends on its logits.
    #[inline(always)]
    pub fn needs_logits(&self, target: Target) -> bool {
        !target.is_ignored || !self.lse.is_null()
    }

    /// The target of row `row`, of the last row for those after it.
    ///
    /// # Safety
    /// As for the kernels.
    #[inline(always)]
    pub unsafe fn target(&self, row: usize) -> Target {
        let row = row.min(self.shape[0] as usize - 1);
        // SAFETY: there is a target for each row, of the type that the launch says.
        let class = unsafe {
            match self.target_bytes {
                I64 => *self.targets.cast::<i64>().add(row),
                I32 => i64::from(*self.targets.cast::<i32>().add(row)),
                _ => i64::from(*self.targets.add(row)),
            }
        };
        let is_ignored = class == self.ignore_index;
        let is_column = !is_ignored && (0..i64::from(self.shape[1])).contains(&class);
        Target { col: if is_column { class as u32 } else { NONE }, is_ignored }
    }

    /// The logit of the target, NaN if there is none.
    ///
    /// # Safety
    /// The row is one of the matrix, and its gradient is not written yet.
    #[inline(always)]
    pub unsafe fn logit(&self, row: usize, target: Target) -> f32 {
        if target.col == NONE {
            return f32::NAN;
        }
        let Matrix { data, stride } = self.logits;
        // SAFETY: the column is less than `cols`.
        unsafe { *data.add(row * stride as usize + target.col as usize) }.to_f32()
    }

    /// Loss, log-sum-exp and hit of a row whose first largest element is in column `first`, written by one of its
    /// threads.
    ///
    /// # Safety
    /// The row is one of the matrix, and no other thread writes its results.
    #[inline(always)]
    pub unsafe fn write_results(&self, row: usize, target: Target, logit: f32, pair: f32x2, first: u32) {
        let f32x2 { x: max, y: sum } = pair;
        let ln_sum = sum.ln();
        let loss = if target.is_ignored { 0.0 } else { ln_sum - (logit - max) };
        // SAFETY: the arrays have an element for each row.
        unsafe {
            *self.loss.add(row) = loss;
            if !self.lse.is_null() {
                *self.lse.add(row) = max + ln_sum;
            }
            if self.wants_hits() {
                let is_hit = target.col != NONE && target.col == first && !loss.is_nan();
                *self.correct.add(row) = u32::from(is_hit);
            }
        }
    }

    /// The gradient of row `row`, whose exponentials have this sum.
    ///
    /// # Safety
    /// As for the kernels.
    #[inline(always)]
    pub unsafe fn gradient(&self, row: usize, target: Target, sum: f32) -> Gradient {
        let is_outside = target.col == NONE && !target.is_ignored;
        let mut scale = if is_outside { f32::NAN } else { self.d_scale };
        if !self.d_loss.is_null() && row < self.shape[0] as usize {
            // SAFETY: the array has an element for each row.
            scale *= unsafe { *self.d_loss.add(row) };
        }
        Gradient { target, factor: scale / sum, scale }
    }
}

/// What the gradient is made of besides the exponentials.
#[derive(Clone, Copy)]
pub(super) struct Gradient {
    target: Target,
    /// What an exponential is multiplied by.
    factor: f32,
    /// What the target's column loses.
    scale: f32,
}

impl Gradient {
    /// The same for exponentials that are larger by `1 / factor`.
    #[inline(always)]
    pub fn times(self, factor: f32) -> Self {
        Self { factor: self.factor * factor, ..self }
    }

    /// The gradients in the columns from `place` on, of the exponentials there.
    #[inline(always)]
    pub fn of<const N: usize>(self, exps: [f32; N], place: usize) -> [f32; N] {
        let target = self.target.col.wrapping_sub(place as u32);
        core::array::from_fn(|j| {
            let one_hot = if target == j as u32 { self.scale } else { 0.0 };
            if self.target.is_ignored { 0.0 } else { exps[j].mul_add(self.factor, -one_hot) }
        })
    }
}
