//! The arguments of the kernels. Strides are in elements.

use cuda_std::hint::prefetch_l2;
use cuda_std::{KernelArgs, thread};

/// A flag: the mean of a row is subtracted first, as in LayerNorm.
pub const CENTRED: u32 = 1;
/// A flag: every row of every matrix, the weight and the bias start at a multiple of 16 bytes, and a row is a whole number
/// of vectors of 16 bytes.
pub const ALIGNED: u32 = 2;

/// About the number of blocks that a large GPU runs at the same time.
const FIRST_BLOCKS: u32 = 264;

/// The arguments of the forward kernels.
#[derive(Clone, Copy, Debug, KernelArgs)]
#[repr(C)]
pub struct NormArgs<T> {
    /// `[rows, cols]`, written.
    pub out: *mut T,
    /// `[rows, cols]`.
    pub inp: *const T,
    /// `[rows, cols]`, added to `inp` first; or null.
    pub residual: *const T,
    /// `[rows, cols]`, written: `inp` plus `residual`, rounded; or null.
    pub sum: *mut T,
    /// `[cols]`, the factors of the columns; or null: factors of 1.
    pub weight: *const T,
    /// `[cols]`, added at the end; or null.
    pub bias: *const T,
    /// `[rows]`, written: the means; or null.
    pub mean: *mut f32,
    /// `[rows]`, written: the reciprocals of the standard deviations; or null.
    pub rstd: *mut f32,
    /// Distance from one row of `out` to the next.
    pub out_stride: u64,
    /// Distance from one row of `inp` to the next.
    pub inp_stride: u64,
    /// Distance from one row of `residual` to the next.
    pub residual_stride: u64,
    /// Distance from one row of `sum` to the next.
    pub sum_stride: u64,
    /// Rows.
    pub rows: u32,
    /// Columns.
    pub cols: u32,
    /// 1 / `cols`.
    pub per_column: f32,
    /// Added to the variance, or to the mean of the squares.
    pub epsilon: f32,
    /// [`CENTRED`], [`ALIGNED`].
    pub flags: u32,
}

/// The arguments of the backward kernels.
#[derive(Clone, Copy, Debug, KernelArgs)]
#[repr(C)]
pub struct NormBackwardArgs<T> {
    /// `[rows, cols]`, written: the gradient of the input.
    pub d_inp: *mut T,
    /// `[rows, cols]`: the gradient of the output.
    pub d_out: *const T,
    /// `[rows, cols]`: another gradient of `sum`, which is added; or null.
    pub d_sum: *const T,
    /// `[rows, cols]`: the input of the forward pass's norm, residual included.
    pub inp: *const T,
    /// `[cols]`; or null: factors of 1.
    pub weight: *const T,
    /// `[rows]`: the means of the forward pass; read if [`CENTRED`].
    pub mean: *const f32,
    /// `[rows]`: the reciprocals of the standard deviations of the forward pass.
    pub rstd: *const f32,
    /// `[parts, pitch]`, written: each part's gradient of the weight; or null.
    pub d_weight: *mut f32,
    /// `[parts, pitch]`, written: each part's gradient of the bias; or null.
    pub d_bias: *mut f32,
    /// Distance from one row of `d_inp` to the next.
    pub d_inp_stride: u64,
    /// Distance from one row of `d_out` to the next.
    pub d_out_stride: u64,
    /// Distance from one row of `d_sum` to the next.
    pub d_sum_stride: u64,
    /// Distance from one row of `inp` to the next.
    pub inp_stride: u64,
    /// Distance from one part to the next: a multiple of 8.
    pub pitch: u32,
    /// Rows.
    pub rows: u32,
    /// Columns.
    pub cols: u32,
    /// 1 / `cols`.
    pub per_column: f32,
    /// [`CENTRED`], [`ALIGNED`].
    pub flags: u32,
}

impl<T> NormArgs<T> {
    #[inline(always)]
    pub(super) fn has(&self, flag: u32) -> bool {
        self.flags & flag != 0
    }

    /// Writes the mean and the inverse deviation of a row, unless they are null.
    ///
    /// # Safety
    /// The row exists, and one thread calls this.
    #[inline(always)]
    pub(super) unsafe fn store_statistics(&self, row: usize, mean: f32, rstd: f32) {
        // SAFETY: each row has an element, which only this thread writes.
        unsafe {
            if !self.mean.is_null() {
                *self.mean.add(row) = mean;
            }
            if !self.rstd.is_null() {
                *self.rstd.add(row) = rstd;
            }
        }
    }

    /// Prefetches the weight and the bias into L2 while the first blocks wait for their rows. One thread of a block calls it.
    #[inline(always)]
    pub(super) fn prefetch_vectors(&self, weight: bool, bias: bool) {
        if thread::block_idx_x() < FIRST_BLOCKS && self.has(ALIGNED) {
            let prefetch = |vector: *const T, is_wanted: bool| {
                if is_wanted && !vector.is_null() {
                    // SAFETY: there are `cols` elements, at least one, aligned because of the flag.
                    unsafe { prefetch_l2(vector, self.cols * size_of::<T>() as u32) };
                }
            };
            prefetch(self.weight, weight);
            prefetch(self.bias, bias);
        }
    }
}

impl<T> NormBackwardArgs<T> {
    #[inline(always)]
    pub(super) fn has(&self, flag: u32) -> bool {
        self.flags & flag != 0
    }
}
