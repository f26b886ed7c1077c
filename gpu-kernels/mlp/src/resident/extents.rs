//! The sizes of a network and what follows from them, the same for host and device.

use crate::head::MAX_CLASSES;

/// Hidden units of the first layer that a block owns: the columns of a tensor-core tile.
pub const UNITS: usize = 8;

/// The largest number of rows of a batch: four tensor-core tiles.
pub const MAX_ROWS: usize = 64;

/// Quads of a row of the second layer; each lane of a warp has one.
pub(super) const QUADS: usize = 32;

/// Quads from one class of the last layer to the next in shared memory: two neighbours of each of four have no conflicts.
pub(super) const PITCH: usize = QUADS + 2;

/// Columns of the second layer's matrices in blocks of weights.
pub(super) const COLUMNS: usize = 4 * QUADS;

/// Quads from one row of halves to the next there, each of eight columns: eight rows lie in different banks.
pub(super) const HALF_PITCH: usize = COLUMNS / 8 + 1;

/// Tiles of 16 rows in a batch.
pub(super) const ROW_TILES: usize = MAX_ROWS / 16;

/// Batches in shared memory: that of the step before, whose weight update is still pending, that of this step, and the next
/// one. The first is done with before the one after the next is fetched.
pub(super) const STAGES: usize = 3;

/// Quads of the inner products of a batch's samples with those of another batch.
pub(super) const GRAM_QUADS: usize = MAX_ROWS * MAX_ROWS / 4;

/// Units below the last layer whose weights a block has: the rows of a tensor-core tile.
pub(super) const LAST_UNITS: usize = 16;

/// Quads of the gradient of the logits.
pub(super) const LOGITS: usize = MAX_CLASSES / 4;

/// Quads from one row's halves of the gradient of the logits to the next in shared memory, each of eight classes: eight rows
/// lie in different banks.
pub(super) const LOGITS_PITCH: usize = LOGITS / 2 + 1;

/// Features of a tile.
pub(super) const TILE: usize = 16;

/// Words of the barrier's counter, which come after the words that the blocks send each other.
pub const COUNTER: usize = 4;

/// The sizes of a network with two hidden layers, and of its batches.
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

/// A size that the kernel does not support.
#[cfg(not(target_arch = "nvptx64"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Misfit {
    /// The name of the size.
    pub what: &'static str,
    /// Its value.
    pub got: usize,
    /// The largest allowed.
    pub max: usize,
}

impl Extents {
    /// Returns the number of blocks that own weights: those of the hidden units and of the constant unit 1, whose weights
    /// are the second layer's biases.
    #[inline(always)]
    pub const fn weight_blocks(&self) -> usize {
        (self.hidden1 + 1).div_ceil(UNITS)
    }

    /// Returns the number of blocks of the launch: those of weights, one per row of a batch, and those of the last layer, one
    /// per `LAST_UNITS` of the units below it and the constant unit 1.
    pub const fn blocks(&self) -> usize {
        self.weight_blocks() + self.batch + (self.hidden2 + 1).div_ceil(LAST_UNITS)
    }

    /// Returns the tiles of the features and the constant feature 1.
    #[inline(always)]
    pub(super) const fn tiles(&self) -> usize {
        (self.features + 1).div_ceil(TILE)
    }

    /// Returns the bytes from one sample to the next in shared memory: an odd number of tiles, so that eight rows lie in
    /// different banks.
    #[inline(always)]
    pub(super) const fn stride(&self) -> usize {
        (self.tiles() | 1) * TILE
    }

    /// Returns the quads of the share of a row's sums that a block of weights sends: four lanes' quads per 16 columns, or
    /// per 32 with single `halves`.
    #[inline(always)]
    pub(super) const fn share_quads(&self, halves: usize) -> usize {
        4 * (self.hidden2 + 1).div_ceil(32 / halves)
    }

    /// Returns the quads of the gradient of a row's sums.
    #[inline(always)]
    pub(super) const fn gradient_quads(&self, halves: usize) -> usize {
        self.hidden2 / (8 / halves) + 1
    }

    /// Returns the quads that a row sends the blocks of the last layer: its second layer's output, and the gradient of its logits.
    #[inline(always)]
    pub(super) const fn row_quads(&self, halves: usize) -> usize {
        self.gradient_quads(halves) + LOGITS * halves / 2
    }

