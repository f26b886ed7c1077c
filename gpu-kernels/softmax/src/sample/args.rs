//! The arguments of the kernels.

use cuda_std::mem::f32x2;
use cuda_std::{GpuFloat as _, KernelArgs};

use super::{GREEDY, NO_TOKEN, Noise};
use crate::chunk::Line;
use common_kernels::element::{Element, Number};

/// The arguments of the kernels. Strides are in elements.
///
/// Rows and columns lie between fields of 8 bytes: a load that merges them with another field costs registers.
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
    /// Distance from one row of `logits` to the next.
    pub stride: u64,
    /// The key of the random numbers.
    pub seed: u64,
    /// The number of the draw.
    pub draw: u64,
    /// Columns.
    pub cols: u32,
    /// The number of the first row, for the random numbers.
    pub first_row: u32,
    /// The number of largest logits to keep; 0 for all. It is 0 in kernels without `top_k`.
    pub top_k: u32,
    /// The part of the probability to keep, above 0 and at most 1, which keeps all.
    pub top_p: f32,
    /// Factor of the logits: positive and finite.
    pub scale: f32,
    /// [`GREEDY`] or 0.
    pub flags: u32,
}

impl<T: Number> SampleArgs<T> {
    #[inline(always)]
    pub(super) fn is_greedy(&self) -> bool {
        self.flags & GREEDY != 0
    }

    /// Returns the random numbers of a row.
    #[inline(always)]
    pub(super) fn noise(&self, row: usize) -> Noise {
        Noise { seed: self.seed, draw: self.draw, row: self.first_row.wrapping_add(row as u32) }
    }

    /// Returns the factor from a difference of logits to an exponent of 2.
    #[inline(always)]
    pub(super) fn factor(&self) -> f32 {
        self.scale * core::f32::consts::LOG2_E
    }

    /// Returns row `index`; empty if `index` is past the last row.
    ///
    /// # Safety
    /// Same as for the kernels.
    #[inline(always)]
    pub(super) unsafe fn line<const N: usize>(&self, index: usize) -> Line<T>
    where
        T: Element<N>,
    {
        // SAFETY: the logits have the row.
        unsafe { Line::new(self.logits, self.stride, [self.rows, self.cols], index) }
    }

    /// Returns the logit of a column.
    ///
    /// # Safety
    /// The row and the column lie in the matrix.
    #[inline(always)]
    pub(super) unsafe fn logit(&self, row: usize, col: u32) -> f32 {
        // SAFETY: the logits have the element.
        unsafe { *self.logits.add(row * self.stride as usize + col as usize) }.to_f32()
    }

    /// Writes the token of a row with this (max, sum), or [`NO_TOKEN`] if the sum is not positive.
    ///
    /// # Safety
    /// The row lies in the matrix, and if the sum is positive, has the token; no other thread writes the results.
    #[inline(always)]
    pub(super) unsafe fn write(&self, row: usize, token: u32, f32x2 { x: max, y: sum }: f32x2) {
        let has_token = sum > 0.0;
        // SAFETY: the row exists, and one thread writes its results.
        unsafe {
            *self.tokens.add(row) = if has_token { token } else { NO_TOKEN };
            if !self.log_probabilities.is_null() {
                *self.log_probabilities.add(row) = match has_token {
                    true => (self.logit(row, token) - max) * self.scale - sum.ln(),
                    false => f32::NAN,
                };
            }
        }
    }
}
