//! The arguments of the kernels, and their meaning for a row.
//!
//! A row whose target is `ignore_index` has loss, correctness and gradient 0 for any logits. If 1024 threads or more share
//! it and no log-sum-exp is wanted, it is not even read. A target that is not a column gives NaN for loss and gradient, so
//! that the mistake shows; it is never used as an index.

#[cfg(not(target_arch = "nvptx64"))]
use cuda_std::launch::RawBuffer;
use cuda_std::mem::f32x2;
use cuda_std::{GpuFloat as _, KernelArgs, thread};

use super::{I32, I64};
use crate::row::{Part, Row, prefetch_rows, row_or_empty};
use common_kernels::element::{Element, Number};

/// No column: there are at most 2^32 - 1 columns.
const NONE: u32 = u32::MAX;

/// The arguments of the kernels. Strides are in elements; results that are not wanted are null.
///
/// Rows and columns lie between fields of 8 bytes: a load that merges them with another field costs registers.
#[derive(Clone, Copy, Debug, KernelArgs)]
#[repr(C)]
pub struct CrossEntropyArgs<T> {
    /// `[rows]`, written.
    pub loss: *mut f32,
    /// `[rows]`, written, or null.
    pub lse: *mut f32,
    /// `[rows]`, written, or null.
    pub correct: *mut u32,
    /// `[rows, cols]`, written, or null.
    pub d_logits: *mut T,
    /// `[rows, cols]`.
    pub logits: *const T,
    /// `[rows]`, of the type that `target_bytes` selects.
    pub targets: *const u8,
    /// `[rows]`; or null: 1 for all rows.
    pub d_loss: *const f32,
    /// Rows.
    pub rows: u32,
    /// Distance from one row of `d_logits` to the next.
    pub d_stride: u64,
    /// Distance from one row of `logits` to the next.
    pub stride: u64,
    /// Columns.
    pub cols: u32,
    /// The target of ignored rows.
    pub ignore_index: i64,
    /// [`I64`], [`I32`] or [`U8`](super::U8).
    pub target_bytes: u32,
    /// Factor of the gradient.
    pub d_scale: f32,
    /// Prefetch distance: block `b` loads the rows of block `b + prefetch_blocks` into L2. 0: no prefetch.
    pub prefetch_blocks: u32,
}

#[cfg(not(target_arch = "nvptx64"))]
impl<T> CrossEntropyLaunch<T> {
    /// Returns the arguments for only the loss of 0 rows, with PyTorch's defaults. The code that launches the kernel sets
    /// the rows, the columns and all other options.
    pub const fn new(
        loss: RawBuffer<f32>,
        logits: RawBuffer<T>,
        targets: RawBuffer<u8>,
        target_bytes: u32,
    ) -> Self {
        Self {
            loss,
            lse: RawBuffer::NULL,
            correct: RawBuffer::NULL,
            d_logits: RawBuffer::NULL,
            logits,
            targets,
            d_loss: RawBuffer::NULL,
            d_stride: 0,
            stride: 0,
            ignore_index: -100,
            rows: 0,
            cols: 0,
            target_bytes,
            d_scale: 1.0,
            prefetch_blocks: 0,
        }
    }
}

/// The meaning of a row's target: a class, which is a column; or an ignored row; or neither, which is a mistake.
#[derive(Clone, Copy)]
pub(super) struct Target {
    /// The class, or `NONE`.
    pub col: u32,
    pub is_ignored: bool,
}

/// Returns the class of row `row`, from targets of the type that `target_bytes` selects.
///
/// # Safety
/// The targets have this row.
#[inline(always)]
pub(super) unsafe fn class_of(targets: *const u8, target_bytes: u32, row: usize) -> i64 {
    // SAFETY: the caller's contract.
    unsafe {
        match target_bytes {
            I64 => *targets.cast::<i64>().add(row),
            I32 => i64::from(*targets.cast::<i32>().add(row)),
            _ => i64::from(*targets.add(row)),
        }
    }
}

impl Target {
    /// Returns the meaning of `class` for the columns of a shard whose first column is `first_class`.
    #[inline(always)]
    pub(super) fn of_shard(class: i64, ignore_index: i64, first_class: i64, cols: u32) -> Self {
        let (is_ignored, col) = (class == ignore_index, class.wrapping_sub(first_class));
        let is_column = !is_ignored && (0..i64::from(cols)).contains(&col);
        Self { col: if is_column { col as u32 } else { NONE }, is_ignored }
    }

