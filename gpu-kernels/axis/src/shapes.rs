//! The blocks and tiles of the kernels, and their launches.

use cuda_std::launch::LaunchConfig;

use super::tile::MOST_BLOCKS;
use super::transpose::pitch;

/// The block of a reduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReduceShape {
    /// Threads.
    pub block: u32,
    /// Elements of a vector, or results that a block combines.
    pub vector: u32,
}

impl ReduceShape {
    /// Returns the launch of blocks of `block` threads for `rows` rows, each in `parts` parts, with `1 << log_threads` threads
    /// for a row; in clusters, if the parts are a cluster's blocks.
    pub fn rows(
        &self,
        blocks: Blocks,
        rows: u32,
        parts: u32,
        [block, log_threads]: [u32; 2],
    ) -> LaunchConfig {
        launch(blocks, rows.div_ceil(block >> log_threads), parts, block)
    }

    /// Returns the launch of blocks of `block` threads for `cols` columns, likewise, with `1 << log_threads` vectors side by side.
    pub fn columns(
        &self,
        blocks: Blocks,
        cols: u32,
        parts: u32,
        [block, log_threads]: [u32; 2],
    ) -> LaunchConfig {
        launch(blocks, cols.div_ceil(self.vector << log_threads), parts, block)
    }

    /// Returns the launch that combines the parts of `outputs` results.
    pub fn finish(&self, outputs: u32) -> LaunchConfig {
        LaunchConfig::new(outputs.div_ceil(self.vector), self.block).with_programmatic_stream_serialization()
    }
}

fn launch(blocks: Blocks, count: u32, parts: u32, block: u32) -> LaunchConfig {
    match blocks {
        Blocks::Clusters => LaunchConfig::new(count * parts, block).with_cluster(parts),
        _ => LaunchConfig::new((count, parts), block),
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

    /// Returns the number of lanes that share a short row of `cols` columns, and the launch for `rows` of them.
    pub fn short(&self, rows: u32, cols: u32) -> (u32, LaunchConfig) {
        let lanes = cols.div_ceil(self.tile / 32);
        let of_block = self.block / 32 * (32 / lanes) * (self.of_warp / self.tile);
        let config = LaunchConfig::new(rows.div_ceil(of_block), self.block);
        (lanes, config)
    }

    /// Returns the number of threads that share a row of `cols` columns, and the launch for `rows` of them.
    pub fn rows(&self, rows: u32, cols: u32) -> (u32, LaunchConfig) {
        let threads = 32 * cols.min(self.tile).div_ceil(self.of_warp);
        // With smaller blocks a multiprocessor has fewer warps.
        let at_once = if threads <= 64 { 128 / threads } else { 1 };
        let config = LaunchConfig::new(rows.div_ceil(at_once), threads * at_once);
        (threads, config)
    }

    /// Returns the number of threads of a tile, and the launch for `rows` rows of `tiles` tiles, a cluster each.
    pub fn clusters(&self, rows: u32, tiles: u32) -> (u32, LaunchConfig) {
        (self.block, LaunchConfig::new(rows * tiles, self.block).with_cluster(tiles))
    }
}

/// The tile and the block of a transpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransposeShape {
    /// Elements of a tile, a power of two.
    pub area: u32,
    /// Threads.
    pub block: u32,
    /// Bytes of an element.
    pub bytes: u32,
    /// Rows before a tile that a block loads too if rows of the output start at any element of a vector.
    pub lead: u32,
    /// Bytes of shared memory, or 0 if they depend on the tile.
    pub shared: u32,
    /// The fewest elements per multiprocessor for which no smaller tile is faster.
    pub least: u32,
}

impl TransposeShape {
    /// Returns whether both axes have the elements of a square tile.
    pub fn has_whole_tiles(&self, [rows, cols]: [u32; 2]) -> bool {
        rows.min(cols).ilog2() >= self.area.ilog2() / 2
    }

    /// Returns the logarithms of the sides of a tile of a matrix: a square's, or all of an axis that is shorter.
    pub fn tile(&self, [rows, cols]: [u32; 2]) -> [u32; 2] {
        let log = self.area.ilog2();
        let short = rows.min(cols).max(1).next_power_of_two().ilog2().min(log / 2);
        if rows <= cols { [short, log - short] } else { [log - short, short] }
    }

    /// Returns the launch for a matrix, and whether blocks along x have tiles along its rows. Neighbouring blocks write to the
    /// same rows of the output, if there are not too many.
    pub fn config(&self, [rows, cols]: [u32; 2]) -> (LaunchConfig, bool) {
        let tile = self.tile([rows, cols]);
        let [rows, cols] = [(rows + self.lead).div_ceil(1 << tile[0]), cols.div_ceil(1 << tile[1])];
        let is_wide = cols > 65_535;
        let shared = match self.shared {
            0 if self.block > 1 => (self.bytes * pitch(1 << tile[1], self.bytes)) << tile[0],
            all => all,
        };
        let config = LaunchConfig::new(if is_wide { (cols, rows) } else { (rows, cols) }, self.block);
        (config.with_shared_bytes(shared).with_programmatic_stream_serialization(), is_wide)
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
    /// The kernels of a GPU whose clusters share rows, for reductions.
    Clusters,
}
