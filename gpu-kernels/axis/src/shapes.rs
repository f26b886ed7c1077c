//! The blocks and tiles of the kernels, and their launches.

use cuda_std::launch::LaunchConfig;

use super::tile::MOST_BLOCKS;

/// The block of a reduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReduceShape {
    /// Threads.
    pub block: u32,
    /// Elements of a vector, or results that a block combines.
    pub vector: u32,
}

impl ReduceShape {
    /// Returns the launch for `rows` rows, each in `parts` parts, with `1 << log_threads` threads for a row.
    pub fn rows(&self, rows: u32, parts: u32, log_threads: u32) -> LaunchConfig {
        LaunchConfig::new((rows.div_ceil(self.block >> log_threads), parts), self.block)
    }

    /// Returns the launch for `cols` columns, each in `parts` parts, with `1 << log_threads` vectors side by side.
    pub fn columns(&self, cols: u32, parts: u32, log_threads: u32) -> LaunchConfig {
        LaunchConfig::new((cols.div_ceil(self.vector << log_threads), parts), self.block)
    }

    /// Returns the launch that combines the parts of `outputs` results.
    pub fn finish(&self, outputs: u32) -> LaunchConfig {
        LaunchConfig::new(outputs.div_ceil(self.vector), self.block)
    }
}

/// The tile and the block of cumulative sums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScanShape {
    /// Elements of a tile.
    pub tile: u32,
    /// Elements of a tile that a warp has.
    pub of_warp: u32,
    /// Threads of a block.
    pub block: u32,
}

impl ScanShape {
    /// The largest number of blocks of a launch whose blocks wait for each other.
    pub const MOST_BLOCKS: u32 = MOST_BLOCKS as u32;

    /// Returns the launch for `rows` rows of one tile each, with `1 << log_warps` warps for a row.
    pub fn rows(&self, rows: u32, log_warps: u32) -> LaunchConfig {
        LaunchConfig::new(rows.div_ceil((self.block / 32) >> log_warps), self.block)
    }
}

/// The tile and the block of a transpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransposeShape {
    /// Rows and columns of a tile.
    pub tile: u32,
    /// Threads.
    pub block: u32,
}

impl TransposeShape {
    /// Returns the launch for a matrix of elements of `element_bytes`, or `None` if it would have too many blocks.
    pub fn config(&self, [rows, cols]: [u32; 2], element_bytes: usize) -> Option<LaunchConfig> {
        let blocks = rows.div_ceil(self.tile).checked_mul(cols.div_ceil(self.tile))?;
        let shared = if self.block == 1 { 0 } else { self.tile * self.tile * element_bytes as u32 };
        let is_possible = blocks <= i32::MAX as u32;
        is_possible.then(|| LaunchConfig::new(blocks, self.block).with_shared_bytes(shared))
    }
}

/// The block of a cast.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CastShape {
    /// Elements that a thread moves at once.
    pub group: u32,
    /// Threads.
    pub block: u32,
}

impl CastShape {
    /// Returns the launch for `groups` groups: on a CPU with one thread a block, and at most 4096 blocks.
    pub fn config(&self, groups: u64, blocks: Blocks) -> LaunchConfig {
        let (block, most) = if blocks == Blocks::Serial { (1, 4096) } else { (self.block, i32::MAX as u64) };
        LaunchConfig::new(groups.div_ceil(u64::from(block)).min(most) as u32, block)
    }
}

/// The device whose kernels are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blocks {
    /// The kernels of a GPU.
    Wide,
    /// The kernels of a CPU, whose blocks have one thread.
    Serial,
}

impl Blocks {
    pub(super) fn index(self) -> usize {
        usize::from(self == Blocks::Serial)
    }
}
