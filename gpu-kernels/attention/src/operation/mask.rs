//! The mask of the logits of a consumer warpgroup.

use cuda_std::thread;
use cuda_std::wgmma::Accumulator;

use super::super::args::Keys;
use super::super::panels::ROWS;
use common_kernels::ring::WARPGROUP;

/// The keys that the queries of a warpgroup see. What a thread needs of it is computed where a tile is masked, so that the
/// other tiles have its registers.
#[derive(Clone, Copy)]
pub struct Mask {
    /// The keys, and which of them each query sees.
    pub keys: Keys,
    /// The first query.
    pub first: u32,
}

impl Mask {
    /// Returns the first of a thread's two queries; the other one comes 8 later.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn query(self) -> u32 {
        self.first + Accumulator::<4>::position(thread::thread_idx_x() % WARPGROUP, 0).0 as u32
    }

    /// Returns whether every query sees all of the `count` keys from `first` on.
    #[inline(always)]
    pub fn hides_none(self, first: u32, count: u32) -> bool {
        first >= self.keys.hidden(self.first + ROWS as u32 - 1)
            && first + count <= self.keys.visible(self.first)
    }

    /// Replaces the logits of keys that a query does not see by -inf, for the keys from `first` on.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn apply<const S: usize>(self, logits: &mut Accumulator<S>, first: u32) {
        if self.hides_none(first, 2 * S as u32) {
            return;
        }
        let queries = [self.query(), self.query() + 8];
        let to = queries.map(|query| self.keys.visible(query).saturating_sub(first));
        logits.mask(|row, key| key as u32 >= to[row / 8 % 2]);
        // Without a window no key is hidden from the start.
        if first >= self.keys.hidden(self.first + ROWS as u32 - 1) {
            return;
        }
        let from = queries.map(|query| self.keys.hidden(query).saturating_sub(first));
        logits.mask(|row, key| (key as u32) < from[row / 8 % 2]);
    }
}
