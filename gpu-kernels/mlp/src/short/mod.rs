//! A step of a small batch in three launches, for a network with two hidden layers.
//!
//! Compared with [`super::fused_forward`], [`super::head`] and [`super::fused_backward`]: such a step spends its time in
//! loads that wait for each other, so there are few rounds of them here. The [first layer](first) leaves shares of its sums,
//! so that no blocks wait for each other. One block per [row](rows) of the batch adds them and does everything else except
//! the [updates], which take one launch. Data that was written before the launch ahead is fetched while that still runs.
//!
//! This relies on the order of the launches. Each block that is waited for lets the next launch begin only once the launch
//! ahead of its own has ended. So of all earlier launches only the one ahead may still run. A step consists of the three
//! launches of this module, in their order.
//!
//! Arithmetic is `f32`.
//! Requires: sizes for which [`Extents::fits_short`] returns `true`.

pub mod first;
pub mod rows;
pub mod updates;

use super::head::MAX_CLASSES;
use super::resident::Extents;
use super::slab::shared_vectors;
use super::tile::Tile;

/// The largest number of samples of a batch: the terms of a gradient that a block fetches at once.
pub const MAX_ROWS: usize = TERMS;

/// The largest number of units of the first hidden layer: each has a thread in a block of [`rows`].
pub const MAX_HIDDEN1: usize = rows::THREADS;

/// The largest number of units of the second hidden layer, a multiple of four: a lane has four of them.
pub const MAX_HIDDEN2: usize = 128;

/// The largest number of shares of a sum of the first layer.
pub const MAX_SHARES: usize = 13;

/// Terms of a block of [`first`] and [`updates`].
const TERMS: usize = 64;
/// Rows of its outputs.
const TILE_ROWS: usize = 64;
/// Columns of its outputs.
const TILE_COLS: usize = 32;
/// Groups of its threads that share the terms.
const GROUPS: usize = 2;
/// Threads of a block: few, with many registers each, so that blocks of the next launch fit next to them.
const THREADS: usize = (TILE_ROWS / 8) * (TILE_COLS / 4) * GROUPS;
/// The tile of a block.
type Of = Tile<TILE_ROWS, TILE_COLS, 8, 4, TERMS, GROUPS>;
/// Its shared memory.
const SHARED: usize = shared_vectors(TILE_ROWS, TILE_COLS, TERMS, GROUPS, 0);
/// Quads of each operand and of the outputs that a thread has.
const QUADS: [usize; 3] =
    [TILE_ROWS * TERMS / 4 / THREADS, TERMS * TILE_COLS / 4 / THREADS, TILE_ROWS * TILE_COLS / 4 / THREADS];

impl Extents {
    /// Returns whether the kernels of [`short`](self) support such a network.
    pub const fn fits_short(&self) -> bool {
        let Extents { features, hidden1, hidden2, classes, batch } = *self;
        if features == 0
            || hidden1 == 0
            || hidden2 == 0
            || classes == 0
            || batch == 0
            || !hidden2.is_multiple_of(4)
        {
            return false;
        }
        let of_thread = match rows::THREADS.checked_div(hidden2 / 4) {
            None | Some(0) => return false,
            Some(groups) => hidden1.div_ceil(groups),
        };
        let fits_rows = hidden1 <= MAX_HIDDEN1 && hidden2 <= MAX_HIDDEN2 && of_thread <= rows::QUADS;
        fits_rows && classes <= MAX_CLASSES && batch <= MAX_ROWS && self.shares() <= MAX_SHARES
    }

    /// Returns the number of shares of a sum of the first layer.
    pub const fn shares(&self) -> usize {
        shares(self.features)
    }

    /// Returns the elements of the shares of a batch.
    pub const fn share_sums(&self) -> usize {
        self.shares() * self.batch * self.hidden1
    }
}

/// Returns the number of shares of a sum of `terms` terms.
pub const fn shares(terms: usize) -> usize {
    terms.div_ceil(TERMS)
}