    #[inline(always)]
    pub(super) fn is_column(self) -> bool {
        self.col != NONE
    }

    #[inline(always)]
    fn is_mistake(self) -> bool {
        self.col == NONE && !self.is_ignored
    }
}

impl<T: Number> CrossEntropyArgs<T> {
    #[inline(always)]
    pub(super) fn wants_gradient(&self) -> bool {
        !self.d_logits.is_null()
    }

    #[inline(always)]
    pub(super) fn wants_correct(&self) -> bool {
        !self.correct.is_null()
    }

    /// Returns this thread's row and its number, in blocks that hold `BLOCK / THREADS` rows. A thread after the last row has
    /// an empty one.
    ///
    /// # Safety
    /// Same as for the kernels.
    #[inline(always)]
    pub(super) unsafe fn row<const N: usize, const BLOCK: usize, const THREADS: usize>(
        &self,
    ) -> (usize, Row<T, T, THREADS>)
    where
        T: Element<N>,
    {
        let (block, tid) = (thread::block_idx_x() as usize, thread::thread_idx_x() as usize);
        let index = block * (BLOCK / THREADS) + tid / THREADS;
        // SAFETY: the index is that of one of the block's rows.
        (index, unsafe { self.part(index, Part::ALL) })
    }

    /// Returns the block's part of a row; after the last row, an empty one.
    ///
    /// # Safety
    /// Same as for the kernels.
    #[inline(always)]
    pub(super) unsafe fn part<const N: usize, const THREADS: usize>(
        &self,
        index: usize,
        part: Part,
    ) -> Row<T, T, THREADS>
    where
        T: Element<N>,
    {
        let (out, out_stride) = match self.wants_gradient() {
            true => (self.d_logits, self.d_stride),
            false => (self.logits.cast_mut(), self.stride),
        };
        let [row, cols] = row_or_empty(index, [self.rows, self.cols]);
        // SAFETY: the kernel's contract; without a gradient nothing is written.
        unsafe {
            let logits = self.logits.add(row * self.stride as usize);
            Row::new::<N>(out.add(row * out_stride as usize), logits, cols, part)
        }
    }

    /// Prefetches a later block's rows, `rows_per_block` of them, into L2.
    ///
    /// # Safety
    /// Same as for the kernels.
    #[inline(always)]
    pub(super) unsafe fn prefetch(&self, rows_per_block: usize) {
        // SAFETY: the caller's contract.
        unsafe { self.prefetch_part(thread::block_idx_x() as usize, rows_per_block, Part::ALL) };
    }

    /// Does the same for a part of each row. The block's rows are group `group` of groups of `rows` rows.
    ///
    /// # Safety
    /// Same as for the kernels.
    #[inline(always)]
    pub(super) unsafe fn prefetch_part(&self, group: usize, rows: usize, part: Part) {
        if self.prefetch_blocks > 0 {
            let first = (group + self.prefetch_blocks as usize) * rows;
            let (rows, shape) = ([first, rows], [self.rows, self.cols]);
            // SAFETY: the rows exist.
            unsafe { prefetch_rows(self.logits, self.stride, shape, rows, part) };
        }
    }

    /// Returns whether this thread writes the results of the row.
    #[inline(always)]
    pub(super) fn is_first<const THREADS: usize>(&self, row: usize) -> bool {
        (thread::thread_idx_x() as usize).is_multiple_of(THREADS) && row < self.rows as usize
    }

    /// Returns whether a result of the row depends on its logits.
    #[inline(always)]
    pub(super) fn needs_logits(&self, target: Target) -> bool {
        !target.is_ignored || !self.lse.is_null()
    }

    /// Returns the target of row `row`; after the last row, the last row's target.
    ///
    /// # Safety
    /// Same as for the kernels.
    #[inline(always)]
    pub(super) unsafe fn target(&self, row: usize) -> Target {
        let row = row.min(self.rows as usize - 1);
        // SAFETY: there is a target for each row, of the type that `target_bytes` selects.
        let class = unsafe { class_of(self.targets, self.target_bytes, row) };
        Target::of_shard(class, self.ignore_index, 0, self.cols)
    }

    /// Returns the logit of the target, or NaN if there is none.
    ///
    /// # Safety
    /// The row lies in the matrix, and its gradient is not written yet.
    #[inline(always)]
    pub(super) unsafe fn logit(&self, row: usize, target: Target) -> f32 {
        if target.col == NONE {
            return f32::NAN;
        }
        // SAFETY: the row lies in the matrix, and the column is less than `cols`.
        unsafe { *self.logits.add(row * self.stride as usize + target.col as usize) }.to_f32()
    }

