//! The arguments of the kernels.

#[cfg(not(target_arch = "nvptx64"))]
use cuda_std::launch::RawBuffer;
use cuda_std::mem::f32x2;
use cuda_std::{GpuFloat as _, KernelArgs};

use super::{GREEDY, NO_TOKEN, Noise};
use crate::element::{Element, Number};
use crate::softmax::row::{Part, Row, prefetch_rows, row_or_empty};
use crate::softmax::top_k::key::{column, value};

/// What the kernels are launched with. Strides are in elements.
///
/// Rows and columns stand between fields of 8 bytes: loaded together with another field, they cost registers.
#[derive(Clone, Copy, Debug, KernelArgs)]
#[repr(C)]
pub struct SampleArgs<T> {
    /// `[rows]`, written.
    pub tokens: *mut u32,
    /// `[rows]`, written, or null.
    pub log_probabilities: *mut f32,
    /// `[rows, cols]`.
    pub logits: *const T,
    /// Rows.
    pub rows: u32,
    /// From a row of `logits` to the next.
    pub stride: u64,
    /// The key of the noise.
    pub seed: u64,
    /// The number of the draw.
    pub draw: u64,
    /// Columns.
    pub cols: u32,
    /// The number of the first row, for the noise.
    pub first_row: u32,
    /// How many of the largest logits are left; 0 for all.
    pub top_k: u32,
    /// What part of the probability is left, over 0 and at most 1, which leaves all.
    pub top_p: f32,
    /// Factor of the logits: positive and finite.
    pub scale: f32,
    /// [`GREEDY`] or 0.
    pub flags: u32,
    /// Blocks, or clusters, from one to that whose rows it prefetches into L2; 0 for no prefetch.
    pub prefetch_blocks: u32,
}

/// [`SampleArgs`] in the buffers of the host.
#[cfg(not(target_arch = "nvptx64"))]
pub type SampleLaunch<T> = SampleArgsHost<RawBuffer<u32>, RawBuffer<f32>, RawBuffer<T>>;

impl<T: Number> SampleArgs<T> {
    #[inline(always)]
    pub(super) fn is_greedy(&self) -> bool {
        self.flags & GREEDY != 0
    }

    /// The noise of a row.
    #[inline(always)]
    pub(super) fn noise(&self, row: usize) -> Noise {
        Noise { seed: self.seed, draw: self.draw, row: self.first_row.wrapping_add(row as u32) }
    }

    /// The logit of a column.
    ///
    /// # Safety
    /// The row and the column are those of an element.
    #[inline(always)]
    pub(super) unsafe fn logit(&self, row: usize, col: u32) -> f32 {
        // SAFETY: the caller's element.
        unsafe { *self.logits.add(row * self.stride as usize + col as usize) }.to_f32()
    }

    /// The block's part of a row; after the last one it is empty.
    ///
    /// # Safety
    /// As for the kernels.
    #[inline(always)]
    pub(super) unsafe fn row<const N: usize, const BLOCK: usize>(
        &self,
        index: usize,
        part: Part,
    ) -> Row<T, T, BLOCK>
    where
        T: Element<N>,
    {
        let [row, cols] = row_or_empty(index, [self.rows, self.cols]);
        // SAFETY: the kernel's contract; nothing is written through the row.
        unsafe {
            let logits = self.logits.add(row * self.stride as usize);
            Row::new::<N>(logits.cast_mut(), logits, cols, part)
        }
    }

    /// Prefetches the block's part of a later row than number `row` into L2.
    ///
    /// # Safety
    /// As for the kernels.
    #[inline(always)]
    pub(super) unsafe fn prefetch(&self, row: usize, part: Part) {
        if self.prefetch_blocks > 0 {
            let later = row + self.prefetch_blocks as usize;
            // SAFETY: the kernel's contract.
            unsafe { prefetch_rows(self.logits, self.stride, [self.rows, self.cols], [later, 1], part) };
        }
    }

    /// Writes the token of a row with this (max, sum): that of the logit of this key, or none.
    ///
    /// # Safety
    /// The row is one of the matrix, and no other thread writes its results.
    #[inline(always)]
    pub(super) unsafe fn write(&self, row: usize, key: u64, f32x2 { x: max, y: sum }: f32x2) {
        let (token, log_probability) = match sum > 0.0 {
            true => (column(key), (value(key) - max) * self.scale - sum.ln()),
            false => (NO_TOKEN, f32::NAN),
        };
        // SAFETY: the caller's row.
        unsafe {
            *self.tokens.add(row) = token;
            if !self.log_probabilities.is_null() {
                *self.log_probabilities.add(row) = log_probability;
            }
        }
    }
}
