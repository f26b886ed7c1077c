//! Kernels of which the last two take any width: which one, and over which rows.

use gpu_kernels::softmax::operation::Variant;

use super::kernel_choice::prefetch_blocks;
use super::{DeviceProfile, SoftmaxError};

/// The kernel for a width, and the launches that the rows need.
pub(super) struct RowKernel<A: 'static> {
    pub variant: &'static Variant<A>,
    pub cols: u32,
    rows: usize,
    rows_per_launch: usize,
    prefetch_blocks: u32,
}

impl<A> RowKernel<A> {
    /// The kernel for rows of elements of `T`. None if there are no elements.
    pub fn new<T>(
        variants: &'static [Variant<A>],
        profile: &DeviceProfile,
        [rows, cols]: [usize; 2],
    ) -> Result<Option<Self>, SoftmaxError> {
        let width = u32::try_from(cols).map_err(|_| SoftmaxError::TooWide { cols })?;
        let suits = |variant: &&Variant<A>| {
            width <= variant.elements
                && (variant.threads == 1 || !profile.is_cpu)
                && profile.limits.runs(variant.meta)
        };
        let variant = variants.iter().find(suits).filter(|_| rows > 0 && cols > 0);
        let Some(variant) = variant else { return Ok(None) };
        let per_block = (variant.block / variant.threads) as usize;
        let rows_per_launch = (profile.limits.max_grid.x as usize).saturating_mul(per_block);
        let bytes = cols.saturating_mul(per_block * size_of::<T>());
        Ok(Some(Self {
            variant,
            cols: width,
            rows,
            rows_per_launch: rows_per_launch.min(u32::MAX as usize),
            prefetch_blocks: prefetch_blocks(variant, profile, [rows.div_ceil(per_block), bytes], false),
        }))
    }

    /// The blocks from one to that whose rows it prefetches, of matrices with these strides: those of a block must be
    /// one piece.
    pub fn prefetch_blocks(&self, strides: &[u64]) -> u32 {
        let is_whole = self.variant.block == self.variant.threads
            || strides.iter().all(|&stride| stride == u64::from(self.cols));
        if is_whole { self.prefetch_blocks } else { 0 }
    }

    /// The first row and the number of rows of each launch.
    pub fn launches(&self) -> impl Iterator<Item = (usize, u32)> + use<A> {
        let (rows, most) = (self.rows, self.rows_per_launch);
        (0..rows).step_by(most).map(move |first| (first, (rows - first).min(most) as u32))
    }
}
