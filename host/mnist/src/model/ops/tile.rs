//! Which tile a fused kernel runs on.

use cuda_std::launch::LaunchConfig;
use ferrowarp::device::Device;
use gpu_kernels::mlp::grid::Tile;

use super::area;

/// Time per output, in units of a tenth of the largest tile's: a thread with 8x8 outputs reads shared memory half as
/// often as one with 4x4.
fn cost_per_output(tile: Tile) -> u64 {
    match tile {
        Tile::T64x64 => 10,
        Tile::T64x32 => 11,
        Tile::T32x32 => 25,
    }
}

/// The tile with which a `rows` x `cols` product takes the least time, when each multiprocessor (or core) works on
/// one block at a time: few large tiles leave some idle, many small ones are slow each.
pub(super) fn choose(on: &Device, rows: u32, cols: u32) -> Tile {
    let cost = |tile: &Tile| {
        let (bm, bn, _) = tile.extents();
        let blocks = u64::from(rows.div_ceil(bm)) * u64::from(cols.div_ceil(bn));
        let rounds = blocks.div_ceil(on.multiprocessors().max(1) as u64);
        rounds * area(bm, bn) * cost_per_output(*tile)
    };
    Tile::ALL.into_iter().min_by_key(cost).unwrap_or(Tile::T64x64)
}

/// A launch for kernels whose blocks walk down the rows: a few blocks for each multiprocessor, so that those of a small
/// device start fewer threads, which costs the CPU executor as much as a tile's product.
pub(super) fn walking_config(tile: Tile, on: &Device, rows: u32, cols: u32) -> LaunchConfig {
    const BLOCKS_PER_MULTIPROCESSOR: u32 = 4;
    let multiprocessors = u32::try_from(on.multiprocessors()).unwrap_or(u32::MAX);
    tile.walking_config(rows, cols, multiprocessors.saturating_mul(BLOCKS_PER_MULTIPROCESSOR))
}
