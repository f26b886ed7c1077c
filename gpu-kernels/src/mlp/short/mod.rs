//! A step of a small batch in three launches, for a network of two hidden layers.
//!
//! Against [`super::fused_forward`], [`super::head`] and [`super::fused_backward`]: the time of such a step is that of loads
//! that wait for each other, so there are few rounds of them. The [first layer](first) leaves shares of its sums, so
//! that no blocks wait for each other; a block for each [row](rows) of the batch adds them and does all else but the
//! [updates], which come in one launch. What no launch but an earlier one than that ahead has written is fetched
//! while the one ahead still runs.
//!
//! That rests on how launches follow each other: each block that is waited for lets the next launch begin only once the
//! one ahead of its own has ended, so that of all earlier launches only the one ahead may still run. A step's are the
//! three of this module, in their order.
//!
//! Products are those of `f32`. Requires: what [`Extents::fits`] says.

pub mod first;
pub mod rows;
pub mod updates;

use super::head::MAX_CLASSES;
use super::slab::shared_vectors;
use super::tile::Tile;

/// The most samples of a batch: the terms of a gradient that a block fetches at once.
pub const MAX_ROWS: usize = TERMS;

/// The most units of the first hidden layer: each has a thread in a block of [`rows`].
pub const MAX_HIDDEN1: usize = rows::THREADS;

/// The most units of the second hidden layer, a multiple of four: a lane has four of them.
pub const MAX_HIDDEN2: usize = 128;

/// The most shares of a sum of the first layer.
pub const MAX_SHARES: usize = 13;

/// Terms that a block of [`first`] and [`updates`] has.
const TERMS: usize = 64;
/// Rows of its outputs.
const TILE_ROWS: usize = 64;
/// Columns of its outputs.
const TILE_COLS: usize = 32;
/// Groups of its threads that share the terms.
const GROUPS: usize = 2;
/// Threads of a block: few, with many registers each, so that blocks of the next launch find room beside them.
const THREADS: usize = (TILE_ROWS / 8) * (TILE_COLS / 4) * GROUPS;
/// The tile of a block.
type Of = Tile<TILE_ROWS, TILE_COLS, 8, 4, TERMS, GROUPS>;
/// Its shared memory.
const SHARED: usize = shared_vectors(TILE_ROWS, TILE_COLS, TERMS, GROUPS, 0);
/// Quads of each operand and of the outputs that a thread has.
const QUADS: [usize; 3] =
    [TILE_ROWS * TERMS / 4 / THREADS, TERMS * TILE_COLS / 4 / THREADS, TILE_ROWS * TILE_COLS / 4 / THREADS];

/// The sizes of a network and its batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extents {
    /// Pixels of a sample.
    pub features: usize,
    /// Units of the first hidden layer.
    pub hidden1: usize,
    /// Units of the second one.
    pub hidden2: usize,
    /// Classes.
    pub classes: usize,
    /// Samples of a batch.
    pub batch: usize,
}

impl Extents {
    /// Whether the kernels take such a network.
    pub const fn fits(&self) -> bool {
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

    /// Shares of a sum of the first layer.
    pub const fn shares(&self) -> usize {
        shares(self.features)
    }

    /// Elements that the shares of a batch need.
    pub const fn sums(&self) -> usize {
        self.shares() * self.batch * self.hidden1
    }
}

/// The number of shares of a sum of `terms` terms.
pub const fn shares(terms: usize) -> usize {
    terms.div_ceil(TERMS)
}
