//! Grid and block of the network's kernels, for whoever launches them.

use cuda_std::launch::LaunchConfig;

use super::batch::THREADS_PER_SAMPLE;

/// Threads of a block in kernels with a thread for each row.
const ROW_BLOCK: u32 = 32;

/// Threads of a block, along x and y, in kernels with a thread for each element.
const ELEMENT_BLOCK: (u32, u32) = (32, 8);

/// Threads of a block in kernels with [`THREADS_PER_SAMPLE`] threads for each sample.
const SAMPLE_BLOCK: u32 = 128;

/// A thread for each element of an output `[rows, cols]`.
pub fn per_element(rows: u32, cols: u32) -> LaunchConfig {
    let (x, y) = ELEMENT_BLOCK;
    LaunchConfig::new((cols.div_ceil(x), rows.div_ceil(y)), (x, y))
}

/// A thread for each row.
pub fn per_row(rows: u32) -> LaunchConfig {
    LaunchConfig::cover(rows as usize, ROW_BLOCK)
}

/// The threads of each of `rows` samples.
pub fn per_sample(rows: u32) -> LaunchConfig {
    let samples = SAMPLE_BLOCK / THREADS_PER_SAMPLE;
    LaunchConfig::new((1, rows.div_ceil(samples)), (THREADS_PER_SAMPLE, samples))
}

/// The tiles that the fused kernels come in: rows by columns of a block's outputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tile {
    /// 64 x 64 outputs, 8 x 8 a thread.
    T64x64,
    /// 64 x 32 outputs, 8 x 8 a thread.
    T64x32,
    /// 32 x 32 outputs, 4 x 4 a thread.
    T32x32,
}

impl Tile {
    /// All of them.
    pub const ALL: [Tile; 3] = [Tile::T64x64, Tile::T64x32, Tile::T32x32];

    /// Rows, columns and threads.
    pub const fn extents(self) -> (u32, u32, u32) {
        match self {
            Tile::T64x64 => (64, 64, 64),
            Tile::T64x32 => (64, 32, 32),
            Tile::T32x32 => (32, 32, 64),
        }
    }

    /// A block for each tile of an output `[rows, cols]`.
    pub fn config(self, rows: u32, cols: u32) -> LaunchConfig {
        let (bm, bn, threads) = self.extents();
        LaunchConfig::new((cols.div_ceil(bn), rows.div_ceil(bm)), threads)
    }

    /// At most `blocks` blocks, and at least one for each column of tiles: for kernels whose blocks walk down the rows.
    pub fn walking_config(self, rows: u32, cols: u32, blocks: u32) -> LaunchConfig {
        let mut config = self.config(rows, cols);
        config.grid.y = config.grid.y.min(blocks.div_ceil(config.grid.x)).max(1);
        config
    }
}
