//! The arguments of the kernels, and what they write.

use cuda_std::mem::f32x2;
use cuda_std::{GpuFloat as _, KernelArgs};

use super::key::{column, value};
use super::select::Selection;
use super::{LOG, NO_COLUMN, ZERO_MASKED};
use crate::chunk::lane;
use common_kernels::element::Number;

/// The arguments of the kernels. Strides are in elements.
///
/// Rows and columns lie between fields of 8 bytes: a load that merges them with another field costs registers.
#[derive(Clone, Copy, Debug, KernelArgs)]
#[repr(C)]
pub struct TopKArgs<T> {
    /// `[rows, k]`, written.
    pub probabilities: *mut f32,
    /// `[rows, k]`, written.
    pub indices: *mut u32,
    /// `[rows, cols]`.
    pub logits: *const T,
    /// Rows.
    pub rows: u32,
    /// Distance from one row of `probabilities` to the next.
    pub probabilities_stride: u64,
    /// Distance from one row of `indices` to the next.
    pub indices_stride: u64,
    /// Distance from one row of `logits` to the next.
    pub stride: u64,
    /// Columns of the logits.
    pub cols: u32,
    /// Columns of the results, from 1 to [`MOST`](super::MOST).
    pub k: u32,
    /// Factor of the logits: positive and finite.
    pub scale: f32,
    /// [`LOG`], [`ZERO_MASKED`].
    pub flags: u32,
}

impl<T: Number> TopKArgs<T> {
    /// Writes place `place` of a row with this (max, sum). `key` is the element in this place, 0 for no element.
    ///
    /// # Safety
    /// The row lies in the matrices and the place is less than `k`; no other thread writes it.
    #[inline(always)]
    pub(super) unsafe fn write(&self, row: usize, place: usize, key: u64, f32x2 { x: max, y: sum }: f32x2) {
        let is_log = self.flags & LOG != 0;
        let exponent = (value(key) - max) * self.scale;
        let (probability, col) = if place >= self.cols as usize {
            (if is_log { f32::NEG_INFINITY } else { 0.0 }, NO_COLUMN)
        } else if sum > 0.0 {
            (if is_log { exponent - sum.ln() } else { exponent.exp() * (1.0 / sum) }, column(key))
        } else if sum == 0.0 && self.flags & ZERO_MASKED != 0 {
            (if is_log { f32::NEG_INFINITY } else { 0.0 }, place as u32)
        } else {
            (f32::NAN, place as u32)
        };
        // SAFETY: the results have the place, and one thread writes it.
        unsafe {
            *self.probabilities.add(row * self.probabilities_stride as usize + place) = probability;
            *self.indices.add(row * self.indices_stride as usize + place) = col;
        }
    }
}

impl<T: Number> Selection<T> for TopKArgs<T> {
    #[inline(always)]
    fn logits(&self) -> (*const T, u64) {
        (self.logits, self.stride)
    }

    #[inline(always)]
    fn shape(&self) -> [u32; 2] {
        [self.rows, self.cols]
    }

    #[inline(always)]
    fn k(&self) -> usize {
        self.k as usize
    }

    #[inline(always)]
    fn scale(&self) -> f32 {
        self.scale
    }

    #[inline(always)]
    unsafe fn finish(&self, row: usize, sorted: *const u64, pair: f32x2) {
        for place in (lane()..self.k()).step_by(32) {
            // SAFETY: each place is less than `k`, and `sorted` has its key.
            unsafe { self.write(row, place, *sorted.add(place), pair) };
        }
    }
}
