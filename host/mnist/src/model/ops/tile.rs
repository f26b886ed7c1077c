//! Which tile a fused kernel runs on.

use cuda_std::launch::LaunchConfig;

use super::area;
use ferrowarp::device::Device;

/// The tiles that the fused kernels come in, rows by columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tile {
    T64x64,
    T64x32,
    T32x32,
}

impl Tile {
    const ALL: [Tile; 3] = [Tile::T64x64, Tile::T64x32, Tile::T32x32];

    /// Rows, columns and threads.
    fn extents(self) -> (u32, u32, u32) {
        match self {
            Tile::T64x64 => (64, 64, 64),
            Tile::T64x32 => (64, 32, 32),
            Tile::T32x32 => (32, 32, 64),
        }
    }

    /// Time per output, in units of the largest tile's: a thread with 8x8 outputs reads shared memory half as
    /// often as one with 4x4.
    fn cost_per_output(self) -> u64 {
        match self {
            Tile::T64x64 => 10,
            Tile::T64x32 => 11,
            Tile::T32x32 => 25,
        }
    }

    /// The tile with which a `rows` x `cols` product takes the least time, when each multiprocessor (or core)
    /// works on one block at a time: few large tiles leave some idle, many small ones are slow each.
    pub(super) fn choose(on: &Device, rows: u32, cols: u32) -> Tile {
        let cost = |tile: &Tile| {
            let (bm, bn, _) = tile.extents();
            let blocks = u64::from(rows.div_ceil(bm)) * u64::from(cols.div_ceil(bn));
            let rounds = blocks.div_ceil(on.multiprocessors().max(1) as u64);
            rounds * area(bm, bn) * tile.cost_per_output()
        };
        Tile::ALL.into_iter().min_by_key(cost).unwrap_or(Tile::T64x64)
    }

    pub(super) fn config(self, rows: u32, cols: u32) -> LaunchConfig {
        let (bm, bn, threads) = self.extents();
        LaunchConfig::new((cols.div_ceil(bn), rows.div_ceil(bm)), threads)
    }

    /// A launch for kernels whose blocks walk down the rows: a few blocks for each multiprocessor, so that those of
    /// a small device start fewer threads, which costs the CPU executor as much as a tile's product.
    pub(super) fn walking_config(self, on: &Device, rows: u32, cols: u32) -> LaunchConfig {
        const BLOCKS_PER_MULTIPROCESSOR: u32 = 4;
        let mut config = self.config(rows, cols);
        let wanted =
            u32::try_from(on.multiprocessors()).unwrap_or(u32::MAX).saturating_mul(BLOCKS_PER_MULTIPROCESSOR);
        config.grid.y = config.grid.y.min(wanted.div_ceil(config.grid.x)).max(1);
        config
    }
}