    /// Writes the loss, the log-sum-exp and the correctness of a row whose first largest element is in column `first`. One
    /// of its threads calls this.
    ///
    /// # Safety
    /// The row lies in the matrix, and no other thread writes its results.
    #[inline(always)]
    pub(super) unsafe fn write_results(
        &self,
        row: usize,
        target: Target,
        logit: f32,
        pair: f32x2,
        first: u32,
    ) {
        let f32x2 { x: max, y: sum } = pair;
        let ln_sum = sum.ln();
        let loss = if target.is_ignored { 0.0 } else { ln_sum - (logit - max) };
        // SAFETY: the arrays have an element for each row.
        unsafe {
            *self.loss.add(row) = loss;
            if !self.lse.is_null() {
                *self.lse.add(row) = max + ln_sum;
            }
            if self.wants_correct() {
                let is_correct = target.col != NONE && target.col == first && !loss.is_nan();
                *self.correct.add(row) = u32::from(is_correct);
            }
        }
    }

    /// Returns the gradient of row `row`, whose exponentials have this sum.
    ///
    /// # Safety
    /// Same as for the kernels.
    #[inline(always)]
    pub(super) unsafe fn gradient(&self, row: usize, target: Target, sum: f32) -> Gradient {
        let mut scale = if target.is_mistake() { f32::NAN } else { self.d_scale };
        if !self.d_loss.is_null() && row < self.rows as usize {
            // SAFETY: the array has an element for each row.
            scale *= unsafe { *self.d_loss.add(row) };
        }
        Gradient { target, factor: scale / sum, scale }
    }
}

/// What the gradient is computed from, apart from the exponentials.
#[derive(Clone, Copy)]
pub(super) struct Gradient {
    target: Target,
    /// The factor of the exponentials.
    factor: f32,
    /// What is subtracted in the target's column.
    scale: f32,
}

impl Gradient {
    /// Creates the gradient of a row: exponentials times `factor`, less `scale` in the target's column.
    #[inline(always)]
    pub fn new(target: Target, factor: f32, scale: f32) -> Self {
        Self { target, factor, scale }
    }

    /// Returns the gradient for exponentials that are larger by `1 / factor`.
    #[inline(always)]
    pub fn times(self, factor: f32) -> Self {
        Self { factor: self.factor * factor, ..self }
    }

    /// Returns the gradients for these exponentials, without the target's subtraction.
    #[inline(always)]
    pub fn of_others<const N: usize>(self, exps: [f32; N]) -> [f32; N] {
        exps.map(|exp| exp * self.factor)
    }

    /// Returns the gradients in the columns from `place` on, for the exponentials there.
    #[inline(always)]
    pub fn of<const N: usize>(self, exps: [f32; N], place: usize) -> [f32; N] {
        let target = self.target.col.wrapping_sub(place as u32);
        core::array::from_fn(|j| {
            let one_hot = if target == j as u32 { self.scale } else { 0.0 };
            if self.target.is_ignored { 0.0 } else { exps[j].mul_add(self.factor, -one_hot) }
        })
    }

    /// Writes the gradients of this thread's single elements. If one of its vectors has the target, also writes the
    /// target's, over what [`of_others`](Self::of_others) computed. A check of every element for the target would cost as
    /// much as everything else. `exp` returns the exponential of an element of the row.
    ///
    /// # Safety
    /// No other code uses what is written, and the thread has written its vectors.
    #[inline(always)]
    pub unsafe fn finish<T: Element<N>, const N: usize, const THREADS: usize>(
        self,
        row: &Row<T, T, THREADS>,
        (edge_reg, logit): ([f32; 2], f32),
        exp: impl Fn(f32) -> f32,
    ) {
        // SAFETY: each element of the gradient belongs to one thread.
        unsafe {
            if let Some(to) = row.output_at::<N>(self.target.col as usize) {
                *to = T::from_f32(exp(logit).mul_add(self.factor, -self.scale));
            }
            if !row.has_edges::<N>() {
                return;
            }
            let (places, [first, second]) = (row.edges::<N>(), edge_reg.map(exp));
            let ([first], [second]) = (self.of([first], places[0]), self.of([second], places[1]));
            row.store_edges::<N>([first, second]);
        }
    }

    /// Returns whether the row is ignored, so that all its gradients are 0, whatever it holds.
    #[inline(always)]
    pub fn is_zero(self) -> bool {
        self.target.is_ignored
    }
}