    /// Returns the quads in a buffer of all rows' shares, of all gradients, of what rows send for the last layer, and of that
    /// layer. With single halves some are unused.
    #[inline(always)]
    pub(super) const fn mail_quads(&self) -> [usize; 4] {
        let (rows, shares) = (self.batch, self.weight_blocks() * self.share_quads(2));
        [
            rows.next_multiple_of(8) * shares,
            rows * self.gradient_quads(2),
            rows * self.row_quads(2),
            MAX_CLASSES * QUADS,
        ]
    }

    /// Returns the words through which the blocks communicate, plus [`COUNTER`] for a barrier.
    pub const fn mail_words(&self) -> usize {
        let [sums, gradients, rows, last] = self.mail_quads();
        4 * 2 * (sums + gradients + rows + last) + COUNTER
    }

    /// Returns the numbers in the inner products for `steps` steps.
    pub const fn gram_len(steps: usize) -> usize {
        steps * 4 * GRAM_QUADS
    }

    /// Returns the bytes of the batches of `steps` steps.
    pub const fn batches_len(&self, steps: usize) -> usize {
        steps * self.stage_bytes()
    }

    /// Returns the numbers in the first layer's accumulators for a batch, separate for each block.
    pub const fn ahead_len(&self) -> usize {
        self.weight_blocks() * 4 * UNITS_QUADS
    }

    /// Returns the bytes of shared memory of a block of `warps` warps.
    pub const fn shared_bytes(&self, warps: usize) -> usize {
        let weights = self.batches_bytes() + 16 * weights_quads(warps);
        let rows = 16 * rows_quads(warps);
        if weights > rows { weights } else { rows }
    }

    /// Returns the bytes of the batches: pixels, and the numbers of samples.
    #[inline(always)]
    pub(super) const fn batches_bytes(&self) -> usize {
        STAGES * self.stage_bytes() + 4 * MAX_ROWS
    }

    /// Returns the bytes of a batch's pixels.
    #[inline(always)]
    pub(super) const fn stage_bytes(&self) -> usize {
        MAX_ROWS * self.stride()
    }

    /// Checks the sizes against a kernel whose blocks hold `features` features.
    ///
    /// # Errors
    /// The first size that the kernel does not support.
    #[cfg(not(target_arch = "nvptx64"))]
    pub fn check(&self, features: usize) -> Result<(), Misfit> {
        let Extents { hidden2, classes, batch, .. } = *self;
        let sizes = [
            ("number of features", self.features, features),
            ("size of the second hidden layer", hidden2, 4 * QUADS - 1),
            ("number of classes", classes, MAX_CLASSES),
            ("batch size", batch, MAX_ROWS),
        ];
        let misfit = sizes.into_iter().find(|&(_, got, max)| got > max);
        misfit.map_or(Ok(()), |(what, got, max)| Err(Misfit { what, got, max }))
    }
}

/// Returns the quads of shared memory that a block of weights has besides its batches: sums of warps or gradients, the
/// units' sums, their output at two steps, their gradients, the rows of the second layer and their halves, old and new,
/// inner products, and two barriers.
const fn weights_quads(warps: usize) -> usize {
    let units = UNITS_QUADS + 2 * 2 * MAX_ROWS + 2 * MAX_ROWS;
    pool_quads(warps) + units + COLUMNS * UNITS / 4 + 2 * 2 * COLUMNS + GRAM_QUADS + 1
}

/// Quads with one number for each unit of each row.
pub(super) const UNITS_QUADS: usize = MAX_ROWS * UNITS / 4;

/// Returns the quads of the sums of the warps, and later of the gradients of all rows.
pub(super) const fn pool_quads(warps: usize) -> usize {
    let (sums, gradients) = (warps * UNITS_QUADS, 2 * MAX_ROWS * HALF_PITCH);
    if sums > gradients { sums } else { gradients }
}

/// Returns the quads of shared memory of a row's block: the last layer, the sums of half-warps, and the logits. A block of the
/// last layer has less than its batches take.
const fn rows_quads(warps: usize) -> usize {
    MAX_CLASSES * PITCH + 2 * warps * QUADS + LOGITS
}
