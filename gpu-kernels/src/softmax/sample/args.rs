//! The arguments of the kernels.

#[cfg(not(target_arch = "nvptx64"))]
use cuda_std::launch::RawBuffer;
use cuda_std::mem::f32x2;
use cuda_std::{GpuFloat as _, KernelArgs};

use super::{GREEDY, NO_TOKEN, Noise};
use crate::element::{Element, Number};
use crate::softmax::chunk::Line;

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
    /// How many of the largest logits are left; 0 for all, and in all kernels but those for it.
    pub top_k: u32,
    /// What part of the probability is left, over 0 and at most 1, which leaves all.
    pub top_p: f32,
    /// Factor of the logits: positive and finite.
    pub scale: f32,
    /// [`GREEDY`] or 0.
    pub flags: u32,
}

/// [`SampleArgs`] as the host passes it: with `RawBuffer`s instead of pointers.
#[cfg(not(target_arch = "nvptx64"))]
pub type SampleLaunch<T> = SampleArgsHost<RawBuffer<u32>, RawBuffer<f32>, RawBuffer<T>>;

impl<T: Number> SampleArgs<T> {
    #[inline(always)]
    pub(super) fn is_greedy(&self) -> bool {
        self.flags & GREEDY != 0
    }

    /// The random numbers of a row.
    #[inline(always)]
    pub(super) fn noise(&self, row: usize) -> Noise {
        Noise { seed: self.seed, draw: self.draw, row: self.first_row.wrapping_add(row as u32) }
    }

    /// Factor of a difference of logits in a power of 2.
    #[inline(always)]
    pub(super) fn factor(&self) -> f32 {
        self.scale * core::f32::consts::LOG2_E
    }

    /// Row `index`; empty if `index` is past the last row.
    ///
    /// # Safety
    /// Same as for the kernels.
    #[inline(always)]
    pub(super) unsafe fn line<const N: usize>(&self, index: usize) -> Line<T>
    where
        T: Element<N>,
    {
        // SAFETY: the kernel's contract.
        unsafe { Line::new(self.logits, self.stride, [self.rows, self.cols], index) }
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

    /// Writes the token of a row with this (max, sum), or that there is none.
    ///
    /// # Safety
    /// The row is one of the matrix, and the token one of its columns if the sum is positive; no other thread writes the results.
    #[inline(always)]
    pub(super) unsafe fn write(&self, row: usize, token: u32, f32x2 { x: max, y: sum }: f32x2) {
        let has_token = sum > 0.0;
        // SAFETY: the caller's row.
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
