//! Kernels with a table of tiers, the last of which take any width: which one, and over which rows.

use gpu_kernels::element::DType;
use gpu_kernels::softmax::operation::{OfType, Tier};

use super::choice::blocks_ahead;
use super::{SoftmaxError, Target};

/// The kernel for a width, and the launches that the rows need.
pub(super) struct Rowwise<A: 'static> {
    pub tier: &'static Tier<A>,
    pub cols: u32,
    rows: usize,
    rows_per_launch: usize,
    ahead: u32,
}

impl<A> Rowwise<A> {
    /// None if there are no elements.
    pub fn new(
        tables: &'static [OfType<A>],
        dtype: DType,
        target: &Target,
        [rows, cols]: [usize; 2],
    ) -> Result<Option<Self>, SoftmaxError> {
        let width = u32::try_from(cols).map_err(|_| SoftmaxError::TooWide { cols })?;
        let table = tables.iter().find(|table| table.dtype == dtype);
        let suits = |tier: &&Tier<A>| width <= tier.elements && (tier.threads == 1 || !target.is_cpu);
        let tier = table.and_then(|table| table.tiers.iter().find(suits));
        let Some(tier) = tier.filter(|_| rows > 0 && cols > 0) else { return Ok(None) };
        let per_block = (tier.block / tier.threads) as usize;
        let rows_per_launch = (target.limits.max_grid.x as usize).saturating_mul(per_block);
        let bytes = cols.saturating_mul(per_block * dtype.size());
        Ok(Some(Self {
            tier,
            cols: width,
            rows,
            rows_per_launch: rows_per_launch.min(u32::MAX as usize),
            ahead: blocks_ahead(tier, target, [rows.div_ceil(per_block), bytes], false),
        }))
    }

    /// How far ahead a block prefetches rows of matrices with these strides: those of a block must be one piece.
    pub fn ahead(&self, strides: &[usize]) -> u32 {
        let is_whole =
            self.tier.block == self.tier.threads || strides.iter().all(|&s| s == self.cols as usize);
        if is_whole { self.ahead } else { 0 }
    }

    /// The first row and the number of rows of each launch.
    pub fn launches(&self) -> impl Iterator<Item = (usize, u32)> + use<A> {
        let (rows, most) = (self.rows, self.rows_per_launch);
        (0..rows).step_by(most).map(move |first| (first, (rows - first).min(most) as u32))
    }
}
