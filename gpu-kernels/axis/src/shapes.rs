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

    /// Returns the number of threads that share a row of `cols` columns: whole warps, or a power of two.
    pub fn threads(&self, cols: u32) -> u32 {
        let threads = cols.min(self.tile).div_ceil(self.of_warp / 32);
        if threads > 32 { threads.next_multiple_of(32) } else { threads.next_power_of_two() }
    }

    /// Returns the launch for `rows` rows of `threads` threads each.
    pub fn rows(&self, rows: u32, threads: u32) -> LaunchConfig {
        LaunchConfig::new(rows.div_ceil(self.block / threads), self.block)
    }
}

/// The vectors and the block of a transpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransposeShape {
    /// Elements of a vector.
    pub vector: u32,
    /// Threads.
    pub block: u32,
}

/// A launch of a transpose: its tiles, and their shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransposeTiles {
    /// Rows of the input in a tile.
    pub rows: u32,
    /// Columns of the input in a tile.
    pub cols: u32,
    /// The number of tiles.
    pub count: u64,
    /// Elements of a tile in shared memory.
    pub shared: u32,
    /// Whether the matrix is so small that its elements do not go through shared memory.
    pub is_direct: bool,
}

impl TransposeShape {
    /// The fewest elements of a tile.
    const LEAST: u64 = 2048;
    /// The most elements of a block if they do not go through shared memory. Aligned squares do.
    const DIRECT: u64 = 1024;
    /// Blocks per multiprocessor that share a small matrix.
    const BLOCKS: u64 = 4;

    /// Returns the tiles for a matrix whose rows, in the input and the output, are `strides` elements apart. They are squares,
    /// or have all of the shorter axis if that is shorter.
    pub fn tiles(
        &self,
        [rows, cols]: [u32; 2],
        [inp_stride, out_stride]: [u64; 2],
        is_aligned: bool,
        multiprocessors: u32,
    ) -> TransposeTiles {
        let (n, side) = (self.vector, 16 * self.vector);
        let (is_wide, short) = (rows <= cols, rows.min(cols));
        let of_block = u64::from(rows) * u64::from(cols) / (Self::BLOCKS * u64::from(multiprocessors));
        let is_direct = of_block <= Self::DIRECT && !(is_aligned && short >= side);
        let is_square = short >= side && !is_direct && (is_aligned || of_block >= u64::from(side * side / 4));
        let area = of_block.clamp(Self::LEAST, u64::from(side * side)) as u32;
        let [tile_rows, tile_cols] = if is_square {
            [side; 2]
        } else {
            // The shorter axis in equal parts; the longer one in whole vectors. A run of memory may have parts of two vectors. All
            // vectors of a tile are no more than those of a square, in the input and in the output.
            let part = short.div_ceil(short.div_ceil(side));
            let more = if is_aligned { 0 } else { n };
            let is_one_run =
                part == short && u64::from(part) == if is_wide { out_stride } else { inp_stride };
            let of_short =
                if is_one_run { (area - more) / part } else { area / (part + more).next_multiple_of(n) };
            let of_long = (area / part).saturating_sub(more);
            let long = (of_short.min(of_long) / n).max(1) * n;
            if is_wide { [part, long.min(cols)] } else { [long.min(rows), part] }
        };
        let count = u64::from(rows.div_ceil(tile_rows)) * u64::from(cols.div_ceil(tile_cols));
        // A row in shared memory, unless rows follow each other without gaps.
        let more = if is_aligned { n - 1 } else { 2 * n - 2 };
        let pitch = if inp_stride == u64::from(tile_cols) { tile_cols } else { (tile_cols + more) / n * n };
        let before = if is_aligned { 0 } else { n - 1 };
        let shared = (tile_rows * pitch + before).next_multiple_of(8 * n);
        TransposeTiles { rows: tile_rows, cols: tile_cols, count, shared, is_direct }
    }

    /// Returns the launch for these tiles of elements of `element_bytes`, or `None` if it would have too many blocks.
    pub fn config(&self, tiles: TransposeTiles, element_bytes: usize) -> Option<LaunchConfig> {
        let blocks = i32::try_from(tiles.count).ok()? as u32;
        let shared = if self.block == 1 { 0 } else { tiles.shared * element_bytes as u32 };
        Some(LaunchConfig::new(blocks, self.block).with_shared_bytes(shared))
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
