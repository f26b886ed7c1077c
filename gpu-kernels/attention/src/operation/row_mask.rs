//! The mask of the logits of a warp in [`super::row_tiles`].

use cuda_std::thread;
use cuda_std::wgmma::Accumulator;

use super::super::args::AttentionArgs;
use super::part::Part;

/// The keys that the rows of a warp see.
#[derive(Clone, Copy)]
pub struct Mask {
    /// The warp's first row in the part.
    row: u32,
    /// The first key and the end of the keys that any of its rows sees.
    pub any: [u32; 2],
    /// The first tile and the end of the tiles whose keys all its rows see.
    pub whole: [u32; 2],
}

impl Mask {
    /// Returns the mask of a warp with `M` times 16 rows, in tiles of `KEYS` keys.
    #[inline(always)]
    pub fn new<T, const M: usize, const KEYS: usize>(
        args: &AttentionArgs<T>,
        part: &Part,
        warp: usize,
    ) -> Self {
        let row = (warp * 16 * M) as u32;
        if row >= part.rows {
            return Self { row, any: [0; 2], whole: [0; 2] };
        }
        let query = |row: u32| part.row_at(args, row.min(part.rows - 1)).query;
        let [first, last] = [query(row), query(row + 16 * M as u32 - 1)];
        let any = [part.keys.hidden(first), part.keys.visible(last)];
        // The step before a tile that is cut off is not one of them, because it copies that tile.
        let last_whole =
            if part.visible.is_multiple_of(KEYS as u32) { part.end } else { part.end - 2.min(part.end) };
        let whole = [
            part.keys.hidden(last).div_ceil(KEYS as u32),
            (part.keys.visible(first) / KEYS as u32).min(last_whole),
        ];
        Self { row, any, whole }
    }

    /// Returns whether a row sees any of the `count` keys from `first` on.
    #[inline(always)]
    pub fn sees(self, first: u32, count: u32) -> bool {
        first < self.any[1] && first + count > self.any[0]
    }

    /// Replaces the logits of keys that a row does not see by -inf, for the keys from `first` on.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn apply<T, const M: usize, const S: usize>(
        self,
        args: &AttentionArgs<T>,
        part: &Part,
        logits: &mut [Accumulator<S>; M],
        first: u32,
    ) {
        let mut m = 0;
        while m < M {
            let lane = thread::thread_idx_x() % 32;
            let row = self.row + 16 * m as u32 + lane / 4;
            let queries = [row, row + 8].map(|row| part.row_at(args, row.min(part.rows - 1)).query);
            let to = queries.map(|query| part.keys.visible(query).saturating_sub(first));
            let from = queries.map(|query| part.keys.hidden(query).saturating_sub(first));
            logits[m].mask(|row, key| key as u32 >= to[row / 8 % 2]);
            // Without a window no key is hidden from the start.
            if from[0] > 0 || from[1] > 0 {
                logits[m].mask(|row, key| (key as u32) < from[row / 8 % 2]);
            }
            m += 1;
        }
    }
}
